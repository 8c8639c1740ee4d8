//! Heartbeat of this process as a worker, and takeover of the leases of dead workers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use umbra_config::settings::Queue;
use umbra_domain::{WorkerId, clock::Clock};
use umbra_store::{Store, StoreError, jobs::QueueDepth};

/// This process as a worker.
#[derive(Debug, Clone)]
pub struct WorkerHeartbeat {
    store: Store,
    clock: Clock,
    settings: Queue,
    /// Time without progress on a due job after which the process counts as stuck.
    stuck_after: Duration,
    state: Arc<HeartbeatState>,
}

#[derive(Debug)]
struct HeartbeatState {
    worker: Mutex<WorkerId>,
    /// Time at which the last acknowledged beat was sent.
    beat_at: Mutex<Option<Instant>>,
    /// Time at which the dispatcher last ran, or a job last moved.
    moved_at: Mutex<Instant>,
    queued: AtomicI64,
    running: AtomicI64,
    reachable: AtomicBool,
}

impl WorkerHeartbeat {
    /// Returns a worker that is not enlisted yet: [`Self::beat`] enlists it. `slowest`: longest call of a model.
    pub fn new(store: Store, clock: Clock, settings: Queue, slowest: Duration) -> Self {
        let state = HeartbeatState {
            worker: Mutex::new(WorkerId(clock.new_id())),
            beat_at: Mutex::new(None),
            moved_at: Mutex::new(Instant::now()),
            queued: AtomicI64::new(0),
            running: AtomicI64::new(0),
            reachable: AtomicBool::new(true),
        };
        // A slow model is no standstill.
        let stuck_after = Duration::from_mins(1).max(slowest + Duration::from_secs(15));
        Self { store, clock, settings, stuck_after, state: Arc::new(state) }
    }

    /// Returns the settings of the queue, with the times of the heartbeat.
    pub fn settings(&self) -> &Queue {
        &self.settings
    }

    /// Returns the worker id under which jobs may be leased now; `None` while our own heartbeat is too old to start
    /// anything.
    pub fn live_worker_id(&self) -> Option<WorkerId> {
        let fresh = self.state.beat_at.lock().is_some_and(|at| at.elapsed() < self.settings.fence_after);
        fresh.then(|| *self.state.worker.lock())
    }

    /// Sends one heartbeat, follows the database's clock, and measures the queue.
    ///
    /// # Errors
    /// The database does not answer; the next beat tries again.
    pub async fn beat(&self) -> Result<(), StoreError> {
        let sent = Instant::now();
        let beaten = self.beat_once().await;
        self.state.reachable.store(beaten.is_ok(), Ordering::Relaxed);
        beaten?;
        *self.state.beat_at.lock() = Some(sent);
        let depth = self.store.queue().queue_depth().await?;
        self.measure(depth);
        Ok(())
    }

    /// Takes over the leases of dead workers; true if reviews went back to the queue.
    ///
    /// # Errors
    /// The database does not answer; the next call tries again.
    pub async fn take_over_dead_workers(&self) -> Result<bool, StoreError> {
        let own = *self.state.worker.lock();
        let rescue = self
            .store
            .queue()
            .take_over_from_silent(own, self.settings.dead_after, || WorkerId(self.clock.new_id()))
            .await?;
        if rescue.workers > 0 {
            tracing::warn!(
                workers = rescue.workers,
                reviews = rescue.reviews,
                calls = rescue.calls,
                "took over the reviews of workers that stopped responding"
            );
        }
        Ok(rescue.reviews > 0)
    }

    async fn beat_once(&self) -> Result<(), StoreError> {
        let enlisted = self.state.beat_at.lock().is_some();
        let worker = *self.state.worker.lock();
        if enlisted {
            let asked = Instant::now();
            if let Some(now) = self.store.queue().heartbeat(worker).await? {
                self.clock.follow(now, asked.elapsed());
                return Ok(());
            }
            // Declared dead while paused: running reviews are fenced. Continue under a new id.
            tracing::warn!(%worker, "another process declared this worker dead; continuing as a new worker");
        }
        let worker = if enlisted { WorkerId(self.clock.new_id()) } else { worker };
        self.store.queue().register_worker(worker).await?;
        *self.state.worker.lock() = worker;
        let asked = Instant::now();
        self.clock.follow(self.store.now().await?, asked.elapsed());
        Ok(())
    }

    /// Leaves, and hands back all leases.
    ///
    /// # Errors
    /// The database does not answer; other workers take over in time.
    pub async fn leave(&self) -> Result<u64, StoreError> {
        *self.state.beat_at.lock() = None;
        let worker = *self.state.worker.lock();
        self.store.queue().remove_worker(worker, WorkerId(self.clock.new_id())).await
    }

    /// Records that the dispatcher ran or a job moved.
    pub fn moved(&self) {
        *self.state.moved_at.lock() = Instant::now();
    }

    fn measure(&self, depth: QueueDepth) {
        self.state.queued.store(depth.queued, Ordering::Relaxed);
        self.state.running.store(depth.running, Ordering::Relaxed);
        if depth.due == 0 {
            self.moved();
        }
    }

    /// Returns the numbers of waiting and running reviews, as last measured.
    pub fn depth(&self) -> (i64, i64) {
        (self.state.queued.load(Ordering::Relaxed), self.state.running.load(Ordering::Relaxed))
    }

    /// True if the database answered the last heartbeat.
    pub fn reaches_database(&self) -> bool {
        self.state.reachable.load(Ordering::Relaxed)
    }

    /// True if jobs are due and slots are free, yet nothing has moved.
    pub fn is_stuck(&self) -> bool {
        self.state.moved_at.lock().elapsed() >= self.stuck_after
    }
}
