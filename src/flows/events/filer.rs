//! Files the spool once the database is back: each event once, by its minted id, through the ordinary accept
//! transaction, in order of receipt.
//!
//! An interrupted page is filed again, without the events that are stored by then. A key that was used before the
//! outage, or at another server during it, names the first event: the later one is noted as a repeat, or, if the
//! contents differ, stored without the key and noted as a conflict.

use std::{collections::HashMap, io, sync::Arc, time::Duration};

use anyhow::bail;
use jiff::{SignedDuration, Timestamp};
use tokio::task::block_in_place;
use tokio_util::sync::CancellationToken;

use crate::{
    flows::{
        events::{
            Events,
            flush::{EventOutcome, Flusher, count, is_duplicate_event},
            pending::Pending,
            spool::{EventSpool, SpooledEvent},
        },
        group_commit::{self, Commit},
        rounds::pause,
    },
    spool::Segment,
    telemetry::metric,
};
use umbra_config::Settings;
use umbra_domain::{EventId, KeyId};
use umbra_store::{StoreError, events::received_at, repeats::Repeat};

/// Pause between looks at the spool.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Looks between two probes of the spool's folder.
const LOOKS_PER_PROBE: u32 = 40;
/// Age from which an event's partition may be missing.
const OLD: SignedDuration = SignedDuration::from_hours(12);

/// Filer of the event spool; one per process.
pub struct Filer {
    events: Events,
    spool: EventSpool,
    settings: Arc<Settings>,
    flusher: Flusher,
    /// Places of the events in the segment that the database refuses.
    refused: Vec<(u64, u64)>,
    /// Failure that kept the last page from being filed.
    failure: Option<String>,
    /// Events per API key that was revoked before their receipt.
    revoked: HashMap<KeyId, u64>,
}

/// An event of the spool, and its place in the segment.
pub(in crate::flows) struct Filing {
    pending: Pending,
    place: (u64, u64),
}

impl Filer {
    pub(in crate::flows) fn new(events: Events, spool: EventSpool, flusher: Flusher, settings: Arc<Settings>) -> Self {
        Self { events, spool, settings, flusher, refused: Vec::new(), failure: None, revoked: HashMap::new() }
    }

    /// Files the spooled events whenever the database answers, until `stop`.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut failing = false;
        for look in 0_u32.. {
            if look % LOOKS_PER_PROBE == 0 {
                block_in_place(|| self.spool.probe());
            }
            if !self.flusher.reservations.store.is_away() {
                let filed = self.file_all(&stop).await;
                match &filed {
                    Ok(0) => {}
                    Ok(events) => tracing::info!(events, "events that waited for the database are stored"),
                    Err(error) if !failing => {
                        tracing::warn!(%error, "events of the spool cannot be stored yet; trying again");
                    }
                    Err(_) => {}
                }
                failing = filed.is_err();
                self.settle_leases().await;
                self.tell_revoked();
            }
            self.measure();
            if !pause(&stop, BETWEEN_LOOKS).await {
                return;
            }
        }
    }

    /// Files all spooled events, or as many as it can until `stop`. Returns their number.
    async fn file_all(&mut self, stop: &CancellationToken) -> anyhow::Result<u64> {
        let spool = self.spool.clone();
        block_in_place(|| spool.take_over())?;
        let (mut filed, mut refused) = (0, 0);
        loop {
            // New events wait a moment while the last ones are filed, and then need not be spooled.
            let last = spool.len() <= self.settings.ingest.flush_events;
            let turn = if last && !spool.is_empty() { Some(spool.hold_back().await) } else { None };
            let Some(mut segment) = block_in_place(|| spool.files().next())? else { break };
            let mut is_first = true;
            self.refused.clear();
            loop {
                if stop.is_cancelled() {
                    return Ok(filed);
                }
                let page = block_in_place(|| self.page(&mut segment))?;
                let Some(first) = page.first() else { break };
                if std::mem::take(&mut is_first) {
                    self.make_partition(received_at(first.pending.id)).await?;
                }
                filed += page.len() as u64;
                self.note_revoked(&page).await?;
                group_commit::store(self, page).await;
                if let Some(failure) = self.failure.take() {
                    bail!(failure);
                }
            }
            for place in self.refused.drain(..) {
                segment.refuse(place);
            }
            refused += block_in_place(|| segment.done())?;
            drop(turn);
        }
        block_in_place(|| spool.settle())?;
        if refused > 0 {
            metrics::counter!(metric::SPOOLED, "outcome" => "refused").increment(refused);
            tracing::error!(
                stretches = refused,
                dir = %spool.files().dir().display(),
                "lines of the spool cannot be stored: they are in its file `refused`; look at them, then move that \
                 file away"
            );
        }
        Ok(filed)
    }

    /// Reads the next events of a segment; none at the end.
    fn page(&self, segment: &mut Segment) -> io::Result<Vec<Filing>> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        let rules = self.events.rules.load_full();
        while page.len() < self.settings.ingest.flush_events && bytes < self.settings.ingest.flush_bytes {
            let Some(line) = segment.line()? else { break };
            bytes += line.json.len();
            match serde_json::from_slice::<SpooledEvent<'_>>(&line.json) {
                // Erased.
                Ok(SpooledEvent { stored: None, .. }) => {}
                Ok(event) => match self.events.restore(&rules, &event) {
                    Ok(pending) => page.push(Filing { pending, place: line.place }),
                    Err(error) => {
                        tracing::error!(%error, "an event of the spool cannot be read");
                        segment.refuse(line.place);
                    }
                },
                Err(_) => segment.refuse(line.place),
            }
        }
        Ok(page)
    }

    /// Makes the partition of events that waited so long that it may be missing.
    async fn make_partition(&self, oldest: Timestamp) -> Result<(), StoreError> {
        let reservations = &self.flusher.reservations;
        if reservations.clock.now().duration_since(oldest) > OLD {
            reservations.store.upkeep().make_partitions(oldest).await?;
        }
        Ok(())
    }

    /// Counts events whose API key was revoked before their receipt. They were acknowledged, and stay.
    async fn note_revoked(&mut self, page: &[Filing]) -> Result<(), StoreError> {
        if page.iter().all(|filing| filing.pending.by.is_none()) {
            return Ok(());
        }
        let keys = self.flusher.reservations.store.keys().list().await?;
        let revoked: HashMap<KeyId, Timestamp> =
            keys.into_iter().filter_map(|key| Some((key.id, key.revoked_at?))).collect();
        for Filing { pending, .. } in page {
            if let Some(key) = pending.by
                && revoked.get(&key).is_some_and(|at| *at < received_at(pending.id))
            {
                *self.revoked.entry(key).or_default() += 1;
            }
        }
        Ok(())
    }

    fn tell_revoked(&mut self) {
        for (key_id, events) in self.revoked.drain() {
            metrics::counter!(metric::SPOOLED, "outcome" => "revoked").increment(events);
            tracing::warn!(
                %key_id,
                events,
                "events were accepted with a revoked key while the database did not answer"
            );
        }
    }

    /// Returns reviews to the queue that a transaction of unknown outcome leased to this process, once they show that
    /// it has committed.
    async fn settle_leases(&self) {
        let uncertain = self.spool.uncertain();
        let freed = self.flusher.unlease(&uncertain).await;
        self.spool.settle_uncertain(&uncertain, &freed);
    }

    #[expect(clippy::cast_precision_loss, reason = "gauges")]
    fn measure(&self) {
        let status = self.spool.status();
        metrics::gauge!(metric::SPOOL_EVENTS).set(status.events as f64);
        metrics::gauge!(metric::SPOOL_BYTES).set(status.bytes as f64);
        metrics::gauge!(metric::SPOOL_AGE).set(status.oldest_age_seconds as f64);
    }

    /// Stores events that are not stored yet, and notes those whose key names another event.
    async fn store_new(&mut self, batch: &[&Pending], by_keys: bool) -> Result<Vec<EventOutcome>, StoreError> {
        self.spool.add_uncertain(std::mem::take(&mut self.flusher.leased));
        let flushed = self.flusher.flush(batch, by_keys).await?;
        self.flusher.hand_over(flushed.handed, flushed.unleased);
        let of = |(pending, fate): (&&Pending, &EventOutcome)| match fate {
            EventOutcome::Stored(_) => None,
            EventOutcome::Replay(original) => Some(Repeat { id: pending.id, original: *original, conflicts: false }),
            EventOutcome::Mismatch(original) => Some(Repeat { id: pending.id, original: *original, conflicts: true }),
        };
        let repeats: Vec<Repeat> = batch.iter().zip(&flushed.fates).filter_map(of).collect();
        // Before a conflict is stored: once stored, it would not be noted any more.
        self.flusher.reservations.store.events().note_repeats(&repeats).await?;
        Ok(flushed.fates)
    }
}

impl Commit for Filer {
    type Item = Filing;
    /// Outcome of each event; `None` for an event that was stored before.
    type Stored = Vec<Option<EventOutcome>>;
    const METRICS: (&'static str, &'static str) = (metric::FLUSHES, metric::FLUSH_SECONDS);
    const TRIES: (u32, Duration) = (4, Duration::from_millis(100));

    async fn flush(&mut self, batch: &[Filing]) -> Result<Self::Stored, StoreError> {
        let ids: Vec<EventId> = batch.iter().map(|filing| filing.pending.id).collect();
        let stored = self.flusher.reservations.store.events().stored(&ids).await?;
        let fresh: Vec<&Pending> =
            batch.iter().map(|filing| &filing.pending).filter(|pending| !stored.contains(&pending.id)).collect();
        let mut fates = self.store_new(&fresh, true).await?.into_iter();
        let fates: Vec<Option<EventOutcome>> =
            ids.iter().map(|id| if stored.contains(id) { None } else { fates.next() }).collect();
        let conflicts = batch.iter().zip(&fates).filter(|(_, fate)| matches!(fate, Some(EventOutcome::Mismatch(_))));
        let conflicts: Vec<&Pending> = conflicts.map(|(filing, _)| &filing.pending).collect();
        if !conflicts.is_empty() {
            self.store_new(&conflicts, false).await?;
        }
        Ok(fates)
    }

    fn may_retry(&self, _batch: &[Filing], error: &StoreError) -> bool {
        error.is_transient() || is_duplicate_event(error)
    }

    async fn answer(&mut self, batch: Vec<Filing>, fates: Self::Stored) {
        let mut counts = [0, 0, 0];
        for (Filing { pending, .. }, fate) in batch.into_iter().zip(fates) {
            self.spool.forget(&pending);
            match fate {
                None | Some(EventOutcome::Stored(_)) => counts[0] += 1,
                Some(EventOutcome::Replay(_)) => counts[1] += 1,
                Some(EventOutcome::Mismatch(original)) => {
                    counts[2] += 1;
                    tracing::warn!(
                        event_id = %pending.id, %original,
                        "an event of the spool has the same caller's id as another stored event: it is stored without \
                         that id"
                    );
                }
            }
        }
        for (outcome, events) in [("filed", counts[0]), ("repeated", counts[1]), ("conflicting", counts[2])] {
            if events > 0 {
                metrics::counter!(metric::SPOOLED, "outcome" => outcome).increment(events);
            }
        }
        count("accepted", usize::try_from(counts[0] + counts[2]).unwrap_or(usize::MAX));
    }

    fn refuse(&mut self, batch: Vec<Filing>, error: &StoreError) {
        if !error.is_data() && !error.is_inconsistent() {
            self.failure = Some(error.to_string());
            return;
        }
        for Filing { pending, place } in batch {
            tracing::error!(
                event_id = %pending.id,
                %error,
                "the database refuses an event of the spool: the event is set aside"
            );
            self.spool.forget(&pending);
            self.refused.push(place);
        }
    }
}
