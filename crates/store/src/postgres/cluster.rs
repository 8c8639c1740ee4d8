//! The cluster on disk: finds it, makes a new one, and waits until no server uses it.
//!
//! In: the data directory. Out: a cluster of known major that no server uses. Never: opens another major's data,
//! leaves a half-made cluster under its final name, or takes a running server's lock file away.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::{
    PrivateError, SUPERUSER,
    account::{Account, ChildOptions, run},
    binaries::Binaries,
};

/// initdb takes 0.5-3 s; slow disks get their time.
const INITDB_LIMIT: Duration = Duration::from_mins(3);
/// Time until a remaining server gets a second signal. One whose umbra was killed got its first then, and ends in 1.5
/// s.
const GOES_BY_ITSELF: Duration = Duration::from_secs(3);
const GOES_WHEN_TOLD: Duration = Duration::from_secs(30);

/// A data directory of Postgres.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cluster {
    /// `<data>/pg<major>`, or `<data>/pgdata` of an earlier or foreign layout.
    pub(super) dir: PathBuf,
    /// Major version, from `PG_VERSION`.
    pub(super) major: u32,
}

/// Returns the cluster in the data directory; of several, the one with the newest major (an upgrade leaves the old one
/// beside it).
pub(super) fn existing(data_dir: &Path) -> Result<Option<Cluster>, PrivateError> {
    let mut newest: Option<Cluster> = None;
    for entry in fs::read_dir(data_dir).map_err(PrivateError::io("read", data_dir))?.flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix("pg")) else { continue };
        if rest != "data" && (rest.is_empty() || rest.contains(|c: char| !c.is_ascii_digit())) {
            continue;
        }
        let version = entry.path().join("PG_VERSION");
        let text = match fs::read_to_string(&version) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(PrivateError::io("read", version)(error)),
        };
        let bad = || io::Error::new(io::ErrorKind::InvalidData, "it has no version");
        // Before version 10 the major had two parts, as in 9.6; its first number says enough.
        let major = text.trim().split('.').next().and_then(|major| major.parse().ok()).ok_or_else(bad);
        let major = major.map_err(PrivateError::io("read", version))?;
        if newest.as_ref().is_none_or(|newest| newest.major < major) {
            newest = Some(Cluster { dir: entry.path(), major });
        }
    }
    Ok(newest)
}

/// Makes `<data>/pg<major>`: under another name first, so that a crash leaves nothing that looks complete.
pub(super) async fn create(data_dir: &Path, binaries: &Binaries, account: &Account) -> Result<Cluster, PrivateError> {
    let dir = data_dir.join(format!("pg{}", binaries.major));
    let unfinished = data_dir.join(format!("pg{}.new", binaries.major));
    forget(&unfinished);
    account.make_dir(&unfinished)?;
    let reached = account.reach(&unfinished)?;
    let mut initdb =
        account.command(&binaries.dir.join("initdb"), ChildOptions { keep: reached.held, ends_with_us: true });
    initdb.args(["-E", "UTF8", "--locale=C", "-k", "--no-instructions", "-U", SUPERUSER]);
    // Only root and the owner can open the socket (see mod.rs). TCP is off, and stays closed if it is switched on.
    initdb.args(["--auth-local=trust", "--auth-host=reject", "-D"]).arg(&reached.name);
    let done = run(initdb, "initdb", INITDB_LIMIT).await;
    if let Err(error) = done {
        forget(&unfinished);
        return Err(error);
    }
    fs::rename(&unfinished, &dir).map_err(PrivateError::io("create", &dir))?;
    let parent = fs::File::open(data_dir).and_then(|parent| parent.sync_all());
    parent.map_err(PrivateError::io("sync", data_dir))?;
    Ok(Cluster { dir, major: binaries.major })
}

/// Removes a directory of ours if possible; one that stays only costs space.
pub(super) fn forget(dir: &Path) {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::debug!(%error, dir = %dir.display(), "cannot remove");
        }
        _ => (),
    }
}

/// Waits until no server uses the cluster. The caller holds the lock of the data directory, so a running server has
/// lost its umbra: it got SIGINT when that ended, and gets another one if it stays.
pub(super) async fn await_predecessor(cluster: &Cluster) -> Result<(), PrivateError> {
    let started = Instant::now();
    let mut told = false;
    while let Some(pid) = postmaster(&cluster.dir) {
        let waited = started.elapsed();
        if waited > GOES_BY_ITSELF + GOES_WHEN_TOLD {
            return Err(PrivateError::StillRunning { cluster: cluster.dir.clone(), pid: pid.as_raw() });
        }
        if waited > GOES_BY_ITSELF && !told {
            tracing::warn!(pid = pid.as_raw(), "stopping a PostgreSQL whose umbra has ended");
            told = kill(pid, Signal::SIGINT).is_ok();
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    remove_stale_pid_file(&cluster.dir)
}

/// Returns the process that serves the cluster, if one lives.
pub(super) fn postmaster(cluster: &Path) -> Option<Pid> {
    let pid = recorded_pid(cluster)?;
    serves(pid, cluster).then_some(pid)
}

fn recorded_pid(cluster: &Path) -> Option<Pid> {
    let text = fs::read_to_string(cluster.join("postmaster.pid")).ok()?;
    // A standalone backend writes its pid negated.
    let pid: i32 = text.lines().next()?.trim().parse().ok()?;
    (pid != 0).then(|| Pid::from_raw(pid.saturating_abs()))
}

/// True if the process works in the directory of the cluster, as its postmaster does.
#[cfg(target_os = "linux")]
fn serves(pid: Pid, cluster: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let works_in = place(Path::new(&format!("/proc/{pid}/cwd")));
    works_in.is_some() && works_in == place(cluster)
}

/// True if the process has the directory among its arguments, as its postmaster does; for systems without /proc.
#[cfg(not(target_os = "linux"))]
fn serves(pid: Pid, cluster: &Path) -> bool {
    let listed = std::process::Command::new("ps").args(["-o", "command=", "-p", &pid.to_string()]).output();
    listed.is_ok_and(|listed| String::from_utf8_lossy(&listed.stdout).contains(&*cluster.to_string_lossy()))
}

/// Removes a stale `postmaster.pid`, which a killed server leaves. The next server takes it over only if no process has
/// that number; in a container some process or thread soon has it again, and Postgres would never start.
fn remove_stale_pid_file(cluster: &Path) -> Result<(), PrivateError> {
    let Some(pid) = recorded_pid(cluster) else { return Ok(()) };
    if kill(pid, None) == Err(Errno::ESRCH) {
        return Ok(());
    }
    let path = cluster.join("postmaster.pid");
    tracing::warn!(
        pid = pid.as_raw(),
        "postmaster.pid named a process that is not this installation's PostgreSQL and was removed"
    );
    fs::remove_file(&path).map_err(PrivateError::io("remove", path))
}
