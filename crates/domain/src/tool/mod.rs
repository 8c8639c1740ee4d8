//! A tool as an agent calls it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

/// What a tool is called. Shown as `server.name`, or as the name alone where no server is known.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema, utoipa::ToSchema,
)]
pub struct ToolName {
    /// The server that offers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Its name there.
    pub name: String,
}

/// What clients put before the names of servers.
const MCP: &str = "mcp__";
/// Most servers in a row whose names are looked for in a tool's.
const READINGS: usize = 4;

/// What stands behind the word that clients of MCP put before servers and tools.
fn after_mcp(name: &str) -> Option<&str> {
    let (prefix, rest) = name.split_at_checked(MCP.len())?;
    (prefix.eq_ignore_ascii_case(MCP) && !rest.is_empty()).then_some(rest)
}

impl ToolName {
    /// A tool of a server.
    pub fn of(server: impl Into<String>, name: impl Into<String>) -> Self {
        Self { server: Some(server.into()), name: name.into() }
    }

    /// A tool without a server.
    pub fn bare(name: impl Into<String>) -> Self {
        Self { server: None, name: name.into() }
    }

    /// The tool of a server whose name is glued to its own, as clients show it that have one list of tools:
    /// `server__tool`, `mcp__server__tool`, `server/tool` or `server:tool`. Of a tool of a known server, the one that this
    /// server passes on under such a name.
    pub fn unglued(&self) -> Option<Self> {
        if let Some(server) = self.server.as_deref().and_then(after_mcp) {
            return Some(Self::of(server, &*self.name));
        }
        let name = after_mcp(&self.name).unwrap_or(&self.name);
        if self.server.is_none() && name.contains('.') {
            return (name.len() < self.name.len()).then(|| Self::bare(name));
        }
        let (server, name) = name.split_once("__").or_else(|| name.split_once(['/', ':']))?;
        (!server.is_empty() && !name.is_empty()).then(|| Self::of(server, name))
    }

    /// It, and what it may stand for: as it is, and with each server's name taken off that is glued to it.
    pub fn readings(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::unglued).take(READINGS)
    }

    /// The name under which what was done with a tool is kept together: its server's, though it was glued to it.
    pub fn plain(&self) -> Canonical {
        let unglued = if self.server.is_none() { self.unglued() } else { None };
        unglued.as_ref().unwrap_or(self).canonical()
    }

    /// The name by which rules, contracts, effects and overrides go: one for every spelling that a caller may choose.
    pub fn canonical(&self) -> Canonical {
        let whole = canonical(&self.to_string());
        let own = match &self.server {
            Some(_) => Some(canonical(&self.name)),
            None => whole.split_once('.').map(|(_, own)| own.to_owned()),
        };
        Canonical { own: own.clone().unwrap_or_else(|| whole.clone()), has_server: own.is_some(), whole }
    }
}

/// A tool's name in the spelling in which names are compared. Made by [`ToolName::canonical`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canonical {
    /// `server.name`, or the name alone where no server is known.
    pub whole: String,
    /// Its name at its server.
    pub own: String,
    /// Whether its server is known. Where it is not, it may be any server's tool of that name.
    pub has_server: bool,
}

/// The one spelling of a tool's name, or of a pattern for such names: small letters, and `_` for `-` and for blanks, since
/// who looks tools up by name may take one for the other. Between the brackets of a pattern, `-` is a range and stays.
pub fn canonical(name: &str) -> String {
    let mut brackets = false;
    let mut spelled = String::with_capacity(name.len());
    // No blanks beside the sign between a server and its tool.
    let name = name.split('.').map(str::trim).collect::<Vec<_>>().join(".");
    for c in name.chars() {
        match c {
            '[' => brackets = true,
            ']' => brackets = false,
            _ => {}
        }
        match c {
            '-' | ' ' if !brackets => spelled.push('_'),
            c => spelled.extend(c.to_lowercase()),
        }
    }
    spelled
}

/// What a pattern for `server.name` says of the name alone; nothing where it is for all tools of a server.
pub fn own_part(pattern: &str) -> Option<&str> {
    let (server, own) = pattern.split_once('.')?;
    let closed = |open, close| server.matches(open).count() == server.matches(close).count();
    let names = own.chars().any(char::is_alphanumeric);
    (names && closed('{', '}') && closed('[', ']')).then_some(own)
}

/// A name as it may be kept and shown, and still cannot be called: U+FFFD stands for each sign that cannot be seen.
pub fn visible_tool_name(name: &str) -> String {
    name.chars().map(|c| if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn is_plain(c: char) -> bool {
    // Letters by their category, and yet not to be seen.
    let is_filler = matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
    c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric() && !is_filler
}

/// Whether a tool, or its server, can be called so: letters and digits of any script, and the visible signs of ASCII.
/// Anything else can be left out, swapped or not seen by whoever looks the tool up, and rules would be held against
/// another name than the one that runs.
///
/// # Errors
/// What to write instead.
pub fn plain_tool_name(name: &str) -> Result<(), &'static str> {
    if name.trim() == name && name.chars().all(is_plain) {
        Ok(())
    } else {
        Err(
            "a tool's name has letters, digits and visible signs of ASCII, and no blank at its ends: send the very name that \
             runs, without control characters, invisible ones and combining marks",
        )
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "{server}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Reads tools, each as a text (`server.name`, or the name alone) or in two parts.
pub(super) fn named_or_in_parts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ToolName>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = r#"expected a tool: its name, or {"server": "mail", "name": "send"}"#)]
    enum Either {
        Named(String),
        InParts(ToolName),
    }
    let tools = Vec::<Either>::deserialize(from)?.into_iter().map(|tool| match tool {
        Either::Named(name) => ToolName::bare(name),
        Either::InParts(tool) => tool,
    });
    Ok(tools.collect())
}

/// What a server says of its tool: hints of the Model Context Protocol (`ToolAnnotations`, 2025-11-25), by the names
/// that they have there. What is absent was not said.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema, utoipa::ToSchema,
)]
pub struct ToolAnnotations {
    /// It changes nothing.
    #[serde(rename = "readOnlyHint", alias = "read_only", default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// What it changes may be lost; of a tool that is not read-only.
    #[serde(rename = "destructiveHint", alias = "destructive", default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// The same call again changes nothing more.
    #[serde(rename = "idempotentHint", alias = "idempotent", default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// It reaches beyond a closed set of things: the web, other people.
    #[serde(rename = "openWorldHint", alias = "open_world", default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::{ToolName, canonical, own_part, plain_tool_name};

    #[test]
    fn spellings_of_one_name_are_one() {
        for name in ["process_refund", "Process_Refund", "process-refund", "PROCESS REFUND", "process_refund "] {
            let tool = ToolName::of("Stripe", name).canonical();
            assert_eq!((&*tool.whole, &*tool.own, tool.has_server), ("stripe.process_refund", "process_refund", true));
        }
        let glued = ToolName::bare("stripe.process-refund").canonical();
        assert_eq!(glued, ToolName::of("stripe", "process_refund").canonical());
        let bare = ToolName::bare("Process_Refund").canonical();
        assert_eq!((&*bare.whole, &*bare.own, bare.has_server), ("process_refund", "process_refund", false));
        assert_eq!(canonical("Files.get-[a-z]*"), "files.get_[a-z]*");
        for (name, unglued) in [
            ("mail__send", Some("mail.send")),
            ("mcp__mail__send__now", Some("mail.send__now")),
            ("MCP__Mail__Send", Some("Mail.Send")),
            ("mcp__mail.send", Some("mail.send")),
            ("mail/send", Some("mail.send")),
            ("mail:send", Some("mail.send")),
            ("mcp__mail", None),
            ("mail.x__y", None),
            ("__x", None),
            ("send_now", None),
        ] {
            assert_eq!(ToolName::bare(name).unglued().map(|tool| tool.to_string()).as_deref(), unglued, "{name}");
        }
        let readings = |tool: &ToolName| tool.readings().map(|tool| tool.to_string()).collect::<Vec<_>>();
        let through = ToolName::bare("mcp__umbra__mail__send");
        assert_eq!(readings(&through), ["mcp__umbra__mail__send", "umbra.mail__send", "mail.send"]);
        assert_eq!(readings(&ToolName::of("umbra", "mail__send")), ["umbra.mail__send", "mail.send"]);
        assert_eq!(ToolName::bare("mcp__Mail__send").plain(), ToolName::of("mail", "send").canonical());
    }

    #[test]
    fn a_pattern_for_all_of_a_server_says_nothing_of_a_name() {
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

    #[test]
    fn a_name_that_can_be_mistaken_is_refused() {
        for name in ["send_email", "mcp__files__read", "Send email", "a/b.c:d", "\u{691c}\u{7d22}", "caf\u{e9}"] {
            assert_eq!(plain_tool_name(name), Ok(()), "{name}");
        }
        for name in [
            "process_refund ",
            " a",
            "process_refund\n",
            "a\tb",
            "read\u{200b}delete",
            "a\u{ad}b",
            "a\u{301}",
            "a\u{202e}b",
            "a\u{3164}",
            "a\u{2010}b",
            "a\u{a0}b",
            "a\u{e0041}",
        ] {
            assert!(plain_tool_name(name).is_err(), "{name:?}");
        }
    }
}
