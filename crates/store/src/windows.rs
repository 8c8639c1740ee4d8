//! An agent's calls within windows of time, from the audit.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;

use super::{
    StoreError,
    aggregates::DecisionStore,
    sql::{self, record},
};

/// Largest payload that is read, in bytes: a larger one counts without its arguments.
const MOST_PAYLOAD: i32 = 8 * 1024;

/// A decided call.
#[derive(Debug, Clone)]
pub struct DecidedCall {
    /// The tool.
    pub tool: String,
    /// Run of the call, else its session.
    pub within: Option<String>,
    /// Payload of the decision, as JSON; `None` if it is erased or too large.
    pub payload: Option<String>,
}

record!(DecidedCall: tool, within, payload);

impl DecisionStore<'_> {
    /// Returns the number of audit rows before a time, which is the number of the last of them.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn audited_before(self, at: Timestamp) -> Result<i64, StoreError> {
        // Numbers have no gap and grow with time, which has no index: the row is found by bisection.
        sql::one(
            &self.0.read,
            "/* windows.before */ WITH RECURSIVE half AS (
                 SELECT 0::bigint AS low, last AS high FROM feed WHERE name = 'audit'
                 UNION ALL
                 SELECT CASE WHEN earlier THEN middle ELSE low END, CASE WHEN earlier THEN high ELSE middle - 1 END
                 FROM (SELECT low, high, (low + high + 1) / 2 AS middle,
                           (SELECT a.at < $1 FROM audit a WHERE a.seq = (low + high + 1) / 2) AS earlier
                       FROM half WHERE low < high) h)
             SELECT low FROM half WHERE low = high",
            (at.to_sqlx(),),
        )
        .await
    }

    /// Returns an agent's calls among the audit rows after one number up to another: the latest `most`, newest first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn decided_calls(
        self,
        agent: &str,
        (after, until): (i64, i64),
        most: i64,
    ) -> Result<Vec<DecidedCall>, StoreError> {
        sql::all(
            &self.0.read,
            "/* windows.calls */ SELECT a.tool, coalesce(a.run, a.session) AS within,
                 CASE WHEN octet_length(p.body) <= $5 THEN p.body END AS payload
             FROM audit a LEFT JOIN audit_payload p USING (seq)
             WHERE a.agent = $1 AND a.seq > $2 AND a.seq <= $3 AND a.kind IN ('decision', 'merged')
                 AND a.tool IS NOT NULL ORDER BY a.seq DESC LIMIT $4",
            (agent, after, until, most, MOST_PAYLOAD),
        )
        .await
    }
}
