//! Writer of events, one per process, by group commit.
//!
//! A batch is decided under the meters' locks, and each caller is answered after the commit. A commit of unknown
//! outcome is looked up, never guessed. Events that the database does not take within the deadline are spooled.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use crate::{
    flows::{
        events::{
            Reservations,
            flush::{EventOutcome, Flushed, Flusher, count, is_duplicate_event},
            pending::{AcceptError, Durability, EventReceipt, Pending},
            spool::{EventSpool, SpoolFate},
        },
        group_commit::{self, Commit, GroupCommit},
    },
    telemetry::metric,
};
use umbra_config::Settings;
use umbra_domain::{Event, EventId, StoredEvent};
use umbra_store::{StoreError, events::received_at, intake::KeyLookup};

/// Stores pending events.
pub struct Writer {
    pub(super) flusher: Flusher,
    spool: EventSpool,
    pending: mpsc::Receiver<Pending>,
    settings: Arc<Settings>,
    /// Bytes of payload in the batch that is being gathered.
    bytes: usize,
}

impl Writer {
    pub(in crate::flows) fn new(
        reservations: Reservations,
        spool: EventSpool,
        pending: mpsc::Receiver<Pending>,
        settings: Arc<Settings>,
    ) -> Self {
        Self { flusher: Flusher::new(reservations), spool, pending, settings, bytes: 0 }
    }

    /// Returns the notification of stored jobs for which this process had no slot.
    pub fn ring(&self) -> Arc<Notify> {
        Arc::clone(&self.flusher.ring)
    }

    /// Returns the notification of stored events.
    pub fn stored(&self) -> Arc<Notify> {
        Arc::clone(&self.flusher.stored)
    }

    /// Stores events until every sender is gone or `stop` is cancelled; events taken by then are still answered.
    pub async fn run(self, stop: CancellationToken) {
        group_commit::run(self, stop).await;
    }

    fn reservations(&self) -> &Reservations {
        &self.flusher.reservations
    }

    /// Looks up a batch of unknown outcome: `Some` if it was stored. A flush is all or nothing, so one stored event
    /// answers for the batch.
    async fn find_stored(&self, batch: &[Pending]) -> Option<Flushed> {
        let ids: Vec<EventId> = batch.iter().map(|pending| pending.id).collect();
        let events = || self.reservations().store.events();
        let stored = events().stored(&ids).await.ok()?;
        if stored.is_empty() {
            return None;
        }
        self.flusher.unlease(&self.flusher.leased).await;
        // Stored events are answered like replays, with the dispositions of their rows. The others were replays before.
        let mut fates = Vec::new();
        for pending in batch {
            let known = stored.contains(&pending.id);
            fates.push(match (&pending.key, known) {
                (_, true) => EventOutcome::Replay(pending.id),
                (Some(key), false) => {
                    let mut flush = events().begin().await.ok()?;
                    let fate = flush.keys(std::slice::from_ref(key)).await.ok()?.pop()?;
                    flush.abandon().await.ok()?;
                    match fate {
                        KeyLookup::Replay(id) => EventOutcome::Replay(id),
                        KeyLookup::Mismatch(id) => EventOutcome::Mismatch(id),
                        KeyLookup::Fresh => return None,
                    }
                }
                (None, false) => return None,
            });
        }
        Some(Flushed { fates, handed: Vec::new(), unleased: true })
    }

    async fn replay(&self, id: EventId, replayed: bool) -> Result<EventReceipt, AcceptError> {
        let row = self.reservations().store.events().get(id).await.map_err(|_| AcceptError::Unavailable)?;
        let row = row.ok_or_else(|| AcceptError::Unstorable("the stored event of this id no longer exists".into()))?;
        let stored: StoredEvent =
            serde_json::from_slice(&row.payload).map_err(|error| AcceptError::Unstorable(error.to_string()))?;
        let (dispositions, durability) = (row.dispositions, Durability::Committed);
        let StoredEvent { event: Event { agent, .. }, triggers, .. } = stored;
        Ok(EventReceipt { id, agent, received_at: received_at(id), triggers, dispositions, durability, replayed })
    }
}

impl Commit for Writer {
    type Item = Pending;
    type Stored = Flushed;
    const METRICS: (&'static str, &'static str) = (metric::FLUSHES, metric::FLUSH_SECONDS);
    const TRIES: (u32, Duration) = (4, Duration::from_millis(100));

    /// Counts from the receipt of the oldest event, which may have waited for the batch before.
    fn deadline(&self, batch: &[Pending]) -> Instant {
        batch.first().map_or_else(Instant::now, |oldest| oldest.since) + self.settings.database.deadline
    }

    async fn flush(&mut self, batch: &[Pending]) -> Result<Flushed, StoreError> {
        // Events of an agent stay in order behind the spool; a review on demand does not wait for it.
        let in_order = batch.first().is_some_and(|first| !first.on_demand);
        if in_order && !self.spool.has_caught_up().await {
            return Err(StoreError::not_tried());
        }
        self.flusher.flush(&batch.iter().collect::<Vec<_>>(), true).await
    }

    async fn answer(&mut self, batch: Vec<Pending>, flushed: Flushed) {
        let Flushed { fates, handed, unleased } = flushed;
        self.flusher.hand_over(handed, unleased);
        let stored = |(pending, fate): (&Pending, &EventOutcome)| match fate {
            EventOutcome::Stored(dispositions) => Some(pending.is_refused(dispositions)),
            _ => None,
        };
        let refused: Vec<bool> = batch.iter().zip(&fates).filter_map(stored).collect();
        let accepted = refused.iter().filter(|refused| !**refused).count();
        count("accepted", accepted);
        count("refused", refused.len() - accepted);
        for (pending, fate) in batch.into_iter().zip(fates) {
            let Pending { id, agent, triggers, answer, .. } = pending;
            let outcome = match fate {
                EventOutcome::Stored(dispositions) => {
                    let (received_at, durability) = (received_at(id), Durability::Committed);
                    Ok(EventReceipt { id, agent, received_at, triggers, dispositions, durability, replayed: false })
                }
                EventOutcome::Mismatch(other) => {
                    count("mismatched", 1);
                    Err(AcceptError::Mismatch(other))
                }
                EventOutcome::Replay(original) => {
                    count("replayed", 1);
                    self.replay(original, original != id).await
                }
            };
            drop(answer.send(outcome));
        }
    }

    /// Looks up the events after a lost connection: the commit may have gone through, and then the reviews that it
    /// leased to this process go back to the queue.
    async fn look_up(&mut self, batch: &[Pending], error: &StoreError) -> Option<Flushed> {
        let unknown = matches!(error, StoreError::Unavailable(_)) || is_duplicate_event(error);
        if unknown { self.find_stored(batch).await } else { None }
    }

    fn may_retry(&self, _batch: &[Pending], error: &StoreError) -> bool {
        error.is_transient() || is_duplicate_event(error)
    }

    fn refuse(&mut self, batch: Vec<Pending>, error: &StoreError) {
        if error.is_data() || error.is_inconsistent() {
            let refusal = AcceptError::Unstorable(error.to_string());
            count("refused", batch.len());
            return batch.into_iter().for_each(|pending| drop(pending.answer.send(Err(refusal.clone()))));
        }
        self.spool.add_uncertain(std::mem::take(&mut self.flusher.leased));
        let fates = self.spool.take(&batch, self.reservations().store.is_away());
        let mut refused = 0;
        for (pending, fate) in batch.into_iter().zip(fates) {
            let durability = Durability::Local { verdict_within: pending.verdict_within() };
            let Pending { id, agent, triggers, answer, .. } = pending;
            let kept = |id, replayed| {
                let received_at = received_at(id);
                EventReceipt { id, agent, received_at, triggers, dispositions: Vec::new(), durability, replayed }
            };
            let outcome = match fate {
                SpoolFate::Spooled => Ok(kept(id, false)),
                SpoolFate::Repeat(first) => Ok(kept(first, true)),
                SpoolFate::Refused(refusal) => {
                    refused += 1;
                    Err(refusal)
                }
            };
            drop(answer.send(outcome));
        }
        if refused > 0 {
            tracing::warn!(
                %error,
                events = refused,
                "events could not be stored; their senders were answered with an error"
            );
            count("refused", refused);
        }
    }
}

impl GroupCommit for Writer {
    fn queue(&mut self) -> &mut mpsc::Receiver<Pending> {
        &mut self.pending
    }

    fn add(&mut self, batch: &mut Vec<Pending>, item: Pending) -> Option<Pending> {
        let is_apart = |first: &Pending| !Arc::ptr_eq(&first.rules, &item.rules) || first.on_demand != item.on_demand;
        if batch.is_empty() {
            self.bytes = 0;
        }
        let full = batch.len() >= self.settings.ingest.flush_events || self.bytes >= self.settings.ingest.flush_bytes;
        if batch.first().is_some_and(is_apart) || full {
            return Some(item);
        }
        self.bytes += item.payload.len();
        batch.push(item);
        None
    }

    async fn rest(&mut self) -> bool {
        self.reservations().store.events().release_idle_writer();
        true
    }

    /// Closes the open batches at shutdown, so that any process can review them now.
    async fn close(&mut self) {
        if !self.flusher.waiting.load(Ordering::Relaxed) {
            return;
        }
        match self.reservations().store.events().close_batches().await {
            Ok(0) => {}
            Ok(_) => self.flusher.ring.notify_one(),
            Err(error) => tracing::warn!(%error, "batches cannot be begun early; they wait until they are due"),
        }
    }
}
