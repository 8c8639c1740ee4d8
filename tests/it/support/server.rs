//! The real binary as a child process: started on a schema, asked over HTTP, checked by `umbra doctor` at its end.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use reqwest::{Method, StatusCode, header::HeaderMap};
use serde_json::Value;
use tempfile::TempDir;

use super::{DEADLINE, Schema, database, until};

/// Running `umbra serve`.
#[derive(Debug)]
pub struct Umbra {
    /// URL that it listens on.
    pub base: String,
    /// Schema of the server.
    pub schema: Schema,
    child: Child,
    files: TempDir,
    env: Vec<(String, String)>,
    client: reqwest::Client,
    checked: bool,
}

/// Answer to a request.
#[derive(Debug)]
pub struct Answered {
    /// Status of the answer.
    pub status: StatusCode,
    /// Headers of the answer.
    pub headers: HeaderMap,
    /// Body as JSON; null if it is none.
    pub body: Value,
    /// Body as text.
    pub text: String,
}

impl Answered {
    /// Returns the header `ETag`; empty where there is none.
    pub fn etag(&self) -> String {
        self.headers.get("etag").and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    }
}

/// Options of a server to start.
#[derive(Debug, Clone, Default)]
pub struct Start {
    shadows: Option<String>,
    settings: Option<String>,
    tools: Option<String>,
    sidecar: Option<String>,
    env: Vec<(String, String)>,
    schema: Option<Schema>,
    clock: Option<String>,
    log: Option<PathBuf>,
}

impl Start {
    /// Sets the shadows file.
    pub fn shadows(mut self, yaml: &str) -> Self {
        self.shadows = Some(yaml.to_owned());
        self
    }

    /// Sets the settings file.
    pub fn settings(mut self, yaml: &str) -> Self {
        self.settings = Some(yaml.to_owned());
        self
    }

    /// Sets the tools file.
    pub fn tools(mut self, yaml: &str) -> Self {
        self.tools = Some(yaml.to_owned());
        self
    }

    /// Sets the sidecar file.
    pub fn sidecar(mut self, yaml: &str) -> Self {
        self.sidecar = Some(yaml.to_owned());
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Uses a schema that other servers use too.
    pub fn on(mut self, schema: &Schema) -> Self {
        self.schema = Some(schema.clone());
        self
    }

    /// Stops the database's clock at this moment.
    pub fn clock(mut self, at: &str) -> Self {
        self.clock = Some(at.to_owned());
        self
    }

    /// Writes standard error to this file.
    pub fn log_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.log = Some(path.into());
        self
    }

    /// Starts the server and waits until it listens.
    pub async fn go(self) -> Umbra {
        let schema = match self.schema {
            Some(schema) => schema,
            None => Schema::fresh().await,
        };
        let files = TempDir::new().expect("a temporary directory");
        let mut env = vec![
            ("UMBRA__DATABASE__SCHEMA".to_owned(), schema.name.clone()),
            ("UMBRA__STORAGE__DATA_DIR".to_owned(), database::data_dir().display().to_string()),
            // The data directory is shared by all tests; files for people are the server's own.
            (
                "UMBRA__ARTIFACTS__OBSERVATIONS_LOG".to_owned(),
                files.path().join("observations.jsonl").display().to_string(),
            ),
            ("UMBRA__BOUNDARY__AUDIT__DIR".to_owned(), files.path().join("audit").display().to_string()),
            ("UMBRA__QUEUE__HEARTBEAT".to_owned(), "1s".to_owned()),
            ("UMBRA__QUEUE__POLL".to_owned(), "1s".to_owned()),
            ("UMBRA__DATABASE__MAX_CONNECTIONS".to_owned(), "8".to_owned()),
            // A test that counts the calls of a model wants no probes.
            ("UMBRA__LLM__PROBE".to_owned(), "false".to_owned()),
            // A busy machine is no fault: a test of a deadline sets one.
            ("UMBRA__SIDECAR__DEADLINE".to_owned(), "20s".to_owned()),
            ("UMBRA__DATABASE__DEADLINE".to_owned(), "20s".to_owned()),
            // A stop waits this long for a model that hangs.
            ("UMBRA__SERVER__DRAIN_TIMEOUT".to_owned(), "5s".to_owned()),
        ];
        for (name, key, text) in [
            ("shadows.yaml", "UMBRA__SHADOWS__PATH", &self.shadows),
            ("tools.yaml", "UMBRA__TOOLS__PATH", &self.tools),
            ("sidecar.yaml", "UMBRA__SIDECAR__PATH", &self.sidecar),
            ("umbra.yaml", "", &self.settings),
        ] {
            if let Some(text) = text {
                std::fs::write(files.path().join(name), text).expect("a file");
                if !key.is_empty() {
                    env.push((key.to_owned(), files.path().join(name).display().to_string()));
                }
            }
        }
        env.extend(self.env);
        if let Some(at) = &self.clock {
            // The schema must exist before its clock can be taken over.
            let done = command(&files, &env, &["migrate"]).output().expect("umbra runs");
            assert!(done.status.success(), "migrate: {}", String::from_utf8_lossy(&done.stderr));
            schema.set_clock(at).await;
        }
        let log = self.log.unwrap_or_else(|| files.path().join("err"));
        let (child, base) = spawn(&files, &env, (&log, ANY_PORT)).await;
        Umbra { base, schema, child, files, env, client: super::server::client(), checked: true }
    }
}

/// Address with a port that is free.
const ANY_PORT: &str = "127.0.0.1:0";

/// Starts the server and waits until it listens; returns its URL.
async fn spawn(files: &TempDir, env: &[(String, String)], (log, bind): (&Path, &str)) -> (Child, String) {
    let mut child = command(files, env, &["serve", "--bind", bind])
        .stdout(Stdio::from(std::fs::File::create(files.path().join("out")).expect("a file")))
        .stderr(Stdio::from(std::fs::File::create(log).expect("a file")))
        .spawn()
        .expect("umbra runs");
    let base = until("umbra to listen", async || {
        if let Ok(Some(status)) = child.try_wait() {
            panic!("umbra ended ({status}): {}", read(files, "err"));
        }
        read(files, "out").lines().find_map(|line| line.strip_prefix("listening on ").map(ToOwned::to_owned))
    })
    .await;
    (child, base)
}

/// Returns an HTTP client that waits as long as a test does.
pub fn client() -> reqwest::Client {
    drop(rustls::crypto::ring::default_provider().install_default());
    reqwest::Client::builder().timeout(DEADLINE).no_proxy().build().expect("a client")
}

fn read(files: &TempDir, name: &str) -> String {
    std::fs::read_to_string(files.path().join(name)).unwrap_or_default()
}

fn command(files: &TempDir, env: &[(String, String)], args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_umbra"));
    command.args(args).current_dir(files.path()).env_clear();
    // Keys of the machine must not turn a test's checks into a model.
    let inherited = ["PATH", "HOME", "UMBRA_PG_BIN", "XDG_RUNTIME_DIR", "SSL_CERT_FILE", "RUST_LOG"];
    command.envs(inherited.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    command.envs(env.iter().map(|(name, value)| (name, value)));
    if files.path().join("umbra.yaml").exists() {
        command.arg("--config").arg(files.path().join("umbra.yaml"));
    }
    command
}

impl Umbra {
    /// Returns the options of a new server.
    pub fn with() -> Start {
        Start::default()
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// True until its process has ended.
    pub fn is_running(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
    }

    /// Returns a path among its files.
    pub fn file(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }

    /// Returns its standard error so far.
    pub fn log(&self) -> String {
        read(&self.files, "err")
    }

    /// Kills it, like a loss of power.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Leaves out the doctor at the end: the test breaks invariants on purpose, or checks them itself.
    pub fn unchecked(&mut self) {
        self.checked = false;
    }

    /// Runs a command of the same binary with the same settings.
    pub fn cli(&self, args: &[&str], input: Option<&str>) -> Output {
        self.cli_in(&[], args, input)
    }

    /// Runs a command with these variables as well; an empty one counts as unset.
    pub fn cli_in(&self, env: &[(&str, &str)], args: &[&str], input: Option<&str>) -> Output {
        let mut child = command(&self.files, &self.env, args)
            .envs(env.iter().copied())
            .stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("umbra runs");
        if let (Some(text), Some(mut stdin)) = (input, child.stdin.take()) {
            stdin.write_all(text.as_bytes()).expect("it reads");
        }
        child.wait_with_output().expect("it ends")
    }

    /// Runs a line as a person types it beside this server, whose program is found by name.
    pub fn shell(&self, line: &str) -> Output {
        let program = Path::new(env!("CARGO_BIN_EXE_umbra")).parent().expect("a folder");
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.files.path()).env_clear().envs(self.env.iter().cloned());
        command.env("PATH", path).env("HOME", self.files.path()).env("UMBRA_URL", &self.base).output().expect("a shell")
    }

    /// Starts it again on its files and its schema, after it has ended.
    pub async fn restart(&mut self) {
        self.restart_at(ANY_PORT).await;
    }

    /// Starts it again at the same address, for clients that keep to it.
    pub async fn restart_in_place(&mut self) {
        let address = self.base.trim_start_matches("http://").to_owned();
        self.restart_at(&address).await;
    }

    async fn restart_at(&mut self, bind: &str) {
        if self.child.try_wait().expect("a child").is_none() {
            self.kill();
        }
        let (child, base) = spawn(&self.files, &self.env, (&self.files.path().join("err"), bind)).await;
        (self.child, self.base) = (child, base);
    }

    /// Starts a command of the same binary, with pipes to it.
    pub fn spawn(&self, env: &[(&str, &str)], args: &[&str]) -> Child {
        command(&self.files, &self.env, args)
            .envs(env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("umbra runs")
    }

    /// Sends a request; `body` is sent as it is.
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Option<Vec<u8>>) -> Answered {
        let mut request = self.client.request(method, format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await.expect("it answers");
        let (status, headers) = (response.status(), response.headers().clone());
        let text = response.text().await.expect("a body");
        Answered { status, headers, body: serde_json::from_str(&text).unwrap_or_default(), text }
    }

    /// Gets JSON; anything but 200 fails the test.
    pub async fn get(&self, path: &str) -> Value {
        let answered = self.send(Method::GET, path, &[], None).await;
        assert_eq!(answered.status, 200, "GET {path}: {}", answered.text);
        answered.body
    }

    /// Posts JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Answered {
        let body = serde_json::to_vec(body).expect("JSON");
        self.send(Method::POST, path, &[("content-type", "application/json")], Some(body)).await
    }

    /// Posts JSON to a server that may be gone: `None` if no answer came.
    pub async fn try_post(&self, path: &str, body: &Value) -> Option<(StatusCode, Value)> {
        let response = self.client.post(format!("{}{path}", self.base)).json(body).send().await.ok()?;
        let status = response.status();
        Some((status, response.json().await.ok()?))
    }

    /// Posts an event; anything but 202 fails the test.
    pub async fn event(&self, event: &Value) -> Value {
        let answered = self.post("/v1/events", event).await;
        assert_eq!(answered.status, 202, "{}", answered.text);
        answered.body
    }

    /// Waits until no review is queued or running.
    pub async fn drain(&self) {
        until("the queue to be empty", async || {
            let status = self.get("/v1/status").await;
            (status["queue"]["queued"] == 0 && status["queue"]["running"] == 0).then_some(())
        })
        .await;
    }

    /// Waits until the queue is empty and breakers, reflexions and notices have followed all reviews.
    pub async fn followed(&self) {
        self.drain().await;
        let behind = "SELECT coalesce((SELECT max(seq) FROM review_result), 0) > seq FROM follower
                      WHERE name = 'consequences'";
        until("what follows", async || (!self.schema.one::<bool>(behind).await).then_some(())).await;
    }

    /// Waits until the built-in checks have looked at everything that was accepted.
    pub async fn looked(&self) {
        until("the checks to look at all events", async || {
            (self.get("/v1/status").await["check_backlog"]["waiting"] == 0).then_some(())
        })
        .await;
    }

    /// Returns the items of a list.
    pub async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().cloned().unwrap_or_default()
    }

    /// Asks it to stop.
    pub fn terminate(&self) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).expect("it runs");
    }

    /// Asks it to stop and waits for its end.
    pub fn stop(&mut self) -> std::process::ExitStatus {
        if let Ok(Some(status)) = self.child.try_wait() {
            return status;
        }
        self.terminate();
        let started = std::time::Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(started.elapsed() < DEADLINE, "it does not end after SIGTERM: {}", self.log());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Runs the doctor; its report fails the test if an invariant is broken.
    pub fn doctor(&self) {
        let output = self.cli(&["doctor", "--json"], None);
        assert!(
            output.status.success(),
            "the doctor finds: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

impl Drop for Umbra {
    /// Every test ends with a clean stop and the doctor.
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the server's log ---\n{}", self.log());
            drop(self.child.kill());
            drop(self.child.wait());
            return;
        }
        self.stop();
        if self.checked {
            self.doctor();
        }
    }
}
