//! A tool as an agent calls it.

mod normal;
mod patterns;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

pub use normal::{NormalName, Readings, joined, normal_pattern};
pub use patterns::{BadPattern, ToolPatterns, is_wild};

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

impl ToolName {
    /// A tool of a server.
    pub fn of(server: impl Into<String>, name: impl Into<String>) -> Self {
        Self { server: Some(server.into()), name: name.into() }
    }

    /// A tool without a server.
    pub fn bare(name: impl Into<String>) -> Self {
        Self { server: None, name: name.into() }
    }
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
    use super::plain_tool_name;

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
