//! Reviews as the API shows them: the job, and its result once it is done.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::{Postgres, QueryBuilder, postgres::PgRow};
use utoipa::ToSchema;

use super::{
    StoreError,
    aggregates::ReviewStore,
    findings::FindingItem,
    paging::{Page, Seek, Span, equals, push_span},
    pool::Connection,
    sql::{self, column, json, record, uuids},
};
use umbra_domain::{
    Assessment, EventId, Mode, NanoUsd, ReviewId, ReviewScope, ReviewState, Reviewer, SkipReason, TokenCount, Trigger,
    verdict::DecidedBy,
};

/// Note of a released review.
const RELEASED: &str =
    "Given up before any call could be charged: its unit returned to the caps of its day, and its cooldown ended.";

/// A review.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Review {
    /// Review id.
    #[schema(value_type = String, example = "rev_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: ReviewId,
    /// The shadow.
    pub shadow: String,
    /// Hash of the shadow's configuration under which the review runs.
    pub shadow_version: String,
    /// The watched agent.
    pub agent: String,
    /// The event's task.
    pub task_id: Option<String>,
    /// The trigger by which the event matched.
    pub trigger: Option<Trigger>,
    /// The shadow's mode.
    pub mode: Option<Mode>,
    /// State.
    pub state: Option<ReviewState>,
    /// Assessment; null until the review is done.
    pub assessment: Option<Assessment>,
    /// The rule behind the assessment; null until the review is done, and in reviews from before Umbra kept it.
    pub decided_by: Option<DecidedBy>,
    /// The model's score, 0-100.
    pub score: Option<i16>,
    /// Recommendation to the agent or its owner.
    pub recommendation: Option<String>,
    /// The reviewer: a model, or the built-in checks alone.
    pub reviewer: Option<Reviewer>,
    /// The model's alias; null where the checks reviewed alone.
    pub model: Option<String>,
    /// Version of the prompt; null where no model was asked.
    pub prompt_version: Option<i16>,
    /// Tokens of the calls behind the result.
    pub usage: TokenCount,
    /// Cost of all calls so far, in US dollars, also of those without a result.
    pub cost_usd: f64,
    /// Time from lease to result, in milliseconds.
    pub latency_ms: Option<i64>,
    /// Notes for readers: what was left out, why the review is inconclusive.
    pub notes: Vec<String>,
    /// Why the review was given up.
    pub reason: Option<SkipReason>,
    /// The last failure, in words.
    pub failure: Option<String>,
    /// Scope: an event, a batch of events, or a whole task.
    pub scope: Option<ReviewScope>,
    /// Events under review; for a task, those that requested the review.
    #[schema(value_type = Vec<String>)]
    pub events: Vec<EventId>,
    /// Assessments of the events, once the review is done; `assessment` is the strictest of these. Empty for a task,
    /// which is judged as a whole.
    pub assessments: Vec<EventAssessment>,
    /// When the review was reserved.
    pub created_at: Timestamp,
    /// When a worker first leased the review.
    pub started_at: Option<Timestamp>,
    /// When the review ended.
    pub finished_at: Option<Timestamp>,
    /// True if its unit returned to the caps of its day.
    #[serde(skip)]
    pub released: bool,
    /// Findings of the review; only where one review is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub findings: Option<Vec<FindingItem>>,
}

/// Assessment of one event by a review.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct EventAssessment {
    /// The event.
    #[schema(value_type = String)]
    pub event_id: EventId,
    /// Assessment of the event.
    pub assessment: Assessment,
    /// The rule behind the assessment.
    pub decided_by: Option<DecidedBy>,
    /// The model's score, 0-100.
    pub score: Option<i16>,
    /// Recommendation for the event.
    pub recommendation: String,
    /// Notes for readers.
    pub notes: Vec<String>,
}

/// Returns the review's assessments of its events; for a review of one event, the review's own.
fn assessments(row: &PgRow) -> Result<Vec<EventAssessment>, sqlx::Error> {
    if column::<Option<String>>(row, "parts")?.is_some() {
        return json(row, "parts");
    }
    let events: Vec<EventId> = column(row, "events")?;
    let (Some(ReviewScope::Event), Some(&event_id), Some(assessment)) =
        (column(row, "scope")?, events.first(), column(row, "assessment")?)
    else {
        return Ok(Vec::new());
    };
    Ok(vec![EventAssessment {
        event_id,
        assessment,
        decided_by: column(row, "decided_by")?,
        score: column(row, "score")?,
        recommendation: column::<Option<_>>(row, "recommendation")?.unwrap_or_default(),
        notes: json(row, "notes")?,
    }])
}

fn tokens(row: &PgRow, name: &str) -> Result<u64, sqlx::Error> {
    Ok(column::<Option<_>>(row, name)?.unwrap_or(0))
}

record! {
    Review, row: id, shadow, shadow_version, agent, task_id, trigger, mode, assessment, decided_by, score,
    recommendation, reviewer, model, prompt_version, latency_ms, reason, failure, scope, events, created_at, started_at,
    finished_at;
    state: column::<Option<ReviewState>>(row, "state")?.map(ReviewState::public_state),
    usage: TokenCount { input: tokens(row, "input_tokens")?, output: tokens(row, "output_tokens")? },
    cost_usd: column::<Option<NanoUsd>>(row, "cost_usd")?.unwrap_or_default().usd(),
    notes: if is_released(row)? { vec![RELEASED.to_owned()] } else { json(row, "notes")? },
    assessments: assessments(row)?,
    released: is_released(row)?,
    findings: None,
}

fn is_released(row: &PgRow) -> Result<bool, sqlx::Error> {
    Ok(column::<Option<_>>(row, "state")? == Some(ReviewState::Released))
}

impl Review {
    /// True if the review is done or failed, so its result is final.
    pub fn has_ended(&self) -> bool {
        matches!(self.state, Some(ReviewState::Done | ReviewState::Failed))
    }
}

/// Filter of a list of reviews. A field that is `None` admits all.
#[derive(Debug, Clone, Default)]
pub struct ReviewFilter {
    /// By this shadow.
    pub shadow: Option<String>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Of this task.
    pub task_id: Option<String>,
    /// By this trigger's code.
    pub trigger: Option<i16>,
    /// With this mode's rank.
    pub mode: Option<i16>,
    /// In this state; `failed` includes reviews that were given up before any call could be charged.
    pub state: Option<String>,
    /// With this assessment.
    pub assessment: Option<String>,
    /// Reserved in this span.
    pub span: Span,
}

impl ReviewFilter {
    /// True if only done reviews can match. Then the list is in order of finishing, so a polling reader misses no
    /// review that finishes late; otherwise it is in order of reservation.
    pub fn only_done(&self) -> bool {
        self.assessment.is_some() || self.state.as_deref() == Some("done")
    }
}

const COLUMNS: &str = "r.id, r.shadow, v.version AS shadow_version, r.agent, r.task_id, r.trigger, r.mode, r.state,
    r.created_at, r.started_at, r.finished_at, r.reason, r.failure,
    r.scope, ARRAY(SELECT e.event_id FROM review_event e WHERE e.review_id = r.id ORDER BY 1) AS events,
    CASE WHEN r.scope = 1 THEN (SELECT json_agg(json_build_object(
        'event_id', 'evt_' || replace(a.event_id::text, '-', ''), 'assessment', a.assessment,
        'decided_by', a.decided_by, 'score', a.score, 'recommendation', a.recommendation, 'notes', a.notes::json)
        ORDER BY a.event_id)::text
        FROM review_assessment a WHERE a.review_id = r.id) END AS parts,
    d.assessment, d.decided_by, d.score, d.recommendation, d.reviewer, d.model, d.prompt_version, d.input_tokens,
    d.output_tokens,
    coalesce(d.cost_usd, (SELECT sum(actual_usd) FROM provider_call c WHERE c.review_id = r.id)::bigint) AS cost_usd,
    d.latency_ms, d.notes";

impl ReviewStore<'_> {
    /// Returns one review. A released review shows as failed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn get(self, id: ReviewId) -> Result<Option<Review>, StoreError> {
        let mut query = QueryBuilder::new("SELECT r.seq, ");
        query.push(COLUMNS).push(
            " FROM review r JOIN shadow_version v ON v.id = r.version LEFT JOIN review_result d ON d.review_id = r.id
              WHERE r.id = ",
        );
        Ok(sql::built(&self.0.read, query.push_bind(id.0)).await?.pop())
    }

    /// Returns the reviews of these events, without the released, in the order of the events: each review with its
    /// assessment of that event alone.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn reviews_of(self, events: &[EventId]) -> Result<Vec<Vec<Review>>, StoreError> {
        let reviews = self.reviews_where(events, "").await?;
        let of_event = |event: &EventId| {
            let its = reviews.iter().filter(|review| review.events.contains(event)).cloned();
            its.map(|mut review| {
                review.assessments.retain(|own| own.event_id == *event);
                review
            })
            .collect()
        };
        Ok(events.iter().map(of_event).collect())
    }

    /// Returns the reviews of these events. With `mode`, shadows of this mode's rank count; without it, all but passive
    /// ones.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn reviews_among(self, events: &[EventId], mode: Option<i16>) -> Result<Vec<Review>, StoreError> {
        match mode {
            Some(mode) => self.reviews_where(events, &format!(" AND r.mode = {mode}")).await,
            None => self.reviews_where(events, " AND r.mode < 2").await,
        }
    }

    /// Returns the reviews of these events that are not released and fulfil a further condition in SQL.
    async fn reviews_where(self, events: &[EventId], more: &str) -> Result<Vec<Review>, StoreError> {
        let mut query = QueryBuilder::new("SELECT r.seq, ");
        query.push(COLUMNS).push(
            " FROM review r JOIN shadow_version v ON v.id = r.version LEFT JOIN review_result d ON d.review_id = r.id
              WHERE r.state <> 'released' AND r.id IN (SELECT review_id FROM review_event WHERE event_id = ANY(",
        );
        query.push_bind(uuids(events)).push("))").push(more).push(" ORDER BY r.seq");
        sql::built(&self.0.read, &mut query).await
    }

    /// Returns a page of reviews; for its order, see [`ReviewFilter::only_done`].
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self, filter: &ReviewFilter, seek: Seek) -> Result<Page<Review>, StoreError> {
        let (number, join) = if filter.only_done() { ("d.seq", "JOIN") } else { ("r.seq", "LEFT JOIN") };
        let mut query: QueryBuilder<Postgres> = QueryBuilder::new(format!("SELECT {number} AS seq, "));
        query.push(COLUMNS).push(format_args!(
            " FROM review r JOIN shadow_version v ON v.id = r.version
              {join} review_result d ON d.review_id = r.id WHERE true"
        ));
        equals(&mut query, "r.shadow", filter.shadow.as_deref());
        equals(&mut query, "r.agent", filter.agent.as_deref());
        if let Some(task) = &filter.task_id {
            // A batch may hold events of several tasks.
            query.push(" AND (r.task_id = ").push_bind(task);
            query.push(
                " OR r.scope = 1 AND r.id IN (SELECT h.review_id FROM event e JOIN review_event h ON h.event_id = e.id
                  WHERE e.task_id = ",
            );
            query.push_bind(task).push("))");
        }
        equals(&mut query, "r.trigger", filter.trigger);
        equals(&mut query, "r.mode", filter.mode);
        match filter.state.as_deref() {
            Some("failed") => drop(query.push(" AND r.state IN ('failed', 'released')")),
            state => equals(&mut query, "r.state", state),
        }
        equals(&mut query, "d.assessment", filter.assessment.as_deref());
        push_span(&mut query, "r.created_at", filter.span);
        seek.fetch(&mut query, number, &self.0.read).await
    }
}

/// Returns reviews with results of feed numbers from `after`, exclusive, to `until`, in that order.
pub(super) async fn ended_between(
    database: &mut Connection,
    after: i64,
    until: i64,
    most: i64,
) -> Result<Vec<(i64, Review)>, StoreError> {
    let mut query: QueryBuilder<Postgres> = QueryBuilder::new("SELECT d.seq, ");
    query.push(COLUMNS).push(
        " FROM review_result d JOIN review r ON r.id = d.review_id JOIN shadow_version v ON v.id = r.version
          WHERE d.seq > ",
    );
    query.push_bind(after).push(" AND d.seq <= ").push_bind(until).push(" ORDER BY d.seq LIMIT ").push_bind(most);
    sql::numbered(database, &mut query).await
}
