//! Runs and sessions in pages of rows, for `umbra audit verify`.

use super::{
    StoreError,
    aggregates::DecisionStore,
    decisions::{Named, parse, run_json},
    sql::{self, column, record},
};
use umbra_domain::{
    RunRow,
    audit::{SessionLabels, StoredBoundarySession},
};

record! {
    StoredBoundarySession, row: agent, session;
    labels: SessionLabels { taints: column(row, "taints")?, uninterceptable: column(row, "uninterceptable")? },
}

impl DecisionStore<'_> {
    /// Returns the runs after an agent and run name, in that order, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer, or a row cannot be read.
    pub async fn standing_runs(self, after: &Named, limit: i64) -> Result<Vec<RunRow>, StoreError> {
        let rows: Vec<String> = sql::all(
            &self.0.read,
            concat!(
                "/* standing.runs */ SELECT ",
                run_json!(),
                "::text FROM boundary_run WHERE (agent, run) > ($1, $2) ORDER BY agent, run LIMIT $3"
            ),
            (&after.0, &after.1, limit),
        )
        .await?;
        rows.iter().map(|row| parse("boundary_run", row)).collect()
    }

    /// Returns the sessions after an agent and session name, in that order, at most `limit`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn standing_sessions(self, after: &Named, limit: i64) -> Result<Vec<StoredBoundarySession>, StoreError> {
        sql::all(
            &self.0.read,
            "/* standing.sessions */ SELECT agent, session, taints, uninterceptable FROM boundary_session
             WHERE (agent, session) > ($1, $2) ORDER BY agent, session LIMIT $3",
            (&after.0, &after.1, limit),
        )
        .await
    }
}
