//! An operator's declarations about tools, as the tools file holds them.

use crate::{EffectOverride, PolicyRule, contract::ToolContract};

/// Contracts, rules and effects that an operator declared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolDeclarations {
    /// Contracts, in the order of the file.
    pub contracts: Vec<ToolContract>,
    /// Rules about calls, in the order of the file.
    pub policies: Vec<PolicyRule>,
    /// Effects of tools that the operator sets, in the order of the file.
    pub effects: Vec<EffectOverride>,
    /// Servers whose annotations are believed behind the MCP proxy.
    pub trusted_servers: Vec<String>,
}

/// Contracts of a well-known MCP server.
#[derive(Debug, Clone, PartialEq)]
pub struct Pack {
    /// Name of the pack, which is the server in the names of its contracts' tools.
    pub name: String,
    /// Names that the server gives itself.
    pub server_names: Vec<String>,
    /// Contracts of the server's tools.
    pub contracts: Vec<ToolContract>,
}
