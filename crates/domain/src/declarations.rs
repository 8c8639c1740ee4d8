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
