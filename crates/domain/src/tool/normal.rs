//! Normal form of tool names, in which everything that is configured by name is compared: rules, contracts, effects,
//! overrides, sessions and filters.

use std::fmt;

use super::ToolName;

/// Prefix of the tools of MCP servers, as several hosts name them.
const MCP: &str = "mcp__";
/// Most words of a name after which a server's name may end.
const MOST_SERVER_WORDS: usize = 8;

/// Tool name in normal form: words in lower case, joined by `_`. A word ends at `-`, `_`, a blank and before a capital.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NormalName {
    /// Name of the server, if known.
    pub server: Option<String>,
    /// Name of the tool at the server.
    pub own: String,
}

impl fmt::Display for NormalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "{server}.{}", self.own),
            None => f.write_str(&self.own),
        }
    }
}

/// Readings of a name: the tools that it may stand for.
///
/// `{server, name}`, `server.name`, `mcp__server__name`, `server__name`, `server/name` and `server:name` state the
/// server. `server_name` and `serverName` may be a tool of that server, or a tool with that whole name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readings {
    sure: NormalName,
    /// Readings other than `sure`.
    possible: Vec<NormalName>,
}

impl Readings {
    /// Returns the reading that the spelling itself gives.
    pub fn sure(&self) -> &NormalName {
        &self.sure
    }

    /// Returns every reading, the sure one first.
    pub fn all(&self) -> impl Iterator<Item = &NormalName> {
        std::iter::once(&self.sure).chain(&self.possible)
    }

    /// Returns the sure reading without separators, as [`ToolName::joined`] does.
    pub fn joined(&self) -> String {
        joined(&self.sure.to_string())
    }

    /// Adds the reading that the tool belongs to this server, in normal form.
    pub fn may_be_of(&mut self, server: String) {
        self.add(Some(server), self.sure.own.clone());
    }

    fn add(&mut self, server: Option<String>, own: String) {
        let reading = NormalName { server, own };
        if !reading.own.is_empty() && !self.all().any(|known| *known == reading) {
            self.possible.push(reading);
        }
    }
}

impl ToolName {
    /// Returns the name in normal form, by its spelling alone.
    pub fn normal(&self) -> NormalName {
        self.readings().sure
    }

    /// Returns the normal form without separators: equal for all spellings of one tool.
    pub fn joined(&self) -> String {
        joined(&self.normal().to_string())
    }

    /// Returns all readings of the name.
    pub fn readings(&self) -> Readings {
        let (server, name) = if let Some(server) = &self.server {
            (Some(without_mcp(server)), self.name.as_str())
        } else {
            let name = without_mcp(&self.name);
            split_server(name).map_or((None, name), |(server, name)| (Some(server), name))
        };
        let sure = NormalName { server: server.map(words), own: words(name) };
        let mut readings = Readings { sure, possible: Vec::new() };
        // A server may pass on another server's tool under both names.
        let mut rest = without_mcp(name);
        while let Some((server, own)) = split_server(rest) {
            readings.add(Some(words(server)), words(own));
            rest = own;
        }
        if server.is_none() {
            let whole = words(name);
            let whole = whole.strip_prefix("mcp_").unwrap_or(&whole);
            for (at, _) in whole.match_indices('_').take(MOST_SERVER_WORDS) {
                let (server, own) = whole.split_at(at);
                readings.add(Some(server.to_owned()), own.trim_start_matches('_').to_owned());
            }
        }
        readings
    }
}

/// Returns a pattern for tools in normal form: literal parts like names, wildcards unchanged.
pub fn normal_pattern(pattern: &str) -> String {
    let chars: Vec<char> = without_mcp(pattern.trim()).chars().collect();
    let mut spelled = String::with_capacity(pattern.len());
    let (mut brackets, mut has_server) = (false, false);
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let next = chars.get(at + 1).copied();
        let begins = spelled.is_empty() || spelled.ends_with(['.', '{', ',']);
        match c {
            '[' | ']' => {
                brackets = c == '[';
                spelled.push(c);
            }
            _ if brackets => spelled.extend(c.to_lowercase()),
            '{' | '}' | ',' => {
                has_server = false;
                spelled.push(c);
            }
            '.' | '/' | ':' | '_' if !has_server && !begins && (c != '_' || next == Some('_')) => {
                has_server = true;
                spelled.truncate(spelled.trim_end_matches('_').len());
                spelled.push('.');
            }
            '.' | '/' | ':' | '_' | '-' | ' ' => {
                if !begins && !spelled.ends_with('_') {
                    spelled.push('_');
                }
            }
            _ => {
                let before = at.checked_sub(1).and_then(|at| chars.get(at)).copied();
                if begins_word(before, c, next) && !begins && !spelled.ends_with('_') {
                    spelled.push('_');
                }
                spelled.extend(c.to_lowercase());
            }
        }
        at += 1;
    }
    spelled.truncate(spelled.trim_end_matches('_').len());
    spelled
}

/// Removes the separators from a name or a pattern in normal form.
pub fn joined(normal: &str) -> String {
    normal.replace(['.', '_'], "")
}

/// Returns the tool part of a pattern for `server.name` in normal form; `None` if it is for all tools of a server.
pub(super) fn own_part(pattern: &str) -> Option<&str> {
    let (server, own) = pattern.split_once('.')?;
    let closed = |open, close| server.matches(open).count() == server.matches(close).count();
    let names = own.chars().any(char::is_alphanumeric);
    (names && closed('{', '}') && closed('[', ']')).then_some(own)
}

/// Returns the words of a name, or of a part of it, joined by `_`.
fn words(name: &str) -> String {
    let chars: Vec<char> = name.chars().collect();
    let mut spelled = String::with_capacity(name.len() + 4);
    for (at, &c) in chars.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at)).copied();
        let parts = matches!(c, '_' | '-' | ' ' | '.' | '/' | ':');
        if (parts || begins_word(before, c, chars.get(at + 1).copied()))
            && !spelled.is_empty()
            && !spelled.ends_with('_')
        {
            spelled.push('_');
        }
        if !parts {
            spelled.extend(c.to_lowercase());
        }
    }
    spelled.truncate(spelled.trim_end_matches('_').len());
    if spelled.is_empty() { name.to_lowercase() } else { spelled }
}

/// True before a capital after a small letter or a digit, and before the last capital of several: `getURL`, `URLFor`.
fn begins_word(before: Option<char>, c: char, next: Option<char>) -> bool {
    let small = |c: char| c.is_lowercase() || c.is_numeric();
    c.is_uppercase()
        && before.is_some_and(|before| small(before) || before.is_uppercase() && next.is_some_and(char::is_lowercase))
}

/// Removes the prefix that hosts put before tools of MCP servers.
fn without_mcp(name: &str) -> &str {
    let rest = name.split_at_checked(MCP.len()).filter(|(prefix, _)| prefix.eq_ignore_ascii_case(MCP));
    rest.map(|(_, rest)| rest).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

/// Splits server and tool at the first separator that occurs in no word.
fn split_server(name: &str) -> Option<(&str, &str)> {
    let signs = ["__", ".", "/", ":"].into_iter().filter_map(|sign| Some((name.find(sign)?, sign)));
    let (at, sign) = signs.min()?;
    let (server, own) = (name.get(..at)?, name.get(at + sign.len()..)?);
    let says = |part: &str| part.chars().any(|c| !matches!(c, '_' | '-' | ' ' | '.' | '/' | ':'));
    (says(server) && says(own)).then_some((server, own))
}

#[cfg(test)]
mod tests {
    use super::{ToolName, normal_pattern, own_part};

    #[test]
    fn every_spelling_has_one_joined_form() {
        for name in [
            "stripe.process_refund",
            "Stripe.Process-Refund",
            "mcp__stripe__process_refund",
            "MCP__Stripe__ProcessRefund",
            "stripe__process_refund",
            "stripe/process refund",
            "stripe:processRefund",
            "stripe_process_refund",
            "stripeProcessRefund",
        ] {
            assert_eq!(ToolName::bare(name).readings().joined(), "stripeprocessrefund", "{name}");
        }
        for name in ["process_refund", "ProcessRefund", "process-refund", "PROCESS REFUND", "process_refund "] {
            let tool = ToolName::of("Stripe", name).normal();
            assert_eq!(tool.to_string(), "stripe.process_refund", "{name}");
        }
    }

    #[test]
    fn readings_start_with_the_spelled_name() {
        for (name, readings) in [
            ("send", &["send"][..]),
            ("mail__send_now", &["mail.send_now"]),
            ("mcp__umbra__mail__send", &["umbra.mail_send", "mail.send"]),
            ("mcp__mail", &["mail"]),
            ("create_payment", &["create_payment", "create.payment"]),
            ("mcp_mail_send", &["mcp_mail_send", "mail.send"]),
            ("__x", &["x"]),
            ("getURL", &["get_url", "get.url"]),
            ("listS3Buckets", &["list_s3_buckets", "list.s3_buckets", "list_s3.buckets"]),
            ("c++", &["c++"]),
        ] {
            let found: Vec<String> = ToolName::bare(name).readings().all().map(ToString::to_string).collect();
            assert_eq!(found, readings, "{name}");
        }
        let passed_on = ToolName::of("mcp", "stripe__process_refund").readings();
        let found: Vec<String> = passed_on.all().map(ToString::to_string).collect();
        assert_eq!(found, ["mcp.stripe_process_refund", "stripe.process_refund"]);
    }

    #[test]
    fn patterns_keep_their_wildcards() {
        for (pattern, normal) in [
            ("Files.get-[a-z]*", "files.get_[a-z]*"),
            ("mcp__stripe__*", "stripe.*"),
            ("stripe/processRefund", "stripe.process_refund"),
            ("delete_*", "delete_*"),
            ("*.deleteAll", "*.delete_all"),
            ("{stripe.a-b,github.c}", "{stripe.a_b,github.c}"),
            ("a.b.c", "a.b_c"),
            ("*", "*"),
        ] {
            assert_eq!(normal_pattern(pattern), normal, "{pattern}");
        }
    }

    #[test]
    fn a_pattern_for_all_of_a_server_has_no_own_part() {
        for (pattern, own) in [
            ("stripe.process_refund", Some("process_refund")),
            ("stripe.delete_*", Some("delete_*")),
            ("stripe.*", None),
            ("delete_*", None),
            ("{stripe.a,github.b}", None),
        ] {
            assert_eq!(own_part(pattern), own, "{pattern}");
        }
    }
}
