//! Tools as agents call them: names and annotations.

mod normal;
mod patterns;

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

pub use normal::{NormalName, Readings, joined, normal_pattern};
pub use patterns::{BadPattern, ToolPatterns, is_wild};

/// Name of a tool. Shown as `server.name`, or as the name alone if no server is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ToolName {
    /// Server that offers the tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Name of the tool at the server.
    pub name: String,
}

impl ToolName {
    /// Returns the name of a server's tool.
    pub fn of(server: impl Into<String>, name: impl Into<String>) -> Self {
        Self { server: Some(server.into()), name: name.into() }
    }

    /// Returns the name of a tool without a server.
    pub fn bare(name: impl Into<String>) -> Self {
        Self { server: None, name: name.into() }
    }
}

/// Returns a name that may be stored and shown, but not called: U+FFFD replaces each character that is not plain.
pub fn visible_tool_name(name: &str) -> String {
    name.chars().map(|c| if is_plain(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}

fn is_plain(c: char) -> bool {
    // Letters by their category, but invisible.
    let is_filler = matches!(c, '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}');
    c.is_ascii_graphic() || c == ' ' || c.is_alphanumeric() && !is_filler
}

/// Checks the name of a tool or a server: letters and digits of any script, and visible ASCII, without blanks at its
/// ends. Other characters can be dropped, swapped or overlooked where the tool is looked up; rules would then judge
/// another name than the one that runs.
///
/// # Errors
/// Advice on what to write instead.
pub fn plain_tool_name(name: &str) -> Result<(), &'static str> {
    if name.trim() == name && name.chars().all(is_plain) {
        Ok(())
    } else {
        Err(
            "a tool's name must have only letters, digits and visible ASCII characters, and no blank at its ends: send \
             the exact name that runs, without control, invisible or combining characters",
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

/// Reads tools, each as a string (`server.name`, or the name alone) or in two parts.
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

/// Hints of a server about its tool, by their names in the Model Context Protocol (`ToolAnnotations`, 2025-11-25). An
/// absent hint was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct ToolAnnotations {
    /// The tool changes nothing.
    #[serde(rename = "readOnlyHint", alias = "read_only", default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// The tool may destroy data; only meaningful for a tool that is not read-only.
    #[serde(rename = "destructiveHint", alias = "destructive", default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Repeating the same call changes nothing more.
    #[serde(rename = "idempotentHint", alias = "idempotent", default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// The tool reaches beyond a closed set of things: the web, other people.
    #[serde(rename = "openWorldHint", alias = "open_world", default, skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
}

#[cfg(test)]
mod tests {
    use super::plain_tool_name;

    #[test]
    fn ambiguous_tool_name_is_refused() {
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
