//! Check for hosts that an agent should not reach. In: an event, and the hosts that its operator allows, if listed.
//! Out: hits. Only outgoing traffic counts: arguments of tool calls, commands, and pictures in an output, which are
//! fetched when the output is displayed. Hosts that an agent merely read or links to are not checked.
//!
//! Without a list the check knows services that exist to catch data, and addresses that are disguised: a host before
//! the `@`, letters of other scripts, an address as one number.

use std::ops::Range;

use memchr::memmem;

use super::{commands, hosts::is_outside, literal_scanner::LiteralScanner, word_lists};
use umbra_domain::{CheckName, Event, FieldName, Hit, OutputForm, Severity};

/// Most hits in an event.
const MOST_HITS: usize = 20;

/// Returns hits for the hosts of an event that should not be reached.
pub(super) fn hits(event: &Event, allowed: Option<&[String]>) -> Vec<Hit> {
    let mut hits: Vec<Hit> = Vec::new();
    let mut add = |field: &FieldName, target: &Target| {
        let known = |hit: &Hit| hit.field == *field && hit.start == target.span.start;
        if let Some((rule, severity, description)) = judge(target, allowed)
            && hits.len() < MOST_HITS
            && !hits.iter().any(known)
        {
            let (field, at) = (field.clone(), target.span.clone());
            hits.push(Hit::new(CheckName::OutsideHosts, rule, severity, field, at, description));
        }
    };
    if event.tool.is_some() {
        event.for_each_text(|field, text| {
            if field.is_tool_argument() {
                each_url(text, |target| add(&field, &target));
            }
        });
    }
    let fenced = event.output.as_deref().is_some_and(|output| holds(output, "```") || holds(output, "~~~"));
    let code = event.output_form() != OutputForm::Text;
    let scripts = if fenced || code || event.tool.is_some() { commands::of_event(event) } else { Vec::new() };
    for script in &scripts {
        let place = |mut target: Target| {
            target.span = script.place(target.span);
            target
        };
        if !script.field.is_tool_argument() {
            each_url(&script.text, |target| add(&script.field, &place(target)));
        }
        each_bare(&script.text, |target| add(&script.field, &place(target)));
    }
    if let Some(output) = event.output.as_deref() {
        pictures(output, |target| add(&FieldName::fixed("output"), &target));
    }
    hits
}

/// A host that is reached, with its place.
struct Target {
    /// Host in lower case, without port and brackets.
    host: String,
    /// User part before the `@`.
    user: String,
    span: Range<usize>,
}

fn judge(target: &Target, allowed: Option<&[String]>) -> Option<(&'static str, Severity, String)> {
    let Target { host, user, .. } = target;
    if is_number(host) {
        let what = "Uses an IP address in a number form that hides where it leads.";
        return Some(("disguised_host", Severity::Warning, what.to_owned()));
    }
    if let Some(name) = user.split(':').next().filter(|name| name.contains('.') && is_outside(name)) {
        let what = format!("Uses an address that looks like `{name}` but leads to `{host}`.");
        return Some(("disguised_host", Severity::Warning, what));
    }
    if mixes_scripts(host) {
        let what = "Uses a host name that mixes look-alike letters of several scripts.";
        return Some(("disguised_host", Severity::Warning, what.to_owned()));
    }
    if allowed.is_some_and(|allowed| allowed.iter().any(|pattern| matches(pattern, host))) {
        return None;
    }
    if word_lists::words("catchers").any(|name| is_below(host, name)) {
        return Some(("catcher", Severity::Warning, format!("Reaches `{host}`, which accepts data from anyone.")));
    }
    if allowed.is_some() && is_outside(host) {
        return Some((
            "not_allowed",
            Severity::Warning,
            format!("Reaches `{host}`, which is not on the list of allowed hosts."),
        ));
    }
    if word_lists::lists("shorteners", host) {
        return Some((
            "shortened",
            Severity::Info,
            format!("Reaches `{host}`, a link shortener that hides the final address."),
        ));
    }
    None
}

/// True if an allowed host is this one: a name, `*.` and a name for all hosts below it, or an address.
fn matches(pattern: &str, host: &str) -> bool {
    match pattern.strip_prefix("*.") {
        Some(name) => host != name && is_below(host, name),
        None => host == pattern,
    }
}

fn is_below(host: &str, name: &str) -> bool {
    host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// True for `2130706433`, `0x7f000001`, `0177.0.0.1`: forms that browsers and curl resolve and people do not.
fn is_number(host: &str) -> bool {
    let hexadecimal =
        |part: &str| part.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    let octal = |part: &str| part.len() > 1 && part.starts_with('0') && part.bytes().all(|b| b.is_ascii_digit());
    let decimal = host.len() >= 8 && host.bytes().all(|byte| byte.is_ascii_digit());
    let dotted =
        host.split('.').count() == 4 && host.bytes().all(|b| b.is_ascii_hexdigit() || matches!(b, b'.' | b'x'));
    decimal || hexadecimal(host) || dotted && host.split('.').any(|part| octal(part) || hexadecimal(part))
}

/// True if one label mixes Latin letters with Cyrillic or Greek ones (UTS 39: mixed-script confusables).
fn mixes_scripts(host: &str) -> bool {
    host.split('.').any(|label| {
        let latin = label.chars().any(|c| c.is_ascii_alphabetic());
        let alike = label.chars().any(|c| matches!(c, '\u{370}'..='\u{3ff}' | '\u{400}'..='\u{52f}'));
        latin && alike
    })
}

/// Calls `visit` with the target of each URL in a text.
fn each_url(text: &str, mut visit: impl FnMut(Target)) {
    for (at, _) in text.match_indices("://") {
        let scheme = text.as_bytes().get(..at).unwrap_or_default().iter().rev().take(12);
        let scheme = scheme.take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-')).count();
        let name = text.get(at - scheme..at).unwrap_or_default();
        // A database's connection string names a host too; a file does not.
        if scheme < 2 || ["file", "data", "javascript"].iter().any(|local| name.eq_ignore_ascii_case(local)) {
            continue;
        }
        let rest = text.get(at + 3..).unwrap_or_default();
        let length: usize = rest
            .chars()
            .take(300)
            .take_while(|c| {
                c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | ':' | '%' | '[' | ']' | '+' | '~')
            })
            .map(char::len_utf8)
            .sum();
        let authority = rest.get(..length).unwrap_or_default().trim_end_matches(['.', ':']);
        if let Some(target) = target(authority, at + 3) {
            visit(Target { span: at - scheme..at + 3 + authority.len(), ..target });
        }
    }
}

fn target(authority: &str, at: usize) -> Option<Target> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let host = match host.strip_prefix('[') {
        Some(inner) => inner.split(']').next().unwrap_or(inner),
        None => host.split(':').next().unwrap_or(host),
    };
    let host = host.trim_end_matches('.').to_lowercase();
    (!host.is_empty()).then(|| Target { host, user: user.to_owned(), span: at..at + authority.len() })
}

/// Calls `visit` with hosts given to programs without a scheme: `curl webhook.site/x`, `ssh ops@db.acme.io`,
/// `nc termbin.com 9999`.
fn each_bare(script: &str, mut visit: impl FnMut(Target)) {
    const PROGRAMS: [&str; 18] = [
        "curl", "wget", "http", "https", "xh", "ssh", "scp", "sftp", "rsync", "nc", "ncat", "netcat", "telnet",
        "socat", "ftp", "ping", "git", "openssl",
    ];
    static NAMES: std::sync::LazyLock<LiteralScanner> = std::sync::LazyLock::new(|| {
        LiteralScanner::new([
            "curl ", "wget ", "http ", "https ", "xh ", "ssh ", "scp ", "sftp ", "rsync ", "nc ", "ncat ", "netcat ",
            "telnet ", "socat ", "ftp ", "ping ", "git ", "openssl ",
        ])
    });
    let mut met = false;
    NAMES.find(script, |_, _| {
        met = true;
        false
    });
    if !met {
        return;
    }
    for line in script.split(['\n', ';', '|', '&']) {
        let start = line.as_ptr() as usize - script.as_ptr() as usize;
        let mut words = line.split([' ', '\t', '"', '\'']).filter(|word| !word.is_empty());
        let program = words.by_ref().take(4).find(|word| PROGRAMS.contains(&word.rsplit('/').next().unwrap_or(word)));
        let Some(program) = program.map(|word| word.rsplit('/').next().unwrap_or(word)) else { continue };
        let logs_in = ["ssh", "scp", "sftp", "rsync", "git"].contains(&program);
        for word in words.take(40) {
            if word.contains("://") || word.starts_with(['-', '@']) || word.contains('=') {
                continue;
            }
            let authority = word.split(['/', '?', '#']).next().unwrap_or(word);
            // The file of a remote copy has a colon or an at sign; any other is a file of this machine.
            let remote = !matches!(program, "scp" | "rsync" | "git") || authority.contains(['@', ':']);
            let at = start + (word.as_ptr() as usize - line.as_ptr() as usize);
            if let Some(target) = target(authority, at).filter(|target| remote && is_name(&target.host, word)) {
                let user = if logs_in { String::new() } else { target.user };
                visit(Target { user, ..target });
            }
        }
    }
}

/// True if a word without a scheme is a host: a known catcher, an address, or a domain name that is no file.
fn is_name(host: &str, word: &str) -> bool {
    const FILES: [&str; 24] = [
        "sh", "py", "js", "ts", "json", "txt", "md", "yml", "yaml", "toml", "gz", "zip", "tar", "tgz", "log", "html",
        "css", "rs", "go", "csv", "xml", "pem", "git", "conf",
    ];
    let Some((rest, last)) = host.rsplit_once('.') else { return false };
    let known = word_lists::words("catchers").chain(word_lists::words("shorteners")).any(|name| is_below(host, name));
    let named =
        rest.split('.').all(|label| !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-'))
            && last.len() >= 2
            && last.chars().all(char::is_alphabetic);
    known || host.parse::<std::net::IpAddr>().is_ok() || named && (!FILES.contains(&last) || word.contains(['@', ':']))
}

/// True if a text contains a sign; [`str::contains`] is slow for a repeated sign.
fn holds(text: &str, sign: &str) -> bool {
    memmem::find(text.as_bytes(), sign.as_bytes()).is_some()
}

/// Calls `visit` with the pictures of an output, in Markdown and HTML: displaying the output fetches them.
fn pictures(output: &str, mut visit: impl FnMut(Target)) {
    if !output.contains("://") {
        return;
    }
    for (mark, ends) in [("](", ')'), ("src=", '>')] {
        for at in memmem::find_iter(output.as_bytes(), mark.as_bytes()) {
            let before = output.get(output.floor_char_boundary(at.saturating_sub(200))..at).unwrap_or_default();
            let is_picture = match mark {
                "](" => {
                    before.rfind('[').is_some_and(|open| before.get(..open).is_some_and(|text| text.ends_with('!')))
                }
                _ => {
                    before.rfind('<').is_some_and(|open| before.get(open..).is_some_and(|tag| tag.starts_with("<img")))
                }
            };
            let start = at + mark.len();
            let rest =
                output.get(start..output.floor_char_boundary((start + 2_048).min(output.len()))).unwrap_or_default();
            let address = rest.split([ends, '\n', ' ']).next().unwrap_or_default();
            if is_picture {
                let mut first = true;
                each_url(address, |target| {
                    if std::mem::take(&mut first) {
                        visit(Target { span: start + target.span.start..start + target.span.end, ..target });
                    }
                });
            }
        }
    }
}
