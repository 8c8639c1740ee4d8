//! The servers under test, each a process of this same program, and the directory in which everything lies. In: a
//! variant. Out: a server that listens. Both are gone when they are dropped.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, bail};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
    time::timeout,
};

/// Until a server must listen.
const START: Duration = Duration::from_mins(1);

/// A directory that is removed with all it holds.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Makes a directory below `base`. Others may pass it, since root's Postgres runs as another user.
    pub fn make(base: &Path, name: &str) -> anyhow::Result<Self> {
        let path = base.join(format!("umbra-bench-{name}"));
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(&path)
            .with_context(|| format!("making {}", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            super::super::complain(&format!("{} is left behind: {error}", self.0.display()));
        }
    }
}

/// A server under test; it is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Server {
    /// Where it listens.
    pub address: SocketAddr,
    /// Its process.
    pub pid: u32,
    _child: Child,
}

impl Server {
    /// Starts a command of this program on the data directory `data`, in a schema of its own, and waits until it
    /// listens. Nothing of our environment reaches it: no other database, no model's key.
    pub async fn start(command: &[&str], data: &Path, schema: &str, shadows: &Path) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let log = data.join(format!("{schema}.log"));
        let mut child = Command::new(program)
            .args(command)
            .arg("--data-dir")
            .arg(data)
            .arg("--shadows")
            .arg(shadows)
            .current_dir(data)
            .env_clear()
            .env("UMBRA__SERVER__BIND", "127.0.0.1:0")
            .env("UMBRA__DATABASE__SCHEMA", schema)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log)?)
            .kill_on_drop(true)
            .spawn()?;
        let pid = child.id().context("the server under test has ended at once")?;
        let out = child.stdout.take().context("no standard output")?;
        let mut lines = BufReader::new(out).lines();
        let listening = async {
            while let Some(line) = lines.next_line().await? {
                if let Some(address) = line.strip_prefix("listening on http://") {
                    return Ok(address.parse()?);
                }
            }
            bail!("the server under test ended: {}", fs::read_to_string(&log).unwrap_or_default().trim_end())
        };
        let address = timeout(START, listening).await.context("the server under test does not listen")??;
        Ok(Self { address, pid, _child: child })
    }
}
