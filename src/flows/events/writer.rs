//! The one writer of events of a process, by group commit.
//!
//! It decides a batch under the meters' locks, and answers each caller after the commit. A commit whose outcome is unknown is
//! asked after, never guessed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    flows::{
        events::{
            Reservations,
            pending::{AcceptError, Accepted, Pending},
            plan::{LateTasks, Plan, Planned},
            task_costs::TaskCosts,
        },
        group_commit::{self, GroupCommit},
    },
    queue::Handed,
    telemetry::metric,
};
use umbra_domain::{Disposition, Event, EventId, ReviewId, StoredEvent};
use umbra_store::{
    StoreError,
    events::received_at,
    intake::{KeyFate, NewKey},
};

/// Bounds of the writer.
#[derive(Debug, Clone, Copy)]
pub struct WriterSettings {
    /// Events that may wait for it.
    pub queue_events: usize,
    /// Events in one transaction.
    pub flush_events: usize,
    /// Bytes of payload in one transaction.
    pub flush_bytes: usize,
}

/// Takes pending events and stores them.
pub struct Writer {
    reservations: Reservations,
    pending: mpsc::Receiver<Pending>,
    settings: WriterSettings,
    /// Names this writer's rows of skip counts.
    replica: Uuid,
    /// Whether it has stored reviews that wait for company.
    waiting: AtomicBool,
    /// Rung when unleased jobs were stored: other processes may have places.
    ring: Arc<Notify>,
    /// Bytes of payload in the batch that is being gathered.
    bytes: usize,
    /// Reviews that the last transaction was to lease to this process.
    leased: Vec<ReviewId>,
}

/// What one transaction brought.
pub(in crate::flows) struct Flushed {
    /// For each event: stored with these dispositions, or known already.
    fates: Vec<Fate>,
    handed: Vec<Handed>,
    unleased: bool,
}

enum Fate {
    Stored(Vec<Disposition>),
    Replay(EventId),
    Mismatch(EventId),
}

impl Writer {
    pub(in crate::flows) fn new(
        reservations: Reservations,
        pending: mpsc::Receiver<Pending>,
        settings: WriterSettings,
    ) -> Self {
        let replica = reservations.clock.new_id();
        Self {
            reservations,
            pending,
            settings,
            replica,
            waiting: AtomicBool::new(false),
            ring: Arc::new(Notify::new()),
            bytes: 0,
            leased: Vec::new(),
        }
    }

    /// Notified when jobs were stored that this process had no place for.
    pub fn ring(&self) -> Arc<Notify> {
        Arc::clone(&self.ring)
    }

    /// Stores events until every sender is gone or `stop` is called; what was taken by then is still answered.
    pub async fn run(self, stop: CancellationToken) {
        group_commit::run(self, stop).await;
    }

    /// After an unknown outcome: `Some` if the batch was stored after all. A flush is all or nothing, so one stored
    /// event answers for the batch.
    async fn find_stored(&self, batch: &[Pending]) -> Option<Flushed> {
        let ids: Vec<EventId> = batch.iter().map(|pending| pending.id).collect();
        let stored = self.reservations.store.events().stored(&ids).await.ok()?;
        if stored.is_empty() {
            return None;
        }
        if let (Some(worker), false) = (self.reservations.pulse.lease_name(), self.leased.is_empty())
            && let Err(error) = self.reservations.store.queue().unlease(worker, &self.leased).await
        {
            tracing::warn!(%error, "reviews of an uncertain commit wait until this process is relieved");
        }
        // Read back like replays: the dispositions stand in the rows. Those not stored were replays themselves.
        let mut again = Vec::new();
        for pending in batch {
            let known = stored.contains(&pending.id);
            again.push(match (&pending.key, known) {
                (_, true) => Fate::Replay(pending.id),
                (Some(key), false) => {
                    let mut flush = self.reservations.store.events().begin().await.ok()?;
                    let fate = flush.keys(std::slice::from_ref(key)).await.ok()?.pop()?;
                    flush.abandon().await.ok()?;
                    match fate {
                        KeyFate::Replay(id) => Fate::Replay(id),
                        KeyFate::Mismatch(id) => Fate::Mismatch(id),
                        KeyFate::Fresh => return None,
                    }
                }
                (None, false) => return None,
            });
        }
        Some(Flushed { fates: again, handed: Vec::new(), unleased: true })
    }

    async fn replay(&self, id: EventId, replayed: bool) -> Result<Accepted, AcceptError> {
        let row = self.reservations.store.events().get(id).await.map_err(|_| AcceptError::Unavailable)?;
        let row = row.ok_or_else(|| AcceptError::Unstorable("the event that this id names is gone".into()))?;
        let stored: StoredEvent =
            serde_json::from_slice(&row.payload).map_err(|error| AcceptError::Unstorable(error.to_string()))?;
        let dispositions = row.dispositions;
        let StoredEvent { event: Event { agent, .. }, triggers, .. } = stored;
        Ok(Accepted { id, agent, received_at: received_at(id), triggers, dispositions, replayed })
    }
}

impl GroupCommit for Writer {
    type Item = Pending;
    type Stored = Flushed;
    const METRICS: (&'static str, &'static str) = (metric::FLUSHES, metric::FLUSH_SECONDS);
    const TRIES: (u32, Duration) = (4, Duration::from_millis(100));

    fn queue(&mut self) -> &mut mpsc::Receiver<Pending> {
        &mut self.pending
    }

    fn add(&mut self, batch: &mut Vec<Pending>, item: Pending) -> Option<Pending> {
        let another_configuration = batch.first().is_some_and(|first| !Arc::ptr_eq(&first.rules, &item.rules));
        if batch.is_empty() {
            self.bytes = 0;
        }
        let full = batch.len() >= self.settings.flush_events || self.bytes >= self.settings.flush_bytes;
        if another_configuration || full {
            return Some(item);
        }
        self.bytes += item.payload.len();
        batch.push(item);
        None
    }

    async fn flush(&mut self, batch: &[Pending]) -> Result<Flushed, StoreError> {
        self.leased.clear();
        let store = &self.reservations.store;
        let keys: Vec<NewKey> = batch.iter().filter_map(|pending| pending.key.clone()).collect();
        let late = LateTasks::among(store, batch).await?;
        let wants_locks = batch
            .iter()
            .any(|pending| pending.pairs.iter().any(|pair| pair.fate.is_ok() && late.concern(&pending.rules, pair)));
        let sums_costs = batch.iter().any(TaskCosts::concern);
        let mut flush =
            if keys.is_empty() && !wants_locks && !sums_costs { None } else { Some(store.events().begin().await?) };
        let mut key_fates = match (&mut flush, keys.is_empty()) {
            (Some(flush), false) => flush.keys(&keys).await?,
            _ => Vec::new(),
        }
        .into_iter();
        let known: Vec<KeyFate> = batch
            .iter()
            .map(
                |pending| {
                    if pending.key.is_some() { key_fates.next().unwrap_or(KeyFate::Fresh) } else { KeyFate::Fresh }
                },
            )
            .collect();
        let fresh: Vec<&Pending> =
            batch.iter().zip(&known).filter(|(_, fate)| **fate == KeyFate::Fresh).map(|(pending, _)| pending).collect();
        let costs = match &mut flush {
            Some(flush) => TaskCosts::count(flush, &fresh).await?,
            None => TaskCosts::default(),
        };
        let mut plan = Plan::new(&self.reservations, &fresh, &late, &costs);
        if let Some(flush) = &mut flush
            && !plan.candidates.is_empty()
        {
            let (now, rows) = flush.lock(&plan.meter_keys()).await?;
            let batches = flush.open_batches(&plan.batch_keys()).await?;
            let tasks = flush.reviewed_tasks(&plan.task_keys()).await?;
            plan.decide(now, rows, batches, tasks);
        }
        let Planned { writing, dispositions, handed, refusals, now } = plan.finish();
        self.leased.extend(handed.iter().map(|handed| handed.job.review));
        let due = writing.reviews.iter().filter(|review| review.waits.is_none()).count();
        let closed = writing.joined.iter().any(|joined| now.is_some_and(|now| joined.run_at <= now));
        let unleased = closed || due > handed.len();
        self.waiting.fetch_or(due < writing.reviews.len(), Ordering::Relaxed);
        match flush {
            Some(flush) if writing.events.is_empty() => flush.abandon().await?,
            Some(flush) => flush.write(self.replica, &writing).await?,
            None if writing.events.is_empty() => {}
            None => store.events().write(self.replica, &writing).await?,
        }
        if let Some(first) = batch.first() {
            refusals.remember(&first.rules);
            costs.remember(&first.rules);
        }
        let mut dispositions = dispositions.into_iter();
        let fates = known
            .into_iter()
            .map(|fate| match fate {
                KeyFate::Fresh => Fate::Stored(dispositions.next().unwrap_or_default()),
                KeyFate::Replay(id) => Fate::Replay(id),
                KeyFate::Mismatch(id) => Fate::Mismatch(id),
            })
            .collect();
        metrics::counter!(metric::FLUSH_EVENTS).increment(batch.len() as u64);
        Ok(Flushed { fates, handed, unleased })
    }

    async fn answer(&mut self, batch: Vec<Pending>, flushed: Flushed) {
        let Flushed { fates, handed, unleased } = flushed;
        for handed in handed {
            self.reservations.intake.hand_over(handed);
        }
        if unleased {
            self.reservations.intake.wake();
            self.ring.notify_one();
        }
        let stored = |(pending, fate): (&Pending, &Fate)| match fate {
            Fate::Stored(dispositions) => Some(pending.is_refused(dispositions)),
            _ => None,
        };
        let refused: Vec<bool> = batch.iter().zip(&fates).filter_map(stored).collect();
        let accepted = refused.iter().filter(|refused| !**refused).count();
        count("accepted", accepted);
        count("refused", refused.len() - accepted);
        for (pending, fate) in batch.into_iter().zip(fates) {
            let Pending { id, agent, triggers, answer, .. } = pending;
            let outcome = match fate {
                Fate::Stored(dispositions) => {
                    let received_at = received_at(id);
                    Ok(Accepted { id, agent, received_at, triggers, dispositions, replayed: false })
                }
                Fate::Mismatch(other) => {
                    count("mismatched", 1);
                    Err(AcceptError::Mismatch(other))
                }
                Fate::Replay(original) => {
                    count("replayed", 1);
                    self.replay(original, original != id).await
                }
            };
            drop(answer.send(outcome));
        }
    }

    /// After a lost connection the events are looked up: a commit may have gone through, and then the reviews that it leased
    /// to us go back to the queue.
    async fn look_up(&mut self, batch: &[Pending], error: &StoreError) -> Option<Flushed> {
        let unknown = matches!(error, StoreError::Unavailable(_)) || is_duplicate_event(error);
        if unknown { self.find_stored(batch).await } else { None }
    }

    fn may_retry(&self, _batch: &[Pending], error: &StoreError) -> bool {
        error.is_transient() || is_duplicate_event(error)
    }

    fn refuse(&mut self, batch: Vec<Pending>, error: &StoreError) {
        let refusal = if error.is_data() {
            AcceptError::Unstorable(error.to_string())
        } else {
            tracing::warn!(%error, events = batch.len(), "events could not be stored; their senders are told");
            AcceptError::Unavailable
        };
        count("refused", batch.len());
        for pending in batch {
            drop(pending.answer.send(Err(refusal.clone())));
        }
    }

    async fn rest(&mut self) -> bool {
        self.reservations.store.events().rest();
        true
    }

    /// Nobody joins from here any more: what waits for company runs at once, wherever there is a place.
    async fn close(&mut self) {
        if !self.waiting.load(Ordering::Relaxed) {
            return;
        }
        match self.reservations.store.events().close_batches().await {
            Ok(0) => {}
            Ok(_) => self.ring.notify_one(),
            Err(error) => tracing::warn!(%error, "batches wait until their time comes"),
        }
    }
}

fn is_duplicate_event(error: &StoreError) -> bool {
    matches!(error, StoreError::Data { sqlstate, constraint: Some(name) }
        if sqlstate == "23505" && name.starts_with("event_") && name.ends_with("_pkey") && name != "event_key_pkey")
}

fn count(outcome: &'static str, events: usize) {
    if events > 0 {
        metrics::counter!(metric::EVENTS, "outcome" => outcome).increment(events as u64);
    }
}
