//! Runs and sessions in pages of rows, for `umbra audit verify`.

use super::{
    StoreError,
    aggregates::DecisionStore,
    decisions::{Named, parse, run_json},
};
use umbra_domain::{
    RunRow,
    audit::{SessionLabels, StoredBoundarySession},
};

impl DecisionStore<'_> {
    /// Returns the runs after an agent and run name, in that order, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer, or a row cannot be read.
    pub async fn standing_runs(self, after: &Named, limit: i64) -> Result<Vec<RunRow>, StoreError> {
        let rows: Vec<String> = sqlx::query_scalar(concat!(
            "/* standing.runs */ SELECT ",
            run_json!(),
            "::text FROM boundary_run WHERE (agent, run) > ($1, $2) ORDER BY agent, run LIMIT $3"
        ))
        .bind(&after.0)
        .bind(&after.1)
        .bind(limit)
        .fetch_all(&self.0.read)
        .await?;
        rows.iter().map(|row| parse("boundary_run", row)).collect()
    }

    /// Returns the sessions after an agent and session name, in that order, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn standing_sessions(self, after: &Named, limit: i64) -> Result<Vec<StoredBoundarySession>, StoreError> {
        let rows: Vec<(String, String, Vec<String>, Vec<String>)> = sqlx::query_as(
            "/* standing.sessions */ SELECT agent, session, taints, uninterceptable FROM boundary_session
             WHERE (agent, session) > ($1, $2) ORDER BY agent, session LIMIT $3",
        )
        .bind(&after.0)
        .bind(&after.1)
        .bind(limit)
        .fetch_all(&self.0.read)
        .await?;
        let session = |(agent, session, taints, uninterceptable)| {
            let labels = SessionLabels { taints, uninterceptable };
            StoredBoundarySession { agent, session, labels }
        };
        Ok(rows.into_iter().map(session).collect())
    }
}
