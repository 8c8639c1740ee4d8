//! Verdicts on events, and the active reviews behind them. The first verdict to be filed stands.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde::Serialize;
use sqlx::postgres::PgRow;
use utoipa::ToSchema;

use super::{
    StoreError,
    aggregates::VerdictStore,
    pool::Connection,
    sql::{self, column, json, record, uuids},
};
use umbra_domain::{
    Disposition, EventId, Mode, ReviewId, ReviewState, Severity, SkipReason,
    verdict::{DecidedBy, FinalVerdict, ReviewProgress, VerdictState},
};

/// Most findings that a verdict names as reasons.
const MAX_REASONS: i64 = 10;

/// Verdict on an event by its active shadows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EventVerdict {
    /// The event.
    #[schema(value_type = String, example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub event_id: EventId,
    /// Accepted and rejected are final; pending may change until `verdict_by`.
    pub verdict: VerdictState,
    /// The rule that decided, or why there is no verdict; null while it is pending, and in verdicts from before Umbra
    /// kept it.
    pub decided_by: Option<DecidedBy>,
    /// Latest time of the decision; null where no active shadow reviews the event.
    pub verdict_by: Option<Timestamp>,
    /// Reasons, in sentences.
    pub reasons: Vec<String>,
    /// Recommendation to the agent or its owner.
    pub recommendation: Option<String>,
    /// The shadow that decided.
    pub shadow: Option<String>,
    /// Review that decided.
    #[schema(value_type = Option<String>)]
    pub review_id: Option<ReviewId>,
}

record! {
    EventVerdict, row: event_id, verdict, decided_by, verdict_by, recommendation, shadow, review_id;
    reasons: json(row, "reasons")?,
}

impl EventVerdict {
    /// Returns the pending verdict on an event that is decided by `verdict_by` at the latest.
    pub fn pending(event_id: EventId, verdict_by: Timestamp) -> Self {
        Self { verdict_by: Some(verdict_by), ..Self::empty(event_id, VerdictState::Pending) }
    }

    /// Returns the verdict on an event without an active review. Its dispositions tell if an active shadow skipped it,
    /// or if none watches it.
    pub fn not_reviewed(event_id: EventId, dispositions: &[Disposition]) -> Self {
        let skipped = dispositions.iter().filter(|disposition| disposition.mode == Mode::Active).map(|disposition| {
            let reason = disposition.reason.map_or("unknown reason", SkipReason::as_str);
            format!("{}: the event was skipped ({reason})", disposition.shadow)
        });
        let mut reasons: Vec<String> = skipped.collect();
        let decided_by = if reasons.is_empty() {
            reasons.push("No active shadow watches this event: other shadows comment, and give no verdict.".to_owned());
            DecidedBy::NoActiveShadow
        } else {
            DecidedBy::Skipped
        };
        Self { decided_by: Some(decided_by), reasons, ..Self::empty(event_id, VerdictState::NotReviewed) }
    }

    fn empty(event_id: EventId, verdict: VerdictState) -> Self {
        Self {
            event_id,
            verdict,
            decided_by: None,
            verdict_by: None,
            reasons: Vec::new(),
            recommendation: None,
            shadow: None,
            review_id: None,
        }
    }
}

/// An active review of an event.
#[derive(Debug, Clone)]
pub struct ActiveReview {
    /// The review.
    pub review: ReviewId,
    /// The shadow.
    pub shadow: String,
    /// `shadow_version.id`.
    pub version: i32,
    /// When the review was reserved, by the database's clock.
    pub created_at: Timestamp,
    /// Progress of the review.
    pub progress: ReviewProgress,
    /// The rule behind the assessment.
    pub decided_by: DecidedBy,
    /// Descriptions of the findings, worst first.
    pub reasons: Vec<String>,
    /// Recommendation of the review.
    pub recommendation: Option<String>,
}

record! {
    ActiveReview, row: review, shadow, version, created_at, reasons, recommendation;
    progress: progress(row)?,
    decided_by: column::<Option<_>>(row, "decided_by")?.unwrap_or(DecidedBy::Assessment),
}

fn progress(row: &PgRow) -> Result<ReviewProgress, sqlx::Error> {
    let done = column::<Option<_>>(row, "finished_at")?.zip(column::<Option<_>>(row, "assessment")?);
    Ok(match (column(row, "state")?, done) {
        (Some(ReviewState::Done), Some((at, assessment))) => ReviewProgress::Done(at, assessment),
        (Some(ReviewState::Failed | ReviewState::Released), _) => {
            let reason: Option<SkipReason> = column(row, "reason")?;
            ReviewProgress::GivenUp(reason.map_or("unknown reason", SkipReason::as_str).to_owned())
        }
        _ => ReviewProgress::Open,
    })
}

/// An active review, and the database's time.
struct ReviewNow {
    review: ActiveReview,
    now: Timestamp,
}

record!(ReviewNow, row: now; review: ActiveReview::read(row)?);

/// State of an event's verdict.
#[derive(Debug, Clone)]
pub enum StoredVerdict {
    /// A verdict is filed.
    Filed(EventVerdict),
    /// No verdict is filed yet: the active reviews, and the database's time.
    Open(Vec<ActiveReview>, Timestamp),
}

const FILED: &str =
    "SELECT event_id, verdict, decided_by, verdict_by, reasons, recommendation, shadow, review_id FROM verdict";

impl VerdictStore<'_> {
    /// Returns the state of an event's verdict. An event without active reviews is an open case with an empty list.
    /// Reviews that were requested later give no verdict, since no caller waited for one.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn case(self, event: EventId) -> Result<StoredVerdict, StoreError> {
        if let Some(filed) = self.of(&[event]).await?.pop() {
            return Ok(StoredVerdict::Filed(filed));
        }
        let rows: Vec<ReviewNow> = sql::all(
            &self.0.read,
            "/* verdicts.case */
             SELECT r.id AS review, r.shadow, r.version, r.state, r.created_at, r.finished_at, r.reason, d.assessment,
                    d.decided_by, d.recommendation, clock() AS now,
                    ARRAY(SELECT f.description FROM finding f WHERE f.review_id = r.id AND f.severity >= $2
                          AND f.event_id = e.event_id ORDER BY f.severity DESC, f.seq LIMIT $3) AS reasons
             FROM review_event e JOIN review r ON r.id = e.review_id LEFT JOIN review_result d ON d.review_id = r.id
             WHERE e.event_id = $1 AND r.mode = $4 AND NOT e.later ORDER BY r.seq",
            (event.0, Severity::Warning.code(), MAX_REASONS, Mode::Active.priority()),
        )
        .await?;
        let now = rows.first().map_or(Timestamp::UNIX_EPOCH, |row| row.now);
        Ok(StoredVerdict::Open(rows.into_iter().map(|row| row.review).collect(), now))
    }

    /// Files a verdict, unless one is filed; returns the one that stands.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file(
        self,
        event: EventId,
        by: Timestamp,
        ruling: &FinalVerdict,
    ) -> Result<Option<EventVerdict>, StoreError> {
        let reasons = serde_json::to_string(&ruling.reasons).unwrap_or_else(|_| "[]".into());
        sql::execute(
            &self.0.work,
            "/* verdicts.file */
             WITH f AS (UPDATE feed SET last = last + 1 WHERE name = 'result' RETURNING last)
             INSERT INTO verdict (event_id, seq, agent, task_id, verdict, verdict_by, shadow, review_id, reasons,
                                  recommendation, decided_by, decided_at)
             SELECT $1, f.last, r.agent, r.task_id, $2, $3, $4, $5, $6, $7, $8, clock()
             FROM f, review r WHERE r.id = $5 ON CONFLICT (event_id) DO NOTHING",
            (
                event.0,
                ruling.standing.as_str(),
                by.to_sqlx(),
                &ruling.shadow,
                ruling.review.0,
                reasons,
                &ruling.recommendation,
                ruling.decided_by.as_str(),
            ),
        )
        .await?;
        // A separate statement: only a new snapshot sees a verdict that another process filed first.
        Ok(self.of(&[event]).await?.pop())
    }

    /// Returns the filed verdicts on these events.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn of(self, events: &[EventId]) -> Result<Vec<EventVerdict>, StoreError> {
        let query = sqlx::AssertSqlSafe(format!("/* verdicts.filed */ {FILED} WHERE event_id = ANY($1)"));
        sql::all(&self.0.read, query, (uuids(events),)).await
    }
}

impl VerdictStore<'_> {
    /// Returns those of these events with an ended review.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn ended_among(self, events: &[EventId]) -> Result<Vec<EventId>, StoreError> {
        sql::all(
            &self.0.read,
            "/* verdicts.ended */
             SELECT DISTINCT e.event_id FROM review_event e JOIN review r ON r.id = e.review_id
             WHERE e.event_id = ANY($1) AND r.state NOT IN ('queued', 'running')",
            (uuids(events),),
        )
        .await
    }

    /// Returns events without a filed verdict that have an open active review, reserved at least `since` ago.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_undecided(self, since: std::time::Duration, most: i64) -> Result<Vec<EventId>, StoreError> {
        sql::all(
            &self.0.work,
            "/* verdicts.undecided */
             SELECT DISTINCT e.event_id FROM review r JOIN review_event e ON e.review_id = r.id
             WHERE r.mode = $1 AND r.state IN ('queued', 'running') AND NOT e.later
               AND r.created_at <= clock() - make_interval(secs => $2)
               AND NOT EXISTS (SELECT FROM verdict v WHERE v.event_id = e.event_id) LIMIT $3",
            (Mode::Active.priority(), since.as_secs_f64(), most),
        )
        .await
    }

    /// Returns the agent of an event, if the event exists.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn agent_of(self, event: EventId) -> Result<Option<String>, StoreError> {
        sql::optional(&self.0.read, "/* verdicts.agent */ SELECT agent FROM event WHERE id = $1", (event.0,)).await
    }
}

/// A verdict with its agent and task.
#[derive(Debug, Clone)]
pub struct FiledVerdict {
    /// The agent.
    pub agent: String,
    /// Task of the event.
    pub task_id: Option<String>,
    /// When the verdict was filed.
    pub decided_at: Timestamp,
    /// The verdict.
    pub verdict: EventVerdict,
}

impl super::follow::FollowerPage {
    /// Returns the verdicts of the page, each with agent and task.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn verdicts(&mut self) -> Result<Vec<FiledVerdict>, StoreError> {
        let ids = uuids(self.ended.verdicts.iter().map(|verdict| &verdict.event_id));
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let rows: Vec<(EventId, String, Option<String>, Timestamp)> = sql::all(
            &mut *self.tx,
            "/* verdicts.about */ SELECT event_id, agent, task_id, decided_at FROM verdict WHERE event_id = ANY($1)",
            (ids,),
        )
        .await?;
        let about = |verdict: &EventVerdict| {
            let (_, agent, task_id, decided_at) = rows.iter().find(|(id, ..)| *id == verdict.event_id)?.clone();
            Some(FiledVerdict { agent, task_id, decided_at, verdict: verdict.clone() })
        };
        Ok(self.ended.verdicts.iter().filter_map(about).collect())
    }
}

/// Returns verdicts with feed numbers from `after`, exclusive, to `until`, in that order.
pub(super) async fn filed_between(
    database: &mut Connection,
    after: i64,
    until: i64,
) -> Result<Vec<EventVerdict>, StoreError> {
    let query =
        sqlx::AssertSqlSafe(format!("/* verdicts.between */ {FILED} WHERE seq > $1 AND seq <= $2 ORDER BY seq"));
    sql::all(database, query, (after, until)).await
}
