//! Background work on files: finds their changes, writes documents that moved on elsewhere, and removes the files of
//! sessions that are gone.

use std::{collections::BTreeSet, io, time::Duration};

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{FilesError, WorkspaceFiles, about, entries, file_snapshot::is_as_given};
use crate::{
    flows::{
        rounds::pause,
        sessions::{Sidecar, documents::format_of},
    },
    workspace::Workspace,
};
use umbra_domain::SessionId;
use umbra_sidecar::document::name::Name;
use umbra_store::{Store, StoreError, session_files::FiledSession};

/// Pause between looks at all files.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Longest time of reads and writes that no request waits for.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time of reads while a session is locked.
const LOCKED: Duration = Duration::from_secs(2);
/// Seconds for which the last state of an ended session is written again after a failure.
const AFTER_THE_END: f64 = 3_600.0;
/// Looks at all files for each look that includes ended sessions.
const ROUNDS_PER_LOOK_AT_ENDED: u32 = 10;
/// Most faults of one round that are logged each.
const MOST_FAULTS: usize = 100;
/// Sessions per look or sweep.
const PAGE: i64 = 500;
/// Pause between sweeps for sessions that are gone.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(10);
/// Time that a sweep looks at again, since a transaction that began earlier may end later.
const OVERLAP: SignedDuration = SignedDuration::from_mins(5);

/// Faults of one round, in words that name the folder; equal faults of several sessions count once.
type Faults = BTreeSet<String>;

/// Faults of the last round: each is logged once when it begins, and once when it ends.
#[derive(Default)]
struct Round(Faults);

impl Round {
    fn told(&mut self, what: &'static str, done: Result<Faults, StoreError>) {
        let faults = match done {
            Ok(faults) => faults,
            Err(error) => return tracing::debug!(%error, "files could not be {what}; the next round tries again"),
        };
        for fault in faults.difference(&self.0) {
            tracing::warn!(fault, "files of sessions cannot be {what} now (sidecar.workspace)");
        }
        for fault in self.0.difference(&faults) {
            tracing::info!(fault, "files of sessions are {what} again");
        }
        self.0 = faults;
    }
}

/// Adds a fault. An absent database is reported elsewhere.
fn note(faults: &mut Faults, done: Result<(), FilesError>) {
    match done {
        Err(FilesError::Store(error)) => {
            tracing::debug!(%error, "files of a session could not be updated; the next round tries again");
        }
        Err(error) if faults.len() < MOST_FAULTS => drop(faults.insert(error.to_string())),
        _ => {}
    }
}

impl Sidecar {
    /// Keeps the files of all sessions up to date, until `stop`.
    pub async fn keep_files_until(self, stop: CancellationToken) {
        let Some(files) = &self.files else { return };
        let (mut keeping, mut removing) = (Round::default(), Round::default());
        let (mut swept, mut since) = (None::<Instant>, Timestamp::UNIX_EPOCH);
        let mut ended = (0..ROUNDS_PER_LOOK_AT_ENDED).map(|round| if round == 0 { AFTER_THE_END } else { 0.0 }).cycle();
        while pause(&stop, BETWEEN_LOOKS).await {
            let ended_within = ended.next().unwrap_or(AFTER_THE_END);
            keeping.told("updated", self.keep_files(files, ended_within).await);
            if swept.is_none_or(|swept| swept.elapsed() >= BETWEEN_SWEEPS) {
                swept = Some(Instant::now());
                let mut faults = Faults::new();
                let removed = remove_since(&self.store, files, since).await.map(|(newest, _)| since = newest);
                note(&mut faults, removed);
                removing.told("removed", Ok(faults));
            }
        }
    }

    /// Looks at the files of all sessions once, and returns the faults. A fault does not stop the round, unless the
    /// disk hangs.
    async fn keep_files(&self, files: &WorkspaceFiles, ended_within: f64) -> Result<Faults, StoreError> {
        let (mut after, mut faults) = (None, Faults::new());
        loop {
            let page = self.store.sessions().filed_sessions(ended_within, after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(faults) };
            after = Some(last.id);
            let look = move |workspace: &Workspace| {
                let looked = page.iter().map(|session| Ok(is_restless(workspace, session)?.then_some(session.id)));
                Ok(looked.collect::<Vec<io::Result<_>>>())
            };
            let looked = match files.work(Instant::now() + PATIENCE, look).await {
                Ok(looked) => looked,
                Err(error) => {
                    note(&mut faults, Err(error));
                    return Ok(faults);
                }
            };
            for restless in looked {
                let done = match restless {
                    Ok(None) => Ok(()),
                    Ok(Some(id)) => self.keep_files_of(id).await,
                    Err(error) => Err(error.into()),
                };
                let is_late = matches!(done, Err(FilesError::Late));
                note(&mut faults, done);
                if is_late {
                    return Ok(faults);
                }
            }
        }
    }

    async fn keep_files_of(&self, id: SessionId) -> Result<(), FilesError> {
        let Some(mut step) = self.store.sessions().step(id).await? else { return Ok(()) };
        let mut held = self.look_at_files(&step, Instant::now() + LOCKED).await?;
        self.take_files(&mut step, &mut held).await?;
        let writes = held.plan(&step.documents);
        if held.changed {
            step.keep().await?;
        } else {
            drop(step);
        }
        self.write_files_until(writes, Instant::now() + PATIENCE).await.map(drop)
    }
}

/// True if the files of a session need work.
fn is_restless(workspace: &Workspace, session: &FiledSession) -> io::Result<bool> {
    if !workspace.has_place(&session.files)? {
        return Ok(false);
    }
    let entries = entries(workspace, &session.files)?;
    let file = |name: &str, format: &str| Some(Name::parse(name).ok()?.file(format_of(format)));
    let mut known = 0;
    for (name, format, version) in &session.documents {
        let Some(file) = file(name, format) else { continue };
        let Some(entry) = entries.iter().find(|entry| entry.name == file) else { return Ok(true) };
        known += 1;
        let as_given = is_as_given(entry);
        let is_this = entry.mark.as_ref().is_some_and(|mark| mark.version == *version);
        if (session.is_open && !as_given) || (as_given && !is_this) {
            return Ok(true);
        }
    }
    Ok(session.is_open && entries.len() > known)
}

/// Removes the files of sessions that are gone from a workspace; returns the number of sessions that had files.
///
/// # Errors
/// The database does not answer, or a file cannot be removed.
pub async fn remove_gone(store: &Store, workspace: &Workspace) -> Result<u64, FilesError> {
    remove_since(store, &WorkspaceFiles::new(workspace.clone()), Timestamp::UNIX_EPOCH)
        .await
        .map(|(_, removed)| removed)
}

/// Removes the files of sessions that are gone since a moment; returns the start of the next sweep, and their number.
async fn remove_since(store: &Store, files: &WorkspaceFiles, since: Timestamp) -> Result<(Timestamp, u64), FilesError> {
    let (mut from, mut removed) = ((since, None), 0);
    loop {
        let gone = store.sessions().gone_sessions(from, PAGE).await?;
        let Some(last) = gone.last() else {
            return Ok((since.max(from.0.checked_sub(OVERLAP).unwrap_or(since)), removed));
        };
        from = (last.at, Some(last.id));
        let removing = move |workspace: &Workspace| {
            let mut removed = Ok(0);
            for session in &gone {
                let was_there = workspace.remove(&session.files).map_err(|error| about(&session.files, &error));
                removed = removed.and_then(|count| was_there.map(|was_there| count + u64::from(was_there)));
            }
            removed
        };
        removed += files.work(Instant::now() + PATIENCE, removing).await?;
    }
}
