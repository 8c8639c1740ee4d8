//! Takes an export: redacts its records and stores them.

use std::collections::{HashMap, HashSet};

use tokio::sync::SemaphorePermit;

use super::{HOLD, Otel, OtelSender, trace_id, trace_of};
use crate::{flows::cleaned, telemetry::metric};
use umbra_domain::{EventId, KeyId, StoredEvent};
use umbra_otel::{Export, Record, RecordKind, normalise};
use umbra_store::{
    StoreError,
    otel::{NewRecord, ServiceCounts},
};

/// Most records of one export, and of a trace before it, that are kept.
const RECORDS: usize = 20_000;

/// Answer to an export.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of spans or logs that were refused.
    pub rejected: u64,
    /// Reason for the first refusal.
    pub reason: Option<&'static str>,
}

impl Otel {
    /// Stores an export. All of it is durable when this returns, except for what the answer names.
    ///
    /// # Errors
    /// The database does not answer; nothing is stored.
    pub async fn receive(
        &self,
        (export, turn): (Export, Option<SemaphorePermit<'_>>),
        sender: OtelSender<'_>,
    ) -> Result<Received, StoreError> {
        let signal = match export {
            Export::Traces(_) => "traces",
            Export::Logs(_) => "logs",
            Export::Metrics => return Ok(Received::default()),
        };
        let found = tokio::task::block_in_place(move || normalise(&export));
        drop(turn);
        let mut received = Received { rejected: found.rejected, reason: found.reason };
        let mut records = Vec::new();
        for record in found.records {
            let may_speak = record.kind == RecordKind::Other
                || record.agent.iter().chain([&record.service]).all(|name| (sender.may_speak_for)(name));
            if records.len() == RECORDS {
                received.reject("the export has more spans or logs than are taken at once");
            } else if !may_speak {
                received.reject("this key is limited to other agents");
            } else {
                records.push(record);
            }
        }
        metrics::counter!(metric::OTEL_RECORDS, "signal" => signal).increment(records.len() as u64);
        let records = self.relevant(records, sender.by, &mut received).await?;
        if !records.is_empty() {
            let mut new = Vec::with_capacity(records.len());
            for record in records {
                new.extend(self.redacted(record, sender.by).await);
            }
            self.0.store.otel().store(&new, sender.by, HOLD).await?;
            self.0.arrived.notify_one();
        }
        metrics::counter!(metric::OTEL_REJECTED, "signal" => signal).increment(received.rejected);
        if let Some(reason) = received.reason {
            let service = cleaned(found.service.as_deref().unwrap_or_default());
            let rejected = i64::try_from(received.rejected).unwrap_or(i64::MAX);
            let counts =
                ServiceCounts { service, rejected, reason: Some(reason.to_owned()), ..ServiceCounts::default() };
            self.0.store.otel().count(&[counts]).await?;
        }
        Ok(received)
    }

    /// Leaves out spans of other work: those that are in no trace with a call, as far as is known; and what a trace has
    /// too many of.
    async fn relevant(
        &self,
        mut records: Vec<Record>,
        by: Option<KeyId>,
        received: &mut Received,
    ) -> Result<Vec<Record>, StoreError> {
        let traces: HashSet<&str> = records.iter().map(|record| record.trace.as_str()).collect();
        let traces: Vec<String> = traces.into_iter().map(|trace| trace_of(trace, by)).collect();
        let known = self.0.store.otel().known_traces(&traces).await?;
        let known: HashMap<&str, i64> = known.iter().map(|(trace, stored)| (trace_id(trace), *stored)).collect();
        let with_calls = records.iter().filter(|record| record.kind != RecordKind::Other);
        let with_calls: HashSet<String> = with_calls.map(|record| record.trace.clone()).collect();
        records.retain(|record| {
            let stored = known.get(record.trace.as_str());
            let is_full = stored.is_some_and(|stored| usize::try_from(*stored).is_ok_and(|stored| stored >= RECORDS));
            if is_full {
                received.reject("the trace has more spans and logs than are assembled; begin one for each task");
            }
            !is_full && (stored.is_some() || with_calls.contains(&record.trace))
        });
        Ok(records)
    }

    /// Returns a record as it is stored: without credentials, under the hash of what it was.
    async fn redacted(&self, mut record: Record, by: Option<KeyId>) -> Option<NewRecord> {
        let whole = serde_json::to_vec(&record).ok()?;
        let digest = self.0.installation.hash("otel-record", &[&whole]);
        let clean = |text: &mut String| umbra_checks::redact(text).as_str().clone_into(text);
        let names = [
            Some(&mut record.service),
            Some(&mut record.scope),
            record.agent.as_mut(),
            record.conversation.as_mut(),
            record.model.as_mut(),
            record.tool_name.as_mut(),
            record.stop_reason.as_mut(),
        ];
        names.into_iter().flatten().for_each(clean);
        for part in &mut record.parts {
            let mut event = part.stored.event.clone();
            // A secret has the same tag throughout a trace.
            event.agent.clone_from(&record.service);
            event.task_id = Some(record.trace.clone());
            let umbra_checks::ScreenedEvent { mut event, marks, .. } =
                self.0.events.screen(EventId(self.0.clock.new_id()), event).await;
            (event.agent, event.task_id) = (String::new(), None);
            let marks = marks.into_iter().filter(|mark| !matches!(mark.field.as_str(), "agent" | "task_id"));
            part.stored = StoredEvent { event, triggers: Vec::new(), marks: marks.collect() };
        }
        Some(NewRecord { trace: trace_of(&record.trace, by), digest, record: serde_json::to_vec(&record).ok()? })
    }
}

impl Received {
    fn reject(&mut self, reason: &'static str) {
        self.rejected += 1;
        self.reason.get_or_insert(reason);
    }
}
