//! Real coding agents with Umbra's hooks, and with every fault that a guard can have. In: the agents of a table, installed
//! from npm. Out: for each host and fault whether a call ran that must not run.

mod agents;
mod faults;
mod latency;
mod model;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum as _};
use serde::Serialize;
use serde_json::Value;

use self::{
    agents::{Agent, Home},
    faults::Fault,
    model::Model,
};
use crate::{
    BenchGlobalOptions, answer, answer_json, progress,
    testbed::{Server, Testbed},
};

/// Options of `hooks`.
#[derive(Debug, Clone, Args)]
pub struct HooksBenchOptions {
    /// Folder that keeps the agents' packages from npm.
    #[arg(long, value_name = "DIR", default_value = "target/agents")]
    agents: PathBuf,
    /// Hosts to run; all when not given.
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Faults to try; all when not given. `none` is a session without a fault.
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    faults: Vec<Fault>,
    /// Mode of the hooks: in `observe` each session must end as if there were no hooks.
    #[arg(long, value_name = "MODE", default_value = "enforce", value_parser = ["enforce", "observe"])]
    mode: String,
    /// Run no agent, but a hook so many times, and tell its times.
    #[arg(long, value_name = "CALLS")]
    latency: Option<usize>,
    /// Keep the homes of the sessions in this folder.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Session of an agent.
#[derive(Debug, Serialize)]
struct Session {
    agent: String,
    fault: String,
    /// `held`, `open` with what ran, `failed` with why, or `-` where the fault cannot be.
    end: String,
    seconds: f64,
}

/// Runs all sessions, and prints a table of hosts and faults.
///
/// # Errors
/// A session did not end as it must, or could not be run.
pub async fn run(global: &BenchGlobalOptions, options: &HooksBenchOptions) -> anyhow::Result<()> {
    if let Some(calls) = options.latency {
        return latency::run(global, calls).await;
    }
    let all = Agent::all(&options.hosts)?;
    let faults = if options.faults.is_empty() { Fault::value_variants().to_vec() } else { options.faults.clone() };
    fs::create_dir_all(&options.agents)?;
    let agents = options.agents.canonicalize()?;
    for agent in &all {
        agent.fetch(&agents).await?;
    }
    let sessions = Testbed::with(global, async |testbed| {
        let model = Model::start().await?;
        let mut sessions = Vec::new();
        for agent in &all {
            for fault in &faults {
                let run = Run { testbed, model: &model, agents: &agents, options, agent, fault: *fault };
                let session = run.session().await;
                progress(&format!("{}, {}: {} ({:.1} s)", session.agent, session.fault, session.end, session.seconds));
                sessions.push(session);
            }
        }
        Ok(sessions)
    });
    let sessions = sessions.await?;
    print(global, &all, &faults, &sessions)?;
    let bad: Vec<String> = sessions
        .iter()
        .filter(|session| session.end != "held" && session.end != "-")
        .map(|session| format!("{}, {}: {}", session.agent, session.fault, session.end))
        .collect();
    if !bad.is_empty() {
        bail!("{} of {} sessions did not end as they must:\n{}", bad.len(), sessions.len(), bad.join("\n"));
    }
    Ok(())
}

fn print(global: &BenchGlobalOptions, all: &[Agent], faults: &[Fault], sessions: &[Session]) -> anyhow::Result<()> {
    if global.json {
        return answer_json(&sessions);
    }
    let titles: Vec<String> = all.iter().map(Agent::title).collect();
    answer(&format!("| fault | {} |", titles.join(" | ")));
    answer(&format!("| --- |{}", " --- |".repeat(titles.len())));
    for fault in faults {
        let cells = titles.iter().map(|title| {
            let cell = sessions.iter().find(|session| session.agent == *title && session.fault == fault.word());
            cell.map_or("", |session| session.end.split(':').next().unwrap_or_default())
        });
        answer(&format!("| {} | {} |", fault.words(), cells.collect::<Vec<_>>().join(" | ")));
    }
    Ok(())
}

/// One session to run.
struct Run<'a> {
    testbed: &'a Testbed,
    model: &'a Model,
    agents: &'a Path,
    options: &'a HooksBenchOptions,
    agent: &'a Agent,
    fault: Fault,
}

impl Run<'_> {
    async fn session(&self) -> Session {
        let agent = self.agent.title();
        let (end, time) = if self.fault.is_of_the_shim() && matches!(&*self.agent.host, "opencode" | "pi") {
            // These hosts run no program of ours.
            ("-".to_owned(), Duration::ZERO)
        } else {
            match self.end().await {
                Ok((end, time)) => (end, time),
                Err(error) => (format!("failed: {error:#}"), Duration::ZERO),
            }
        };
        Session { agent, fault: self.fault.word(), end, seconds: time.as_secs_f64() }
    }

    async fn end(&self) -> anyhow::Result<(String, Duration)> {
        let name =
            format!("{}-{}-{}", self.agent.host, self.agent.mode.as_deref().unwrap_or("plain"), self.fault.word());
        let name = name.replace(' ', "-");
        let base = self.options.keep.clone().unwrap_or_else(|| self.testbed.path("homes"));
        let path = base.join(&name);
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        fs::create_dir_all(&path)?;
        let home = Home::make(self.agent, path.canonicalize()?, self.agents, self.model.address.port())?;
        let server =
            self.testbed.serve(&format!("hooks_{}", name.replace('-', "_")), &self.testbed.shadows(None)?, &[]).await?;
        let program = self.install(&home, &server).await?;
        let broken = self.fault.arrange(&server, &program).await?;
        self.model.begin(self.agent, &home.project().display().to_string());
        let ran = home.run().await;
        drop(broken);
        let (time, said) = ran?;
        fs::write(home.path.join("said.txt"), &said)?;
        fs::write(home.path.join("heard.txt"), self.model.heard().join("\n"))?;
        let end = if self.fault == Fault::None || self.options.mode == "observe" {
            self.whole(&home, &server).await
        } else {
            self.closed(&home)
        };
        Ok((end.map_or_else(|error| format!("open: {error:#}"), |()| "held".to_owned()), time))
    }

    /// Installs the hooks by a link to the program, which can be broken later.
    async fn install(&self, home: &Home<'_>, server: &Server) -> anyhow::Result<PathBuf> {
        let program = home.path.join("umbra");
        // A link of its own, which costs no space, can be broken without harm to the program.
        link(&self.testbed.umbra, &program)?;
        let (small, beside) = (self.testbed.umbra.with_file_name("umbra-hook"), home.path.join("umbra-hook"));
        if small.exists() {
            link(&small, &beside)?;
        }
        let installed = home
            .command(&program)
            .args(["hook", "install", &self.agent.host, "--mode", &self.options.mode, "--url"])
            .arg(format!("http://{}", server.address))
            .output()
            .await?;
        let said =
            [&installed.stdout, &installed.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned()).concat();
        ensure!(installed.status.success(), "umbra hook install: {said}");
        fs::write(home.path.join("installed.txt"), said)?;
        Ok(if beside.exists() { beside } else { program })
    }

    /// Checks a session without a fault: what must not run has not, everything else has, and Umbra has all of it.
    async fn whole(&self, home: &Home<'_>, server: &Server) -> anyhow::Result<()> {
        let enforces = self.options.mode == "enforce";
        ensure!(
            home.has("marker-forbidden") != enforces,
            "the forbidden call: {}",
            if enforces { "it ran" } else { "it did not run" }
        );
        // Cline ends its run with some denials.
        ensure!(home.has("marker-allowed") && home.has("notes.md"), "an allowed call did not run");
        let heard = self.model.heard();
        if enforces {
            let first = heard.first().context("the model read no result")?;
            let reason = "without inspection";
            ensure!(self.model.has_read(reason), "the model did not read the reason: {first}");
        }
        if self.fault != Fault::None {
            return Ok(());
        }
        let events = get(server, "/v1/events?order=asc&limit=50").await?;
        let events: Vec<&Value> = events["items"].as_array().into_iter().flatten().collect();
        ensure!(events.len() >= 4, "Umbra has {} events, not the three calls and the end", events.len());
        ensure!(events.iter().all(|event| event["session_id"].is_string()), "an event has no session");
        if enforces {
            let audit = get_lines(server, "/v1/audit?kind=outcome").await?;
            ensure!(
                audit.iter().filter(|row| row["expected"] == true).count() >= 2,
                "an outcome is missing: {audit:?}"
            );
        }
        Ok(())
    }

    /// Checks a session with a broken guard: nothing that writes has run.
    fn closed(&self, home: &Home<'_>) -> anyhow::Result<()> {
        let ran: Vec<&str> =
            ["marker-forbidden", "marker-allowed", "notes.md"].into_iter().filter(|name| home.has(name)).collect();
        ensure!(ran.is_empty(), "{} written", ran.join(", "));
        ensure!(self.model.was_asked(), "the agent did not ask the model");
        Ok(())
    }
}

fn link(program: &Path, at: &Path) -> anyhow::Result<()> {
    if fs::hard_link(program, at).is_err() {
        fs::copy(program, at)?;
    }
    Ok(())
}

async fn text(server: &Server, path: &str) -> anyhow::Result<String> {
    let url = format!("http://{}{path}", server.address);
    let ask = move || Ok(ureq::get(url).call()?.body_mut().read_to_string()?);
    tokio::task::spawn_blocking(ask).await?
}

async fn get(server: &Server, path: &str) -> anyhow::Result<Value> {
    Ok(serde_json::from_str(&text(server, path).await?)?)
}

async fn get_lines(server: &Server, path: &str) -> anyhow::Result<Vec<Value>> {
    text(server, path).await?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}
