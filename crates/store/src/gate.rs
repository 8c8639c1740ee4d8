//! Tools that the gate checks: those called lately, and those of MCP servers.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    StoreError,
    aggregates::ContractStore,
    decisions::split,
    sql::{self, record},
};
use umbra_domain::{Effect, EventId};

/// Most tools of each kind that are read.
const MOST_TOOLS: i64 = 10_000;
/// Most audit rows after the follower's number that are read.
const MOST_BEHIND: i64 = 10_000;

/// Calls of a tool by an agent for which no decision was asked.
#[derive(Debug, Serialize, ToSchema)]
pub struct UnguardedCalls {
    /// Calling agent.
    pub agent: String,
    /// Called tool, as named in the agent's events.
    pub tool: String,
    /// Number of calls.
    pub calls: i64,
    /// Time of the first call.
    pub first_at: Timestamp,
    /// Time of the last call.
    pub last_at: Timestamp,
    /// Event of the last call.
    #[schema(value_type = String, example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub last_event: EventId,
}

record!(UnguardedCalls: agent, tool, calls, first_at, last_at, last_event);

/// Calls of a tool by an agent that were answered by a stub or refused, and ran all the same by their outcomes.
#[derive(Debug, Serialize, ToSchema)]
pub struct UnexpectedCalls {
    /// Calling agent.
    pub agent: String,
    /// Called tool.
    pub tool: String,
    /// Number of calls.
    pub calls: i64,
    /// Time of the first call.
    pub first_at: Timestamp,
    /// Time of the last call.
    pub last_at: Timestamp,
    /// Audit number of the last outcome.
    pub last_seq: i64,
}

record!(UnexpectedCalls: agent, tool, calls, first_at, last_at, last_seq);

impl ContractStore<'_> {
    /// Returns tools with decisions within this time, by name, with the effect of the last decision. Includes audit
    /// rows that the follower `contracts` has not read yet.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn tools_seen(self, within: Duration) -> Result<Vec<(String, Effect)>, StoreError> {
        let rows: Vec<(String, Option<Effect>)> = sql::all(
            &self.0.read,
            "/* gate.tools */ SELECT DISTINCT ON (tool) tool, effect FROM (
                 (SELECT tool, effect, 0::bigint AS seq FROM tool_seen
                  WHERE last_at > clock() - make_interval(secs => $1) ORDER BY last_at DESC LIMIT $2)
                 UNION ALL
                 (SELECT tool, body::json ->> 'effect', seq FROM audit
                  WHERE seq > (SELECT seq FROM follower WHERE name = 'contracts') AND kind IN ('decision', 'merged')
                      AND tool IS NOT NULL ORDER BY seq DESC LIMIT $3)) t
             ORDER BY tool, seq DESC",
            (within.as_secs_f64(), MOST_TOOLS, MOST_BEHIND),
        )
        .await?;
        Ok(rows.into_iter().map(|(tool, effect)| (tool, effect.unwrap_or(Effect::Destructive))).collect())
    }

    /// Returns the pinned tools of MCP servers, each server given by profile and name: server, tool and description.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn tools_pinned(self, servers: &[(String, String)]) -> Result<Vec<(String, String, String)>, StoreError> {
        let (profiles, names) = split(servers);
        sql::all(
            &self.0.read,
            "/* gate.pinned */ SELECT server, tool, description FROM mcp_pin
             JOIN unnest($1::text[], $2::text[]) s(profile, server) USING (profile, server)
             ORDER BY server, tool, profile LIMIT $3",
            (profiles, names, MOST_TOOLS),
        )
        .await
    }

    /// Returns calls without a decision within this time, latest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn unguarded(self, within: Duration) -> Result<Vec<UnguardedCalls>, StoreError> {
        sql::all(
            &self.0.read,
            "/* gate.unguarded */ SELECT agent, tool, calls, first_at, last_at, last_event FROM unguarded_call
             WHERE last_at > clock() - make_interval(secs => $1) ORDER BY last_at DESC, agent, tool LIMIT $2",
            (within.as_secs_f64(), MOST_TOOLS),
        )
        .await
    }

    /// Returns calls that ran against their decisions within this time, latest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn unexpected(self, within: Duration) -> Result<Vec<UnexpectedCalls>, StoreError> {
        sql::all(
            &self.0.read,
            "/* gate.unexpected */ SELECT agent, tool, calls, first_at, last_at, last_seq FROM unexpected_call
             WHERE last_at > clock() - make_interval(secs => $1) ORDER BY last_at DESC, agent, tool LIMIT $2",
            (within.as_secs_f64(), MOST_TOOLS),
        )
        .await
    }
}
