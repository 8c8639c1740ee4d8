//! `umbra erase`: makes the data of an agent or a task unreadable, beside running servers.
//!
//! Spooled events go first, then the stored events in order of receipt, a few at a time, then other rows, the audit,
//! and the files on this machine. Each step may be repeated, so an interrupted erasure is finished by running it again.
//! Events that arrive meanwhile stay.

use std::{io, path::PathBuf, time::Duration};

use anyhow::Context as _;
use uuid::Uuid;

use crate::{
    findings::{ErasedFiles, ErasureTarget, Places, erase_files},
    flows::{decisions::bare_audit_row, events::spool::erased, serialise::to_json, sessions::workspace::remove_gone},
    spool,
    workspace::Workspace,
};
use umbra_boundary::{journal, verify::ErasedPayloads};
use umbra_domain::{Event, EventId, StoredEvent, audit::AuditKind, clock::Clock};
use umbra_store::{
    Store, StoreError,
    decisions::NewAudit,
    erasure::{Erasable, ErasedCounts, ErasureScope},
    wake_ups::WakeUpKind,
};

/// Events per step; their payloads are in memory together.
const STEP: i64 = 50;
/// Events per step of counting.
const COUNT_STEP: i64 = 1_000;
/// Attempts at a step whose locks are taken, and the pause between them.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
/// Obstacles to the erasure of files.
const SPOOL: &str = "events that wait for the database on this machine cannot be erased";
const WORKSPACE: &str = "the files of a session cannot be removed from the workspace";
const AUDIT: &str = "the audit's files cannot be erased";

/// Counts of erased data, or of data that would be erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Erased {
    /// Counts in the database.
    #[serde(flatten)]
    pub rows: ErasedCounts,
    /// Counts of files on this machine.
    #[serde(flatten)]
    pub files: ErasedFiles,
    /// Lines of the audit's files on this machine.
    pub audit_lines: u64,
    /// Events in the spool of this machine.
    pub spooled_events: u64,
    /// Folders of sessions in the workspace of this machine.
    pub session_folders: u64,
}

/// Folders of files on this machine.
#[derive(Debug, Clone)]
pub struct Folders {
    /// Folders of the files of reviews.
    pub reviews: Places,
    /// Folder of the audit's files.
    pub audit: PathBuf,
    /// Folder of the event spool.
    pub spool: PathBuf,
    /// Workspace with the documents of sessions.
    pub workspace: Option<Workspace>,
}

/// Counts what [`erase`] would erase.
///
/// # Errors
/// The database does not answer, or a file cannot be read.
pub async fn forecast(store: &Store, whose: &ErasureScope, folders: Folders) -> anyhow::Result<Erased> {
    let spooled_events = spooled(folders.spool, whose, true).await.context(SPOOL)?;
    let (mut rows, mut after, last) = (ErasedCounts::default(), 0, store.upkeep().newest_event().await?);
    loop {
        let page = store.upkeep().erasable(whose, (after, last), false, COUNT_STEP).await?;
        let Some(end) = page.last() else { break };
        after = end.seq;
        rows.add(store.upkeep().count_erasable(&ids(&page)).await?);
    }
    rows.add(store.upkeep().count_leftovers(whose).await?);
    rows.audit = store.audit().count_audit(whose).await?;
    let files = erase_files(folders.reviews, unwanted(store, whose).await?, true).await?;
    let audit_lines = audit_lines(folders.audit, whose, true).await.context(AUDIT)?;
    // Folders of sessions are found only when they are removed.
    Ok(Erased { rows, files, audit_lines, spooled_events, session_folders: 0 })
}

/// Erases the data of an agent or a task. `replica` is a fresh id, under which ended reviews are counted.
///
/// # Errors
/// The database does not answer or stays busy, or a file cannot be erased; finished steps stay done, and running it
/// again goes on.
pub async fn erase(store: &Store, whose: &ErasureScope, replica: Uuid, folders: Folders) -> anyhow::Result<Erased> {
    // The spool comes first: events that are filed meanwhile are found in the database.
    let spooled_events = spooled(folders.spool, whose, false).await.context(SPOOL)?;
    let (mut rows, mut after, last) = (ErasedCounts::default(), 0, store.upkeep().newest_event().await?);
    loop {
        let page = store.upkeep().erasable(whose, (after, last), true, STEP).await?;
        let Some(end) = page.last() else { break };
        after = end.seq;
        rows.add(patiently(store, page, replica).await?);
    }
    if rows.reviews_ended > 0 {
        // Requests that wait for a verdict look again.
        store.queue().send_wake_up(WakeUpKind::Reviews).await?;
    }
    // From here on followers read erased events alone; what they had read before is stored and written after the wait.
    let patience = async || {
        store.upkeep().outwait_followers().await?;
        store.upkeep().erase_leftovers(whose).await
    };
    rows.add(again(patience).await?);
    rows.audit = erase_audit(store, whose).await?;
    let files = erase_files(folders.reviews, unwanted(store, whose).await?, false).await?;
    let audit_lines = audit_lines(folders.audit, whose, false).await.context(AUDIT)?;
    let session_folders = match folders.workspace {
        Some(workspace) => remove_gone(store, &workspace).await.context(WORKSPACE)?,
        None => 0,
    };
    if rows != ErasedCounts::default() {
        store.upkeep().vacuum_erased().await?;
    }
    Ok(Erased { rows, files, audit_lines, spooled_events, session_folders })
}

/// Erases the payloads of an agent's calls, page by page; each page has its own row in the audit.
async fn erase_audit(store: &Store, whose: &ErasureScope) -> Result<u64, StoreError> {
    let ErasureScope::Agent(agent) = whose else { return Ok(0) };
    let mut erased = 0;
    loop {
        let page = async || store.audit().erase_audit(agent, COUNT_STEP, |gone| erasure(agent, gone)).await;
        let page = again(page).await?;
        erased += page;
        if page == 0 {
            return Ok(erased);
        }
    }
}

/// Erases events in the spool, or counts them.
async fn spooled(dir: PathBuf, whose: &ErasureScope, count_only: bool) -> io::Result<u64> {
    let whose = whose.clone();
    let is_theirs = move |stored: &StoredEvent| match &whose {
        ErasureScope::Agent(agent) => stored.event.agent == *agent,
        ErasureScope::Task(task) => stored.event.task_id.as_ref() == Some(task),
    };
    let erase_all = move || {
        let segments = spool::segments_in(&dir)?;
        let counts = segments.iter().map(|segment| spool::erase(segment, |json| erased(json, &is_theirs), count_only));
        counts.sum()
    };
    in_files(erase_all).await
}

/// Runs work on files.
async fn in_files(work: impl FnOnce() -> io::Result<u64> + Send + 'static) -> io::Result<u64> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(io::Error::other("the erasure failed because of a fault in Umbra")))
}

/// Erases the words of an agent's calls in the audit's files, or counts the lines.
async fn audit_lines(dir: PathBuf, whose: &ErasureScope, count_only: bool) -> io::Result<u64> {
    let ErasureScope::Agent(agent) = whose else { return Ok(0) };
    let agent = agent.clone();
    in_files(move || journal::erase(&dir, &agent, count_only)).await
}

/// Builds the audit row of an erasure. The row names the erased rows, not their content.
fn erasure(agent: &str, gone: &[(i64, Vec<u8>)]) -> Result<NewAudit, StoreError> {
    let body = to_json("audit.body", &ErasedPayloads::of(gone))?;
    Ok(NewAudit { agent: Some(agent.to_owned()), ..bare_audit_row(Clock::system().new_id(), AuditKind::Erasure, body) })
}

/// Selects the files to erase: those that name the agent or the task, and those of reviews of their events.
async fn unwanted(store: &Store, whose: &ErasureScope) -> Result<ErasureTarget, StoreError> {
    let mut unwanted = ErasureTarget::default();
    match whose {
        ErasureScope::Agent(agent) => unwanted.agent = Some(agent.clone()),
        ErasureScope::Task(task) => unwanted.task_id = Some(task.clone()),
    }
    unwanted.reviews.extend(store.upkeep().reviews_that_found(whose).await?);
    let mut after = 0;
    while let Some((last, reviews)) = store.upkeep().reviews_left_by(whose, after, COUNT_STEP).await? {
        after = last;
        unwanted.reviews.extend(reviews);
    }
    Ok(unwanted)
}

/// Erases a page of events, again if another transaction is in the way.
async fn patiently(store: &Store, page: Vec<Erasable>, replica: Uuid) -> Result<ErasedCounts, StoreError> {
    let events = ids(&page);
    let left = page.into_iter().map(|event| Ok((event.id, left_of(&event.payload)?)));
    let left: Vec<_> = left.collect::<Result<_, StoreError>>()?;
    let mut ended = 0;
    let mut erased = again(async || {
        ended += store.upkeep().end_reviews_of(&events, replica).await?;
        store.upkeep().erase(&left).await
    })
    .await?;
    erased.reviews_ended = ended;
    Ok(erased)
}

/// Repeats an operation whose locks may be taken, for a bounded number of attempts.
async fn again<T>(mut what: impl AsyncFnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let mut tried = 1;
    loop {
        match what().await {
            Err(error) if tried < TRIES && error.is_transient() => tokio::time::sleep(BETWEEN_TRIES).await,
            done => return done,
        }
        tried += 1;
    }
}

/// Returns what stays of an event; of an unreadable event, an empty one.
fn left_of(payload: &[u8]) -> Result<Vec<u8>, StoreError> {
    let nothing = || StoredEvent { event: Event::default(), triggers: Vec::new(), marks: Vec::new() };
    let stored = serde_json::from_slice(payload).unwrap_or_else(|_| nothing());
    Ok(to_json("event.payload", &stored.erased())?.into_bytes())
}

fn ids(page: &[Erasable]) -> Vec<EventId> {
    page.iter().map(|event| event.id).collect()
}
