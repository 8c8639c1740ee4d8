//! Documents as files: what agents and people change in a session's folder becomes a change of the document, and what the
//! documents become is written there.
//!
//! Whoever locks a session takes in first what its files say ([`Sidecar::hold`]), so a rule about a document is
//! judged by the file of this moment, and after the commit what the files lack is written ([`Held::plan`], [`Sidecar::write_files`]).
//! Beside that, each server with a workspace looks at all files every second: bytes are compared, not times, and no news of the
//! system are waited for. Those come for changes of this machine alone, not for those that another one makes on a shared disk or a
//! container on a mounted one; and to look at a thousand small files takes a tenth of a second.
//!
//! - A change is what differs from the state that the file was given ([`crate::workspace::Mark`]), has stood so for a moment, and is no state of the
//!   document that came later. It is merged with what came since, as a change by `workspace`.
//! - A file that is new is a new document. One that is gone is no change: it is written again.
//! - What cannot be taken is not lost: the file gets another name beside, its place the document, and the session is told.
//! - A directory that fails, or hangs, holds up nobody: answers say that files were not seen, or are not written.

mod held;
mod take;
#[cfg(test)]
mod tests;
mod watch;

use std::{io, sync::Arc, time::Duration};

use jiff::SignedDuration;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

pub(super) use self::held::{Held, Writes};
use self::held::{Said, Seen};
pub use self::watch::remove_gone;
use super::{Sidecar, patience::Patience};
use crate::{
    telemetry::metric,
    workspace::{Entry, Workspace},
};
use umbra_sidecar::document::name::Name;
use umbra_store::{StoreError, sessions::Stepping};

/// A file that is changed is taken when it has stood still for so long: some editors write in several steps.
const SETTLED: Duration = Duration::from_millis(50);
/// What cannot be taken for what it says is left alone for so long: somebody may be writing it.
const UNFINISHED: SignedDuration = SignedDuration::from_secs(2);
/// Reads and writes at a time. One that hangs keeps its place, so that no more than these ever hang.
const AT_A_TIME: usize = 8;

/// The directory could not be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// It hangs.
    #[error("the disk did not answer in time")]
    Late,
    /// The system says why.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FilesError {
    /// Whether somebody has put something in the way of a session's files: whoever may do that is told from a disk that is
    /// away, or no rule would hold for him.
    fn is_in_the_way(&self) -> bool {
        use io::ErrorKind::{InvalidData, NotADirectory, PermissionDenied};
        matches!(self, Self::Io(error) if matches!(error.kind(), NotADirectory | InvalidData | PermissionDenied))
    }
}

/// The directory, and who is at it.
#[derive(Debug)]
pub(super) struct Files {
    workspace: Workspace,
    places: Arc<Semaphore>,
}

impl Files {
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, places: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Does something with the directory, off the threads that serve requests, and waits for it no longer than this.
    async fn work<T: Send + 'static>(
        &self,
        until: Instant,
        job: impl FnOnce(&Workspace) -> io::Result<T> + Send + 'static,
    ) -> Result<T, FilesError> {
        let (workspace, places) = (self.workspace.clone(), Arc::clone(&self.places));
        let work = async {
            let place = places.acquire_owned().await.map_err(io::Error::other)?;
            let done = tokio::task::spawn_blocking(move || {
                let done = job(&workspace);
                drop(place);
                done
            });
            done.await.unwrap_or_else(|_| Err(io::Error::other("the work with files has failed")))
        };
        let done = timeout_at(until, work).await.map_err(|_| FilesError::Late).and_then(|done| Ok(done?));
        done.inspect_err(|_| count("failed", 1))
    }

    async fn look(&self, folder: &str, until: Instant) -> Result<Vec<Entry>, FilesError> {
        let folder = folder.to_owned();
        self.work(until, move |workspace| entries(workspace, &folder)).await
    }
}

/// What lies in a session's folder; nothing where there is none.
fn entries(workspace: &Workspace, folder: &str) -> io::Result<Vec<Entry>> {
    match workspace.folder(folder, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        opened => opened?.look(|file| Name::of_file(file).is_some()).map_err(|error| about(folder, &error)),
    }
}

/// A fault, and the folder that it is one of.
fn about(folder: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{folder}: {error}"))
}

fn count(what: &'static str, files: u64) {
    metrics::counter!(metric::SIDECAR_FILES, "result" => what).increment(files);
}

impl Sidecar {
    /// A session that is locked for a step, with what its files say by now; `None` where that was not had in time, which is
    /// `missed`.
    pub(super) async fn hold(
        &self,
        mut step: Stepping,
        missed: &str,
        patience: &mut Patience<'_>,
    ) -> Option<(Stepping, Held)> {
        let mut held = match self.look_at_files(&step, patience.half()).await {
            Ok(held) => held,
            Err(error) => {
                tracing::debug!(%error, session = %step.session.id, "a step is judged without the files of its session");
                let (how, held) = if error.is_in_the_way() {
                    ("rules about documents go by what they were", Held::default())
                } else {
                    ("rules about documents were not asked", Held::unknown())
                };
                patience.miss("workspace", format!("{}: {how}", not_seen(&error)));
                held
            }
        };
        if held.seen.iter().any(|seen| seen.said == Said::Changed) {
            patience.ask(missed, self.take_files(&mut step, &mut held)).await?;
        }
        Some((step, held))
    }

    /// Looks at the files of a session that is locked.
    ///
    /// # Errors
    /// The directory fails, or it takes longer than this.
    pub(super) async fn look_at_files(&self, step: &Stepping, until: Instant) -> Result<Held, FilesError> {
        let (Some(files), Some(folder)) = (&self.files, &step.session.files) else { return Ok(Held::default()) };
        let at = self.clock.now();
        let seen = |entries: Vec<Entry>| entries.into_iter().filter_map(Seen::of).collect::<Vec<_>>();
        let mut held = Held::new(Some(folder.clone()));
        held.seen = seen(files.look(folder, until).await?);
        if step.is_open() && held.seen.iter().any(|seen| seen.said == Said::Changed) {
            sleep(SETTLED).await;
            let before = std::mem::replace(&mut held.seen, seen(files.look(folder, until).await?));
            for now in held.seen.iter_mut().filter(|now| now.said == Said::Changed) {
                let stood = before.iter().any(|before| before.entry == now.entry);
                // Times of files tell this alone: one in the future is none.
                let age = at.duration_since(now.entry.modified);
                let is_new = !age.is_negative() && age < UNFINISHED;
                if !stood || (is_new && now.is_unfinished()) {
                    now.said = Said::Moving;
                }
            }
        }
        Ok(held)
    }

    /// Whether the workspace has a place for the files of a new session; says so where not.
    pub(super) async fn has_place(&self, folder: Option<&str>, patience: &mut Patience<'_>) -> bool {
        let (Some(files), Some(folder)) = (&self.files, folder.map(str::to_owned)) else { return true };
        let named = folder.clone();
        match files.work(patience.deadline(), move |workspace| workspace.has_place(&named)).await {
            Ok(true) => return true,
            Ok(false) => patience.miss("workspace", not_made(&folder)),
            Err(error) => patience.miss("workspace", not_written(&error)),
        }
        false
    }

    /// Writes what files lack of documents that are kept, and says where that fails.
    pub(super) async fn write_files(&self, writes: Option<Writes>, patience: &mut Patience<'_>) {
        let folder = writes.as_ref().map(|writes| writes.folder.clone()).unwrap_or_default();
        match self.write_files_until(writes, patience.deadline()).await {
            Ok(true) => {}
            Ok(false) => patience.warn(not_made(&folder)),
            Err(error) => patience.miss("workspace", not_written(&error)),
        }
    }

    /// The same, to be waited for until a moment.
    pub(super) async fn write_files_until(&self, writes: Option<Writes>, until: Instant) -> Result<bool, FilesError> {
        let (Some(files), Some(writes)) = (&self.files, writes) else { return Ok(true) };
        files.work(until, move |workspace| writes.carry_out(workspace)).await
    }
}

fn not_made(folder: &str) -> String {
    format!("{folder} is not made: the workspace of this server has no such place")
}

/// What an answer says where files were not seen.
pub(super) fn not_seen(error: &FilesError) -> String {
    format!("what the files of this session say by now is not known: {error}")
}

/// What an answer says where files were not written.
pub(super) fn not_written(error: &FilesError) -> String {
    format!("the files of this session are not what its documents are: {error}")
}
