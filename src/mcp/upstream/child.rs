//! Transport to a server that is a child process: messages are lines on its standard input and output.
//!
//! A line beyond the bound is not kept. If it answers one of our requests, that request fails with [`TOO_LARGE`], and
//! the server goes on; so with an unreadable answer ([`UNREADABLE`]). Any other line that is no message is skipped:
//! some servers print there. A server that does not read its input is ended.

use std::{io, process::Stdio, sync::Arc, time::Duration};

use nix::{
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use rmcp::{
    RoleClient,
    model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::{
    io::{AsyncWriteExt, BufReader},
    process::{Child as Process, ChildStdin, ChildStdout, Command},
    sync::Mutex,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use crate::mcp::line::{LineContent, LineReader, LineSubject};
use umbra_config::settings::UpstreamCommand;

/// Error code of a request whose answer is too large.
pub(super) const TOO_LARGE: ErrorCode = ErrorCode(-32_099);
/// Error code of a request whose answer cannot be read.
pub(super) const UNREADABLE: ErrorCode = ErrorCode(-32_098);
/// Time in which a server may end by itself, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);
/// Process of a server, with its pipes.
pub(super) struct Child {
    process: Process,
    input: Arc<Mutex<Option<ChildStdin>>>,
    output: BufReader<ChildStdout>,
    line: LineReader,
    /// Longest time in which the server may leave its input unread.
    patience: Duration,
    /// Cancelled when the server is given up: nothing is sent or received any more.
    given_up: CancellationToken,
}

impl Child {
    /// Starts the server, in a process group of its own. Its lines may have `max_line` bytes, and it may leave its
    /// input unread for as long as `patience`.
    ///
    /// # Errors
    /// The program does not exist or cannot be run.
    pub(super) fn start(command: &UpstreamCommand, max_line: usize, patience: Duration) -> io::Result<Self> {
        let mut start = Command::new(&command.program);
        start.args(&command.args).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).process_group(0);
        if let Some(only) = &command.only_env {
            start.env_clear().envs(only);
            // Its output there would be a foreign line in our log.
            start.stderr(Stdio::null());
        }
        for name in &command.without_env {
            start.env_remove(name);
        }
        let mut process = start.spawn()?;
        let pipes = process.stdin.take().zip(process.stdout.take());
        let (input, output) =
            pipes.ok_or_else(|| io::Error::other("the server's process has no pipe for input or output"))?;
        Ok(Self {
            process,
            input: Arc::new(Mutex::new(Some(input))),
            output: BufReader::with_capacity(64 * 1024, output),
            line: LineReader::new(max_line),
            patience,
            given_up: CancellationToken::new(),
        })
    }

    async fn ends_within(&mut self, grace: Duration) -> bool {
        timeout(grace, self.process.wait()).await.is_ok()
    }

    /// Signals the whole group: a server is often started by another program, such as npx.
    fn signal(&self, signal: Signal) {
        if let Some(id) = self.process.id().and_then(|id| i32::try_from(id).ok()) {
            // The process may have ended by itself.
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
        let (input, patience, given_up) = (Arc::clone(&self.input), self.patience, self.given_up.clone());
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let write = async {
                let mut input = input.lock().await;
                let pipe = input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
                pipe.write_all(&line).await?;
                pipe.flush().await
            };
            match given_up.run_until_cancelled(timeout(patience, write)).await {
                Some(Ok(written)) => written,
                // Half a line may be in the pipe: the connection cannot go on.
                Some(Err(_)) => {
                    given_up.cancel();
                    Err(io::ErrorKind::TimedOut.into())
                }
                None => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let said = self.given_up.run_until_cancelled(self.line.read(&mut self.output)).await??;
            if let Some(message) = message(said) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.given_up.cancel();
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

/// Returns the message of a line, or the failure of the request that it answers; `None` if it belongs to no request.
fn message(said: LineContent<ServerJsonRpcMessage>) -> Option<ServerJsonRpcMessage> {
    let failed = |code, words: &str, id: Option<RequestId>| {
        let id = id?;
        Some(ServerJsonRpcMessage::error(ErrorData::new(code, words.to_owned(), None), Some(id)))
    };
    match said {
        LineContent::Message(message) => Some(message),
        LineContent::TooLong(LineSubject { id, answers: true }) => {
            failed(TOO_LARGE, "the answer exceeds the limit", id)
        }
        LineContent::Garbled(LineSubject { id, answers: true }) => failed(UNREADABLE, "the answer cannot be read", id),
        LineContent::Odd(value) if value.get("method").is_none() => {
            let id = value.get("id").cloned().and_then(|id| serde_json::from_value(id).ok());
            failed(UNREADABLE, "the answer cannot be read", id)
        }
        _ => None,
    }
}
