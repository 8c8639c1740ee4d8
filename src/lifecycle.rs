//! Life of the process: signals, the soft and the hard stop, and the one place that spawns tasks.
//!
//! Every task has a name and is counted; shutdown waits for it, within a bound. A panic's text is not logged, since it
//! may quote what an agent wrote. SIGTERM and SIGINT stop the process, SIGHUP asks for a reload.
//!
//! A stop has two steps. **Soft**: take no new work, finish work that was begun. **Hard**: every task is dropped at its
//! next `await`. Tasks that other tasks need to finish (the writer behind open requests, say) do not watch `soft`: they
//! end when their channel closes.

use std::{
    any::Any,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::FutureExt;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
    time::timeout,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Part of the drain time that is kept back for dropping unfinished tasks: one tenth, at most this.
const LAST_MOMENTS: Duration = Duration::from_secs(1);

/// Spawns and ends tasks. Cheap to clone; all clones are one.
#[derive(Debug, Clone, Default)]
pub struct Tasks(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    tracker: TaskTracker,
    soft: CancellationToken,
    hard: CancellationToken,
    hurry: CancellationToken,
    reload: Notify,
    /// First essential task that ended before a stop was asked for, and how.
    failed: OnceLock<TaskFailure>,
}

/// Cause of an unclean stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TaskFailure {
    /// An essential task has panicked.
    #[error(
        "`{0}` failed because of a fault in Umbra (a panic; the log has its place): restart Umbra, and please report \
         the fault"
    )]
    Panicked(&'static str),
    /// An essential task has returned although no stop was asked for.
    #[error("`{0}` ended unexpectedly; earlier lines of the log say why")]
    Ended(&'static str),
}

/// Result of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Number of tasks that had not finished in time and were dropped; 0 for a clean drain.
    pub dropped: usize,
}

/// Panic of a future. The payload is withheld: it may quote what an agent wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("panicked")]
pub struct Panicked;

impl Tasks {
    /// Returns an empty set of tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the token that is cancelled when the process takes no new work and finishes work that was begun.
    pub fn soft(&self) -> &CancellationToken {
        &self.0.soft
    }

    /// Returns the token that is cancelled when everything ends now; tasks need not watch it, they are dropped.
    pub fn hard(&self) -> &CancellationToken {
        &self.0.hard
    }

    /// Returns the token that only a second signal cancels: work that can be done later is left.
    pub fn hurry(&self) -> &CancellationToken {
        &self.0.hurry
    }

    /// Runs a task that is not essential: a panic is logged and has no other effect.
    pub fn spawn(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let hard = self.0.hard.clone();
        self.track(async move {
            tokio::select! {
                biased;
                () = hard.cancelled() => {}
                ended = unwinding(task) => if ended.is_err() {
                    tracing::error!(task = name, "a task panicked; the process continues");
                },
            }
        });
    }

    /// Runs a task that is not essential, and cancels `then` when it has returned.
    pub fn spawn_then(
        &self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
        then: CancellationToken,
    ) {
        self.spawn(name, task.map(move |()| then.cancel()));
    }

    /// Runs an essential task: when it panics, or returns before the soft stop, the process drains and
    /// [`Tasks::shutdown`] reports the failure.
    pub fn spawn_essential(&self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let tasks = self.clone();
        self.track(async move {
            let failure = tokio::select! {
                biased;
                () = tasks.0.hard.cancelled() => return,
                ended = unwinding(task) => match ended {
                    Err(Panicked) => TaskFailure::Panicked(name),
                    Ok(()) if tasks.0.soft.is_cancelled() => return,
                    Ok(()) => TaskFailure::Ended(name),
                },
            };
            tracing::error!(task = name, "{failure}");
            // Only the first failure is reported: later ones are mostly its consequences.
            let _ = tasks.0.failed.set(failure);
            tasks.0.soft.cancel();
        });
    }

    /// Listens to signals from now on: the first SIGTERM or SIGINT stops softly, a second one hard; SIGHUP asks for a
    /// reload. Fails where the system refuses a handler.
    pub fn listen(&self) -> io::Result<()> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = signal(SignalKind::hangup())?;
        let tasks = self.clone();
        // Not tracked: it must receive the second signal while shutdown waits for all other tasks, and also afterwards,
        // while the background tasks end.
        spawn_untracked(async move {
            loop {
                tokio::select! {
                    () = tasks.0.hurry.cancelled() => return,
                    _ = hangup.recv() => tasks.0.reload.notify_one(),
                    _ = terminate.recv() => tasks.stop_by_signal("SIGTERM"),
                    _ = interrupt.recv() => tasks.stop_by_signal("SIGINT"),
                }
            }
        });
        Ok(())
    }

    /// Waits for the next request to reload; several requests in the meantime count as one.
    pub async fn reload_wanted(&self) {
        self.0.reload.notified().await;
    }

    /// Ends all tasks within `drain`: waits for them after a soft stop, then drops the unfinished ones. Reports the
    /// failure that caused the stop, if there was one.
    pub async fn shutdown(&self, drain: Duration) -> Result<Drained, TaskFailure> {
        let last_moments = (drain / 10).min(LAST_MOMENTS);
        self.0.soft.cancel();
        self.0.tracker.close();
        tokio::select! {
            () = self.0.tracker.wait() => {}
            () = tokio::time::sleep(drain.saturating_sub(last_moments)) => {}
            () = self.0.hard.cancelled() => {}
        }
        let dropped = self.0.tracker.len();
        self.0.hard.cancel();
        if dropped > 0 {
            tracing::warn!(tasks = dropped, "the time to finish requests is over: unfinished requests are dropped");
            // A task that blocks its thread cannot be dropped; it ends with the process.
            let _ = timeout(last_moments, self.0.tracker.wait()).await;
        }
        self.0.failed.get().map_or(Ok(Drained { dropped }), |failure| Err(*failure))
    }

    fn stop_by_signal(&self, name: &'static str) {
        if self.0.soft.is_cancelled() {
            tracing::warn!(signal = name, "stopping at once");
            self.0.hurry.cancel();
            self.0.hard.cancel();
        } else {
            tracing::info!(
                signal = name,
                "draining: running requests finish before the stop; a second signal stops at once"
            );
            self.0.soft.cancel();
        }
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that spawns tasks")]
    fn track(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(tokio::spawn(self.0.tracker.track_future(task)));
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the one place that spawns tasks")]
fn spawn_untracked(task: impl Future<Output = ()> + Send + 'static) {
    drop(tokio::spawn(task));
}

/// Runs a future to its end or to its panic, which is returned as an error.
pub async fn unwinding<F: Future>(future: F) -> Result<F::Output, Panicked> {
    // A future that has panicked is not polled again, so no half-changed state inside it is seen.
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| {
        discard(payload);
        Panicked
    })
}

/// Drops a panic's payload; a payload whose own drop panics must not end the task.
fn discard(payload: Box<dyn Any + Send>) {
    if let Err(second) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        std::mem::forget(second);
    }
}

/// Makes panics be logged with their place in the code and without their text, which may quote what an agent wrote
/// (slicing a string inside a character prints the string).
pub fn log_panics_by_place() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked: this is a fault in Umbra");
    }));
}

/// Raises the soft limit of open files to `wanted`, as far as the hard one allows; returns the limit in force, or
/// `None` where the system does not tell.
pub fn allow_open_files(wanted: usize) -> Option<usize> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let needed = (wanted as u64).min(hard);
    let granted = if soft < needed && setrlimit(Resource::RLIMIT_NOFILE, needed, hard).is_ok() { needed } else { soft };
    Some(usize::try_from(granted).unwrap_or(usize::MAX))
}
