//! Requests that wait for the verdict or the review of an event. Workers of this process and wake-ups of other
//! processes wake them; they do not poll.

use std::{collections::HashMap, pin::Pin, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::{Notify, futures::Notified, watch};

use crate::flows::verdicts::Verdicts;
use umbra_domain::EventId;
use umbra_store::StoreError;

/// Requests of this process that wait, by event.
#[derive(Debug, Clone, Default)]
pub struct Waiters {
    waiting: Arc<Mutex<HashMap<EventId, Arc<Notify>>>>,
    /// Notified when a review ended here, since other processes may have waiters.
    pub(in crate::flows) ring: Arc<Notify>,
    /// Changed when reviews ended, here or elsewhere.
    pub(in crate::flows) news: watch::Sender<()>,
}

impl Waiters {
    /// Wakes the waiters of an event in all processes, and the receivers of [`Self::news`].
    pub(super) fn tell_all(&self, event: EventId) {
        self.tell(event);
        self.ring.notify_one();
        self.news.send_replace(());
    }

    /// Registers a request that waits for news of an event.
    pub(in crate::flows) fn join(&self, event: EventId) -> WaitingRequest<'_> {
        let notify = Arc::clone(self.waiting.lock().entry(event).or_default());
        WaitingRequest { waiters: self, event, notify }
    }

    fn tell(&self, event: EventId) {
        if let Some(notify) = self.waiting.lock().get(&event) {
            notify.notify_waiters();
        }
    }
}

/// A waiting request. The last one of an event removes the event's entry when it is dropped.
pub(in crate::flows) struct WaitingRequest<'a> {
    waiters: &'a Waiters,
    event: EventId,
    notify: Arc<Notify>,
}

impl WaitingRequest<'_> {
    /// Listens from now on. Call it before looking, so that no news between the look and the wait is missed.
    pub(in crate::flows) fn listen(&self) -> Pin<Box<Notified<'_>>> {
        let mut told = Box::pin(self.notify.notified());
        told.as_mut().enable();
        told
    }
}

impl Drop for WaitingRequest<'_> {
    fn drop(&mut self) {
        let mut all = self.waiters.waiting.lock();
        // One reference is ours, one the map's: no other request waits.
        if Arc::strong_count(&self.notify) <= 2 {
            all.remove(&self.event);
        }
    }
}

impl Verdicts {
    /// Wakes the waiters of this process whose reviews ended in other processes.
    pub(in crate::flows) async fn hear_of_reviews(&self) -> Result<(), StoreError> {
        self.waiters.news.send_replace(());
        let waiting: Vec<EventId> = self.waiters.waiting.lock().keys().copied().collect();
        if !waiting.is_empty() {
            for event in self.store.verdicts().ended_among(&waiting).await? {
                self.waiters.tell(event);
            }
        }
        Ok(())
    }
}
