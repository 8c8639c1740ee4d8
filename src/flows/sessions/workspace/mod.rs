//! Documents as files: changes that agents and people make in a session's folder become changes of the documents, and
//! changes of the documents are written to the files.
//!
//! A step that locks a session first takes in the content of its files ([`Sidecar::read_session_files`]), so a rule
//! about a document judges the file of this moment; after the commit the files are brought up to date
//! ([`SessionFiles::plan`], [`Sidecar::write_files`]). Besides, each server with a workspace reads all files every
//! second, and compares bytes, not times. File notifications of the system are not used: they report changes of this
//! machine alone, not those that another machine makes on a shared disk, or a container on a mounted one; and reading a
//! thousand small files takes a tenth of a second.
//!
//! - A change is content that differs from the state written to the file ([`crate::workspace::Mark`]), has stood so for
//!   a moment, and is no later state of the document. It is merged with later changes, as a change by `workspace`.
//! - A new file is a new document. A missing file is no change: it is written again.
//! - A file that cannot be taken is not lost: it is renamed, the document takes its place, and the session is told.
//! - A directory that fails, or hangs, holds up no request: answers say that files were not read, or not written.

mod file_changes;
mod file_snapshot;
#[cfg(test)]
mod tests;
mod watch;

use std::{io, sync::Arc, time::Duration};

use jiff::SignedDuration;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout_at},
};

use self::file_snapshot::{FileState, WorkspaceFile};
pub(super) use self::file_snapshot::{SessionFiles, Writes};
pub use self::watch::remove_gone;
use super::{Sidecar, request_deadline::RequestDeadline};
use crate::{
    telemetry::metric,
    workspace::{FolderEntry, Workspace},
};
use umbra_sidecar::document::name::Name;
use umbra_store::{StoreError, sessions::LockedSession};

/// Time for which a changed file must stand still before it is taken, since some editors write in several steps.
const SETTLED: Duration = Duration::from_millis(50);
/// Age up to which content that is not valid is left alone, since it may still be written.
const UNFINISHED: SignedDuration = SignedDuration::from_secs(2);
/// Most reads and writes at a time. A hanging one keeps its slot, so that no more than these ever hang.
const AT_A_TIME: usize = 8;

/// Failure to use the directory.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// The disk hangs.
    #[error("the disk did not answer in time")]
    Late,
    /// Error of the operating system.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl FilesError {
    /// True if a file, a permission or bad data stands in the way of a session's files. Such an obstacle is told from
    /// an absent disk: otherwise, anyone who may create one could switch the rules about documents off.
    fn is_in_the_way(&self) -> bool {
        use io::ErrorKind::{InvalidData, NotADirectory, PermissionDenied};
        matches!(self, Self::Io(error) if matches!(error.kind(), NotADirectory | InvalidData | PermissionDenied))
    }
}

/// Workspace directory, and the slots for its use.
#[derive(Debug)]
pub(super) struct WorkspaceFiles {
    workspace: Workspace,
    places: Arc<Semaphore>,
}

impl WorkspaceFiles {
    pub fn new(workspace: Workspace) -> Self {
        Self { workspace, places: Arc::new(Semaphore::new(AT_A_TIME)) }
    }

    /// Runs a job on the directory in a blocking thread, and waits for it until `until`.
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
            done.await
                .unwrap_or_else(|_| Err(io::Error::other("an operation on files failed because of a fault in Umbra")))
        };
        let done = timeout_at(until, work).await.map_err(|_| FilesError::Late).and_then(|done| Ok(done?));
        done.inspect_err(|_| count("failed", 1))
    }

    async fn look(&self, folder: &str, until: Instant) -> Result<Vec<FolderEntry>, FilesError> {
        let folder = folder.to_owned();
        self.work(until, move |workspace| entries(workspace, &folder)).await
    }
}

/// Reads the files of a session's folder; none if there is no folder.
fn entries(workspace: &Workspace, folder: &str) -> io::Result<Vec<FolderEntry>> {
    match workspace.folder(folder, false) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        opened => opened?.read_files(|file| Name::of_file(file).is_some()).map_err(|error| about(folder, &error)),
    }
}

/// Adds the folder's name to an error.
fn about(folder: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{folder}: {error}"))
}

fn count(what: &'static str, files: u64) {
    metrics::counter!(metric::SIDECAR_FILES, "result" => what).increment(files);
}

impl Sidecar {
    /// Completes a locked session with the present content of its files; `None` if the database did not answer in time,
    /// and then `missed` is a warning.
    pub(super) async fn read_session_files(
        &self,
        mut step: LockedSession,
        missed: &str,
        patience: &mut RequestDeadline<'_>,
    ) -> Option<(LockedSession, SessionFiles)> {
        let mut held = match self.look_at_files(&step, patience.half()).await {
            Ok(held) => held,
            Err(error) => {
                tracing::debug!(%error, session = %step.session.id, "a step is judged without the session's files");
                let (how, held) = if error.is_in_the_way() {
                    ("rules about documents use their last known text", SessionFiles::default())
                } else {
                    ("rules about documents were not applied", SessionFiles::unknown())
                };
                patience.miss("workspace", format!("{}: {how}", not_seen(&error)));
                held
            }
        };
        if held.seen.iter().any(|seen| seen.said == FileState::Changed) {
            patience.ask(missed, self.take_files(&mut step, &mut held)).await?;
        }
        Some((step, held))
    }

    /// Reads the files of a locked session.
    ///
    /// # Errors
    /// The directory fails, or has not answered at `until`.
    pub(super) async fn look_at_files(&self, step: &LockedSession, until: Instant) -> Result<SessionFiles, FilesError> {
        let (Some(files), Some(folder)) = (&self.files, &step.session.files) else {
            return Ok(SessionFiles::default());
        };
        let at = self.clock.now();
        let seen = |entries: Vec<FolderEntry>| entries.into_iter().filter_map(WorkspaceFile::of).collect::<Vec<_>>();
        let mut held = SessionFiles::new(Some(folder.clone()));
        held.seen = seen(files.look(folder, until).await?);
        if step.is_open() && held.seen.iter().any(|seen| seen.said == FileState::Changed) {
            sleep(SETTLED).await;
            let before = std::mem::replace(&mut held.seen, seen(files.look(folder, until).await?));
            for now in held.seen.iter_mut().filter(|now| now.said == FileState::Changed) {
                let stood = before.iter().any(|before| before.entry == now.entry);
                // File times serve this purpose alone; a time in the future is ignored.
                let age = at.duration_since(now.entry.modified);
                let is_new = !age.is_negative() && age < UNFINISHED;
                if !stood || (is_new && now.is_unfinished()) {
                    now.said = FileState::Moving;
                }
            }
        }
        Ok(held)
    }

    /// True if the workspace has a place for the files of a new session; otherwise a warning is added.
    pub(super) async fn has_place(&self, folder: Option<&str>, patience: &mut RequestDeadline<'_>) -> bool {
        let (Some(files), Some(folder)) = (&self.files, folder.map(str::to_owned)) else { return true };
        let named = folder.clone();
        match files.work(patience.deadline, move |workspace| workspace.has_place(&named)).await {
            Ok(true) => return true,
            Ok(false) => patience.miss("workspace", not_made(&folder)),
            Err(error) => patience.miss("workspace", not_written(&error)),
        }
        false
    }

    /// Writes to the files what they lack of the stored documents; a failure becomes a warning.
    pub(super) async fn write_files(&self, writes: Option<Writes>, patience: &mut RequestDeadline<'_>) {
        let folder = writes.as_ref().map(|writes| writes.folder.clone()).unwrap_or_default();
        match self.write_files_until(writes, patience.deadline).await {
            Ok(true) => {}
            Ok(false) => patience.warn(not_made(&folder)),
            Err(error) => patience.miss("workspace", not_written(&error)),
        }
    }

    /// Writes to the files what they lack of the stored documents, and waits until `until`; `false` if the folder is
    /// missing.
    pub(super) async fn write_files_until(&self, writes: Option<Writes>, until: Instant) -> Result<bool, FilesError> {
        let (Some(files), Some(writes)) = (&self.files, writes) else { return Ok(true) };
        files.work(until, move |workspace| writes.carry_out(workspace)).await
    }
}

fn not_made(folder: &str) -> String {
    format!("{folder} cannot be created: its parent folder does not exist in this server's workspace")
}

/// Returns the warning that files were not read.
pub(super) fn not_seen(error: &FilesError) -> String {
    format!("the current files of this session could not be read: {error}")
}

/// Returns the warning that files were not written.
pub(super) fn not_written(error: &FilesError) -> String {
    format!("the files of this session could not be updated to its documents: {error}")
}
