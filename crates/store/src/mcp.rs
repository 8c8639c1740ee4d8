//! Pinned definitions of tools of MCP servers.

use super::{
    StoreError,
    aggregates::ContractStore,
    sql::{self, record},
};

/// The pinned definition of a tool.
#[derive(Debug, Clone)]
pub struct PinnedTool {
    /// Name of the tool at its server.
    pub tool: String,
    /// Hash of the definition.
    pub hash: Vec<u8>,
    /// Description, redacted.
    pub description: String,
    /// Hash of the different definition that was reported last.
    pub changed: Option<Vec<u8>>,
}

record!(PinnedTool: tool, hash, description, changed);

/// The current definition of a tool, as its server reports it.
#[derive(Debug, Clone)]
pub struct ReportedTool {
    /// Name of the tool at its server.
    pub tool: String,
    /// Hash of the definition.
    pub hash: Vec<u8>,
    /// Description, redacted.
    pub description: String,
}

impl ContractStore<'_> {
    /// Returns the pins of a server.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn mcp_pins(self, profile: &str, server: &str) -> Result<Vec<PinnedTool>, StoreError> {
        sql::all(
            &self.0.read,
            "/* mcp.pins */ SELECT tool, hash, description, changed_hash AS changed FROM mcp_pin
             WHERE profile = $1 AND server = $2 ORDER BY tool",
            (profile, server),
        )
        .await
    }

    /// Pins tools that are not pinned; with `anew`, also replaces changed pins. Returns the names of tools that this
    /// call pinned: of several processes, one gets each name.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn pin_mcp_tools(
        self,
        profile: &str,
        server: &str,
        tools: &[ReportedTool],
        anew: bool,
    ) -> Result<Vec<String>, StoreError> {
        let (names, hashes, descriptions) = columns(tools);
        sql::all(
            &self.0.work,
            "/* mcp.pin */ INSERT INTO mcp_pin (profile, server, tool, hash, description)
             SELECT $1, $2, u.tool, u.hash, u.description
             FROM unnest($3::text[], $4::bytea[], $5::text[]) u(tool, hash, description) ORDER BY u.tool
             ON CONFLICT (profile, server, tool) DO UPDATE SET hash = excluded.hash, description = excluded.description,
                 pinned_at = clock(), changed_hash = NULL, changed_at = NULL
             WHERE $6 AND mcp_pin.hash <> excluded.hash
             RETURNING tool",
            (profile, server, names, hashes, descriptions, anew),
        )
        .await
    }

    /// Records definitions that differ from the pins. Returns the names of those not recorded before: of several
    /// processes, one gets each name.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note_changed_mcp_tools(
        self,
        profile: &str,
        server: &str,
        tools: &[ReportedTool],
    ) -> Result<Vec<String>, StoreError> {
        let (names, hashes, _) = columns(tools);
        sql::all(
            &self.0.work,
            "/* mcp.changed */ UPDATE mcp_pin p SET changed_hash = u.hash, changed_at = clock()
             FROM unnest($3::text[], $4::bytea[]) u(tool, hash)
             WHERE p.profile = $1 AND p.server = $2 AND p.tool = u.tool AND p.hash <> u.hash
                 AND p.changed_hash IS DISTINCT FROM u.hash
             RETURNING p.tool",
            (profile, server, names, hashes),
        )
        .await
    }
}

fn columns(tools: &[ReportedTool]) -> (Vec<&str>, Vec<&[u8]>, Vec<&str>) {
    let names = tools.iter().map(|tool| tool.tool.as_str()).collect();
    let hashes = tools.iter().map(|tool| tool.hash.as_slice()).collect();
    (names, hashes, tools.iter().map(|tool| tool.description.as_str()).collect())
}
