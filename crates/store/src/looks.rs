//! Looks of the built-in checks at events that no review covers. One process of a cluster at a time follows feed
//! `intake`; its findings commit with the follower's new number, so each event is looked at once.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde::Serialize;
use sqlx::AssertSqlSafe;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::LookStore,
    events::received_at,
    follow::{hold, move_on},
    new_findings::{self, NewFindingRow, Repeat},
    results::NewFinding,
    sql::{self, record},
    transaction::{Tx, begin},
    versions,
};
use umbra_domain::{EventId, Shadow, SkipReason};

/// Bounds of a page.
#[derive(Debug, Clone, Copy)]
pub struct LookBounds {
    /// Most numbers of the feed.
    pub numbers: i64,
    /// Most events in the page.
    pub events: i64,
    /// Bytes of payloads after which no further event is added.
    pub bytes: i64,
    /// Most feed numbers that may wait; older ones are passed over.
    pub backlog: i64,
}

/// An event to look at.
#[derive(Debug, Clone)]
pub struct LookEvent {
    /// Id of the event.
    pub id: EventId,
    /// The stored event, as JSON.
    pub payload: Vec<u8>,
    /// Matched shadows: `shadow_version.id`, the outcome's code, the trigger's code.
    pub pairs: Vec<(i32, i16, i16)>,
}

/// A page of events that this process looks at. Dropping it leaves the events to be read again.
pub struct LookPage {
    tx: Tx,
    until: i64,
    /// The events, in order of receipt.
    pub events: Vec<LookEvent>,
    /// True if more events are there already.
    pub more: bool,
}

/// Result of asking for the next events to look at.
pub enum NextLook {
    /// Another process of the cluster is looking.
    Elsewhere,
    /// This many events were passed over, because too many waited.
    Shed(i64),
    /// Events to look at.
    Page(LookPage),
}

/// A finding of a look.
#[derive(Debug, Clone)]
pub struct LookFinding {
    /// The finding.
    pub found: NewFinding,
    /// The shadow.
    pub shadow: String,
    /// `shadow_version.id`.
    pub version: i32,
    /// The rank of the shadow's mode.
    pub mode: i16,
    /// Key that repeats share.
    pub key: Vec<u8>,
}

/// Events that wait for a look, and ranges that were passed over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LookBacklog {
    /// Events received after the last that was looked at.
    pub waiting: i64,
    /// Time of receipt of the oldest of them.
    pub oldest_at: Option<Timestamp>,
    /// Ranges passed over within a day, newest first.
    pub shed: Vec<ShedRange>,
}

/// A range of events that the built-in checks skipped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ShedRange {
    /// Time of receipt of the first event.
    pub from: Timestamp,
    /// Time of receipt of the last event.
    pub until: Timestamp,
    /// Number of events.
    pub events: i64,
}

record!(ShedRange: from, until, events);

/// Most feed numbers that are passed over in one transaction.
const SHED_AT_ONCE: i64 = 50_000;
/// Most ranges that are listed.
const MOST_RANGES: i64 = 20;
/// Condition for events with a pair whose outcome is one of $3, and, if $4, for steps of tasks.
const TO_LOOK_AT: &str = "erased_at IS NULL AND (outcomes && $3 OR $4 AND task_id IS NOT NULL)";

/// Returns the outcome codes of pairs whose events the checks look at without a review.
fn outcomes() -> Vec<i16> {
    SkipReason::ALL.iter().filter(|reason| reason.leaves_checks()).map(|reason| reason.code()).collect()
}

impl LookStore<'_> {
    /// Stores findings of a look at one event; returns the indices of the new ones.
    ///
    /// # Errors
    /// The database does not answer; nothing is stored.
    pub async fn add(self, found: &[LookFinding]) -> Result<Vec<usize>, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let new = store(&mut tx, found).await?;
        tx.commit().await?;
        Ok(new)
    }

    /// Returns how far the follower `looks` is behind feed `intake`, in feed numbers.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn behind(self) -> Result<i64, StoreError> {
        sql::one(
            &self.0.later,
            "/* looks.behind */ SELECT feed.last - f.seq FROM follower f, feed
             WHERE f.name = 'looks' AND feed.name = 'intake'",
            (),
        )
        .await
    }

    /// Returns the next events to look at. With `steps`, includes all steps of tasks, whatever their outcomes.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn next(self, bounds: LookBounds, steps: bool) -> Result<NextLook, StoreError> {
        let held = hold(begin(&self.0.later).await?, "looks").await?;
        let Some((mut tx, from)) = held else { return Ok(NextLook::Elsewhere) };
        let last: i64 = sql::one(&mut *tx, "/* looks.last */ SELECT last FROM feed WHERE name = 'intake'", ()).await?;
        if last - from > bounds.backlog {
            // Half of the permitted backlog is left, so that the next range is not passed over at once.
            let until = (last - bounds.backlog / 2).min(from + SHED_AT_ONCE);
            return shed(tx, (from, until), steps).await.map(NextLook::Shed);
        }
        page(tx, (from, last), bounds, steps).await.map(NextLook::Page)
    }

    /// Returns the number of events that wait for a look, and the ranges passed over within a day.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn backlog(self) -> Result<LookBacklog, StoreError> {
        let (waiting, oldest): (i64, Option<EventId>) = sql::one(
            &self.0.read,
            "/* looks.waiting */ SELECT count(*), min(e.id::text)::uuid FROM follower f JOIN event e ON e.seq > f.seq
             WHERE f.name = 'looks'",
            (),
        )
        .await?;
        let shed = sql::all(
            &self.0.read,
            "/* looks.shed_ranges */ SELECT first_at AS from, last_at AS until, events FROM check_backlog
             WHERE at > clock() - interval '1 day' ORDER BY first_seq DESC LIMIT $1",
            (MOST_RANGES,),
        )
        .await?;
        Ok(LookBacklog { waiting, oldest_at: oldest.map(received_at), shed })
    }
}

/// Passes over a range of events and records it; returns how many of its events were to be looked at.
async fn shed(mut tx: Tx, (from, until): (i64, i64), steps: bool) -> Result<i64, StoreError> {
    let sql = format!(
        "/* looks.shed */ SELECT count(*), min(id::text)::uuid, max(id::text)::uuid FROM event
         WHERE seq > $1 AND seq <= $2 AND {TO_LOOK_AT}"
    );
    let (events, first, last): (i64, Option<EventId>, Option<EventId>) =
        sql::one(&mut *tx, AssertSqlSafe(sql), (from, until, outcomes(), steps)).await?;
    if let Some((first, last)) = first.zip(last) {
        let at = |id| jiff_sqlx::ToSqlx::to_sqlx(received_at(id));
        sql::execute(
            &mut *tx,
            "/* looks.record */
             WITH same AS (
                 UPDATE check_backlog SET last_seq = $2, events = events + $3, last_at = $5, at = clock()
                 WHERE last_seq = $1 RETURNING first_seq
             )
             INSERT INTO check_backlog (first_seq, last_seq, events, first_at, last_at, at)
             SELECT $1 + 1, $2, $3, $4, $5, clock() WHERE NOT EXISTS (SELECT FROM same)",
            (from, until, events, at(first), at(last)),
        )
        .await?;
    }
    move_on(tx, "looks", until).await?;
    Ok(events)
}

async fn page(mut tx: Tx, (from, last): (i64, i64), bounds: LookBounds, steps: bool) -> Result<LookPage, StoreError> {
    type EventRow = (i64, EventId, Vec<u8>, Vec<i32>, Vec<i16>, Vec<i16>);
    let mut until = last.min(from + bounds.numbers);
    if until == from {
        return Ok(LookPage { tx, until, events: Vec::new(), more: false });
    }
    let sql = format!(
        "/* looks.events */ SELECT seq, id, payload, shadows, outcomes, triggers FROM (
             SELECT seq, id, payload, shadows, outcomes, triggers,
                    sum(octet_length(payload)) OVER (ORDER BY seq) - octet_length(payload) AS ahead
             FROM event WHERE seq > $1 AND seq <= $2 AND {TO_LOOK_AT} ORDER BY seq LIMIT $5) e
         WHERE ahead < $6 ORDER BY seq"
    );
    let rows: Vec<EventRow> =
        sql::all(&mut *tx, AssertSqlSafe(sql), (from, until, outcomes(), steps, bounds.events, bounds.bytes)).await?;
    let bytes: usize = rows.iter().map(|row| row.2.len()).sum();
    let full = |count: usize, most: i64| i64::try_from(count).is_ok_and(|count| count >= most);
    if let Some(row) = rows.last()
        && (full(rows.len(), bounds.events) || full(bytes, bounds.bytes))
    {
        until = row.0;
    }
    let event = |(_, id, payload, shadows, outcomes, triggers): EventRow| {
        let pairs = shadows.into_iter().zip(outcomes).zip(triggers);
        let pairs = pairs.map(|((version, outcome), trigger)| (version, outcome, trigger)).collect();
        LookEvent { id, payload, pairs }
    };
    Ok(LookPage { tx, until, events: rows.into_iter().map(event).collect(), more: until < last })
}

impl LookPage {
    /// Returns the shadow as it was in a version, if the version exists.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn version(&mut self, id: i32) -> Result<Option<Shadow>, StoreError> {
        versions::read(&mut *self.tx, id).await
    }

    /// Stores the findings, moves the follower on, and commits; returns the indices of the new findings. A repeat of a
    /// finding becomes its occurrence. Findings that a review of the event has made meanwhile are left out.
    ///
    /// # Errors
    /// The database does not answer: the events may come again.
    pub async fn commit(mut self, found: &[LookFinding]) -> Result<Vec<usize>, StoreError> {
        let mut new = Vec::new();
        if !found.is_empty() {
            new = store(&mut self.tx, found).await?;
        }
        move_on(self.tx, "looks", self.until).await?;
        Ok(new)
    }
}

/// Stores findings; returns the indices of the new ones.
pub(super) async fn store(tx: &mut Tx, found: &[LookFinding]) -> Result<Vec<usize>, StoreError> {
    // The feed's row is locked before earlier findings are looked up: reviews that end meanwhile wait for it.
    let base: i64 = sql::one(
        &mut **tx,
        "/* looks.feed */ UPDATE feed SET last = last + $1 WHERE name = 'result' RETURNING last - $1",
        (i64::try_from(found.len()).unwrap_or(0),),
    )
    .await?;
    let known: Vec<(Vec<u8>, Uuid, Uuid)> = sql::all(
        &mut **tx,
        "/* looks.known */ SELECT collapse_key, id, event_id FROM finding WHERE collapse_key = ANY($1)",
        (found.iter().map(|one| one.key.as_slice()).collect::<Vec<_>>(),),
    )
    .await?;
    let mut named: HashMap<&[u8], (Uuid, Uuid)> =
        known.iter().map(|(key, id, event)| (key.as_slice(), (*id, *event))).collect();
    let reviewed = found_by_reviews(tx, found).await?;
    let (mut new, mut rows, mut repeats) = (Vec::new(), Vec::new(), Vec::new());
    for ((at, one), seq) in found.iter().enumerate().zip(base + 1..) {
        let LookFinding { found, shadow, version, mode, key } = one;
        let event = found.finding.event_id.0;
        let field = found.finding.evidence.as_ref().map(|evidence| evidence.field.as_str().to_owned());
        if reviewed.contains(&(event, shadow.clone(), found.finding.rule.clone(), field)) {
            continue;
        }
        match named.get(key.as_slice()) {
            // The same value was found twice in one event.
            Some((_, first)) if *first == event => {}
            Some((finding, _)) => repeats.push(Repeat { finding: *finding, event, seq }),
            None => {
                named.insert(key, (found.id.0, event));
                rows.push(NewFindingRow { found, seq, shadow, mode: *mode, look: Some((*version, key)) });
                new.push(at);
            }
        }
    }
    new_findings::insert(tx, None, None, &rows).await?;
    new_findings::repeat(tx, &repeats).await?;
    Ok(new)
}

/// Returns findings of the checks in reviews of these events: event, shadow, rule and field.
async fn found_by_reviews(
    tx: &mut Tx,
    found: &[LookFinding],
) -> Result<HashSet<(Uuid, String, String, Option<String>)>, StoreError> {
    let events: HashSet<Uuid> = found.iter().map(|one| one.found.finding.event_id.0).collect();
    sql::all(
        &mut **tx,
        "/* looks.reviewed */ SELECT event_id, shadow, rule, field FROM finding
         WHERE event_id = ANY($1) AND source = 'check' AND collapse_key IS NULL",
        (events.into_iter().collect::<Vec<_>>(),),
    )
    .await
}
