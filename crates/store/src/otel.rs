//! OpenTelemetry: records of traces until these are silent, the calls that they tell of, and counts by service.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::OtelStore,
    sql::{self, record},
    transaction::begin,
};
use umbra_domain::{EventId, KeyId, NanoUsd};

/// A record to be stored.
#[derive(Debug, Clone)]
pub struct NewRecord {
    /// Trace of the record.
    pub trace: String,
    /// Keyed hash of the record as it came.
    pub digest: [u8; 32],
    /// The record as JSON, redacted.
    pub record: Vec<u8>,
}

/// Counts of a service and instrumentation, to be added.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceCounts {
    /// `service.name`.
    pub service: String,
    /// Instrumentation scope.
    pub scope: String,
    /// Calls of models.
    pub model_calls: i64,
    /// Calls of models that came without content.
    pub withheld: i64,
    /// Calls of tools.
    pub tool_calls: i64,
    /// Spans and logs of which the sender dropped a part.
    pub cut: i64,
    /// Spans and logs that were refused.
    pub rejected: i64,
    /// Reason for the last refusal.
    pub reason: Option<String>,
}

/// Calls that one instrumentation of a service told of, since its first export.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct TelemetryStatus {
    /// Name of the service.
    pub service: String,
    /// Instrumentation scope; empty for refusals.
    pub scope: String,
    /// Calls of models.
    pub model_calls: i64,
    /// Calls of models that came without content.
    pub without_content: i64,
    /// Calls of tools.
    pub tool_calls: i64,
    /// Calls of which the exporter dropped attributes.
    pub cut: i64,
    /// Spans and logs that were refused.
    pub rejected: i64,
    /// Reason for the last refusal.
    pub reason: Option<String>,
    /// Time of the last export.
    pub seen_at: Timestamp,
}

record!(TelemetryStatus: service, scope, model_calls, without_content, tool_calls, cut, rejected, reason, seen_at);

/// A trace that a worker has leased.
#[derive(Debug, Clone)]
pub struct LeasedTrace {
    /// Trace id, or a name made from a log's session.
    pub trace: String,
    /// API key of its first export.
    pub key_id: Option<KeyId>,
    /// Task of its events, once that is known.
    pub task_id: Option<String>,
    /// True if its task is complete.
    pub ended: bool,
    /// True if it has been silent after a final answer.
    pub silent: bool,
    arrivals: i64,
    /// Time since its last records arrived.
    pub age: Duration,
    /// Time since it was due.
    pub late: Duration,
}

record!(LeasedTrace: trace, key_id, task_id, ended, silent, arrivals, age, late);

/// A call that is known already.
#[derive(Debug, Clone)]
pub struct KnownOtelCall {
    /// Alias by which it is known.
    pub alias: Vec<u8>,
    /// Id of the call.
    pub call: Uuid,
    /// The stored event; none if its storing was interrupted.
    pub event_id: Option<EventId>,
    /// Task of its event.
    pub task_id: String,
    /// Hash of what is known of it.
    pub told: Option<Vec<u8>>,
}

record!(KnownOtelCall: alias, call, event_id, task_id, told);

/// State of a trace after its records were assembled.
#[derive(Debug, Clone, Default)]
pub struct TraceProgress {
    /// Task of its events.
    pub task_id: Option<String>,
    /// True if its task is complete.
    pub ended: bool,
    /// Time of silence after which its task counts as complete; none if it is not to be waited for.
    pub silence: Option<Duration>,
    /// Time after which it is assembled again; none if that waits for new records.
    pub again: Option<Duration>,
}

impl OtelStore<'_> {
    /// Stores records, and lets their traces be assembled after `hold`. A record that is stored already adds nothing.
    ///
    /// # Errors
    /// The database does not answer; nothing is stored.
    pub async fn store(self, records: &[NewRecord], key: Option<KeyId>, hold: Duration) -> Result<(), StoreError> {
        let mut traces: Vec<&str> = records.iter().map(|record| record.trace.as_str()).collect();
        traces.sort_unstable();
        traces.dedup();
        let mut tx = begin(&self.0.work).await?;
        sql::execute(
            &mut *tx,
            "/* otel.traces */ INSERT INTO otel_trace AS t (trace, key_id, due_at)
             SELECT trace, $2, clock() + make_interval(secs => $3) FROM unnest($1::text[]) n(trace) ORDER BY trace
             ON CONFLICT (trace) DO UPDATE SET seen_at = clock(), arrivals = t.arrivals + 1,
                 due_at = coalesce(t.due_at, excluded.due_at)",
            (&traces, key.map(|key| key.0), hold.as_secs_f64()),
        )
        .await?;
        sql::execute(
            &mut *tx,
            "/* otel.records */ WITH stored AS (
                 INSERT INTO otel_record (trace, digest, record)
                 SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[]) ON CONFLICT (trace, digest) DO NOTHING
                 RETURNING trace)
             UPDATE otel_trace t SET records = t.records + s.records
             FROM (SELECT trace, count(*) AS records FROM stored GROUP BY trace) s WHERE t.trace = s.trace",
            (
                records.iter().map(|record| record.trace.as_str()).collect::<Vec<_>>(),
                records.iter().map(|record| record.digest.as_slice()).collect::<Vec<_>>(),
                records.iter().map(|record| record.record.as_slice()).collect::<Vec<_>>(),
            ),
        )
        .await?;
        Ok(tx.commit().await?)
    }

    /// Returns those of these traces that are known, each with the number of its records.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn known_traces(self, traces: &[String]) -> Result<Vec<(String, i64)>, StoreError> {
        sql::all(
            &self.0.work,
            "/* otel.known_traces */ SELECT trace, records FROM otel_trace WHERE trace = ANY($1)",
            (traces,),
        )
        .await
    }

    /// Leases traces that are due, those first that have been for the longest time.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn lease(self, lease: Duration, most: usize) -> Result<Vec<LeasedTrace>, StoreError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        sql::all(
            &self.0.work,
            "/* otel.lease */ UPDATE otel_trace t
             SET lease_until = clock() + make_interval(secs => $1)
             FROM (SELECT trace, due_at IS NULL AS silent FROM otel_trace
                   WHERE least(due_at, silent_at) <= clock() AND (lease_until IS NULL OR lease_until < clock())
                   ORDER BY least(due_at, silent_at) LIMIT $2 FOR UPDATE SKIP LOCKED) d
             WHERE t.trace = d.trace RETURNING t.trace, t.key_id, t.task_id, t.ended, d.silent, t.arrivals,
                 extract(epoch FROM clock() - t.seen_at)::float8 AS age,
                 extract(epoch FROM clock() - least(t.due_at, t.silent_at))::float8 AS late",
            (lease.as_secs_f64(), most),
        )
        .await
    }

    /// Ends a lease. The trace is due again after `again`, or after `hold` if records arrived meanwhile.
    ///
    /// # Errors
    /// The database does not answer: the lease runs out.
    pub async fn release(
        self,
        leased: &LeasedTrace,
        progress: &TraceProgress,
        hold: Duration,
    ) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* otel.release */ UPDATE otel_trace SET lease_until = NULL, task_id = coalesce(task_id, $2),
                 ended = ended OR $3, silent_at = clock() + make_interval(secs => $4),
                 due_at = clock() + make_interval(secs => coalesce($5, CASE WHEN arrivals <> $6 THEN $7::float8 END))
             WHERE trace = $1",
            (
                &leased.trace,
                progress.task_id.as_deref(),
                progress.ended,
                progress.silence.map(|silence| silence.as_secs_f64()),
                progress.again.map(|again| again.as_secs_f64()),
                leased.arrivals,
                hold.as_secs_f64(),
            ),
        )
        .await
    }

    /// Returns the records of a trace as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn records(self, trace: &str) -> Result<Vec<Vec<u8>>, StoreError> {
        sql::all(&self.0.work, "/* otel.read */ SELECT record FROM otel_record WHERE trace = $1", (trace,)).await
    }

    /// Returns the calls that are known under these aliases.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn known(self, aliases: &[[u8; 32]]) -> Result<Vec<KnownOtelCall>, StoreError> {
        sql::all(
            &self.0.work,
            "/* otel.known */ SELECT alias, call, event_id, task_id, told FROM otel_call WHERE alias = ANY($1)",
            (aliases.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>(),),
        )
        .await
    }

    /// Notes aliases of a call, also those of the calls in `from`; returns the call that each of them is of: another one
    /// that was quicker, or this one.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn claim(
        self,
        call: Uuid,
        (aliases, from): (&[[u8; 32]], &[Uuid]),
        trace: &str,
        task_id: &str,
    ) -> Result<Vec<KnownOtelCall>, StoreError> {
        let claimed: Vec<KnownOtelCall> = sql::all(
            &self.0.work,
            "/* otel.claim */ WITH claimed AS (
                 INSERT INTO otel_call AS c (alias, call, trace, task_id, event_id, told)
                 SELECT alias, $2, $3, $4, k.event_id, k.told FROM unnest($1::bytea[]) n(alias)
                 LEFT JOIN (SELECT event_id, told FROM otel_call WHERE call = $2 LIMIT 1) k ON true ORDER BY alias
                 ON CONFLICT (alias) DO UPDATE
                     SET call = excluded.call, event_id = excluded.event_id, told = excluded.told
                     WHERE c.call = ANY($5)
                 RETURNING alias, call, event_id, task_id, told)
             SELECT * FROM claimed UNION ALL
             SELECT alias, call, event_id, task_id, told FROM otel_call
             WHERE alias = ANY($1) AND alias NOT IN (SELECT alias FROM claimed)",
            (aliases.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>(), call, trace, task_id, from),
        )
        .await?;
        // A statement does not see what another server notes meanwhile.
        if claimed.len() < aliases.len() { self.known(aliases).await } else { Ok(claimed) }
    }

    /// Notes a call that is told by another wire, with its event.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn note_event(self, alias: &[u8; 32], event: EventId, task_id: &str) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* otel.note_event */ INSERT INTO otel_call (alias, call, trace, task_id, event_id)
             VALUES ($1, $2, '', $3, $2) ON CONFLICT (alias) DO NOTHING",
            (alias.as_slice(), event.0, task_id),
        )
        .await
    }

    /// Stores results of calls of other traces until these calls have them. The first result of a call stays.
    ///
    /// # Errors
    /// The database does not answer; nothing is stored.
    pub async fn keep_results(self, results: &[([u8; 32], Vec<u8>)]) -> Result<(), StoreError> {
        let links: Vec<&[u8]> = results.iter().map(|(link, _)| link.as_slice()).collect();
        let known: Vec<Vec<u8>> = sql::all(
            &self.0.work,
            "/* otel.known_results */ SELECT link FROM otel_result WHERE link = ANY($1)",
            (&links,),
        )
        .await?;
        // Each turn is told the results of all turns before it.
        let new: Vec<_> = results.iter().filter(|(link, _)| !known.iter().any(|known| known == link)).collect();
        if new.is_empty() {
            return Ok(());
        }
        sql::execute(
            &self.0.work,
            "/* otel.keep_results */ INSERT INTO otel_result (link, result)
             SELECT * FROM unnest($1::bytea[], $2::bytea[]) n(link, result) ORDER BY link
             ON CONFLICT (link) DO NOTHING",
            (
                new.iter().map(|(link, _)| link.as_slice()).collect::<Vec<_>>(),
                new.iter().map(|(_, result)| result.as_slice()).collect::<Vec<_>>(),
            ),
        )
        .await
    }

    /// Returns the results that wait for these calls and whose events are stored: link, event and result.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn waiting_results(self, links: &[[u8; 32]]) -> Result<Vec<(Vec<u8>, EventId, Vec<u8>)>, StoreError> {
        let links: Vec<&[u8]> = links.iter().map(<[u8; 32]>::as_slice).collect();
        sql::all(
            &self.0.work,
            "/* otel.waiting_results */ SELECT r.link, c.event_id, r.result
             FROM otel_result r JOIN otel_call c ON c.alias = r.link
             WHERE r.link = ANY($1) AND r.result IS NOT NULL AND c.event_id IS NOT NULL",
            (links,),
        )
        .await
    }

    /// Drops the texts of results that their calls have.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn drop_results(self, links: &[Vec<u8>]) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* otel.drop_results */ UPDATE otel_result SET result = NULL WHERE link = ANY($1)",
            (links,),
        )
        .await
    }

    /// Notes the events of calls, each with the hash of what is known of it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn tell(self, told: &[(Uuid, EventId, [u8; 32])]) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* otel.tell */ UPDATE otel_call c SET event_id = n.event_id, told = n.told
             FROM unnest($1::uuid[], $2::uuid[], $3::bytea[]) n(call, event_id, told) WHERE c.call = n.call",
            (
                told.iter().map(|(call, ..)| *call).collect::<Vec<_>>(),
                told.iter().map(|(_, event, _)| event.0).collect::<Vec<_>>(),
                told.iter().map(|(.., told)| told.as_slice()).collect::<Vec<_>>(),
            ),
        )
        .await
    }

    /// Replaces an event's payload by one that knows more, and adds a cost to its task's sum; false if the event was
    /// erased or changed meanwhile.
    ///
    /// # Errors
    /// The database does not answer; nothing is stored.
    pub async fn amend(
        self,
        event: EventId,
        (before, after): (&[u8], &[u8]),
        cost: Option<(&str, NanoUsd)>,
    ) -> Result<bool, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let changed = sql::changed(
            &mut *tx,
            "/* otel.amend */ UPDATE event SET payload = $3 WHERE id = $1 AND payload = $2 AND erased_at IS NULL",
            (event.0, before, after),
        )
        .await?;
        if let Some((task, usd)) = cost.filter(|_| changed) {
            sql::execute(
                &mut *tx,
                "/* otel.cost */ UPDATE task_cost SET usd = usd + $2, at = clock() WHERE task_id = $1",
                (task, usd.0),
            )
            .await?;
        }
        tx.commit().await?;
        Ok(changed)
    }

    /// Adds counts of services.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn count(self, counts: &[ServiceCounts]) -> Result<(), StoreError> {
        let mut tx = begin(&self.0.work).await?;
        for count in counts {
            sql::execute(
                &mut *tx,
                "/* otel.count */ INSERT INTO otel_service AS s
                     (service, scope, model_calls, withheld, tool_calls, cut, rejected, reason)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
                 ON CONFLICT (service, scope) DO UPDATE SET model_calls = s.model_calls + $3,
                     withheld = s.withheld + $4, tool_calls = s.tool_calls + $5, cut = s.cut + $6,
                     rejected = s.rejected + $7, reason = coalesce($8, s.reason), seen_at = clock()",
                (
                    &count.service,
                    &count.scope,
                    count.model_calls,
                    count.withheld,
                    count.tool_calls,
                    count.cut,
                    count.rejected,
                    count.reason.as_deref(),
                ),
            )
            .await?;
        }
        Ok(tx.commit().await?)
    }

    /// Lists the counts of services, the last seen first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn services(self) -> Result<Vec<TelemetryStatus>, StoreError> {
        sql::all(
            &self.0.read,
            "/* otel.services */
             SELECT service, scope, model_calls, withheld AS without_content, tool_calls, cut, rejected, reason, seen_at
             FROM otel_service WHERE seen_at > clock() - interval '7 days' ORDER BY seen_at DESC LIMIT 200",
            (),
        )
        .await
    }

    /// Deletes the records of traces that have been silent for `records`, results whose calls have not come in that
    /// time, and what is known of calls after `calls`; returns the number of rows.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn forget(self, records: Duration, calls: Duration) -> Result<u64, StoreError> {
        let mut deleted = 0;
        for (sql, age) in [
            (
                "/* otel.forget_records */ DELETE FROM otel_record WHERE trace IN (
                     SELECT trace FROM otel_trace WHERE seen_at < clock() - make_interval(secs => $1)
                         AND due_at IS NULL AND EXISTS (SELECT FROM otel_record r WHERE r.trace = otel_trace.trace)
                     LIMIT 2000)",
                records,
            ),
            (
                "/* otel.forget_traces */ DELETE FROM otel_trace WHERE trace IN (
                     SELECT trace FROM otel_trace WHERE seen_at < clock() - make_interval(secs => $1)
                         AND due_at IS NULL LIMIT 5000)",
                calls,
            ),
            (
                "/* otel.forget_calls */ DELETE FROM otel_call WHERE alias IN (
                     SELECT alias FROM otel_call c WHERE made_at < clock() - make_interval(secs => $1)
                         AND NOT EXISTS (SELECT FROM otel_record r WHERE r.trace = c.trace) LIMIT 20000)",
                calls,
            ),
            (
                "/* otel.forget_waiting */ DELETE FROM otel_result WHERE link IN (
                     SELECT link FROM otel_result WHERE told_at < clock() - make_interval(secs => $1)
                         AND result IS NOT NULL LIMIT 5000)",
                records,
            ),
            (
                "/* otel.forget_results */ DELETE FROM otel_result WHERE link IN (
                     SELECT link FROM otel_result WHERE told_at < clock() - make_interval(secs => $1) LIMIT 20000)",
                calls,
            ),
        ] {
            deleted += sql::count(&self.0.work, sql, (age.as_secs_f64(),)).await?;
        }
        Ok(deleted)
    }
}
