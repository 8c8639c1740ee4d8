//! `umbra erase`: what an agent or a task left, made unreadable, beside running servers.
//!
//! It walks the events in order of receipt, a few at a time, then what was said beside them, and then the files that lie
//! on this machine; each step may
//! be repeated, so one that was interrupted is finished by running it again. What arrives meanwhile stays.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    domain::{Event, EventId, StoredEvent},
    findings::{ArtifactError, ErasedFiles, Places, Unwanted, erase_files},
    store::{
        Store, StoreError,
        erasure::{Counts, Erasable, Whose},
        wake::News,
    },
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
}

/// Counts what [`erase`] would erase.
///
/// # Errors
/// The database does not answer, or a file cannot be read.
pub async fn forecast(store: &Store, whose: &Whose, places: Places) -> Result<Erased, ErasureError> {
    let (mut rows, mut after, last) = (Counts::default(), 0, store.newest_event().await?);
    loop {
        let page = store.erasable(whose, (after, last), false, COUNT_STEP).await?;
        let Some(end) = page.last() else { break };
        after = end.seq;
        rows.add(store.count_erasable(&ids(&page)).await?);
    }
    rows.add(store.count_leftovers(whose).await?);
    let files = erase_files(places, unwanted(store, whose).await?, true).await?;
    Ok(Erased { rows, files })
}

/// Erases. `replica` is a fresh id, under which ended reviews are counted.
///
/// # Errors
/// As said there; what is done stays done, and running it again goes on.
pub async fn erase(store: &Store, whose: &Whose, replica: Uuid, places: Places) -> Result<Erased, ErasureError> {
    let (mut rows, mut after, last) = (Counts::default(), 0, store.newest_event().await?);
    loop {
        let page = store.erasable(whose, (after, last), true, STEP).await?;
        let Some(end) = page.last() else { break };
        after = end.seq;
        rows.add(patiently(store, page, replica).await?);
    }
    if rows.reviews_ended > 0 {
        // Whoever waits for a verdict looks again.
        store.ring(News::Reviews).await?;
    }
    // From here on whoever follows reviews reads what is left; what was read before is stored and written by then.
    let patience = async || {
        store.outwait_followers().await?;
        store.erase_leftovers(whose).await
    };
    rows.add(again(patience).await?);
    let files = erase_files(places, unwanted(store, whose).await?, false).await?;
    if rows != Counts::default() {
        store.vacuum_erased().await?;
    }
    Ok(Erased { rows, files })
}

/// Whose files go: those that name the agent or the task, and those of reviews of their events.
async fn unwanted(store: &Store, whose: &Whose) -> Result<Unwanted, StoreError> {
    let name = |whose: &Whose| Some(whose.name().to_owned());
    let mut unwanted = match whose {
        Whose::Agent(_) => Unwanted { agent: name(whose), ..Unwanted::default() },
        Whose::Task(_) => Unwanted { task_id: name(whose), ..Unwanted::default() },
    };
    unwanted.reviews.extend(store.reviews_that_found(whose).await?);
    let mut after = 0;
    while let Some((last, reviews)) = store.reviews_left_by(whose, after, COUNT_STEP).await? {
        after = last;
        unwanted.reviews.extend(reviews);
    }
    Ok(unwanted)
}

/// One step, again where another transaction was in the way.
async fn patiently(store: &Store, page: Vec<Erasable>, replica: Uuid) -> Result<Counts, StoreError> {
    let events = ids(&page);
    let left: Vec<_> = page.into_iter().map(|event| (event.id, left_of(&event.payload))).collect();
    let mut ended = 0;
    let mut erased = again(async || {
        ended += store.end_reviews_of(&events, replica).await?;
        store.erase(&left).await
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
fn left_of(payload: &[u8]) -> Vec<u8> {
    let nothing = || StoredEvent { event: Event::default(), triggers: Vec::new(), marks: Vec::new() };
    let stored = serde_json::from_slice(payload).unwrap_or_else(|_| nothing());
    serde_json::to_vec(&stored.erased()).unwrap_or_default()
}

fn ids(page: &[Erasable]) -> Vec<EventId> {
    page.iter().map(|event| event.id).collect()
}
