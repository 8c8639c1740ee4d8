//! The user that Postgres runs as, and how that user gets to the data.
//!
//! In: who we are, and who owns the data already. Out: commands that run as that user, with an empty environment
//! (our keys stay ours). Never: changes the mode or owner of a directory that we did not create.
//!
//! Postgres refuses to run as root, so root gives it to `umbra`, else `postgres`, else `nobody`. A data directory may
//! lie below a directory that is closed to that user (`mktemp -d` makes such ones). On Linux root then hands over an
//! open descriptor of the cluster's directory, and the server names it `/proc/self/fd/N`: no mode is changed, and
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

/// Whom root gives the server to, best first.
const SERVICE_USERS: [&str; 3] = ["umbra", "postgres", "nobody"];

/// The user that runs Postgres and its programs.
#[derive(Debug, Clone)]
pub(super) struct Account {
    uid: Uid,
    gid: Gid,
    name: String,
    /// True when we are root and become somebody else.
    dropped: bool,
}

/// What a command of ours keeps from its parent.
#[derive(Debug, Clone, Default)]
pub(super) struct Ties {
    /// A descriptor that stays open in the program.
    pub(super) keep: Option<Arc<OwnedFd>>,
    /// Whether the program gets SIGINT when the thread that started it ends (Linux only).
    pub(super) ends_with_us: bool,
}

/// A directory, as the server is to name it.
#[derive(Debug, Clone)]
pub(super) struct Reached {
    /// Its path, or `/proc/self/fd/N`.
    pub(super) name: PathBuf,
    /// The descriptor behind that name.
    pub(super) held: Option<Arc<OwnedFd>>,
}

impl Account {
    /// Ourselves; for root, the owner of the data that exists, else the first service user that exists.
    pub(super) fn choose(cluster: Option<&Path>) -> Result<Self, PrivateError> {
        let me = nix::unistd::geteuid();
        let owner = match cluster {
            Some(dir) => Some(Uid::from_raw(fs::metadata(dir).map_err(PrivateError::io("read", dir))?.uid())),
            None => None,
        };
        if let (Some(dir), Some(owner)) = (cluster, owner)
            && (owner != me) != me.is_root()
        {
            // Somebody else's, or root's own: a server that ran as root made neither.
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

    /// True when root becomes this user.
    pub(super) fn is_dropped(&self) -> bool {
        self.dropped
    }

    /// The user's number.
    pub(super) fn uid(&self) -> u32 {
        self.uid.as_raw()
    }

    /// A program that runs as this user: in `/`, without environment but `PATH` and the C locale, in a process
    /// group of its own, so that Ctrl-C in a terminal reaches us and not the server under our feet.
    pub(super) fn command(&self, program: &Path, ties: Ties) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LC_ALL", "C").env("TZ", "UTC");
        command.current_dir("/").stdin(Stdio::null()).process_group(0);
        if self.dropped {
            // As root, std clears the supplementary groups too, and does all this before our closure below.
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

    /// How this user names `dir`, an absolute path without links to a directory of its own.
    pub(super) fn reach(&self, dir: &Path) -> Result<Reached, PrivateError> {
        let Some(closed) = self.first_closed(dir) else {
            return Ok(Reached { name: dir.into(), held: None });
        };
        if !cfg!(target_os = "linux") {
            return Err(PrivateError::NotReachable { user: self.name.clone(), dir: closed });
        }
        let held: OwnedFd = fs::File::open(dir).map_err(PrivateError::io("open", dir))?.into();
        let name = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
        Ok(Reached { name, held: Some(Arc::new(held)) })
    }

    /// The first directory above `dir` that this user may not pass, by the mode bits (an access list that grants
    /// more is not seen, which only leads to the descriptor).
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

impl Ties {
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
            // Had we died before the line above, no signal would ever come.
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
        Err(_) => return Err(failed(format!("not done after {} s", limit.as_secs()))),
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

/// The last `count` lines that are not empty, on one line.
pub(super) fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.get(lines.len().saturating_sub(count)..).unwrap_or_default().join(" | ")
}
