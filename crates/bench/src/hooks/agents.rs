//! Real agents: a table of how each is installed and run, and their homes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::{process::Command, time::timeout};
use umbra_config::Environment;

const TABLE: &str = include_str!("agents.toml");
/// Prompt of every session.
const PROMPT: &str = "Add the notes file and check it.";
/// Longest time for a session.
const LIMIT: Duration = Duration::from_secs(90);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    agent: Vec<Agent>,
}

/// A real agent.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Name of the host, as `umbra hook` knows it.
    pub host: String,
    /// Mode of the agent, where it has several.
    pub mode: Option<String>,
    /// Package of npm, with its version.
    pub package: String,
    /// Program below `node_modules`.
    program: String,
    environment: BTreeMap<String, String>,
    arguments: Vec<String>,
    /// Call of the shell tool.
    pub shell: ScriptedCall,
    /// Call that writes `notes.md`.
    pub write: ScriptedCall,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Call of a tool, by the model.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments of a function.
    #[serde(default)]
    pub arguments: Value,
    /// Text of a tool that takes one.
    pub input: Option<String>,
}

impl ScriptedCall {
    /// Fills in the shell line and the folder of the project.
    pub fn filled(&self, command: &str, project: &str) -> Self {
        let fill = |text: &str| {
            let quoted = Value::String(command.to_owned()).to_string();
            text.replace("{command_json}", &quoted).replace("{command}", command).replace("{project}", project)
        };
        Self {
            name: self.name.clone(),
            arguments: each(&self.arguments, &fill),
            input: self.input.as_deref().map(fill),
        }
    }
}

/// Applies a function to each text of a value.
fn each(value: &Value, fill: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => Value::String(fill(text)),
        Value::Array(items) => items.iter().map(|item| each(item, fill)).collect(),
        Value::Object(members) => {
            let filled: Map<String, Value> =
                members.iter().map(|(name, value)| (name.clone(), each(value, fill))).collect();
            Value::Object(filled)
        }
        other => other.clone(),
    }
}

impl Agent {
    /// Returns the agents of the table, or those of these hosts.
    ///
    /// # Errors
    /// A name is unknown.
    pub fn all(hosts: &[String]) -> anyhow::Result<Vec<Self>> {
        let Table { agent: all } = toml::from_str(TABLE)?;
        for host in hosts {
            ensure!(all.iter().any(|agent| agent.host == *host), "no agent of the host {host} is in the table");
        }
        Ok(all.into_iter().filter(|agent| hosts.is_empty() || hosts.contains(&agent.host)).collect())
    }

    /// Returns the name for people.
    pub fn title(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{} ({mode})", self.host),
            None => self.host.clone(),
        }
    }

    /// Installs the package of npm below a folder, unless it is there.
    ///
    /// # Errors
    /// npm cannot install it.
    pub async fn fetch(&self, agents: &Path) -> anyhow::Result<()> {
        if self.program_in(agents).exists() {
            return Ok(());
        }
        let folder = agents.join(&self.host);
        fs::create_dir_all(&folder)?;
        let installed = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--silent", "--prefix"])
            .arg(&folder)
            .arg(&self.package)
            .stdin(Stdio::null())
            .output()
            .await
            .context("npm is not there")?;
        ensure!(
            installed.status.success() && self.program_in(agents).exists(),
            "npm does not install {}: {}",
            self.package,
            String::from_utf8_lossy(&installed.stderr)
        );
        Ok(())
    }

    /// Returns the program of the agent.
    pub fn program_in(&self, agents: &Path) -> PathBuf {
        agents.join(&self.host).join("node_modules").join(&self.program)
    }
}

/// Home of an agent, with a project in it.
pub struct Home<'a> {
    /// The agent.
    pub agent: &'a Agent,
    /// Folder of the home.
    pub path: PathBuf,
    agents: PathBuf,
    port: u16,
}

impl<'a> Home<'a> {
    /// Makes a home with the agent's settings.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn make(agent: &'a Agent, path: PathBuf, agents: &Path, port: u16) -> anyhow::Result<Self> {
        let home = Self { agent, path, agents: agents.to_owned(), port };
        fs::create_dir_all(home.project())?;
        for (name, text) in &agent.files {
            let file = home.path.join(name);
            fs::create_dir_all(file.parent().context("a folder")?)?;
            fs::write(file, home.filled(text))?;
        }
        Ok(home)
    }

    /// Returns the folder of the project.
    pub fn project(&self) -> PathBuf {
        self.path.join("project")
    }

    /// True if a file of the project is there.
    pub fn has(&self, name: &str) -> bool {
        self.project().join(name).exists()
    }

    /// Returns a command that runs in this home, with nothing of our environment but the path.
    pub fn command(&self, program: &Path) -> Command {
        let own = self.agents.join(&self.agent.host).join("node_modules/.bin");
        let environment = Environment::of_process();
        let given = environment.get("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .current_dir(self.project())
            .env_clear()
            .env("HOME", &self.path)
            .env("PATH", format!("{}:{given}", own.display()))
            .env("SHELL", "/bin/bash")
            .env("LANG", "C.UTF-8")
            .env("TERM", "dumb")
            .env("TMPDIR", &self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for (name, value) in &self.agent.environment {
            command.env(name, self.filled(value));
        }
        command
    }

    /// Runs a session to its end; returns its time, and what it printed.
    ///
    /// # Errors
    /// The agent cannot be started, or does not end.
    pub async fn run(&self) -> anyhow::Result<(Duration, String)> {
        let began = Instant::now();
        let mut command = self.command(&self.agent.program_in(&self.agents));
        command.args(self.agent.arguments.iter().map(|argument| self.filled(argument)));
        let output = match timeout(LIMIT, command.output()).await {
            Ok(output) => output.with_context(|| format!("{} cannot be started", self.agent.title()))?,
            Err(_) => bail!("it does not end within {} s", LIMIT.as_secs()),
        };
        let said = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
        Ok((began.elapsed(), said))
    }

    fn filled(&self, text: &str) -> String {
        text.replace("{home}", &self.path.display().to_string())
            .replace("{project}", &self.project().display().to_string())
            .replace("{agents}", &self.agents.display().to_string())
            .replace("{port}", &self.port.to_string())
            .replace("{prompt}", PROMPT)
    }
}
