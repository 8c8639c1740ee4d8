//! Trust of Codex in its hooks: Codex skips a new or changed hook in silence until its user trusts it. Its own
//! app-server takes that word, so its hashes are never computed here.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Duration,
};

use anyhow::{Context, anyhow};
use serde_json::{Map, Value, json};

use crate::cli::answer;
use umbra_hooks::HookMode;

/// Longest wait for an answer of the app-server.
const PATIENCE: Duration = Duration::from_secs(20);

/// Trusts the hooks in a file.
///
/// # Errors
/// Codex does not take the trust, and the hooks are to be enforced.
pub(super) fn trust(file: &Path, mode: HookMode) -> anyhow::Result<()> {
    let error = match trusted(file) {
        Ok(n) => {
            answer(&format!("Trusted: {n} hooks, by Codex itself"));
            return Ok(());
        }
        Err(error) => error,
    };
    let words = "Codex skips the hooks until you trust them: start codex and enter /hooks";
    if mode == HookMode::Enforce {
        return Err(error.context(format!("the hooks are installed, but guard nothing yet. {words}")));
    }
    answer(&format!("Not trusted yet: {error:#}. {words}"));
    Ok(())
}

/// Returns true if Codex trusts all hooks in a file, and none of them is switched off.
pub(super) fn is_trusted(file: &Path) -> anyhow::Result<bool> {
    let hooks = AppServer::start()?.hooks(file)?;
    Ok(!hooks.is_empty()
        && hooks.iter().all(|hook| {
            hook["enabled"] != false && matches!(hook["trustStatus"].as_str(), Some("trusted" | "managed"))
        }))
}

fn trusted(file: &Path) -> anyhow::Result<usize> {
    let mut server = AppServer::start()?;
    let mut states = Map::new();
    for hook in server.hooks(file)? {
        let key = hook["key"].as_str().context("a hook without a key")?;
        states.insert(key.to_owned(), json!({"trusted_hash": hook["currentHash"], "enabled": true}));
    }
    let n = states.len();
    if n == 0 {
        return Err(anyhow!("Codex does not list the hooks of {}", file.display()));
    }
    let edit = json!({"keyPath": "hooks.state", "value": states, "mergeStrategy": "upsert"});
    server.ask("config/batchWrite", &json!({"edits": [edit], "reloadUserConfig": true}))?;
    let hooks = server.hooks(file)?;
    let is_kept = hooks.iter().all(|hook| hook["trustStatus"] == "trusted");
    if is_kept { Ok(n) } else { Err(anyhow!("Codex did not keep the trust")) }
}

/// `codex app-server`: requests and answers, one a line.
struct AppServer {
    child: Child,
    requests: Option<ChildStdin>,
    answers: Receiver<Value>,
    asked: u64,
}

impl AppServer {
    fn start() -> anyhow::Result<Self> {
        let mut child = Command::new("codex")
            .arg("app-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("codex is not on the path")?;
        let (requests, lines) = (child.stdin.take(), child.stdout.take().context("no output")?);
        let (found, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(lines).lines().map_while(Result::ok) {
                if let Ok(value) = serde_json::from_str::<Value>(&line)
                    && found.send(value).is_err()
                {
                    return;
                }
            }
        });
        let mut server = Self { child, requests, answers, asked: 0 };
        let version = env!("CARGO_PKG_VERSION");
        server.ask("initialize", &json!({"clientInfo": {"name": "umbra", "version": version}}))?;
        server.send(&json!({"method": "initialized"}))?;
        Ok(server)
    }

    /// Lists the hooks in a file.
    fn hooks(&mut self, file: &Path) -> anyhow::Result<Vec<Value>> {
        let folder = std::env::current_dir().context("no working directory")?;
        let listed = self.ask("hooks/list", &json!({"cwds": [folder]}))?;
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        let is_here = |hook: &&Value| {
            let path = hook["sourcePath"].as_str().map(Path::new);
            path.is_some_and(|path| std::fs::canonicalize(path).is_ok_and(|path| path == file))
        };
        let places = listed["data"].as_array().into_iter().flatten();
        let hooks = places.flat_map(|place| place["hooks"].as_array().into_iter().flatten());
        Ok(hooks.filter(is_here).cloned().collect())
    }

    fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.asked += 1;
        self.send(&json!({"id": self.asked, "method": method, "params": params}))?;
        loop {
            let answer =
                self.answers.recv_timeout(PATIENCE).with_context(|| format!("codex does not answer {method}"))?;
            if answer["id"] != json!(self.asked) {
                continue;
            }
            if let Some(error) = answer.get("error") {
                return Err(anyhow!("codex refuses {method}: {}", error["message"].as_str().unwrap_or("no message")));
            }
            return Ok(answer["result"].clone());
        }
    }

    fn send(&mut self, request: &Value) -> anyhow::Result<()> {
        let requests = self.requests.as_mut().context("codex has ended")?;
        writeln!(requests, "{request}").and_then(|()| requests.flush()).context("codex has ended")
    }
}

impl Drop for AppServer {
    fn drop(&mut self) {
        self.requests = None;
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
