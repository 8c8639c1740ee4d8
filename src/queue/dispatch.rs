//! Dispatcher: takes jobs that were handed over or are due, and runs each in a slot of its own.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{Permit, Slots, WorkerHeartbeat};
use umbra_domain::{ReviewId, WorkerId};
use umbra_store::{Store, StoreError, jobs::Job};

/// Job with the slot that it runs in. The payload saves a read where the job never left the process.
#[derive(Debug)]
pub struct LeasedJob {
    /// Leased job.
    pub job: Job,
    /// Stored event.
    pub payload: Option<Vec<u8>>,
    /// Slot of the job.
    pub permit: Permit,
}

/// Handle of the dispatcher: slots to lease jobs for, and the wake-up.
#[derive(Debug, Clone)]
pub struct DispatcherHandle {
    slots: Slots,
    pulse: WorkerHeartbeat,
    handed: mpsc::UnboundedSender<LeasedJob>,
    wake: Arc<Notify>,
}

/// Runner of jobs.
pub struct Dispatcher {
    store: Store,
    intake: DispatcherHandle,
    handed: mpsc::UnboundedReceiver<LeasedJob>,
    poll: Duration,
}

impl DispatcherHandle {
    /// Returns a slot for a job of this rank and the worker id to lease it under, if a slot is free and our heartbeat
    /// is fresh.
    pub fn reserve_slot(&self, priority: i16) -> Option<(WorkerId, Permit)> {
        let worker = self.pulse.live_worker_id()?;
        Some((worker, self.slots.take(priority)?))
    }

    /// Hands over a job that was inserted already leased. The number of jobs in the channel is bounded by the slots.
    pub fn hand_over(&self, handed: LeasedJob) {
        // A closed channel means that the process is stopping: leaving hands the lease back.
        drop(self.handed.send(handed));
    }

    /// Signals that unleased jobs wait.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

impl Dispatcher {
    /// Returns a dispatcher with these slots; `poll` bounds the wait of a due job when every wake-up was lost.
    pub fn new(store: Store, pulse: WorkerHeartbeat, slots: Slots, poll: Duration) -> Self {
        let (sender, handed) = mpsc::unbounded_channel();
        let intake = DispatcherHandle { slots, pulse, handed: sender, wake: Arc::new(Notify::new()) };
        Self { store, intake, handed, poll }
    }

    /// Returns a handle of the dispatcher.
    pub fn intake(&self) -> DispatcherHandle {
        self.intake.clone()
    }

    /// Runs jobs with `work` until `stop`, then waits for the running ones until `hard`.
    pub async fn run<F, Fut>(mut self, stop: CancellationToken, hard: CancellationToken, work: F)
    where
        F: Fn(Job, Option<Vec<u8>>) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let mut running = JoinSet::new();
        let start = |running: &mut JoinSet<()>, LeasedJob { job, payload, permit }: LeasedJob| {
            let work = work(job, payload);
            running.spawn(async move {
                work.await;
                drop(permit);
            });
        };
        // True if jobs may wait for a slot: each slot that becomes free is then filled at once.
        let mut backlog = false;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(handed) = self.handed.recv() => start(&mut running, handed),
                Some(done) = running.join_next(), if !running.is_empty() => {
                    self.ended(done);
                    while let Some(done) = running.try_join_next() {
                        self.ended(done);
                    }
                    if backlog {
                        backlog = self.claim(&mut |handed| start(&mut running, handed)).await;
                    }
                }
                () = self.intake.wake.notified() => {
                    backlog = self.claim(&mut |handed| start(&mut running, handed)).await;
                }
                () = tokio::time::sleep(self.poll) => {
                    backlog = self.claim(&mut |handed| start(&mut running, handed)).await;
                }
            }
        }
        loop {
            tokio::select! {
                () = hard.cancelled() => break,
                ended = running.join_next() => match ended {
                    Some(done) => self.ended(done),
                    None => break,
                }
            }
        }
        running.shutdown().await;
    }

    /// Runs one review if it is ours or due, and nothing else. For the command line.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn run_one<F, Fut>(&mut self, review: ReviewId, work: F) -> Result<(), StoreError>
    where
        F: FnOnce(Job, Option<Vec<u8>>) -> Fut,
        Fut: Future<Output = ()>,
    {
        if let Ok(LeasedJob { job, payload, permit }) = self.handed.try_recv() {
            work(job, payload).await;
            drop(permit);
        } else if let Some(worker) = self.intake.pulse.live_worker_id()
            && let Some(job) = self.store.queue().claim_one(worker, review).await?
        {
            work(job, None).await;
        }
        Ok(())
    }

    fn ended(&self, done: Result<(), tokio::task::JoinError>) {
        self.intake.pulse.moved();
        if let Err(error) = done {
            // The lease stays: the review runs again when this process leaves or is taken over. A panic is a defect of
            // ours.
            tracing::error!(%error, "a review's task ended abnormally");
        }
    }

    /// Claims as many due jobs as there are slots; true if more may wait for want of slots.
    async fn claim(&self, start: &mut impl FnMut(LeasedJob)) -> bool {
        let Some(worker) = self.intake.pulse.live_worker_id() else { return false };
        let (mut active, mut any) = self.intake.slots.take_all();
        if active.is_empty() && any.is_empty() {
            return true;
        }
        let limits = (i64::try_from(active.len()).unwrap_or(0), i64::try_from(any.len()).unwrap_or(0));
        match self.store.queue().claim(worker, limits.0, limits.1).await {
            Ok(jobs) => {
                if !jobs.is_empty() || self.intake.pulse.reaches_database() {
                    self.intake.pulse.moved();
                }
                for job in jobs {
                    let permit = if job.priority == 0 { active.pop().or_else(|| any.pop()) } else { any.pop() };
                    let Some(permit) = permit else { continue };
                    start(LeasedJob { job, payload: None, permit });
                }
                any.is_empty()
            }
            Err(error) => {
                tracing::debug!(
                    %error,
                    "reviews cannot be claimed because the database failed; trying again at the next poll"
                );
                false
            }
        }
    }
}
