//! Runs and sessions in pages of rows, for `umbra audit verify`.

use sqlx::Row;

use super::{StoreError, aggregates::DecisionStore, decisions::Named};
use umbra_domain::audit::{Labels, StandingRun, StandingSession};

impl DecisionStore<'_> {
    /// The runs behind one, by agent and name, at most so many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn standing_runs(self, after: &Named, limit: i64) -> Result<Vec<StandingRun>, StoreError> {
        let rows = sqlx::query(
            "/* standing.runs */ SELECT agent, run, execution = 'shadow' AS in_shadow,
                 coalesce(began, execution) = 'shadow' AS began_in_shadow, parent, started_by, session, mac
             FROM boundary_run WHERE (agent, run) > ($1, $2) ORDER BY agent, run LIMIT $3",
        );
        let rows = rows.bind(&after.0).bind(&after.1).bind(limit).fetch_all(&self.0.read).await?;
        let run = |row: &sqlx::postgres::PgRow| {
            Ok(StandingRun {
                agent: row.try_get("agent")?,
                run: row.try_get("run")?,
                in_shadow: row.try_get("in_shadow")?,
                began_in_shadow: row.try_get("began_in_shadow")?,
                parent: row.try_get("parent")?,
                started_by: row.try_get("started_by")?,
                session: row.try_get("session")?,
                mac: row.try_get("mac")?,
            })
        };
        rows.iter().map(run).collect()
    }

    /// The sessions behind one, by agent and name, at most so many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn standing_sessions(self, after: &Named, limit: i64) -> Result<Vec<StandingSession>, StoreError> {
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
            let labels = Labels { taints, uninterceptable };
            StandingSession { agent, session, labels }
        };
        Ok(rows.into_iter().map(session).collect())
    }
}
