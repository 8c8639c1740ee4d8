//! The calls of a run, as the audit has them.

use super::{
    StoreError,
    aggregates::DecisionStore,
    audit::{COLUMNS_OF_RUN, record},
};
use umbra_domain::audit::AuditRecord;

/// How large a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSize {
    /// Decisions of its calls.
    pub decisions: i64,
    /// All of its rows that are about calls, outcomes as well.
    pub rows: i64,
    /// Bytes of what its calls said, as it is stored.
    pub bytes: i64,
}

impl DecisionStore<'_> {
    /// How large a run is; of one that has more rows than `most`, only these are counted.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn run_size(self, run: &str, most: i64) -> Result<RunSize, StoreError> {
        let (decisions, rows, bytes) = sqlx::query_as(
            "/* runs.size */ SELECT count(*) FILTER (WHERE a.kind <> 'outcome'), count(*),
                 coalesce(sum(octet_length(p.body)), 0)::bigint
             FROM (SELECT seq, kind FROM audit WHERE run = $1 AND kind IN ('decision', 'merged', 'outcome')
                   ORDER BY seq LIMIT $2) a
             LEFT JOIN audit_payload p ON p.seq = a.seq AND a.kind <> 'outcome'",
        )
        .bind(run)
        .bind(most)
        .fetch_one(&self.0.read)
        .await?;
        Ok(RunSize { decisions, rows, bytes })
    }

    /// The rows of a run behind a number, in order, at most so many. Outcomes come without what tools said.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn run_rows(self, run: &str, after: i64, limit: i64) -> Result<Vec<AuditRecord>, StoreError> {
        let rows = sqlx::query(COLUMNS_OF_RUN).bind(run).bind(after).bind(limit).fetch_all(&self.0.read).await?;
        rows.iter().map(record).collect()
    }
}
