//! Findings as the API shows them, and people's judgement of them.

use jiff::Timestamp;
use serde::Serialize;
use sqlx::{AssertSqlSafe, PgExecutor, QueryBuilder, postgres::PgRow};
use utoipa::ToSchema;

use super::{
    StoreError,
    aggregates::FindingStore,
    paging::{Page, Seek, Span, equals, push_span},
    reviews::ReviewFilter,
    sql::{self, Record, column, record, uuids},
};
use umbra_domain::{EventId, FindingId, FindingSubject, Mode, ReviewId, Severity, Trigger};

/// Position of a finding's evidence in the event.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct FindingEvidence {
    /// The event's field, such as `output` or `tool.args.command`.
    pub field: String,
    /// The text there, verbatim from the stored (redacted) field.
    pub quote: String,
    /// First byte of the quote in the field's stored text (UTF-8).
    pub start: i64,
    /// One past its last byte.
    pub end: i64,
}

/// A finding.
#[derive(Debug, Clone, Serialize, ToSchema)]
#[schema(as = Finding)]
pub struct FindingItem {
    /// Finding id.
    #[schema(value_type = String)]
    pub id: FindingId,
    /// The shadow.
    pub shadow: String,
    /// The watched agent.
    pub watched_agent: String,
    /// The trigger by which the event matched.
    pub trigger: Option<Trigger>,
    /// The shadow's mode.
    pub mode: Option<Mode>,
    /// Severity.
    pub severity: Severity,
    /// Category.
    pub category: String,
    /// One or two sentences.
    pub description: String,
    /// Recommendation to the agent or its owner.
    pub recommendation: String,
    /// Evidence; null where no quote was found in the text.
    pub evidence: Option<FindingEvidence>,
    /// True if the evidence stands in the text, or a second call of the model agreed on what cannot be quoted.
    pub verified: bool,
    /// `given` if the finding is about what the agent was given, not about the agent's own work.
    pub about: FindingSubject,
    /// `check` or `model`.
    pub source: String,
    /// The check's rule, or the model's checklist item.
    pub rule: String,
    /// Fingerprint that findings of the same fault share.
    pub fingerprint: String,
    /// Events of this agent with this fingerprint up to then, repeats of this finding included. Findings of passive
    /// shadows are counted apart.
    pub occurrences: i64,
    /// Review that found it; null if a look of the built-in checks found it.
    #[schema(value_type = Option<String>)]
    pub review_id: Option<ReviewId>,
    /// Event of the finding; if several events repeat it, the first.
    #[schema(value_type = String)]
    pub event_id: EventId,
    /// The event's task.
    pub task_id: Option<String>,
    /// When the finding was made.
    pub timestamp: Timestamp,
    /// People's judgement: open, confirmed, `false_positive` or resolved.
    pub status: String,
    /// Note of the judgement.
    pub note: Option<String>,
    /// The event's kind of task.
    #[serde(skip)]
    pub task_type: Option<String>,
    /// True if a look of the built-in checks found it.
    #[serde(skip)]
    pub of_look: bool,
}

record! {
    FindingItem, row: id, shadow, trigger, mode, severity, category, description, recommendation, verified, about,
    source, rule, fingerprint, occurrences, review_id, event_id, task_id, status, note, task_type, of_look;
    watched_agent: column(row, "agent")?,
    evidence: evidence(row)?,
    timestamp: column(row, "created_at")?,
}

fn evidence(row: &PgRow) -> Result<Option<FindingEvidence>, sqlx::Error> {
    let text = column::<Option<_>>(row, "field")?.zip(column::<Option<_>>(row, "quote")?);
    let place = column::<Option<_>>(row, "quote_start")?.zip(column::<Option<_>>(row, "quote_end")?);
    Ok(text.zip(place).map(|((field, quote), (start, end))| FindingEvidence { field, quote, start, end }))
}

/// Filter of a list of findings. A field that is `None` admits all.
#[derive(Debug, Clone, Default)]
pub struct FindingFilter {
    /// By this shadow.
    pub shadow: Option<String>,
    /// Of this agent.
    pub agent: Option<String>,
    /// Of at least this severity, as a code.
    pub severity: Option<i16>,
    /// Of this category.
    pub category: Option<String>,
    /// With this mode's rank; `None` leaves the passive ones out.
    pub mode: Option<i16>,
    /// Of this task.
    pub task_id: Option<String>,
    /// By this trigger's code.
    pub trigger: Option<i16>,
    /// Verified or not.
    pub verified: Option<bool>,
    /// With this status.
    pub status: Option<String>,
    /// Found in this span.
    pub span: Span,
}

impl FindingFilter {
    /// True if the filter admits a finding, by the same rules as the list's SQL.
    pub fn admits(&self, finding: &FindingItem) -> bool {
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, is: Option<&T>) -> bool {
            wanted.is_none() || wanted == is
        }
        let mode = finding.mode.map(Mode::priority);
        is(self.shadow.as_deref(), Some(&finding.shadow))
            && is(self.agent.as_deref(), Some(&finding.watched_agent))
            && is(self.category.as_deref(), Some(&finding.category))
            && is(self.task_id.as_deref(), finding.task_id.as_deref())
            && is(self.trigger.as_ref(), finding.trigger.map(Trigger::code).as_ref())
            && is(self.verified.as_ref(), Some(&finding.verified))
            && is(self.status.as_deref(), Some(&finding.status))
            && self.severity.is_none_or(|least| finding.severity.code() >= least)
            && match self.mode {
                Some(wanted) => mode == Some(wanted),
                None => mode != Some(Mode::Passive.priority()),
            }
            && self.span.since.is_none_or(|since| finding.timestamp >= since)
            && self.span.until.is_none_or(|until| finding.timestamp < until)
    }
}

const COLUMNS: &str = "SELECT seq, id, review_id, event_id, shadow, agent, task_id, task_type,
    collapse_key IS NOT NULL AS of_look, version, trigger, mode, severity, category,
    description, recommendation, field, quote, quote_start, quote_end, verified, about, source, rule, fingerprint,
    occurrences, created_at, status, note FROM finding WHERE true";

impl FindingStore<'_> {
    /// Returns one finding.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn get(self, id: FindingId) -> Result<Option<FindingItem>, StoreError> {
        let mut query = QueryBuilder::new(COLUMNS);
        query.push(" AND id = ").push_bind(id.0);
        Ok(sql::built(&self.0.read, &mut query).await?.pop())
    }

    /// Returns the findings of some reviews, in order.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn findings_of(self, reviews: &[ReviewId]) -> Result<Vec<FindingItem>, StoreError> {
        of_reviews(&self.0.read, reviews).await
    }

    /// Returns findings with their events, among these events; an event may repeat an earlier finding. With `mode`,
    /// shadows of this mode's rank count; without it, all but passive ones.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn findings_in(
        self,
        events: &[EventId],
        mode: Option<i16>,
    ) -> Result<Vec<(EventId, FindingItem)>, StoreError> {
        let repeats: Vec<(FindingId, EventId)> = sql::all(
            &self.0.read,
            "/* findings.repeats */ SELECT finding_id, event_id FROM finding_occurrence WHERE event_id = ANY($1)",
            (uuids(events),),
        )
        .await?;
        let mut query = QueryBuilder::new(COLUMNS);
        query.push(" AND (event_id = ANY(").push_bind(uuids(events)).push(") OR id = ANY(");
        query.push_bind(uuids(repeats.iter().map(|(finding, _)| finding))).push(")) AND ");
        match mode {
            Some(mode) => query.push("mode = ").push_bind(mode),
            None => query.push("mode < 2"),
        };
        query.push(" ORDER BY seq");
        let items: Vec<FindingItem> = sql::built(&self.0.read, &mut query).await?;
        let mut found = Vec::with_capacity(items.len());
        for item in items {
            let again = repeats.iter().filter(|(finding, _)| *finding == item.id).map(|(_, event)| event);
            let events = events.iter().filter(|id| **id == item.event_id).chain(again);
            found.extend(events.map(|event| (*event, item.clone())));
        }
        Ok(found)
    }

    /// Returns a page of findings, in the order in which they became visible.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn list(self, filter: &FindingFilter, seek: Seek) -> Result<Page<FindingItem>, StoreError> {
        let mut query = QueryBuilder::new(COLUMNS);
        equals(&mut query, "shadow", filter.shadow.as_deref());
        equals(&mut query, "agent", filter.agent.as_deref());
        equals(&mut query, "category", filter.category.as_deref());
        equals(&mut query, "task_id", filter.task_id.as_deref());
        equals(&mut query, "trigger", filter.trigger);
        equals(&mut query, "verified", filter.verified);
        equals(&mut query, "status", filter.status.as_deref());
        if let Some(severity) = filter.severity {
            query.push(" AND severity >= ").push_bind(severity);
        }
        match filter.mode {
            Some(mode) => query.push(" AND mode = ").push_bind(mode),
            None => query.push(" AND mode < 2"),
        };
        push_span(&mut query, "created_at", filter.span);
        seek.fetch(&mut query, "seq", &self.0.read).await
    }

    /// Returns a page of looks that found something, each with its findings, in order of the look's first finding. A
    /// filter by assessment matches no look.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn looks(self, filter: &ReviewFilter, seek: Seek) -> Result<Page<Look>, StoreError> {
        if filter.assessment.is_some() {
            return Ok(Page { items: Vec::new(), more: false });
        }
        let mut query = QueryBuilder::new(
            "WITH first AS (SELECT f.seq, f.event_id, f.shadow FROM finding f WHERE f.collapse_key IS NOT NULL
             AND NOT EXISTS (SELECT FROM finding p WHERE p.event_id = f.event_id AND p.shadow = f.shadow
                             AND p.collapse_key IS NOT NULL AND p.seq < f.seq)",
        );
        equals(&mut query, "f.shadow", filter.shadow.as_deref());
        equals(&mut query, "f.agent", filter.agent.as_deref());
        equals(&mut query, "f.task_id", filter.task_id.as_deref());
        equals(&mut query, "f.trigger", filter.trigger);
        equals(&mut query, "f.mode", filter.mode);
        push_span(&mut query, "f.created_at", filter.span);
        seek.push(&mut query, "f.seq");
        query.push(") SELECT first.seq AS first_seq, f.*, v.version AS shadow_version FROM first, LATERAL (");
        query.push(COLUMNS).push(
            " AND event_id = first.event_id AND shadow = first.shadow AND collapse_key IS NOT NULL) f
             JOIN shadow_version v ON v.id = f.version ORDER BY first.seq, f.seq",
        );
        let mut looks: Vec<(i64, Look)> = Vec::new();
        for row in &query.build().fetch_all(&self.0.read).await? {
            let (first_seq, item) = (column::<i64>(row, "first_seq")?, Record::read(row)?);
            match looks.last_mut() {
                Some((seq, look)) if *seq == first_seq => look.push(item),
                _ => looks.push((first_seq, vec![item])),
            }
        }
        Ok(seek.merge(looks, false))
    }

    /// Returns a shadow's judged findings, newest first: at most `most` of an agent, and as many of others.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn judged_findings(self, shadow: &str, agent: &str, most: i64) -> Result<Vec<FindingItem>, StoreError> {
        let part = |comparison: &str| {
            format!(
                "({COLUMNS} AND shadow = $1 AND status <> 'open' AND agent {comparison} $2 ORDER BY seq DESC LIMIT $3)"
            )
        };
        let query = format!("/* findings.judged */ {} UNION ALL {}", part("="), part("<>"));
        sql::all(&self.0.work, AssertSqlSafe(query), (shadow, agent, most)).await
    }

    /// Returns findings of every mode after number `seq`, in order.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn findings_behind(self, seq: i64, limit: u32) -> Result<Vec<(i64, FindingItem)>, StoreError> {
        let mut query = QueryBuilder::new(COLUMNS);
        query.push(" AND seq > ").push_bind(seq).push(" ORDER BY seq LIMIT ").push_bind(i64::from(limit));
        sql::numbered(&self.0.read, &mut query).await
    }

    /// Stores a judgement of a finding; returns false if the finding does not exist.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn judge_finding(
        self,
        id: FindingId,
        status: Option<&str>,
        note: Option<&str>,
    ) -> Result<bool, StoreError> {
        sql::changed(
            &self.0.work,
            "UPDATE finding SET status = coalesce($2, status), note = coalesce($3, note), \
             status_at = CASE WHEN $2 IS NULL THEN status_at ELSE clock() END WHERE id = $1",
            (id.0, status, note),
        )
        .await
    }
}

/// Returns the findings of some reviews, in order.
pub(super) async fn of_reviews(
    database: impl PgExecutor<'_>,
    reviews: &[ReviewId],
) -> Result<Vec<FindingItem>, StoreError> {
    let mut query = QueryBuilder::new(COLUMNS);
    query.push(" AND review_id = ANY(").push_bind(uuids(reviews)).push(") ORDER BY seq");
    sql::built(database, &mut query).await
}

/// Returns findings of looks with numbers of feed `result` from `after`, exclusive, to `until`, in order, each with the
/// hash of its shadow's configuration.
pub(super) async fn looked_between(
    database: impl PgExecutor<'_>,
    after: i64,
    until: i64,
    most: i64,
) -> Result<Vec<(i64, (FindingItem, String))>, StoreError> {
    let mut query = QueryBuilder::new("SELECT f.*, v.version AS shadow_version FROM (");
    query.push(COLUMNS).push(" AND collapse_key IS NOT NULL AND seq > ").push_bind(after);
    query.push(" AND seq <= ").push_bind(until).push(" ORDER BY seq LIMIT ").push_bind(most);
    query.push(") f JOIN shadow_version v ON v.id = f.version ORDER BY f.seq");
    sql::numbered(database, &mut query).await
}

/// Findings of a shadow's look at an event, each with the hash of the shadow's configuration.
pub type Look = Vec<(FindingItem, String)>;

impl Record for (FindingItem, String) {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        Ok((FindingItem::read(row)?, column(row, "shadow_version")?))
    }
}
