//! Rows that a flush stores, in one statement.

use jiff::{Timestamp, civil::Date};
use serde_json::{Value, json};
use sqlx::{
    Arguments, PgExecutor,
    postgres::{PgArguments, PgQueryResult},
};
use uuid::Uuid;

use super::MeterKey;
use crate::StoreError;
use umbra_domain::{EventId, ReviewId, ReviewScope, SkipReason, Trigger, WorkerId};

/// Estimated bytes of an event in the statement, beside its payload.
const EVENT_BYTES: usize = 128;

/// An event as it is stored.
#[derive(Debug, Clone)]
pub struct NewEvent<'a> {
    /// Event id, minted here.
    pub id: EventId,
    /// The watched agent.
    pub agent: &'a str,
    /// Task of the event.
    pub task_id: Option<&'a str>,
    /// Dispositions of the matched shadows.
    pub pairs: Vec<NewPair>,
    /// The redacted event, its triggers and marks, as JSON.
    pub payload: &'a [u8],
}

/// Disposition of an event for one shadow, as stored codes.
#[derive(Debug, Clone, Copy)]
pub struct NewPair {
    /// `shadow_version.id`.
    pub version: i32,
    /// 0 queued, 1 batched, else the code of the skip reason.
    pub outcome: i16,
    /// The trigger's code.
    pub trigger: i16,
}

/// A reserved review.
#[derive(Debug, Clone)]
pub struct NewReview {
    /// Review id.
    pub id: ReviewId,
    /// The shadow's name.
    pub shadow: String,
    /// `shadow_version.id`.
    pub version: i32,
    /// The watched agent.
    pub agent: String,
    /// The event's task.
    pub task_id: Option<String>,
    /// The pair's trigger.
    pub trigger: Trigger,
    /// Rank in the queue, by the shadow's mode; 0 is first.
    pub priority: i16,
    /// Local day whose unit the review holds.
    pub day: Date,
    /// The event under review, the first of several.
    pub event: EventId,
    /// Scope: an event, a batch or a task.
    pub scope: ReviewScope,
    /// Number of events under review.
    pub events: u32,
    /// Characters of a batch's texts.
    pub chars: u64,
    /// For a review that waits: earliest run time, and planned run time. `None` runs at once.
    pub waits: Option<(Timestamp, Timestamp)>,
    /// Worker that gets the lease at the insert, if any.
    pub worker: Option<WorkerId>,
}

/// A stored review that waits, with its values after this flush.
#[derive(Debug, Clone, Copy)]
pub struct JoinedReview {
    /// Review id.
    pub id: ReviewId,
    /// Number of events under review.
    pub events: u32,
    /// Characters of the events' texts.
    pub chars: u64,
    /// Planned run time.
    pub run_at: Timestamp,
}

/// Link of a review to one of its events.
#[derive(Debug, Clone, Copy)]
pub struct NewLink {
    /// The review.
    pub review: ReviewId,
    /// The event.
    pub event: EventId,
    /// `shadow_version.id` of the pair.
    pub version: i32,
}

/// A change of a locked meter.
#[derive(Debug, Clone)]
pub struct MeterChange {
    /// Key of the meter.
    pub key: MeterKey,
    /// Local day of the meter.
    pub day: Date,
    /// To add to `used`.
    pub used: i64,
    /// New end of the cooldown; an earlier one changes nothing.
    pub next_at: Timestamp,
    /// The review that began the cooldown.
    pub review: Option<ReviewId>,
}

/// Number of skips to add to a counter.
#[derive(Debug, Clone)]
pub struct SkipTally {
    /// The shadow.
    pub shadow: String,
    /// Skip reason.
    pub reason: SkipReason,
    /// Time zone of the shadow's calendar day.
    pub zone: String,
    /// Number of skips.
    pub n: i64,
}

/// Rows that one flush stores.
#[derive(Debug, Clone, Default)]
pub struct FlushRows<'a> {
    /// Events, in order of receipt.
    pub events: Vec<NewEvent<'a>>,
    /// Reserved reviews.
    pub reviews: Vec<NewReview>,
    /// Stored reviews that events of this flush joined.
    pub joined: Vec<JoinedReview>,
    /// Links of reviews to their events.
    pub links: Vec<NewLink>,
    /// Changes of the meters that were locked.
    pub meters: Vec<MeterChange>,
    /// Skips by shadow and reason.
    pub skips: Vec<SkipTally>,
    /// True if the reviews are of events that were stored before.
    pub later: bool,
}

/// Inserts the events of a flush, with numbers from `f.base` on. The pairs of all events come as three lists, of which
/// each event takes a slice: arrays of arrays would need equal lengths.
macro_rules! insert_events {
    () => {
        "INSERT INTO event (id, seq, agent, task_id, shadows, outcomes, triggers, payload)
         SELECT id, f.base + o, agent, task, ($7::int4[])[first:last], ($8::int2[])[first:last],
                ($9::int2[])[first:last], payload
         FROM f, unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::int4[], $6::int4[])
             WITH ORDINALITY e(id, agent, task, payload, first, last, o)"
    };
}

/// Adds the skips of a flush to their counters.
macro_rules! count_skips {
    () => {
        "INSERT INTO skip_count (shadow, reason, day, replica, n)
         SELECT shadow, reason, (clock() AT TIME ZONE zone)::date, $10, n
         FROM json_to_recordset($11::json) u(shadow text, reason int2, zone text, n int8)
         ORDER BY shadow COLLATE \"C\", reason
         ON CONFLICT (shadow, reason, day, replica) DO UPDATE SET n = skip_count.n + excluded.n"
    };
}

/// Stores a flush that reserves nothing, as most do. Starting and ending the unused parts for reviews would cost as
/// much as storing several events.
const WRITE_EVENTS: &str = concat!(
    "/* intake.write_events */
     WITH f AS (
         UPDATE feed SET last = last + cardinality($1::uuid[]) WHERE name = 'intake'
         RETURNING last - cardinality($1::uuid[]) AS base
     ), e AS (",
    insert_events!(),
    ") ",
    count_skips!()
);

/// Stores the whole flush as one statement. It draws from `feed` last before the commit, so numbers become visible in
/// commit order.
const WRITE: &str = concat!(
    "/* intake.write */
     WITH f AS (
         UPDATE feed SET last = last + cardinality($1::uuid[]) + json_array_length($12::json) WHERE name = 'intake'
         RETURNING last - cardinality($1::uuid[]) - json_array_length($12::json) AS base
     ), e AS (",
    insert_events!(),
    "), r AS (
         INSERT INTO review (id, seq, shadow, version, agent, task_id, trigger, mode, day, worker, state, attempt,
                             run_at, created_at, started_at, scope, events, chars, not_before)
         SELECT id, f.base + cardinality($1::uuid[]) + o, shadow, version, agent, task, trigger, mode, day, worker,
                CASE WHEN worker IS NULL THEN 'queued' ELSE 'running' END, (worker IS NOT NULL)::int,
                coalesce(run, c.at), c.at, CASE WHEN worker IS NOT NULL THEN c.at END, scope, events, chars, not_before
         FROM f, (SELECT clock() AS at OFFSET 0) c,
         ROWS FROM (json_to_recordset($12::json) AS (id uuid, shadow text, version int4, agent text, task text, trigger int2,
                    mode int2, day date, worker uuid, scope int2, events int4, chars int8, not_before timestamptz,
                    run timestamptz)) WITH ORDINALITY
             r(id, shadow, version, agent, task, trigger, mode, day, worker, scope, events, chars, not_before, run, o)
     ), j AS (
         UPDATE review r SET events = u.events, chars = u.chars, run_at = u.run
         FROM json_to_recordset($13::json) u(id uuid, events int4, chars int8, run timestamptz)
         WHERE r.id = u.id
     ), m AS (
         UPDATE meter m SET used = m.used + u.used, next_at = greatest(m.next_at, u.next_at),
             begun_by = coalesce(u.review, m.begun_by)
         FROM json_to_recordset($14::json) u(shadow text, agent text, trigger text, day date, used int8, next_at timestamptz,
                                         review uuid)
         WHERE (m.shadow, m.agent, m.trigger, m.day) = (u.shadow, u.agent, u.trigger, u.day)
     ), k AS (",
    count_skips!(),
    ")
     INSERT INTO review_event (review_id, event_id, shadow, later)
     SELECT review, event, version, $16 FROM json_to_recordset($15::json) l(review uuid, event uuid, version int4)"
);

/// Returns the rows of a table as one JSON parameter: a list of objects whose members are the columns.
fn records<T>(rows: &[T], record: impl Fn(&T) -> Value) -> String {
    Value::Array(rows.iter().map(record).collect()).to_string()
}

pub(super) async fn write<'e>(
    executor: impl PgExecutor<'e>,
    replica: Uuid,
    writing: &FlushRows<'_>,
) -> Result<PgQueryResult, StoreError> {
    let FlushRows { events, reviews, joined, links, meters, skips, later } = writing;
    let pairs = || events.iter().flat_map(|event| &event.pairs);
    let lasts = || {
        events.iter().scan(0, |last, event| {
            *last += event.pairs.len();
            Some((event, *last))
        })
    };
    let bytes: usize = events.iter().map(|event| event.payload.len() + EVENT_BYTES).sum();
    let mut arguments = PgArguments::default();
    arguments.reserve(16, bytes);
    let just_events = reviews.is_empty() && joined.is_empty() && links.is_empty() && meters.is_empty();
    let query = sqlx::query_with(if just_events { WRITE_EVENTS } else { WRITE }, arguments)
        .bind(events.iter().map(|e| e.id.0).collect::<Vec<_>>())
        .bind(events.iter().map(|e| e.agent).collect::<Vec<_>>())
        .bind(events.iter().map(|e| e.task_id).collect::<Vec<_>>())
        .bind(events.iter().map(|e| e.payload).collect::<Vec<_>>())
        .bind(lasts().map(|(event, last)| count(last - event.pairs.len() + 1)).collect::<Vec<_>>())
        .bind(lasts().map(|(_, last)| count(last)).collect::<Vec<_>>())
        .bind(pairs().map(|pair| pair.version).collect::<Vec<_>>())
        .bind(pairs().map(|pair| pair.outcome).collect::<Vec<_>>())
        .bind(pairs().map(|pair| pair.trigger).collect::<Vec<_>>())
        .bind(replica)
        .bind(records(
            skips,
            |skip| json!({"shadow": skip.shadow, "reason": skip.reason.code(), "zone": skip.zone, "n": skip.n}),
        ));
    if just_events {
        return Ok(query.execute(executor).await?);
    }
    let query = query
        .bind(records(reviews, |review| {
            json!({"id": review.id.0, "shadow": review.shadow, "version": review.version, "agent": review.agent,
                "task": review.task_id, "trigger": review.trigger.code(), "mode": review.priority, "day": review.day,
                "worker": review.worker.map(|worker| worker.0), "scope": review.scope.code(), "events": review.events,
                "chars": review.chars, "not_before": review.waits.map(|(not_before, _)| not_before),
                "run": review.waits.map(|(_, run_at)| run_at)})
        }))
        .bind(records(
            joined,
            |one| json!({"id": one.id.0, "events": one.events, "chars": one.chars, "run": one.run_at}),
        ))
        .bind(records(meters, |meter| {
            json!({"shadow": meter.key.shadow, "agent": meter.key.agent, "trigger": meter.key.trigger,
                "day": meter.day, "used": meter.used, "next_at": meter.next_at,
                "review": meter.review.map(|review| review.0)})
        }))
        .bind(records(links, |link| json!({"review": link.review.0, "event": link.event.0, "version": link.version})))
        .bind(*later);
    Ok(query.execute(executor).await?)
}

fn count(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}
