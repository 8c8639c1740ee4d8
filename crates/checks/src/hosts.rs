//! Hosts in texts and commands. In: a text. Out: the hosts of its URLs and logins, beyond this machine and its network.
//! Hosts reserved for documentation (`example.com`) count like any other; only the search for leaving data skips them
//! ([`is_outside`]).

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::word_lists;
use umbra_domain::FieldName;

/// True if a text begins with the URL of a network resource.
pub(super) fn is_url(text: &str) -> bool {
    let text = text.trim_start();
    ["http://", "https://", "ftp://", "ws://", "wss://", "ssh://", "sftp://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
}

/// Returns the outside hosts of the URLs in a text.
pub(super) fn hosts(text: &str) -> impl Iterator<Item = String> {
    text.match_indices("://").filter_map(move |(at, mark)| {
        let authority: String = text
            .get(at + mark.len()..)?
            .chars()
            .take(300)
            .take_while(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | ':' | '%' | '[' | ']'))
            .collect();
        let host = authority.rsplit('@').next().unwrap_or(&authority);
        let host =
            if host.starts_with('[') { host.trim_matches(['[', ']']) } else { host.split(':').next().unwrap_or(host) };
        is_remote(host).then(|| host.to_ascii_lowercase())
    })
}

/// Returns the outside host of an argument named `host` or similar.
pub(super) fn named_host(field: &FieldName, text: &str) -> Option<String> {
    let key = field.as_str().rsplit('.').next().unwrap_or_default();
    let named = ["host", "hostname", "server", "domain"].iter().any(|name| key.eq_ignore_ascii_case(name));
    let host = text.split(':').next().unwrap_or(text);
    let form = host.len() <= 253 && host.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-'));
    (named && form && is_remote(host)).then(|| host.to_ascii_lowercase())
}

/// Most words of a command that are searched for its program.
const MOST_WORDS: usize = 8;

/// Returns the outside host that a script connects to: by a network program, or from code that it runs. A URL in a
/// message, a comment or a written file is only text.
pub(super) fn reached(script: &str) -> Option<String> {
    const INTERPRETERS: [&str; 10] = ["python", "python3", "node", "ruby", "perl", "php", "deno", "bun", "bash", "sh"];
    const REMOTE: [&str; 8] = ["clone", "fetch", "pull", "push", "remote", "ls-remote", "submodule", "archive"];
    if let Some(host) = remote_login(script) {
        return Some(host);
    }
    if !script.contains("://") {
        return None;
    }
    for part in script.split(['\n', ';', '|', '&']) {
        let words = || {
            part.split(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '(' | '`'))
                .filter(|word| !word.is_empty())
        };
        // Behind `sudo`, `env`, `time`, a variable or the bracket of a substitution.
        let programs =
            words().take_while(|word| !word.contains("://")).map(|word| word.rsplit('/').next().unwrap_or(word));
        let mut silent = false;
        for (place, program) in programs.take(MOST_WORDS).enumerate() {
            let lower = program.to_ascii_lowercase();
            silent |= place == 0
                && (lower.starts_with('#')
                    || ["echo", "printf", "grep", "rg", "sed", "awk", "cat"].contains(&lower.as_str()));
            let substituted = part.contains("$(") || part.contains('`');
            if silent && !substituted {
                break;
            }
            let goes = word_lists::lists("network_programs", &lower)
                || lower == "git" && words().any(|word| REMOTE.contains(&word));
            if goes && let Some(host) = hosts(part).next() {
                return Some(host);
            }
            let runs = INTERPRETERS.contains(&lower.as_str())
                && (part.contains("<<") || words().any(|word| matches!(word, "-c" | "-e" | "-r" | "eval")));
            if runs && let Some(host) = hosts(script).next() {
                return Some(host);
            }
        }
    }
    None
}

/// Returns the host that `ssh`, `scp`, `sftp` or `rsync` logs in to.
fn remote_login(script: &str) -> Option<String> {
    let mut words = script
        .split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '\'' | '"'))
        .filter(|word| !word.is_empty());
    words.by_ref().find(|word| matches!(word.rsplit('/').next(), Some("ssh" | "scp" | "sftp" | "rsync")))?;
    words.take(12).find_map(|word| {
        let (_, rest) = word.split_once('@')?;
        let host = rest.split(':').next().unwrap_or(rest);
        is_remote(host).then(|| host.to_ascii_lowercase())
    })
}

/// True if a host is beyond the machine and its network, and not reserved for documentation.
pub(super) fn is_outside(host: &str) -> bool {
    is_remote(host) && !is_documentation(host)
}

/// True if a host is beyond the machine, its network and the names that RFC 6761 reserves for them.
fn is_remote(host: &str) -> bool {
    const LOCAL: [&str; 7] = ["test", "invalid", "localhost", "local", "internal", "lan", "home.arpa"];
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        let own = address.is_loopback() || address.is_private() || address.is_link_local();
        return !own && !address.is_unspecified();
    }
    if let Ok(address) = host.parse::<Ipv6Addr>() {
        let own = address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local();
        return !own && !address.is_unspecified();
    }
    host.contains('.') && !is_below_any(&host, &LOCAL)
}

/// True if a host is reserved for documentation (RFC 2606, RFC 5737).
fn is_documentation(host: &str) -> bool {
    const EXAMPLES: [&str; 4] = ["example.com", "example.org", "example.net", "example"];
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_documentation()) || is_below_any(&host, &EXAMPLES)
}

fn is_below_any(host: &str, names: &[&str]) -> bool {
    names.iter().any(|name| host == *name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')))
}
