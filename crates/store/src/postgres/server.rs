//! The thread that starts Postgres, restarts it when it dies, and stops it.
//!
//! In: a command that runs the postmaster. Out: its pid and the number of restarts. Never: leaves a server behind,
//! restarts faster than the pauses below, or signals a pid that may belong to another process by now (only the thread
//! that reaps the process signals it).
//!
//! A thread, not a task: the parent-death signal comes when the *thread* that started a process ends.
//!
//! The postmaster does not wait for each of its children (its logger outlives it by milliseconds; after a kill, the
//! others do too). All of them inherit their stdin, so stdin is the write end of a pipe: the read end reaches its end
//! when the last process is gone.

use std::{
    io::{self, PipeReader, Read},
    process::{Child, Command, Stdio},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

use nix::{
    fcntl::{FcntlArg, OFlag, fcntl},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use tokio::sync::oneshot;

use super::PrivateError;

/// Pause before the first restart; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// Lifetime after which a server counts as sound: its next restart uses the first pause.
const SOUND_AFTER: Duration = Duration::from_secs(30);
/// Interval at which the thread checks the server, at rest and while stopping.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const LOOK_WHEN_STOPPING: Duration = Duration::from_millis(5);
/// Longest wait for the children of an ended postmaster.
const CHILDREN_LIMIT: Duration = Duration::from_secs(5);
/// Signals of a stop, with their times: "fast" rolls back and writes a checkpoint; "immediate" and KILL leave recovery
/// to the next start. Committed rows survive each of them.
const STOP_STEPS: [(Duration, Signal); 3] = [
    (Duration::ZERO, Signal::SIGINT),
    (Duration::from_secs(20), Signal::SIGQUIT),
    (Duration::from_secs(30), Signal::SIGKILL),
];

/// A Postgres that is kept running until it is stopped.
#[derive(Debug)]
pub(super) struct Supervisor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    ended: Option<oneshot::Receiver<()>>,
}

/// State of the supervised server.
#[derive(Debug, Clone, Default)]
pub(super) struct ServerState {
    /// The postmaster, while one runs.
    pub(super) pid: Option<u32>,
    /// Number of restarts.
    pub(super) restarts: u64,
    /// End of the last server, in words.
    pub(super) last_end: Option<String>,
    stopping: bool,
}

#[derive(Debug, Default)]
struct Shared {
    condition: Mutex<ServerState>,
    changed: Condvar,
}

impl Supervisor {
    /// Starts the thread, and with it the server; does not wait until the server answers.
    pub(super) fn start(mut command: Command) -> Result<Self, PrivateError> {
        let shared = Arc::new(Shared::default());
        let (announce, ended) = oneshot::channel();
        let watched = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("postgres".into()).spawn(move || {
            supervise(&mut command, &watched);
            // There is no receiver when the supervisor is dropped instead of stopped.
            announce.send(()).ok();
        });
        let thread = thread.map_err(PrivateError::io("start a thread for", "postgres"))?;
        Ok(Self { shared, thread: Some(thread), ended: Some(ended) })
    }

    /// Returns the state of the server.
    pub(super) fn condition(&self) -> ServerState {
        self.shared.lock().clone()
    }

    /// Stops the server and waits for it, until a little after the last signal or until `limit` is over.
    pub(super) async fn stop_until(mut self, limit: impl Future<Output = ()>) -> Result<(), PrivateError> {
        self.shared.ask_to_stop();
        let Some(ended) = self.ended.take() else { return Ok(()) };
        tokio::select! {
            // Dropping joins the thread, which has ended.
            ended = ended => ended.map_err(|_| PrivateError::Supervisor),
            () = limit => {
                // The thread is not joined; it has told the server to end.
                drop(self.thread.take());
                Err(PrivateError::Unstopped)
            }
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.ask_to_stop();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that supervises PostgreSQL panicked");
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, ServerState> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask_to_stop(&self) {
        self.lock().stopping = true;
        self.changed.notify_all();
    }

    /// Waits for a stop request, at most for `limit`; returns true if there is one.
    fn wait(&self, limit: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), limit, |condition| !condition.stopping);
        waited.unwrap_or_else(PoisonError::into_inner).0.stopping
    }
}

fn supervise(command: &mut Command, shared: &Shared) {
    let mut pause = FIRST_PAUSE;
    loop {
        let started = Instant::now();
        let end = match spawn(command) {
            Ok((child, alive)) => {
                let end = watch(child, shared);
                await_children(alive);
                end
            }
            Err(error) => error.to_string(),
        };
        {
            let mut condition = shared.lock();
            condition.pid = None;
            condition.last_end = Some(end.clone());
            if condition.stopping {
                return;
            }
        }
        if started.elapsed() > SOUND_AFTER {
            pause = FIRST_PAUSE;
        }
        tracing::warn!(end, pause_ms = pause.as_millis(), "PostgreSQL ended unexpectedly: starting it again");
        if shared.wait(pause) {
            return;
        }
        shared.lock().restarts += 1;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Starts the server. The returned pipe ends with the server's last process.
fn spawn(command: &mut Command) -> io::Result<(Child, PipeReader)> {
    let (alive, inherited) = io::pipe()?;
    fcntl(&alive, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let child = command.stdin(inherited).spawn();
    // The command keeps our copy of the write end until it gets another stdin.
    command.stdin(Stdio::null());
    Ok((child?, alive))
}

fn await_children(mut alive: PipeReader) {
    let started = Instant::now();
    // No process writes: "would block" means that one still could, anything else that the pipe ended.
    while matches!(alive.read(&mut [0]), Err(error) if error.kind() == io::ErrorKind::WouldBlock) {
        if started.elapsed() > CHILDREN_LIMIT {
            tracing::warn!("a process of PostgreSQL still runs after its postmaster has ended");
            return;
        }
        std::thread::sleep(LOOK_WHEN_STOPPING);
    }
}

/// Watches one server until it ends, by itself or by a stop; returns how it ended.
fn watch(mut child: Child, shared: &Shared) -> String {
    shared.lock().pid = Some(child.id());
    let mut steps = STOP_STEPS.iter().peekable();
    let mut stopping_since = None;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.to_string(),
            Ok(None) => (),
            Err(error) => return error.to_string(),
        }
        let Some(since) = stopping_since else {
            if shared.wait(LOOK_EVERY) {
                stopping_since = Some(Instant::now());
            }
            continue;
        };
        if let Some((_, signal)) = steps.next_if(|(after, _)| since.elapsed() >= *after) {
            send(&child, *signal);
        }
        std::thread::sleep(LOOK_WHEN_STOPPING);
    }
}

fn send(child: &Child, signal: Signal) {
    let Ok(pid) = i32::try_from(child.id()) else { return };
    if let Err(error) = kill(Pid::from_raw(pid), signal) {
        tracing::warn!(%error, %signal, "cannot signal PostgreSQL");
    }
}
