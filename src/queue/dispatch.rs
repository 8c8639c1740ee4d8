//! The dispatcher: takes jobs that were handed over or are due, and runs each in a place of its own.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use super::{Permit, Pulse, Slots};
use umbra_domain::{ReviewId, WorkerId};
use umbra_store::{Store, StoreError, jobs::Job};

/// A job with the place it runs in. The payload spares a read where the job was never out of the process.
#[derive(Debug)]
pub struct Handed {
    /// The job.
    pub job: Job,
    /// The event, as stored.
    pub payload: Option<Vec<u8>>,
    /// Its place.
    pub permit: Permit,
}

/// The way in: places to lease for, and the wake-up.
#[derive(Debug, Clone)]
pub struct Intake {
    slots: Slots,
    pulse: Pulse,
    handed: mpsc::UnboundedSender<Handed>,
    wake: Arc<Notify>,
}

/// Runs jobs until it is stopped.
pub struct Dispatcher {
    store: Store,
    intake: Intake,
    handed: mpsc::UnboundedReceiver<Handed>,
    poll: Duration,
}

impl Intake {
    /// A place for a job of this rank, and the name to lease it under, if one is free and our heartbeat is fresh.
    pub fn place(&self, priority: i16) -> Option<(WorkerId, Permit)> {
        let worker = self.pulse.lease_name()?;
        Some((worker, self.slots.take(priority)?))
    }

    /// Hands over a job that was inserted already leased. The channel is bounded by the places.
    pub fn hand_over(&self, handed: Handed) {
        // A closed channel means that we are stopping: leaving hands the lease back.
        drop(self.handed.send(handed));
    }

    /// Says that unleased jobs wait.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

impl Dispatcher {
    /// A dispatcher with these places; `poll` bounds how long a due job waits when every wake-up was lost.
    pub fn new(store: Store, pulse: Pulse, slots: Slots, poll: Duration) -> Self {
        let (sender, handed) = mpsc::unbounded_channel();
        let intake = Intake { slots, pulse, handed: sender, wake: Arc::new(Notify::new()) };
        Self { store, intake, handed, poll }
    }

    /// Its way in.
    pub fn intake(&self) -> Intake {
        self.intake.clone()
    }

    /// Runs jobs with `work` until `stop`, then lets those that run come to their end until `hard`.
    pub async fn run<F, Fut>(mut self, stop: CancellationToken, hard: CancellationToken, work: F)
    where
        F: Fn(Job, Option<Vec<u8>>) -> Fut,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let mut running = JoinSet::new();
        let start = |running: &mut JoinSet<()>, Handed { job, payload, permit }: Handed| {
            let work = work(job, payload);
            running.spawn(async move {
                work.await;
                drop(permit);
            });
        };
        // Whether jobs may wait for a place: then each place that becomes free is filled at once.
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
        if let Ok(Handed { job, payload, permit }) = self.handed.try_recv() {
            work(job, payload).await;
            drop(permit);
        } else if let Some(worker) = self.intake.pulse.lease_name()
            && let Some(job) = self.store.queue().claim_one(worker, review).await?
        {
            work(job, None).await;
        }
        Ok(())
    }

    fn ended(&self, done: Result<(), tokio::task::JoinError>) {
        self.intake.pulse.moved();
        if let Err(error) = done {
            // The lease stays: it runs again when we leave or are relieved. A panic is a defect of ours.
            tracing::error!(%error, "a review's task ended abnormally");
        }
    }

    /// Claims as many due jobs as there are places. Answers whether more may wait, for want of places.
    async fn claim(&self, start: &mut impl FnMut(Handed)) -> bool {
        let Some(worker) = self.intake.pulse.lease_name() else { return false };
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
                    start(Handed { job, payload: None, permit });
                }
                any.is_empty()
            }
            Err(error) => {
                tracing::debug!(%error, "no jobs could be claimed; trying again at the next poll");
                false
            }
        }
    }
}
