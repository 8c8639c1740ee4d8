//! Calls of a run, from the audit.

use super::{
    StoreError,
    aggregates::DecisionStore,
    audit::COLUMNS_OF_RUN,
    sql::{self, record},
};
use umbra_domain::audit::AuditRecord;

/// Size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunSize {
    /// Decisions about its calls.
    pub decisions: i64,
    /// Audit rows about its calls, outcomes included.
    pub rows: i64,
    /// Bytes of the stored payloads of its decisions.
    pub bytes: i64,
}

record!(RunSize: decisions, rows, bytes);

impl DecisionStore<'_> {
    /// Returns the size of a run, counting its first `most` rows.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn run_size(self, run: &str, most: i64) -> Result<RunSize, StoreError> {
        sql::one(
            &self.0.read,
            "/* runs.size */ SELECT count(*) FILTER (WHERE a.kind <> 'outcome') AS decisions, count(*) AS rows,
                 coalesce(sum(octet_length(p.body)), 0)::bigint AS bytes
             FROM (SELECT seq, kind FROM audit WHERE run = $1 AND kind IN ('decision', 'merged', 'outcome')
                   ORDER BY seq LIMIT $2) a
             LEFT JOIN audit_payload p ON p.seq = a.seq AND a.kind <> 'outcome'",
            (run, most),
        )
        .await
    }

    /// Returns the rows of a run after number `after`, in order, at most `limit`. Outcomes come without their payloads.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn run_rows(self, run: &str, after: i64, limit: i64) -> Result<Vec<AuditRecord>, StoreError> {
        sql::all(&self.0.read, COLUMNS_OF_RUN, (run, after, limit)).await
    }
}
