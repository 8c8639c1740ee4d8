//! Readiness of an environment for production: facts from the database, judged by `boundary::gate`.

use crate::flows::decisions::authenticate_overrides;
use umbra_boundary::{
    decide::BoundaryRules,
    gate::{Gate, GateFacts, KnownTool, UnguardedTool, judge},
    row_mac::RowKey,
};
use umbra_domain::ToolName;
use umbra_store::{Store, StoreError, execution::RunFilter};

/// Most runs that are read.
const MOST_RUNS: i64 = 1_000;

/// Asks the gate. A database that does not answer is one of the reasons to fail.
///
/// With `key`, overrides are authenticated by their MACs; without, they count as stored.
pub async fn gate(store: &Store, rules: &BoundaryRules, environment: &str, key: Option<&RowKey>) -> Gate {
    match facts(store, rules, key).await {
        Ok(facts) => judge(environment, rules, Ok(&facts)),
        Err(StoreError::Statement(_)) => {
            let problem =
                "its schema is older or newer than this version of Umbra: `umbra migrate` updates an older one"
                    .to_owned();
            judge(environment, rules, Err(problem))
        }
        Err(error) => judge(environment, rules, Err(error.to_string())),
    }
}

async fn facts(store: &Store, rules: &BoundaryRules, key: Option<&RowKey>) -> Result<GateFacts, StoreError> {
    let called = store.contracts().tools_seen(rules.gate.tools_seen_within).await?;
    let called = called.into_iter().map(|(tool, effect)| KnownTool {
        tool: ToolName::bare(tool),
        description: String::new(),
        effect: Some(effect),
    });
    let pinned = if rules.gate.servers.is_empty() {
        Vec::new()
    } else {
        store.contracts().tools_pinned(&rules.gate.servers).await?
    };
    let pinned = pinned.into_iter().map(|(server, tool, description)| KnownTool {
        tool: ToolName::of(server, tool),
        description,
        effect: None,
    });
    let unguarded = store.contracts().unguarded(rules.gate.unguarded_within).await?;
    let unexpected = store.contracts().unexpected(rules.gate.unguarded_within).await?;
    let tool = |agent, tool, calls, last_at| UnguardedTool { agent, tool, calls, last_at };
    let now = store.now().await?;
    let since = now.checked_sub(rules.gate.tools_seen_within).ok();
    let filter = RunFilter { in_shadow: true, since, limit: MOST_RUNS, ..RunFilter::default() };
    let bound_runs = store.decisions().runs(&filter).await?.into_iter().map(|listed| listed.row);
    Ok(GateFacts {
        now,
        bound_runs: bound_runs.collect(),
        overrides: authenticate_overrides(key, store.decisions().overrides().await?).0,
        tools: called.chain(pinned).collect(),
        contracts: store.contracts().states().await?,
        unguarded: unguarded.into_iter().map(|row| tool(row.agent, row.tool, row.calls, row.last_at)).collect(),
        unexpected: unexpected.into_iter().map(|row| tool(row.agent, row.tool, row.calls, row.last_at)).collect(),
    })
}
