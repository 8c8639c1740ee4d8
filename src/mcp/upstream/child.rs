//! A server that is a child process: messages are lines on its standard input and output.
//!
//! A line beyond the bound is not kept. If it answers one of our requests, that request fails with [`TOO_LARGE`], and the
//! server goes on. A line that is no message is skipped: some servers print there.

use std::{
    io,
    process::Stdio,
    sync::{Arc, LazyLock},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use regex::bytes::Regex;
use rmcp::{
    RoleClient,
    model::{ErrorCode, ErrorData, NumberOrString, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child as Process, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    time::timeout,
};

use crate::config::settings::UpstreamCommand;

/// How a request fails whose answer is larger than we keep.
pub(in crate::mcp) const TOO_LARGE: ErrorCode = ErrorCode(-32_099);
/// How long a server may take to end by itself, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// Bytes at each end of a line that is too long, in which its id is looked for.
const ENDS: usize = 512;

/// The process and its pipes.
pub(super) struct Child {
    process: Process,
    input: Arc<Mutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    line: Line,
}

impl Child {
    /// Starts the server, in a process group of its own.
    ///
    /// # Errors
    /// The program is not there or cannot be run.
    pub(super) fn start(command: &UpstreamCommand, max_line: usize) -> io::Result<Self> {
        let mut start = Command::new(&command.program);
        start.args(&command.args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).process_group(0);
        if let Some(only) = &command.only_env {
            start.env_clear().envs(only);
            // What it prints there is nobody's log line.
            start.stderr(Stdio::null());
        }
        for name in &command.without_env {
            start.env_remove(name);
        }
        let mut process = start.spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) = pipes.ok_or_else(|| io::Error::other("a pipe is missing"))?;
        Ok(Self {
            process,
            input: Arc::new(Mutex::new(Some(input))),
            output: BufReader::with_capacity(64 * 1024, output),
            line: Line { kept: Vec::new(), tail: Vec::new(), over: false, max: max_line },
        })
    }

    async fn ends_within(&mut self, grace: Duration) -> bool {
        timeout(grace, self.process.wait()).await.is_ok()
    }

    /// To the whole group: a server is often started by another program, such as npx.
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.process.id().and_then(|id| i32::try_from(id).ok()) {
            // It may have ended by itself.
            killpg(Pid::from_raw(id), signal).ok();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

impl Transport<RoleClient> for Child {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let input = Arc::clone(&self.input);
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut input = input.lock().await;
            let pipe = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
            pipe.write_all(&line).await?;
            pipe.flush().await
        }
    }

    // It is polled in a `select!`: whatever was read is kept in `self` before the next await.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let part = match self.output.fill_buf().await {
                Ok([]) | Err(_) => return None,
                Ok(part) => part,
            };
            let end = memchr::memchr(b'\n', part);
            let taken = end.map_or(part.len(), |end| end + 1);
            self.line.push(&part[..taken]);
            self.output.consume(taken);
            if end.is_some()
                && let Some(message) = self.line.take()
            {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.input.lock().await.take();
        if !self.ends_within(GRACE).await {
            self.signal(Signal::SIGTERM);
            if !self.ends_within(GRACE).await {
                self.signal(Signal::SIGKILL);
                self.process.wait().await?;
            }
        }
        Ok(())
    }
}

/// A line while it arrives.
struct Line {
    /// The whole of it, or its beginning where it is too long.
    kept: Vec<u8>,
    /// The end of what is not kept.
    tail: Vec<u8>,
    over: bool,
    max: usize,
}

impl Line {
    fn push(&mut self, part: &[u8]) {
        if !self.over && self.kept.len() + part.len() <= self.max {
            self.kept.extend_from_slice(part);
            return;
        }
        if !self.over {
            self.over = true;
            self.tail = self.kept.split_off(self.kept.len().min(ENDS));
            self.kept.shrink_to_fit();
        }
        self.tail.extend_from_slice(&part[part.len().saturating_sub(ENDS)..]);
        let gone = self.tail.len().saturating_sub(ENDS);
        self.tail.drain(..gone);
    }

    /// What the line says; `None` where it is no message. The next line begins.
    fn take(&mut self) -> Option<ServerJsonRpcMessage> {
        let (kept, tail) = (std::mem::take(&mut self.kept), std::mem::take(&mut self.tail));
        if std::mem::take(&mut self.over) {
            let id = answered(&kept, &tail)?;
            let error = ErrorData::new(TOO_LARGE, "the answer is larger than is kept", None);
            return Some(ServerJsonRpcMessage::error(error, Some(NumberOrString::Number(id))));
        }
        serde_json::from_slice(&kept).ok()
    }
}

/// The id of the request that a line answers, from its ends: servers write it first or last.
fn answered(head: &[u8], tail: &[u8]) -> Option<i64> {
    static FIRST: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#"^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,18})\s*,"#).ok());
    static LAST: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#""id"\s*:\s*(\d{1,18})\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$"#).ok());
    let find = |rule: &LazyLock<Option<Regex>>, text: &[u8]| {
        let digits = LazyLock::force(rule).as_ref()?.captures(text)?.get(1)?.as_bytes().to_vec();
        String::from_utf8(digits).ok()?.parse().ok()
    };
    find(&FIRST, head).or_else(|| find(&LAST, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(max: usize, text: &str, step: usize) -> Vec<Option<ServerJsonRpcMessage>> {
        let mut line = Line { kept: Vec::new(), tail: Vec::new(), over: false, max };
        let mut said = Vec::new();
        for whole in text.as_bytes().split_inclusive(|byte| *byte == b'\n') {
            whole.chunks(step).for_each(|part| line.push(part));
            said.push(line.take());
        }
        said
    }

    #[test]
    fn a_line_beyond_the_bound_fails_its_request_alone() {
        let long = "x".repeat(5_000);
        for step in [1, 7, 600, 100_000] {
            for (name, text) in [
                ("first", format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"content":"{long}"}}}}"#)),
                ("last", format!(r#"{{"result":{{"content":"{long}"}},"jsonrpc":"2.0","id":7}}"#)),
            ] {
                let said = fed(1_000, &format!("{text}\n{{\"jsonrpc\":\"2.0\",\"id\":8,\"result\":{{}}}}\n"), step);
                let [Some(ServerJsonRpcMessage::Error(error)), Some(ServerJsonRpcMessage::Response(next))] = &said[..]
                else {
                    panic!("{name} {step}: {said:?}")
                };
                assert_eq!((error.error.code, &error.id), (TOO_LARGE, &Some(NumberOrString::Number(7))), "{name}");
                assert_eq!(next.id, NumberOrString::Number(8));
            }
        }
    }

    #[test]
    fn an_id_within_the_content_is_nobodys() {
        let text = format!(r#"{{"result":{{"id":3,"content":"{}"}},"id":"a"}}"#, "x".repeat(5_000));
        assert!(matches!(&fed(1_000, &format!("{text}\n"), 100)[..], [None]));
        assert!(matches!(&fed(1_000, "Server listening\n", 100)[..], [None]));
    }
}
