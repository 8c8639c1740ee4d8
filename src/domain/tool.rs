//! A tool as an agent calls it.

use std::fmt;

use serde::{Deserialize, Serialize};

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

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Some(server) => write!(f, "{server}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
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
