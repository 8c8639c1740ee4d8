//! One accept transaction: claims keys, locks meters, decides pairs and stores everything.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;
use uuid::Uuid;

use crate::{
    flows::events::{
        Reservations,
        flush_plan::{LateTasks, Plan, Planned},
        pending::Pending,
        task_costs::TaskCosts,
    },
    queue::LeasedJob,
    telemetry::metric,
};
use umbra_domain::{Disposition, EventId, ReviewId};
use umbra_store::{
    StoreError,
    intake::{KeyLookup, NewKey},
};

/// Outcome of an event in a transaction.
#[derive(Debug, Clone)]
pub(in crate::flows) enum EventOutcome {
    /// Stored, with these dispositions.
    Stored(Vec<Disposition>),
    /// The key names this event, which has the same content.
    Replay(EventId),
    /// The key names this event, which has other content.
    Mismatch(EventId),
}

/// Result of one transaction.
pub(in crate::flows) struct Flushed {
    /// Outcome of each event, in their order.
    pub fates: Vec<EventOutcome>,
    /// Jobs that this process has leased.
    pub handed: Vec<LeasedJob>,
    /// True if jobs were stored that this process has not leased.
    pub unleased: bool,
}

/// Makes accept transactions.
pub(in crate::flows) struct Flusher {
    pub reservations: Reservations,
    /// Id of this process's rows of skip counts.
    replica: Uuid,
    /// Set once reviews were stored that wait to be batched.
    pub waiting: Arc<AtomicBool>,
    /// Notified when unleased jobs were stored, since other processes may have free slots.
    pub ring: Arc<Notify>,
    /// Notified when events were stored, for the built-in checks.
    pub stored: Arc<Notify>,
    /// Reviews that the last transaction leased to this process, until it is known to have committed.
    pub leased: Vec<ReviewId>,
}

impl Flusher {
    pub fn new(reservations: Reservations) -> Self {
        let replica = reservations.clock.new_id();
        let (waiting, ring, stored) = Default::default();
        Self { reservations, replica, waiting, ring, stored, leased: Vec::new() }
    }

    /// Returns another flusher of the same process.
    pub fn sibling(&self) -> Self {
        let Self { reservations, replica, waiting, ring, stored, .. } = self;
        let (waiting, ring, stored) = (Arc::clone(waiting), Arc::clone(ring), Arc::clone(stored));
        Self { reservations: reservations.clone(), replica: *replica, waiting, ring, stored, leased: Vec::new() }
    }

    /// Stores events, or finds them known by their keys; without `by_keys`, their keys do not count.
    ///
    /// # Errors
    /// See [`umbra_store::intake::Flush::write`].
    pub async fn flush(&mut self, batch: &[&Pending], by_keys: bool) -> Result<Flushed, StoreError> {
        self.leased.clear();
        let store = &self.reservations.store;
        let keys = batch.iter().filter(|_| by_keys).filter_map(|pending| pending.key.clone());
        let keys: Vec<NewKey> = keys.collect();
        let late = LateTasks::among(store, batch).await?;
        let wants_locks = batch
            .iter()
            .any(|pending| pending.pairs.iter().any(|pair| pair.fate.is_ok() && late.concern(&pending.rules, pair)));
        let sums_costs = batch.iter().any(|pending| TaskCosts::concern(pending));
        let mut flush =
            if keys.is_empty() && !wants_locks && !sums_costs { None } else { Some(store.events().begin().await?) };
        let mut key_fates = match (&mut flush, keys.is_empty()) {
            (Some(flush), false) => flush.keys(&keys).await?,
            _ => Vec::new(),
        }
        .into_iter();
        let lookup =
            |pending: &&Pending| pending.key.as_ref().and_then(|_| key_fates.next()).unwrap_or(KeyLookup::Fresh);
        let known: Vec<KeyLookup> = batch.iter().map(lookup).collect();
        let fresh = batch.iter().zip(&known).filter(|(_, fate)| **fate == KeyLookup::Fresh);
        let fresh: Vec<&Pending> = fresh.map(|(pending, _)| *pending).collect();
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
                KeyLookup::Fresh => EventOutcome::Stored(dispositions.next().unwrap_or_default()),
                KeyLookup::Replay(id) => EventOutcome::Replay(id),
                KeyLookup::Mismatch(id) => EventOutcome::Mismatch(id),
            })
            .collect();
        metrics::counter!(metric::FLUSH_EVENTS).increment(batch.len() as u64);
        Ok(Flushed { fates, handed, unleased })
    }

    /// Starts the leased jobs after a commit, and wakes the workers that have free slots for the rest, and the checks.
    pub fn hand_over(&mut self, handed: Vec<LeasedJob>, unleased: bool) {
        self.leased.clear();
        self.stored.notify_one();
        for handed in handed {
            self.reservations.intake.hand_over(handed);
        }
        if unleased {
            self.reservations.intake.wake();
            self.ring.notify_one();
        }
    }

    /// Returns reviews to the queue that an uncertain transaction leased to this process; answers which were found.
    pub async fn unlease(&self, leased: &[ReviewId]) -> Vec<ReviewId> {
        let Some(worker) = self.reservations.pulse.live_worker_id() else { return Vec::new() };
        if leased.is_empty() {
            return Vec::new();
        }
        match self.reservations.store.queue().unlease(worker, leased).await {
            Ok(freed) => freed,
            Err(error) => {
                tracing::warn!(
                    %error,
                    "reviews of a commit whose result is unknown wait until another process takes them over"
                );
                Vec::new()
            }
        }
    }
}

/// True if an event with this id is stored already.
pub(super) fn is_duplicate_event(error: &StoreError) -> bool {
    matches!(error, StoreError::Data { sqlstate, constraint: Some(name) }
        if sqlstate == "23505" && name.starts_with("event_") && name.ends_with("_pkey") && name != "event_key_pkey")
}

/// Counts events by outcome.
pub(super) fn count(outcome: &'static str, events: usize) {
    if events > 0 {
        metrics::counter!(metric::EVENTS, "outcome" => outcome).increment(events as u64);
    }
}
