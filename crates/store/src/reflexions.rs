//! Reflexions: faults that recur for an agent and a type of task.

use std::time::Duration;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use sqlx::{AssertSqlSafe, QueryBuilder, postgres::PgRow};

use super::{
    StoreError,
    aggregates::ReflexionStore,
    follow::FollowerPage,
    paging::{Page, Seek, Span, equals, push_span},
    pool::Connection,
    sql::{self, column, record, uuids},
    transaction::begin,
    webhooks::{OutgoingMessage, enqueue},
    workers::interval,
};
use umbra_domain::{EventId, FindingCategory, FindingId, FindingSource, ReflexionId, ReviewId, Severity};

/// Most findings of a fault that are read; the count stops there.
const MOST_FINDINGS: i64 = 500;
/// Events of finding `f`: its own, and those that repeat it, newest first.
const EVENTS_OF_FINDING: &str = "
    SELECT f.id, f.event_id, f.review_id, f.created_at AS at
    UNION ALL (SELECT f.id, o.event_id, NULL, o.at FROM finding_occurrence o WHERE o.finding_id = f.id
               ORDER BY o.seq DESC LIMIT 500)";
/// Most faults in one statement, which has to end in time.
const MOST_KEYS: usize = 200;

/// Identity of a recurring fault: findings with the same key are the same fault.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FaultKey {
    /// The agent.
    pub agent: String,
    /// The kind of task.
    pub task_type: Option<String>,
    /// Fingerprint of the fault.
    pub fingerprint: String,
}

record!(FaultKey: agent, task_type, fingerprint);

/// Recurrence of a fault, counted without findings of passive shadows and false positives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recurrence {
    /// The fault.
    pub key: FaultKey,
    /// The fault's open reflexion.
    pub open: Option<ReflexionId>,
    /// Events with the fault within the window.
    pub recent: u32,
    /// Events with the fault since the open reflexion's first, else within the window.
    pub events: u32,
    /// Time of the first of those events.
    pub first_at: Option<Timestamp>,
    /// Time of the last of those events.
    pub last_at: Option<Timestamp>,
    /// Worst severity.
    pub severity: Severity,
    /// Category of the fault.
    pub category: FindingCategory,
    /// Source of the findings: the checks or a model.
    pub source: FindingSource,
    /// The rule.
    pub rule: String,
}

record! {
    Recurrence, row: open, first_at, last_at;
    key: FaultKey::read(row)?,
    recent: most_u32(row, "recent")?,
    events: most_u32(row, "events")?,
    severity: column::<Option<_>>(row, "severity")?.unwrap_or(Severity::Info),
    category: column::<Option<_>>(row, "category")?.unwrap_or(FindingCategory::Custom),
    source: column::<Option<_>>(row, "source")?.unwrap_or(FindingSource::Model),
    rule: column::<Option<_>>(row, "rule")?.unwrap_or_default(),
}

fn most_u32(row: &PgRow, name: &str) -> Result<u32, sqlx::Error> {
    Ok(u32::try_from(column::<i64>(row, name)?).unwrap_or(u32::MAX))
}

/// A reflexion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReflexionRow {
    /// Reflexion id.
    pub id: ReflexionId,
    /// The fault.
    pub key: FaultKey,
    /// Worst severity.
    pub severity: Severity,
    /// Category of the fault.
    pub category: FindingCategory,
    /// Source of the findings: the checks or a model.
    pub source: FindingSource,
    /// The rule.
    pub rule: String,
    /// Events with the fault.
    pub events: i64,
    /// Time of the first of those events.
    pub first_at: Timestamp,
    /// Time of the last of those events.
    pub last_at: Timestamp,
    /// When the reflexion opened.
    pub opened_at: Timestamp,
    /// When the reflexion closed.
    pub closed_at: Option<Timestamp>,
    /// Description of the newest finding, if one is kept.
    pub description: Option<String>,
}

record! {
    ReflexionRow, row: id, severity, category, source, rule, events, first_at, last_at, opened_at, closed_at,
    description;
    key: FaultKey::read(row)?,
}

/// One event in which a fault was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occurrence {
    /// The reflexion.
    pub reflexion: ReflexionId,
    /// The finding.
    pub finding: FindingId,
    /// The event.
    pub event: EventId,
    /// The review; `None` for a look.
    pub review: Option<ReviewId>,
    /// When the fault was found.
    pub at: Timestamp,
}

record!(Occurrence: reflexion, finding, event, review, at);

/// Filter of a list of reflexions. A field that is `None` admits all.
#[derive(Debug, Clone, Default)]
pub struct ReflexionFilter {
    /// Of this agent.
    pub agent: Option<String>,
    /// Of this type of task.
    pub task_type: Option<String>,
    /// `open` or `closed`.
    pub status: Option<String>,
    /// Opened in this span.
    pub span: Span,
}

const SELECT: &str =
    "SELECT x.seq, x.id, x.agent, x.task_type, x.fingerprint, x.severity, x.category, x.source, x.rule,
    x.events, x.first_at, x.last_at, x.opened_at, x.closed_at,
    (SELECT f.description FROM finding f WHERE f.agent = x.agent AND f.fingerprint = x.fingerprint
         AND coalesce(f.task_type, '') = coalesce(x.task_type, '') AND f.mode < 2 AND f.status <> 'false_positive'
     ORDER BY f.seq DESC LIMIT 1) AS description
    FROM reflexion x WHERE true";

impl FollowerPage {
    /// Counts the recurrences of these faults.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn recurrences(&mut self, keys: &[FaultKey], window: Duration) -> Result<Vec<Recurrence>, StoreError> {
        let mut all = Vec::with_capacity(keys.len());
        for some in keys.chunks(MOST_KEYS) {
            all.extend(recurrences(&mut self.tx, some, window).await?);
        }
        Ok(all)
    }

    /// Opens a reflexion; returns false if one is open already.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn open_reflexion(&mut self, id: ReflexionId, of: &Recurrence) -> Result<bool, StoreError> {
        open(&mut self.tx, id, of).await
    }

    /// Updates an open reflexion whose fault was found again.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn update_recurrence(&mut self, id: ReflexionId, of: &Recurrence) -> Result<(), StoreError> {
        sql::execute(
            &mut *self.tx,
            "/* reflexions.go_on */
             UPDATE reflexion SET events = greatest(events, $2), last_at = greatest(last_at, $3),
                 severity = greatest(severity, $4) WHERE id = $1",
            (id.0, i64::from(of.events), of.last_at.map(ToSqlx::to_sqlx), of.severity.code()),
        )
        .await
    }

    /// Closes reflexions whose fault was not found within the window; returns their ids and agents.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn close_stale(&mut self, window: Duration, most: i64) -> Result<Vec<(ReflexionId, String)>, StoreError> {
        sql::all(
            &mut *self.tx,
            "/* reflexions.stale */
             UPDATE reflexion SET status = 'closed', closed_at = clock() WHERE status = 'open' AND id IN
                 (SELECT id FROM reflexion WHERE status = 'open' AND last_at <= (SELECT clock()) - $1 LIMIT $2)
             RETURNING id, agent",
            (interval(window), most),
        )
        .await
    }
}

impl ReflexionStore<'_> {
    /// Counts the recurrence of a finding's fault; returns `None` if there is no such finding, or if it is about what
    /// the agent was given.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn recurrence_of(self, id: FindingId, window: Duration) -> Result<Option<Recurrence>, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let key: Option<FaultKey> = sql::optional(
            &mut *tx,
            "/* reflexions.key */ SELECT agent, task_type, fingerprint FROM finding WHERE id = $1 AND about = 'agent'",
            (id.0,),
        )
        .await?;
        let Some(key) = key else { return Ok(None) };
        Ok(recurrences(&mut tx, &[key], window).await?.pop())
    }

    /// Opens a reflexion and stores the message about it; returns false if one is open already.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn open(
        self,
        id: ReflexionId,
        of: &Recurrence,
        message: Option<&OutgoingMessage>,
    ) -> Result<bool, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let opened = open(&mut tx, id, of).await?;
        if let (true, Some(message)) = (opened, message) {
            enqueue(&mut tx, message).await?;
        }
        tx.commit().await?;
        Ok(opened)
    }

    /// Closes a reflexion and stores the message about it; returns false if it was not open.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn close(self, id: ReflexionId, message: Option<&OutgoingMessage>) -> Result<bool, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let closed = sql::changed(
            &mut *tx,
            "/* reflexions.close */
             UPDATE reflexion SET status = 'closed', closed_at = clock() WHERE id = $1 AND status = 'open'",
            (id.0,),
        )
        .await?;
        if let (true, Some(message)) = (closed, message) {
            enqueue(&mut tx, message).await?;
        }
        tx.commit().await?;
        Ok(closed)
    }

    /// Returns a page of reflexions, in the order in which they opened.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self, filter: &ReflexionFilter, seek: Seek) -> Result<Page<ReflexionRow>, StoreError> {
        let mut query = QueryBuilder::new(SELECT);
        equals(&mut query, "x.agent", filter.agent.as_deref());
        equals(&mut query, "x.task_type", filter.task_type.as_deref());
        equals(&mut query, "x.status", filter.status.as_deref());
        push_span(&mut query, "x.opened_at", filter.span);
        let mut tx = begin(&self.0.read).await?;
        newest_first(&mut tx).await?;
        seek.fetch(&mut query, "x.seq", &mut *tx).await
    }

    /// Returns the open reflexions of an agent and a type of task, the most recent fault first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list_open(
        self,
        agent: &str,
        task_type: Option<&str>,
        most: i64,
    ) -> Result<Vec<ReflexionRow>, StoreError> {
        let mut query = QueryBuilder::new(SELECT);
        query.push(" AND x.status = 'open' AND x.agent = ").push_bind(agent);
        query.push(" AND coalesce(x.task_type, '') = ").push_bind(task_type.unwrap_or_default());
        query.push(" ORDER BY x.last_at DESC LIMIT ").push_bind(most);
        let mut tx = begin(&self.0.work).await?;
        newest_first(&mut tx).await?;
        sql::built(&mut *tx, &mut query).await
    }

    /// Returns the newest occurrences of these reflexions' faults, at most `most` of each.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn occurrences(self, of: &[ReflexionId], most: i64) -> Result<Vec<Occurrence>, StoreError> {
        let mut tx = begin(&self.0.read).await?;
        newest_first(&mut tx).await?;
        let sql = format!(
            "/* reflexions.occurrences */
             SELECT x.id AS reflexion, e.id AS finding, e.event_id AS event, e.review_id AS review, e.at
             FROM reflexion x CROSS JOIN LATERAL (
                 SELECT e.* FROM (SELECT * FROM finding f WHERE f.agent = x.agent AND f.fingerprint = x.fingerprint
                     AND coalesce(f.task_type, '') = coalesce(x.task_type, '') AND f.mode < 2 AND f.status <> 'false_positive'
                     AND f.created_at <= x.last_at ORDER BY f.seq DESC LIMIT $2) f
                 CROSS JOIN LATERAL ({EVENTS_OF_FINDING}) e
                 WHERE e.at BETWEEN x.first_at AND x.last_at LIMIT $2) e
             WHERE x.id = ANY($1) ORDER BY x.id, e.at DESC",
        );
        sql::all(&mut *tx, AssertSqlSafe(sql), (uuids(of), most)).await
    }
}

/// Makes the rest of the transaction read a fault's findings along their index, newest first, and only as many as are
/// wanted. The planner takes every fault for a rare one: by default it would fetch and sort all findings of a fault
/// that was found a million times.
async fn newest_first(database: &mut Connection) -> Result<(), StoreError> {
    sqlx::raw_sql("SET LOCAL enable_bitmapscan = off; SET LOCAL enable_sort = off").execute(database).await?;
    Ok(())
}

async fn recurrences(
    database: &mut Connection,
    keys: &[FaultKey],
    window: Duration,
) -> Result<Vec<Recurrence>, StoreError> {
    newest_first(database).await?;
    let sql = format!(
        "/* reflexions.count */
         SELECT k.*, o.id AS open, c.* FROM unnest($1::text[], $2::text[], $3::text[]) k(agent, task_type, fingerprint)
         CROSS JOIN (SELECT clock() - $4 AS since OFFSET 0) w
         LEFT JOIN reflexion o ON o.agent = k.agent AND o.fingerprint = k.fingerprint
             AND coalesce(o.task_type, '') = coalesce(k.task_type, '') AND o.status = 'open'
         CROSS JOIN LATERAL (
             SELECT count(DISTINCT e.event_id) FILTER (WHERE e.at > w.since) AS recent,
                    count(DISTINCT e.event_id) AS events, min(e.at) AS first_at, max(e.at) AS last_at,
                    max(e.severity) AS severity, max(e.category) AS category, max(e.source) AS source,
                    max(e.rule) AS rule
             FROM (SELECT e.*, f.severity, f.category, f.source, f.rule
                   FROM (SELECT * FROM finding f WHERE f.agent = k.agent AND f.fingerprint = k.fingerprint
                           AND coalesce(f.task_type, '') = coalesce(k.task_type, '') AND f.mode < 2
                           AND f.status <> 'false_positive' ORDER BY f.seq DESC LIMIT $5) f
                   CROSS JOIN LATERAL ({EVENTS_OF_FINDING}) e LIMIT $5) e
             WHERE e.at > w.since OR e.at >= o.first_at) c",
    );
    sql::all(
        &mut *database,
        AssertSqlSafe(sql),
        (
            keys.iter().map(|key| key.agent.as_str()).collect::<Vec<_>>(),
            keys.iter().map(|key| key.task_type.as_deref()).collect::<Vec<_>>(),
            keys.iter().map(|key| key.fingerprint.as_str()).collect::<Vec<_>>(),
            interval(window),
            MOST_FINDINGS,
        ),
    )
    .await
}

/// Returns faults of looks' findings that were repeated by events with feed numbers from `after`, exclusive, to
/// `until`, without passive shadows.
pub(super) async fn repeated_between(
    database: &mut Connection,
    after: i64,
    until: i64,
) -> Result<Vec<FaultKey>, StoreError> {
    sql::all(
        database,
        "/* reflexions.repeated */ SELECT DISTINCT f.agent, f.task_type, f.fingerprint FROM finding_occurrence o
         JOIN finding f ON f.id = o.finding_id
         WHERE o.seq > $1 AND o.seq <= $2 AND f.mode < 2 AND f.about = 'agent'",
        (after, until),
    )
    .await
}

async fn open(database: &mut Connection, id: ReflexionId, of: &Recurrence) -> Result<bool, StoreError> {
    sql::changed(
        &mut *database,
        "/* reflexions.open */
         WITH f AS (UPDATE feed SET last = last + 1 WHERE name = 'result' RETURNING last)
         INSERT INTO reflexion (id, seq, agent, task_type, fingerprint, severity, category, source, rule, events,
                                first_at, last_at, opened_at)
         SELECT $1, f.last, $2, $3, $4, $5, $6, $7, $8, $9, coalesce($10, clock()), coalesce($11, clock()), clock()
         FROM f ON CONFLICT DO NOTHING",
        (
            id.0,
            &of.key.agent,
            &of.key.task_type,
            &of.key.fingerprint,
            of.severity.code(),
            of.category.as_str(),
            of.source.as_str(),
            &of.rule,
            i64::from(of.events),
            of.first_at.map(ToSqlx::to_sqlx),
            of.last_at.map(ToSqlx::to_sqlx),
        ),
    )
    .await
}
