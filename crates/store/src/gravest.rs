//! Gravest findings of a day or week, for briefings and reports.

use jiff::civil::Date;
use jiff_sqlx::ToSqlx;
use serde::{Deserialize, Serialize};
use sqlx::AssertSqlSafe;
use utoipa::ToSchema;

use super::{
    StoreError,
    aggregates::BriefingStore,
    briefings::findings_of_days,
    sql::{self, column, record},
};
use umbra_domain::{FindingId, Mode, Severity};

/// One of the gravest findings of a day or week. Findings of the same fault of an agent are merged into the gravest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = GravestFinding)]
pub struct GravestFinding {
    /// Id of the finding.
    #[schema(value_type = String)]
    pub id: FindingId,
    /// Path of the finding in the API.
    #[schema(example = "/v1/findings/fnd_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub path: String,
    /// Severity of the finding.
    pub severity: Severity,
    /// Category of the finding.
    pub category: String,
    /// Finding in words.
    pub description: String,
    /// Agent whose work was reviewed.
    pub agent: String,
    /// Task that the work belongs to.
    pub task_id: Option<String>,
    /// Shadow that made the finding.
    pub shadow: String,
    /// True if the evidence stands in the text.
    pub verified: bool,
    /// `check` or `model`.
    pub source: String,
    /// Occurrences of this fault in this period.
    pub times: i64,
}

record! {
    GravestFinding, row: id, severity, category, description, agent, task_id, shadow, verified, source, times;
    path: format!("/v1/findings/{}", column::<FindingId>(row, "id")?),
}

impl BriefingStore<'_> {
    /// Returns the gravest findings of the days `first` to `last`, gravest first, without passive shadows and false
    /// positives.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn gravest(self, first: Date, last: Date, most: i64) -> Result<Vec<GravestFinding>, StoreError> {
        let found = findings_of_days();
        let sql = format!(
            "/* briefings.gravest */
             WITH fault AS (
                 SELECT DISTINCT ON (f.agent, f.fingerprint) f.*,
                        (sum(1 + (SELECT count(*) FROM finding_occurrence o WHERE o.finding_id = f.id))
                            OVER (PARTITION BY f.agent, f.fingerprint))::bigint AS times
                 FROM {found} f WHERE f.mode <> $3 AND f.status <> 'false_positive'
                 ORDER BY f.agent, f.fingerprint, f.severity DESC, f.verified OR f.source = 'check' DESC, f.seq DESC
             )
             SELECT id, severity, category, description, agent, task_id, shadow, verified, source, times FROM fault
             ORDER BY severity DESC, verified OR source = 'check' DESC, times DESC, seq DESC LIMIT $4"
        );
        sql::all(&self.0.read, AssertSqlSafe(sql), (first.to_sqlx(), last.to_sqlx(), Mode::Passive.priority(), most))
            .await
    }
}
