//! Finds the programs of Postgres.
//!
//! In: the places to look at, the user that will run them, and the major version of data that exists. Out: a `bin`
//! directory that holds `postgres` and `initdb` and answers `--version` as that user. Never: runs a candidate as
//! root, or mixes majors.
//!
//! The order: `UMBRA_PG_BIN` alone when it is set; else the wheel that pip installed with us, `PATH`, the directories
//! of Debian, PGDG and Homebrew (newest first), a wheel fetched before, a wheel fetched now. Existing data fixes the
//! major.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    PrivateError, PrivateOptions,
    account::{Account, ChildOptions, run},
    cluster::Cluster,
    wheel,
};

/// The oldest major version that the service's SQL runs on.
pub(super) const OLDEST_MAJOR: u32 = 15;
/// `--version` answers in milliseconds; a wrapper that hangs is no candidate.
const PROBE_LIMIT: Duration = Duration::from_secs(10);

/// A usable `bin` directory.
#[derive(Debug, Clone)]
pub(super) struct Binaries {
    /// The directory.
    pub(super) dir: PathBuf,
    /// Version as the server prints it: `15.18`, `18.6`, `19beta1`.
    pub(super) version: String,
    /// The number before the first dot.
    pub(super) major: u32,
}

/// Finds or fetches the binaries to use; their major must match that of existing `data`.
pub(super) async fn find(
    options: &PrivateOptions,
    account: &Account,
    data: Option<&Cluster>,
    say: &(dyn Fn(&str) + Send + Sync),
) -> Result<Binaries, PrivateError> {
    if let Some(dir) = &options.pg_bin {
        let bad = |why| PrivateError::BadBinaries { dir: dir.clone(), why };
        let found = probe(dir, account).await.map_err(bad)?;
        return match data {
            Some(data) if data.major != found.major => Err(other_major(data, &[found])),
            _ if found.major < OLDEST_MAJOR => Err(bad(too_old(&found))),
            _ => Ok(found),
        };
    }
    let fits = |major: u32| major >= OLDEST_MAJOR && data.is_none_or(|data| data.major == major);
    let mut others = Vec::new();
    for dir in candidates(options) {
        match probe(&dir, account).await {
            Ok(found) if fits(found.major) => return Ok(found),
            Ok(found) => others.push(found),
            Err(why) => tracing::debug!(dir = %dir.display(), why, "no PostgreSQL in this folder"),
        }
    }
    if fits(wheel::MAJOR)
        && let Some(dir) = wheel::lend(options, account)?
        && let Ok(found) = probe(&dir, account).await
    {
        return Ok(found);
    }
    let why = if !fits(wheel::MAJOR) {
        String::from("no PostgreSQL of the wanted version was found")
    } else if !options.allow_download {
        String::from("no PostgreSQL was found, and the settings do not allow a download")
    } else {
        match wheel::fetch(options, account, say).await {
            Ok(dir) => match probe(&dir, account).await {
                Ok(found) => return Ok(found),
                Err(why) => format!("the downloaded PostgreSQL does not run on this machine: {why}"),
            },
            Err(error) => format!("no PostgreSQL was found, and {error}"),
        }
    };
    match data {
        Some(data) => Err(other_major(data, &others)),
        None if others.is_empty() => Err(PrivateError::NoBinaries { why }),
        None => Err(PrivateError::NoBinaries { why: format!("{}; {why}", list(&others)) }),
    }
}

fn other_major(data: &Cluster, others: &[Binaries]) -> PrivateError {
    let found = if others.is_empty() { "no PostgreSQL was found".into() } else { list(others) };
    PrivateError::OtherMajor { cluster: data.dir.clone(), major: data.major, found }
}

fn list(others: &[Binaries]) -> String {
    let each: Vec<String> = others.iter().map(|one| format!("{} in {}", one.version, one.dir.display())).collect();
    format!("the installed versions are {}", each.join(", "))
}

fn too_old(found: &Binaries) -> String {
    format!("it has PostgreSQL {}, and umbra needs {OLDEST_MAJOR} or newer", found.version)
}

/// Returns every directory on this machine that may hold binaries, in order, each once.
fn candidates(options: &PrivateOptions) -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = options.program.iter().flat_map(|program| wheel::beside(program)).collect();
    dirs.extend(options.search_path.iter().flat_map(std::env::split_paths));
    dirs.extend(versions_below(Path::new("/usr/lib/postgresql"), "", "bin"));
    dirs.extend(versions_below(Path::new("/usr"), "pgsql-", "bin"));
    for prefix in ["/opt/homebrew/opt", "/usr/local/opt", "/home/linuxbrew/.linuxbrew/opt"] {
        dirs.extend(versions_below(Path::new(prefix), "postgresql@", "bin"));
        dirs.push(Path::new(prefix).join("postgresql/bin"));
    }
    dirs.extend(wheel::cached(options));
    let mut seen = Vec::new();
    for dir in dirs.iter().filter_map(|dir| real_bindir(dir)) {
        if !seen.contains(&dir) {
            seen.push(dir);
        }
    }
    seen
}

/// Returns directories `<parent>/<prefix><number>.../<rest>`, the highest number first.
pub(super) fn versions_below(parent: &Path, prefix: &str, rest: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u32, PathBuf)> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix(prefix)?.split('.').next()?;
            Some((version.parse().ok()?, entry.path().join(rest)))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, dir)| dir).collect()
}

/// Returns the directory that really holds `postgres` (links in a `PATH` directory are followed), if `initdb` is there
/// too.
fn real_bindir(dir: &Path) -> Option<PathBuf> {
    let real = fs::canonicalize(dir.join("postgres")).ok()?;
    let home = real.parent()?;
    [home, dir].into_iter().find(|dir| dir.is_absolute() && dir.join("initdb").is_file()).map(Path::to_path_buf)
}

/// Asks the binaries for their version, as the user who will run them.
async fn probe(dir: &Path, account: &Account) -> Result<Binaries, String> {
    let dir = real_bindir(dir).ok_or_else(|| String::from("it lacks `postgres` or `initdb`"))?;
    let mut command = account.command(&dir.join("postgres"), ChildOptions::default());
    command.arg("--version");
    let answer = run(command, "postgres --version", PROBE_LIMIT).await.map_err(|error| error.to_string())?;
    let (version, major) = parse_version(&answer).ok_or_else(|| format!("its version cannot be read: {answer}"))?;
    Ok(Binaries { dir, version, major })
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian ...)`.
pub(super) fn parse_version(answer: &str) -> Option<(String, u32)> {
    let version = answer.split_once("(PostgreSQL) ")?.1.split_whitespace().next()?;
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    Some((version.to_owned(), version.get(..digits)?.parse().ok()?))
}
