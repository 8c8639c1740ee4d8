//! Faults of a guard: of its server, and of its program.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use anyhow::Context;
use clap::ValueEnum;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use crate::testbed::Server;

/// Fault of a guard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// None.
    None,
    /// The server has ended.
    Stopped,
    /// The server is frozen (SIGSTOP).
    Frozen,
    /// Another program answers with bytes that are no HTTP.
    Garbage,
    /// Another program answers 500.
    Error,
    /// Another program answers 200 with nothing.
    Empty,
    /// The hook's program kills itself (SIGKILL).
    Killed,
    /// The hook's program hangs and ignores SIGTERM.
    Hung,
    /// The hook's program is removed.
    Removed,
}

/// A fault that lasts until this is dropped: another program in the place of the server, or a frozen server.
#[derive(Default)]
pub struct ActiveFault(Option<JoinHandle<()>>, Option<Pid>);

impl Drop for ActiveFault {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
        if let Some(pid) = self.1 {
            let _ = kill(pid, Signal::SIGCONT);
        }
    }
}

impl Fault {
    /// Returns the word of the command line.
    pub fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Returns the words for a table.
    pub fn words(self) -> &'static str {
        match self {
            Self::None => "no fault",
            Self::Stopped => "server stopped",
            Self::Frozen => "server frozen",
            Self::Garbage => "server answers garbage",
            Self::Error => "server answers 500",
            Self::Empty => "server answers an empty body",
            Self::Killed => "hook killed (SIGKILL)",
            Self::Hung => "hook hangs, ignores SIGTERM",
            Self::Removed => "hook's program removed",
        }
    }

    /// True for a fault of the hook's program.
    pub fn is_of_the_shim(self) -> bool {
        matches!(self, Self::Killed | Self::Hung | Self::Removed)
    }

    /// Brings the fault about.
    ///
    /// # Errors
    /// The process or the file of the fault is not there.
    pub async fn arrange(self, server: &Server, program: &Path) -> anyhow::Result<ActiveFault> {
        let pid = Pid::from_raw(i32::try_from(server.pid)?);
        match self {
            Self::None => {}
            Self::Frozen => {
                kill(pid, Signal::SIGSTOP)?;
                return Ok(ActiveFault(None, Some(pid)));
            }
            Self::Stopped => end(server, pid).await?,
            Self::Garbage | Self::Error | Self::Empty => {
                end(server, pid).await?;
                let listener = TcpListener::bind(server.address).await.context("the server's port is not free")?;
                #[expect(clippy::disallowed_methods, reason = "it ends with the fault")]
                let task = tokio::spawn(serve(listener, self.answer()));
                return Ok(ActiveFault(Some(task), None));
            }
            Self::Removed => fs::remove_file(program)?,
            Self::Killed => script(program, "kill -9 $$")?,
            Self::Hung => script(program, "trap '' TERM; while :; do sleep 1; done")?,
        }
        Ok(ActiveFault::default())
    }

    fn answer(self) -> &'static [u8] {
        match self {
            Self::Garbage => b"\x00\x01 not HTTP\r\n\r\n",
            Self::Error => b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 2\r\n\r\n{}",
            _ => b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
        }
    }
}

/// Kills the server, and waits until its port is free.
async fn end(server: &Server, pid: Pid) -> anyhow::Result<()> {
    kill(pid, Signal::SIGKILL)?;
    while tokio::net::TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// Puts a script in the place of the hook's program.
fn script(program: &Path, lines: &str) -> std::io::Result<()> {
    fs::remove_file(program)?;
    fs::write(program, format!("#!/bin/bash\n{lines}\n"))?;
    fs::set_permissions(program, fs::Permissions::from_mode(0o755))
}

async fn serve(listener: TcpListener, answer: &'static [u8]) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = vec![0; 64 * 1024];
        drop(stream.read(&mut request).await);
        drop(stream.write_all(answer).await);
    }
}
