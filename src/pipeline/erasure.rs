//! `umbra erase`: what an agent or a task left, made unreadable, beside running servers.
//!
//! It walks the events in order of receipt, a few at a time; each step may be repeated, so one that was interrupted
//! is finished by running it again. What arrives meanwhile stays.

use std::time::Duration;

use uuid::Uuid;

use crate::{
    domain::{Event, EventId, StoredEvent},
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

/// Counts what [`erase`] would erase.
///
/// # Errors
/// The database does not answer.
pub async fn forecast(store: &Store, whose: &Whose) -> Result<Counts, StoreError> {
    let (mut counts, mut after, last) = (Counts::default(), 0, store.newest_event().await?);
    loop {
        let page = store.erasable(whose, (after, last), false, COUNT_STEP).await?;
        let Some(end) = page.last() else { return Ok(counts) };
        after = end.seq;
        counts.add(store.count_erasable(&ids(&page)).await?);
    }
}

/// Erases. `replica` is a fresh id, under which ended reviews are counted.
///
/// # Errors
/// The database does not answer, or stays busy: what is done stays done, and running it again goes on.
pub async fn erase(store: &Store, whose: &Whose, replica: Uuid) -> Result<Counts, StoreError> {
    let (mut counts, mut after, last) = (Counts::default(), 0, store.newest_event().await?);
    loop {
        let page = store.erasable(whose, (after, last), true, STEP).await?;
        let Some(end) = page.last() else { break };
        after = end.seq;
        counts.add(patiently(store, page, replica).await?);
    }
    if counts.reviews_ended > 0 {
        // Whoever waits for a verdict looks again.
        store.ring(News::Reviews).await?;
    }
    if counts.events > 0 {
        store.vacuum_erased().await?;
    }
    Ok(counts)
}

/// One step, again where another transaction was in the way.
async fn patiently(store: &Store, page: Vec<Erasable>, replica: Uuid) -> Result<Counts, StoreError> {
    let events = ids(&page);
    let left: Vec<_> = page.into_iter().map(|event| (event.id, left_of(&event.payload))).collect();
    let mut counts = Counts::default();
    for tried in 1.. {
        let done = async {
            counts.reviews_ended += store.end_reviews_of(&events, replica).await?;
            store.erase(&left).await
        };
        match done.await {
            Ok(erased) => {
                counts.add(erased);
                break;
            }
            Err(error) if tried < TRIES && error.is_transient() => tokio::time::sleep(BETWEEN_TRIES).await,
            Err(error) => return Err(error),
        }
    }
    Ok(counts)
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
