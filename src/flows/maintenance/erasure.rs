//! `umbra erase`: what an agent or a task left, made unreadable, beside running servers.
//!
//! It walks the events in order of receipt, a few at a time, then what was said beside them, and then the files that lie
//! on this machine; each step may
//! be repeated, so one that was interrupted is finished by running it again. What arrives meanwhile stays.

use std::{io, path::PathBuf, time::Duration};

use uuid::Uuid;

use crate::{
    findings::{ArtifactError, ErasedFiles, Places, Unwanted, erase_files},
    flows::{
        events::spool::erased,
        serialise::to_json,
        sessions::workspace::{FilesError, remove_gone},
    },
    spool,
    workspace::Workspace,
};
use umbra_boundary::{journal, verify::ErasedPayloads};
use umbra_domain::{Event, EventId, StoredEvent, audit::AuditKind, clock::Clock};
use umbra_store::{
    Store, StoreError,
    decisions::NewAudit,
    erasure::{Counts, Erasable, Whose},
    wake::News,
};

/// Events in one step: their payloads are in memory together.
const STEP: i64 = 50;
/// Events in one step of counting.
const COUNT_STEP: i64 = 1_000;
/// How often a step is tried whose locks are not had, and the pause between.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);

/// What was, or would be, erased.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Erased {
    /// In the database.
    #[serde(flatten)]
    pub rows: Counts,
    /// On this machine.
    #[serde(flatten)]
    pub files: ErasedFiles,
    /// Lines of the audit's files on this machine.
    pub audit_lines: u64,
    /// Events that waited for the database on this machine.
    pub spooled_events: u64,
    /// Folders of sessions in the workspace of this machine.
    pub session_folders: u64,
}

/// Where files lie on this machine.
#[derive(Debug, Clone)]
pub struct Folders {
    /// Those of reviews.
    pub reviews: Places,
    /// Those of the audit.
    pub audit: PathBuf,
    /// That of the spool of events.
    pub spool: PathBuf,
    /// That of documents.
    pub workspace: Option<Workspace>,
}

/// Why it could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ErasureError {
    /// The database does not answer, or stays busy.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file cannot be erased.
    #[error(transparent)]
    File(#[from] ArtifactError),
    /// A file of a document cannot be erased.
    #[error("the files of a session cannot be removed: {0}")]
    Document(#[from] FilesError),
    /// The spool cannot be erased.
    #[error("events that wait for the database on this machine cannot be erased: {0}")]
    Spool(io::Error),
    /// A file of the audit cannot be erased.
    #[error("the audit's files cannot be erased: {0}")]
    Audit(#[from] io::Error),
}

/// Counts what [`erase`] would erase.
///
/// # Errors
/// The database does not answer, or a file cannot be read.
pub async fn forecast(store: &Store, whose: &Whose, folders: Folders) -> Result<Erased, ErasureError> {
    let spooled_events = spooled(folders.spool, whose, true).await.map_err(ErasureError::Spool)?;
    let (mut rows, mut after, last) = (Counts::default(), 0, store.upkeep().newest_event().await?);
    loop {
        let page = store.upkeep().erasable(whose, (after, last), false, COUNT_STEP).await?;
        let Some(end) = page.last() else { break };
        after = end.seq;
        rows.add(store.upkeep().count_erasable(&ids(&page)).await?);
    }
    rows.add(store.upkeep().count_leftovers(whose).await?);
    rows.audit = store.audit().count_audit(whose).await?;
    let files = erase_files(folders.reviews, unwanted(store, whose).await?, true).await?;
    let audit_lines = audit_lines(folders.audit, whose, true).await?;
    // Whether they are still there shows when they are removed.
    Ok(Erased { rows, files, audit_lines, spooled_events, session_folders: 0 })
}

/// Erases. `replica` is a fresh id, under which ended reviews are counted.
///
/// # Errors
/// As said there; what is done stays done, and running it again goes on.
pub async fn erase(store: &Store, whose: &Whose, replica: Uuid, folders: Folders) -> Result<Erased, ErasureError> {
    // First: what is filed meanwhile is found in the database.
    let spooled_events = spooled(folders.spool, whose, false).await.map_err(ErasureError::Spool)?;
    let (mut rows, mut after, last) = (Counts::default(), 0, store.upkeep().newest_event().await?);
    loop {
        let page = store.upkeep().erasable(whose, (after, last), true, STEP).await?;
        let Some(end) = page.last() else { break };
        after = end.seq;
        rows.add(patiently(store, page, replica).await?);
    }
    if rows.reviews_ended > 0 {
        // Whoever waits for a verdict looks again.
        store.queue().ring(News::Reviews).await?;
    }
    // From here on whoever follows reviews reads what is left; what was read before is stored and written by then.
    let patience = async || {
        store.upkeep().outwait_followers().await?;
        store.upkeep().erase_leftovers(whose).await
    };
    rows.add(again(patience).await?);
    rows.audit = erase_audit(store, whose).await?;
    let files = erase_files(folders.reviews, unwanted(store, whose).await?, false).await?;
    let audit_lines = audit_lines(folders.audit, whose, false).await?;
    let session_folders = match folders.workspace {
        Some(workspace) => remove_gone(store, &workspace).await?,
        None => 0,
    };
    if rows != Counts::default() {
        store.upkeep().vacuum_erased().await?;
    }
    Ok(Erased { rows, files, audit_lines, spooled_events, session_folders })
}

/// Takes the payloads of an agent's calls, page by page; each page has its own row that says so.
async fn erase_audit(store: &Store, whose: &Whose) -> Result<u64, StoreError> {
    let Whose::Agent(agent) = whose else { return Ok(0) };
    let mut erased = 0;
    loop {
        let page = again(async || {
            let said = |gone: &[(i64, Vec<u8>)]| erasure(agent, gone);
            Ok(Counts { audit: store.audit().erase_audit(agent, COUNT_STEP, said).await?, ..Counts::default() })
        });
        let page = page.await?.audit;
        erased += page;
        if page == 0 {
            return Ok(erased);
        }
    }
}

/// Takes events out of the spool.
async fn spooled(dir: PathBuf, whose: &Whose, count_only: bool) -> io::Result<u64> {
    let whose = whose.clone();
    let is_theirs = move |stored: &StoredEvent| match &whose {
        Whose::Agent(agent) => stored.event.agent == *agent,
        Whose::Task(task) => stored.event.task_id.as_ref() == Some(task),
    };
    let erase_all = move || {
        let segments = spool::segments_in(&dir)?;
        let counts = segments.iter().map(|segment| spool::erase(segment, |json| erased(json, &is_theirs), count_only));
        counts.sum()
    };
    let done = tokio::task::spawn_blocking(erase_all).await;
    done.unwrap_or_else(|_| Err(io::Error::other("erasing has failed")))
}

/// Takes what an agent's calls said out of the audit's files.
async fn audit_lines(dir: PathBuf, whose: &Whose, count_only: bool) -> io::Result<u64> {
    let Whose::Agent(agent) = whose else { return Ok(0) };
    let agent = agent.clone();
    let erased = tokio::task::spawn_blocking(move || journal::erase(&dir, &agent, count_only)).await;
    erased.unwrap_or_else(|_| Err(io::Error::other("erasing has failed")))
}

/// The row that says whose payloads went. It names the rows, not what they held.
fn erasure(agent: &str, gone: &[(i64, Vec<u8>)]) -> Result<NewAudit, StoreError> {
    Ok(NewAudit {
        id: Clock::system().new_id(),
        kind: AuditKind::Erasure,
        agent: Some(agent.to_owned()),
        session: None,
        run: None,
        call_id: None,
        tool: None,
        body: to_json("audit.body", &ErasedPayloads::of(gone))?,
        payload: None,
    })
}

/// Whose files go: those that name the agent or the task, and those of reviews of their events.
async fn unwanted(store: &Store, whose: &Whose) -> Result<Unwanted, StoreError> {
    let name = |whose: &Whose| Some(whose.name().to_owned());
    let mut unwanted = match whose {
        Whose::Agent(_) => Unwanted { agent: name(whose), ..Unwanted::default() },
        Whose::Task(_) => Unwanted { task_id: name(whose), ..Unwanted::default() },
    };
    unwanted.reviews.extend(store.upkeep().reviews_that_found(whose).await?);
    let mut after = 0;
    while let Some((last, reviews)) = store.upkeep().reviews_left_by(whose, after, COUNT_STEP).await? {
        after = last;
        unwanted.reviews.extend(reviews);
    }
    Ok(unwanted)
}

/// One step, again where another transaction was in the way.
async fn patiently(store: &Store, page: Vec<Erasable>, replica: Uuid) -> Result<Counts, StoreError> {
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

/// Does something whose locks may not be had, so often at most.
async fn again(mut what: impl AsyncFnMut() -> Result<Counts, StoreError>) -> Result<Counts, StoreError> {
    let mut tried = 1;
    loop {
        match what().await {
            Err(error) if tried < TRIES && error.is_transient() => tokio::time::sleep(BETWEEN_TRIES).await,
            done => return done,
        }
        tried += 1;
    }
}

/// What is left of an event. Of one that cannot be read, nothing is.
fn left_of(payload: &[u8]) -> Result<Vec<u8>, StoreError> {
    let nothing = || StoredEvent { event: Event::default(), triggers: Vec::new(), marks: Vec::new() };
    let stored = serde_json::from_slice(payload).unwrap_or_else(|_| nothing());
    Ok(to_json("event.payload", &stored.erased())?.into_bytes())
}

fn ids(page: &[Erasable]) -> Vec<EventId> {
    page.iter().map(|event| event.id).collect()
}
