//! Which tools there are, as the gate asks: those that were called lately, and those of MCP servers.

use std::time::Duration;

use super::{StoreError, aggregates::ContractStore};
use umbra_domain::Effect;

/// Most tools that are read, of each kind.
const MOST_TOOLS: i64 = 10_000;
/// Rows of the audit behind its follower that are looked at.
const MOST_BEHIND: i64 = 10_000;

/// Calls of a tool by an agent that ran although they were told not to, as their outcomes say.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct UnexpectedRow {
    /// Who called.
    pub agent: String,
    /// What.
    pub tool: String,
    /// How often.
    pub calls: i64,
    /// The first time.
    pub first_at: jiff_sqlx::Timestamp,
    /// The last time.
    pub last_at: jiff_sqlx::Timestamp,
    /// The last outcome's number in the audit.
    pub last_seq: i64,
}

/// Calls of a tool by an agent that no decision was asked for.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct UnguardedRow {
    /// Who called.
    pub agent: String,
    /// What.
    pub tool: String,
    /// How often.
    pub calls: i64,
    /// The first time.
    pub first_at: jiff_sqlx::Timestamp,
    /// The last time.
    pub last_at: jiff_sqlx::Timestamp,
    /// The event of the last time.
    pub last_event: uuid::Uuid,
}

impl ContractStore<'_> {
    /// Tools that calls were decided of within so long, by name, with what they were decided to do last. What the audit's
    /// follower has not seen yet is among them.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn tools_seen(self, within: Duration) -> Result<Vec<(String, Effect)>, StoreError> {
        let rows: Vec<(String, Option<String>)> = sqlx::query_as(
            "/* gate.tools */ SELECT DISTINCT ON (tool) tool, effect FROM (
                 (SELECT tool, effect, 0::bigint AS seq FROM tool_seen WHERE last_at > clock() - make_interval(secs => $1)
                  ORDER BY last_at DESC LIMIT $2)
                 UNION ALL
                 (SELECT tool, body::json ->> 'effect', seq FROM audit
                  WHERE seq > (SELECT seq FROM follower WHERE name = 'contracts') AND kind IN ('decision', 'merged')
                      AND tool IS NOT NULL ORDER BY seq DESC LIMIT $3)) t
             ORDER BY tool, seq DESC",
        )
        .bind(within.as_secs_f64())
        .bind(MOST_TOOLS)
        .bind(MOST_BEHIND)
        .fetch_all(&self.0.read)
        .await?;
        let effect = |word: Option<String>| word.and_then(|word| Effect::parse(&word)).unwrap_or(Effect::Destructive);
        Ok(rows.into_iter().map(|(tool, word)| (tool, effect(word))).collect())
    }

    /// The tools of MCP servers, each server named by profile and name: server, tool and description.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn tools_pinned(self, servers: &[(String, String)]) -> Result<Vec<(String, String, String)>, StoreError> {
        let (profiles, names): (Vec<&str>, Vec<&str>) =
            servers.iter().map(|(profile, server)| (profile.as_str(), server.as_str())).unzip();
        let rows = sqlx::query_as(
            "/* gate.pinned */ SELECT server, tool, description FROM mcp_pin
             JOIN unnest($1::text[], $2::text[]) s(profile, server) USING (profile, server)
             ORDER BY server, tool, profile LIMIT $3",
        );
        Ok(rows.bind(profiles).bind(names).bind(MOST_TOOLS).fetch_all(&self.0.read).await?)
    }

    /// Calls without a decision within so long, the latest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn unguarded(self, within: Duration) -> Result<Vec<UnguardedRow>, StoreError> {
        let rows = sqlx::query_as(
            "/* gate.unguarded */ SELECT agent, tool, calls, first_at, last_at, last_event FROM unguarded_call
             WHERE last_at > clock() - make_interval(secs => $1) ORDER BY last_at DESC, agent, tool LIMIT $2",
        );
        Ok(rows.bind(within.as_secs_f64()).bind(MOST_TOOLS).fetch_all(&self.0.read).await?)
    }

    /// Calls that ran against their decision within so long, the latest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn unexpected(self, within: Duration) -> Result<Vec<UnexpectedRow>, StoreError> {
        let rows = sqlx::query_as(
            "/* gate.unexpected */ SELECT agent, tool, calls, first_at, last_at, last_seq FROM unexpected_call
             WHERE last_at > clock() - make_interval(secs => $1) ORDER BY last_at DESC, agent, tool LIMIT $2",
        );
        Ok(rows.bind(within.as_secs_f64()).bind(MOST_TOOLS).fetch_all(&self.0.read).await?)
    }
}
