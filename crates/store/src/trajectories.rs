//! Tasks, each agent's part in them, and assessments of their events.

use sqlx::{Postgres, QueryBuilder};

use super::{
    StoreError,
    aggregates::EventStore,
    follow::FollowerPage,
    paging::{Page, Seek, Span},
    sql,
    steps::TaskStep,
};
use umbra_domain::{Assessment, EventId, ReviewId, StepCoverage, clock::first_id_at, trajectory::ReviewOpinion};

/// Most opinions behind a task's recommendation, the strictest first.
const MAX_OPINIONS: i64 = 500;

/// Filter of a list of tasks. A field that is `None` admits all.
#[derive(Debug, Clone, Default)]
pub struct TaskFilter {
    /// With a part of this agent.
    pub agent: Option<String>,
    /// Begun in this span.
    pub span: Span,
}

/// One agent's part in a task.
#[derive(Debug, Clone)]
pub struct TaskPart {
    /// The task.
    pub task_id: String,
    /// The agent.
    pub agent: String,
    /// Number of the agent's events in the task.
    pub events: i64,
    /// First of these events.
    pub first: EventId,
    /// Last of these events.
    pub last: EventId,
    /// Reviews of these events.
    pub reviews: i64,
    /// Strictest assessment of these events.
    pub worst: Option<Assessment>,
    /// Coverage of these events: each kind of step with its number of steps.
    pub coverage: Vec<(StepCoverage, u64)>,
}

impl EventStore<'_> {
    /// Returns a page of tasks, in order of their first event.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn tasks(self, filter: &TaskFilter, seek: Seek) -> Result<Page<String>, StoreError> {
        let mut query: QueryBuilder<Postgres> = QueryBuilder::new(
            "/* trajectories.page */ SELECT e.seq, e.task_id FROM event e WHERE e.task_id IS NOT NULL
             AND NOT EXISTS (SELECT FROM event o WHERE o.task_id = e.task_id AND o.seq < e.seq)",
        );
        if let Some(agent) = &filter.agent {
            query.push(" AND EXISTS (SELECT FROM event o WHERE o.task_id = e.task_id AND o.agent = ");
            query.push_bind(agent).push(")");
        }
        if let Some(since) = filter.span.since {
            query.push(" AND e.id >= ").push_bind(first_id_at(since));
        }
        if let Some(until) = filter.span.until {
            query.push(" AND e.id < ").push_bind(first_id_at(until));
        }
        seek.push(&mut query, "e.seq");
        Ok(seek.page(sql::built(&self.0.read, &mut query).await?))
    }

    /// Returns each agent's part in these tasks. With `mode`, reviews by shadows of this mode's rank count; without it,
    /// all but passive ones.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn task_parts(self, tasks: &[String], mode: Option<i16>) -> Result<Vec<TaskPart>, StoreError> {
        type Row = (String, String, i64, EventId, EventId, i64, Option<i32>);
        let rows: Vec<Row> = sql::all(
            &self.0.read,
            "/* trajectories.parts */
             SELECT e.task_id, e.agent, count(DISTINCT e.id) AS events, min(e.id::text)::uuid AS first,
                    max(e.id::text)::uuid AS last, count(DISTINCT r.id) AS reviews,
                    max(array_position($3, coalesce(a.assessment, d.assessment))) AS worst
             FROM event e
             LEFT JOIN (review_event h JOIN review r ON r.id = h.review_id AND r.state <> 'released'
                        AND (r.mode = $2 OR $2 IS NULL AND r.mode < 2)) ON h.event_id = e.id
             LEFT JOIN review_result d ON d.review_id = r.id
             LEFT JOIN review_assessment a ON a.review_id = r.id AND a.event_id = e.id
             WHERE e.task_id = ANY($1) GROUP BY e.task_id, e.agent ORDER BY e.task_id, min(e.seq)",
            (tasks, mode, ranks()),
        )
        .await?;
        let mut coverage = self.steps_covered(tasks, mode).await?;
        let part = |(task_id, agent, events, first, last, reviews, worst): Row| {
            let key = (task_id, agent);
            let coverage = coverage.remove(&key).unwrap_or_default();
            let (task_id, agent) = key;
            TaskPart { task_id, agent, events, first, last, reviews, worst: worst.and_then(assessment), coverage }
        };
        Ok(rows.into_iter().map(part).collect())
    }

    /// Returns reviews' assessments of these agents' events in a task, and the number of their open reviews.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn opinions(
        self,
        task: &str,
        agents: &[String],
        mode: Option<i16>,
    ) -> Result<(Vec<ReviewOpinion>, u64), StoreError> {
        let rows: Vec<(String, i32, String)> = sql::all(
            &self.0.read,
            "/* trajectories.opinions */
             SELECT r.shadow, array_position($4, coalesce(a.assessment, d.assessment)) AS rank,
                    coalesce(a.recommendation, d.recommendation)
             FROM event e JOIN review_event h ON h.event_id = e.id JOIN review r ON r.id = h.review_id
             JOIN review_result d ON d.review_id = r.id
             LEFT JOIN review_assessment a ON a.review_id = r.id AND a.event_id = e.id
             WHERE e.task_id = $1 AND e.agent = ANY($2) AND (r.mode = $3 OR $3 IS NULL AND r.mode < 2)
             ORDER BY rank DESC, d.seq LIMIT $5",
            (task, agents, mode, ranks(), MAX_OPINIONS),
        )
        .await?;
        let open: i64 = sql::one(
            &self.0.read,
            "/* trajectories.open */
             SELECT count(DISTINCT r.id) FROM event e JOIN review_event h ON h.event_id = e.id
             JOIN review r ON r.id = h.review_id AND r.state IN ('queued', 'running')
             WHERE e.task_id = $1 AND e.agent = ANY($2) AND (r.mode = $3 OR $3 IS NULL AND r.mode < 2)",
            (task, agents, mode),
        )
        .await?;
        let opinion = |(shadow, rank, recommendation)| {
            Some(ReviewOpinion { shadow, assessment: assessment(rank)?, recommendation })
        };
        Ok((rows.into_iter().filter_map(opinion).collect(), u64::try_from(open).unwrap_or(0)))
    }
}

/// Assessment of one event of a task by one review, as far as it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssessedReview {
    /// The review.
    pub review: ReviewId,
    /// The event.
    pub event: EventId,
    /// True if the review waits or runs.
    pub open: bool,
    /// Assessment; `None` while the review is open, or if it failed.
    pub assessment: Option<Assessment>,
}

impl FollowerPage {
    /// Returns reviews' assessments of a task's events, strictest first, at most `most`, without passive shadows.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn opined(&mut self, task: &str, most: i64) -> Result<Vec<AssessedReview>, StoreError> {
        let rows: Vec<(ReviewId, EventId, bool, Option<i32>)> = sql::all(
            &mut *self.tx,
            "/* trajectories.opined */
             SELECT r.id, h.event_id, r.state IN ('queued', 'running'),
                    array_position($2, coalesce(a.assessment, d.assessment)) AS rank
             FROM event e JOIN review_event h ON h.event_id = e.id
             JOIN review r ON r.id = h.review_id AND r.state <> 'released' AND r.mode < 2
             LEFT JOIN review_result d ON d.review_id = r.id
             LEFT JOIN review_assessment a ON a.review_id = r.id AND a.event_id = e.id
             WHERE e.task_id = $1 ORDER BY rank DESC NULLS LAST, d.seq LIMIT $3",
            (task, ranks(), most),
        )
        .await?;
        let opined = |(review, event, open, rank): (_, _, _, Option<_>)| {
            let assessment = rank.and_then(assessment);
            AssessedReview { review, event, open, assessment }
        };
        Ok(rows.into_iter().map(opined).collect())
    }

    /// Returns the steps of a task after number `behind`, in order, without erased ones.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn steps(&mut self, task: &str, behind: i64, most: i64) -> Result<Vec<TaskStep>, StoreError> {
        sql::all(
            &mut *self.tx,
            "/* trajectories.steps */ SELECT seq, id AS event, payload FROM event
             WHERE task_id = $1 AND seq > $2 AND erased_at IS NULL ORDER BY seq LIMIT $3",
            (task, behind, most),
        )
        .await
    }
}

/// Returns the words of assessments, from mild to strict.
fn ranks() -> Vec<&'static str> {
    Assessment::ALL.map(Assessment::as_str).to_vec()
}

fn assessment(rank: i32) -> Option<Assessment> {
    Assessment::ALL.get(usize::try_from(rank).ok()?.checked_sub(1)?).copied()
}
