//! The user that runs Postgres, and that user's path to the data.
//!
//! In: our own user, and the owner of existing data. Out: commands that run as the chosen user, with an empty
//! environment (our keys stay ours). Never: changes the mode or owner of a directory that we did not create.
//!
//! Postgres refuses to run as root, so root runs it as `umbra`, else `postgres`, else `nobody`. A data directory may
//! lie below a directory that is closed to that user (as `mktemp -d` makes them). On Linux root then passes an open
//! descriptor of the cluster's directory, and the server uses the path `/proc/self/fd/N`: no mode is changed, and
//! nothing above it becomes readable.

use std::{
    fs,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            fs::{MetadataExt, chown},
            process::CommandExt,
        },
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    unistd::{Gid, Uid, User},
};

use super::PrivateError;

/// Users that run the server when we are root, best first.
const SERVICE_USERS: [&str; 3] = ["umbra", "postgres", "nobody"];

/// The user that runs Postgres and its programs.
#[derive(Debug, Clone)]
pub(super) struct Account {
    uid: Uid,
    gid: Gid,
    name: String,
    /// True if we are root and run commands as another user.
    dropped: bool,
}

/// Bonds of a child process to its parent.
#[derive(Debug, Clone, Default)]
pub(super) struct ChildOptions {
    /// A descriptor that stays open in the program.
    pub(super) keep: Option<Arc<OwnedFd>>,
    /// True to send the program SIGINT when the thread that started it ends (Linux only).
    pub(super) ends_with_us: bool,
}

/// A directory as the server's user can reach it.
#[derive(Debug, Clone)]
pub(super) struct ReachablePath {
    /// Path of the directory, or `/proc/self/fd/N`.
    pub(super) name: PathBuf,
    /// Descriptor behind that path.
    pub(super) held: Option<Arc<OwnedFd>>,
}

impl Account {
    /// Chooses our own user; for root, the owner of existing data, else the first service user that exists.
    pub(super) fn choose(cluster: Option<&Path>) -> Result<Self, PrivateError> {
        let me = nix::unistd::geteuid();
        let owner = match cluster {
            Some(dir) => Some(Uid::from_raw(fs::metadata(dir).map_err(PrivateError::io("read", dir))?.uid())),
            None => None,
        };
        if let (Some(dir), Some(owner)) = (cluster, owner)
            && (owner != me) != me.is_root()
        {
            // The data belongs to another user, or to root, under whom no server can have made it.
            return Err(PrivateError::foreign(dir));
        }
        if !me.is_root() {
            let name = User::from_uid(me).ok().flatten().map_or_else(|| me.to_string(), |user| user.name);
            return Ok(Self { uid: me, gid: nix::unistd::getegid(), name, dropped: false });
        }
        let user = match owner {
            Some(owner) => User::from_uid(owner).ok().flatten(),
            None => SERVICE_USERS.iter().find_map(|name| User::from_name(name).ok().flatten()),
        };
        let user = user.ok_or(PrivateError::NoUser)?;
        Ok(Self { uid: user.uid, gid: user.gid, name: user.name, dropped: true })
    }

    /// True if root runs commands as this user.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// Returns the user's number.
    pub(super) fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// Makes a command that runs as this user: in `/`, with only `PATH`, the C locale and UTC in its environment, and
    /// in its own process group, so that Ctrl-C in a terminal reaches us and not the server.
    pub(super) fn command(&self, program: &Path, ties: ChildOptions) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
        command.current_dir("/").stdin(Stdio::null()).process_group(0);
        if self.dropped {
            // For root, std clears the supplementary groups too, and does all this before the closure below.
            command.uid(self.uid.as_raw()).gid(self.gid.as_raw());
        }
        ties.fasten(&mut command);
        command
    }

    /// Makes a directory of mode 0700 that belongs to this user; it must not exist.
    pub(super) fn make_dir(&self, path: &Path) -> Result<(), PrivateError> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().mode(0o700).create(path).map_err(PrivateError::io("create", path))?;
        if self.dropped {
            chown(path, Some(self.uid.as_raw()), Some(self.gid.as_raw())).map_err(PrivateError::io("chown", path))?;
        }
        Ok(())
    }

    /// Returns the path under which this user reaches `dir`, a directory of this user's, given as an absolute path
    /// without links.
    pub(super) fn reach(&self, dir: &Path) -> Result<ReachablePath, PrivateError> {
        let Some(closed) = self.first_closed(dir) else {
            return Ok(ReachablePath { name: dir.into(), held: None });
        };
        if !cfg!(target_os = "linux") {
            return Err(PrivateError::NotReachable { user: self.name.clone(), dir: closed });
        }
        let held: OwnedFd = fs::File::open(dir).map_err(PrivateError::io("open", dir))?.into();
        let name = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        Ok(ReachablePath { name, held: Some(Arc::new(held)) })
    }

    /// Returns the first directory above `dir` that this user may not pass, by the mode bits. Access lists are ignored;
    /// one that grants more only leads to the use of a descriptor.
    pub(super) fn first_closed(&self, dir: &Path) -> Option<PathBuf> {
        if !self.dropped {
            return None;
        }
        let mut above: Vec<&Path> = dir.ancestors().skip(1).collect();
        above.reverse();
        above.into_iter().find(|dir| !fs::metadata(dir).is_ok_and(|meta| self.may_pass(&meta))).map(Into::into)
    }

    fn may_pass(&self, dir: &fs::Metadata) -> bool {
        let bit = if dir.uid() == self.uid.as_raw() {
            0o100
        } else if dir.gid() == self.gid.as_raw() {
            0o010
        } else {
            0o001
        };
        dir.mode() & bit != 0
    }
}

impl ChildOptions {
    fn fasten(self, command: &mut Command) {
        if self.keep.is_none() && !self.ends_with_us {
            return;
        }
        let parent = nix::unistd::getpid();
        let in_child = move || {
            if let Some(held) = &self.keep {
                fcntl(held, FcntlArg::F_SETFD(FdFlag::empty()))?;
            }
            #[cfg(target_os = "linux")]
            if self.ends_with_us {
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGINT)?;
            }
            // If the parent died before the line above, no signal would ever come.
            if self.ends_with_us && nix::unistd::getppid() != parent {
                return Err(nix::errno::Errno::ESRCH.into());
            }
            Ok(())
        };
        #[expect(unsafe_code, reason = "std offers no other way to set the parent-death signal after setuid")]
        // SAFETY: between fork and exec the closure makes three system calls (fcntl, prctl, getppid), all
        // async-signal-safe; it neither allocates nor takes a lock.
        unsafe {
            command.pre_exec(in_child);
        }
    }
}

/// Runs a program to its end, at most for `limit`, and returns what it wrote to stdout.
///
/// # Errors
/// [`PrivateError::Program`] with the last lines of its output when it fails or takes too long.
pub(super) async fn run(command: Command, what: &str, limit: Duration) -> Result<String, PrivateError> {
    let failed = |output: String| PrivateError::Program { what: what.into(), output };
    let mut command = tokio::process::Command::from(command);
    command.kill_on_drop(true);
    let output = match tokio::time::timeout(limit, command.output()).await {
        Err(_) => return Err(failed(format!("not finished after {} s", limit.as_secs()))),
        Ok(Err(error)) => return Err(failed(error.to_string())),
        Ok(Ok(output)) => output,
    };
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let text = if stderr.trim().is_empty() { stdout.as_str() } else { &stderr };
    Err(failed(format!("{}: {}", output.status, last_lines(text, 5))))
}

/// Returns the last `count` lines that are not empty, on one line.
pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join(" | ")
}
