//! Judges paths by their names; no disk is read. [`classify`] gives the kind of a path, by the loss that deleting it
//! causes, with `.` and `..` resolved. Other functions tell if it is a file that the system depends on, a database, a
//! history, a disk or a credential. `matches` compares shell patterns.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

/// Kind of a path, from the least loss to the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathKind {
    /// File under a directory for temporary files.
    Temporary,
    /// Output that a build creates again.
    Rebuilt,
    /// File or directory below the working directory.
    Inside,
    /// File or directory outside of the working directory, or a repository's own data.
    Outside,
    /// Working directory itself, or everything in it.
    Here,
    /// Home directory of a person, or a directory directly in it.
    Home,
    /// Directory of the system, device, or root.
    System,
}

/// Directories that builds and package managers create.
const REBUILT: &str = "\
    build _build dist target out output node_modules __pycache__ .cache cache tmp temp .tmp .next .nuxt .turbo \
    .parcel-cache coverage .coverage .pytest_cache .mypy_cache .ruff_cache .tox venv .venv .gradle .terraform \
    htmlcov cmake-build-debug cmake-build-release .eggs obj artifacts logs bower_components .svelte-kit";

const SYSTEM: &str = "\
    bin boot dev etc lib lib32 lib64 opt proc root run sbin sys usr var System Library Applications Volumes \
    Windows mnt media srv * data private";

/// Returns the kind of a path.
pub fn classify(path: &str) -> PathKind {
    let path = path.trim_matches(['"', '\'']);
    let home =
        path.strip_prefix('~').or_else(|| path.strip_prefix("$HOME")).or_else(|| path.strip_prefix("$USERPROFILE"));
    if let Some(rest) = home.filter(|rest| rest.is_empty() || rest.starts_with('/')) {
        return below_home(&resolve(rest));
    }
    // `~root`, `~deploy/x`
    if let Some(user) = path.strip_prefix('~') {
        return below_home(user.split_once('/').map(|(_, rest)| resolve(rest)).unwrap_or_default().as_slice());
    }
    if path.as_bytes().get(1) == Some(&b':') && path.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return PathKind::System;
    }
    for variable in ["$TMPDIR", "$TMP", "$TEMP", "$RUNNER_TEMP"] {
        if let Some(rest) = path.strip_prefix(variable).filter(|rest| rest.is_empty() || rest.starts_with('/')) {
            return classify(&format!("/tmp{rest}"));
        }
    }
    if path.starts_with('$') {
        // The variable's value is unknown; where it is empty, `$X/*` is the root.
        let bare = path.split_once('/').is_some_and(|(_, rest)| rest.is_empty() || rest.starts_with('*'));
        return if bare { PathKind::Outside } else { PathKind::Inside };
    }
    if path.starts_with('/') { absolute(&resolve(path)) } else { relative(&resolve(path)) }
}

/// Returns the parts of a path, without `.`, and with `..` resolved where a part stands before it.
fn resolve(path: &str) -> Vec<&str> {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            ("..", None) if absolute => {}
            _ => parts.push(part),
        }
    }
    parts
}

fn is_rebuilt(name: &str) -> bool {
    REBUILT.split(' ').any(|known| known == name)
        || name.ends_with(".egg-info")
        || name.starts_with("bazel-")
        || name.starts_with("dist-")
}

fn below_home(parts: &[&str]) -> PathKind {
    match parts {
        [] | ["*"] => PathKind::Home,
        [".cache" | "tmp", ..]
        | [".npm", "_cacache" | "_logs", ..]
        | [".gradle", "caches", ..]
        | [".cargo", "registry", ..]
        | [".m2", "repository", ..]
        | ["Library", "Caches", _, ..]
        | ["Library", "Developer", "Xcode", "DerivedData", ..] => PathKind::Rebuilt,
        [.., last] if is_rebuilt(last) => PathKind::Rebuilt,
        [_] => PathKind::Home,
        _ => PathKind::Outside,
    }
}

fn absolute(parts: &[&str]) -> PathKind {
    match parts {
        ["tmp", ..] | ["var" | "private", "tmp", ..] | ["dev", "shm", ..] | ["private", "var", "folders", ..] => {
            PathKind::Temporary
        }
        ["var", "cache", _, ..] | ["var", "lib", "apt", "lists", ..] => PathKind::Rebuilt,
        ["root", rest @ ..] | ["home" | "Users", _, rest @ ..] if !rest.is_empty() => below_home(rest),
        ["root" | "home" | "Users", ..] => PathKind::Home,
        ["bin" | "boot" | "dev" | "etc" | "lib" | "lib64" | "proc" | "sbin" | "sys" | "usr", ..] => PathKind::System,
        [first, .., last] if is_rebuilt(last) && (*first != "var" || parts.len() > 2) => PathKind::Rebuilt,
        [first, _, ..] if !SYSTEM.split(' ').any(|known| known == *first) => PathKind::Outside,
        _ => PathKind::System,
    }
}

fn relative(parts: &[&str]) -> PathKind {
    match parts {
        [] | ["*" | ".*" | "**"] | [".", "*"] => PathKind::Here,
        ["..", ..] if parts.iter().all(|part| matches!(*part, ".." | "*")) => PathKind::Here,
        ["..", .., last] if is_rebuilt(last) => PathKind::Rebuilt,
        ["..", ..] | [".git"] => PathKind::Outside,
        [.., last] if is_rebuilt(last) => PathKind::Rebuilt,
        [first, ..] if is_rebuilt(first) => PathKind::Rebuilt,
        _ => PathKind::Inside,
    }
}

/// True if the system depends on the file: overwritten, the host may not start, or may run foreign code.
pub fn is_guarded(path: &str) -> bool {
    let parts = resolve(path);
    if !path.starts_with('/') {
        return path.get(1..).is_some_and(|rest| rest.to_ascii_lowercase().starts_with(":\\windows\\"));
    }
    match parts.as_slice() {
        ["dev", name, ..] => *name == "mem" || *name == "kmem" || *name == "port",
        ["bin" | "boot" | "efi" | "etc" | "lib" | "lib32" | "lib64" | "proc" | "sbin" | "sys", ..] => {
            parts.len() > 1 && !own_process(&parts)
        }
        ["usr", "bin" | "lib" | "lib64" | "sbin", _, ..] | ["System", ..] => true,
        ["var", "lib", data, _, ..] => {
            matches!(*data, "mysql" | "postgresql" | "docker" | "mongodb" | "dpkg" | "rpm" | "etcd")
        }
        _ => false,
    }
}

/// True for files of the process itself: `/proc/self/oom_score_adj`, `/proc/$$/…`.
fn own_process(parts: &[&str]) -> bool {
    matches!(parts, ["proc", "self" | "thread-self" | "$$", ..])
}

/// True if the path is a file that holds a database or a copy of one, by its ending.
pub fn is_data(path: &str) -> bool {
    const ENDINGS: [&str; 18] = [
        "db", "db3", "sqlite", "sqlite3", "sdb", "mdb", "accdb", "rdb", "aof", "ibd", "mdf", "ldf", "dump", "bak",
        "realm", "kdbx", "parquet", "duckdb",
    ];
    let ending = path.rsplit('/').next().and_then(|name| name.rsplit_once('.')).map_or("", |(_, ending)| ending);
    ENDINGS.iter().any(|known| known.eq_ignore_ascii_case(ending))
}

/// True if the path is the history of a shell or of a database's client.
pub fn is_history(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with('.') && name.ends_with("_history") || name == "ConsoleHost_history.txt" || path == "$HISTFILE"
}

/// True if the path is a whole disk or a partition.
pub fn is_disk(path: &str) -> bool {
    let name = path.strip_prefix("/dev/").unwrap_or_default();
    ["sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "mapper/", "md", "loop"]
        .iter()
        .any(|kind| name.starts_with(kind))
        || path.starts_with("\\\\.\\PhysicalDrive")
}

/// True if a text names a file whose content is a credential, such as `~/.ssh/id_rsa` or `.env`.
pub fn is_credential_file(text: &str) -> bool {
    const PLACES: &str = "\
        /etc/gshadow|/etc/master.passwd|/etc/security/opasswd|/etc/krb5.keytab|privkey.pem|_key.pem|-key.pem|\
        _rsa.key|private.key|private_key|.terraform.d/credentials|.config/rclone/rclone.conf|.cargo/credentials|\
        .config/doctl|accessTokens.json|service-account.json|serviceAccount.json|key4.db|.ssh/id_|.ssh/*|id_rsa|\
        id_ed25519|id_ecdsa|.aws/credentials|.netrc|_netrc|.npmrc|.pypirc|.pgpass|.my.cnf|.kube/config|\
        .docker/config.json|.git-credentials|/etc/shadow|.config/gcloud|.azure/accessTokens|.gnupg/|\
        login.keychain|Login Data|.config/gh/hosts|.vault-token|wallet.dat|/proc/self/environ|credentials.json";
    /// Every such name contains one of these. The function runs for each argument of each command; few get further.
    static SIGNS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::new(PLACES.split('|').chain([".env", "/.ssh", "/.kube", "/.aws"])).ok());
    if !SIGNS.as_ref().is_some_and(|signs| signs.is_match(text)) {
        return false;
    }
    let env_file = text
        .split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '@' | '/' | '=' | '<' | '(' | ')'))
        .any(|part| {
            part == ".env"
                || part
                    .strip_prefix(".env.")
                    .is_some_and(|kind| !["example", "sample", "template", "dist"].contains(&kind))
        });
    let key_dir = ["/.ssh", "/.kube", "/.aws"].iter().any(|dir| text.trim_end_matches('/').ends_with(dir));
    let public = text.rsplit('.').next() == Some("pub");
    !public && (env_file || key_dir || PLACES.split('|').any(|place| text.contains(place)))
}

/// True if a pattern such as `/e?c/sh*w` names a file that holds credentials.
pub fn names_credential(pattern: &str) -> bool {
    const FILES: [&str; 6] = [
        "/etc/shadow",
        "/etc/gshadow",
        "~/.ssh/id_rsa",
        "~/.ssh/id_ed25519",
        "~/.aws/credentials",
        "/root/.ssh/id_rsa",
    ];
    pattern.contains(['?', '*', '[']) && pattern.len() > 6 && FILES.iter().any(|file| matches(pattern, file))
}

/// True if a shell pattern of `*`, `?` and `[…]` matches a text. The time is the product of both lengths, which callers
/// keep short.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    const LONGEST: usize = 64;
    let pattern = pattern.as_bytes();
    if pattern.len() > LONGEST || text.len() > LONGEST {
        return false;
    }
    // Prefixes of the pattern that the text so far can match.
    let mut reached = vec![false; pattern.len() + 1];
    let spread = |reached: &mut Vec<bool>| {
        for at in 0..pattern.len() {
            if pattern.get(at) == Some(&b'*') && reached.get(at) == Some(&true) {
                reached.iter_mut().skip(at + 1).take(1).for_each(|next| *next = true);
            }
        }
    };
    reached.iter_mut().take(1).for_each(|first| *first = true);
    spread(&mut reached);
    for byte in text.bytes() {
        let mut next = vec![false; pattern.len() + 1];
        for at in (0..pattern.len()).filter(|at| reached.get(*at) == Some(&true)) {
            let rest = pattern.get(at..).unwrap_or_default();
            let to = match rest {
                [b'*', ..] => Some(at),
                [b'?', ..] => Some(at + 1),
                [b'[', set @ ..] => {
                    let end = memchr::memchr(b']', set);
                    end.filter(|end| set.get(..*end).is_some_and(|set| set.contains(&byte) || set.contains(&b'-')))
                        .map(|end| at + end + 2)
                }
                [own, ..] if *own == byte => Some(at + 1),
                _ => None,
            };
            next.iter_mut().skip(to.unwrap_or(usize::MAX)).take(1).for_each(|cell| *cell = true);
        }
        spread(&mut next);
        reached = next;
    }
    reached.last() == Some(&true)
}
