//! Requests that wait for what becomes of an event. They are woken by the workers of this process, and by the wake-up
//! of others; nobody polls.

use std::{
    collections::HashMap,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::{
    sync::{Notify, futures::Notified, watch},
    time::{Instant, timeout_at},
};

use crate::flows::verdicts::Verdicts;
use umbra_domain::EventId;
use umbra_store::StoreError;

/// Requests of this process that wait, by event.
#[derive(Debug, Clone, Default)]
pub struct Waiters {
    waiting: Arc<Mutex<HashMap<EventId, Arc<Notify>>>>,
    /// Rung when a review ended here: other processes may have waiters.
    ring: Arc<Notify>,
    /// Changed when reviews ended, here or elsewhere.
    news: watch::Sender<()>,
}

impl Waiters {
    /// Notified when a review ended in this process.
    pub fn ring(&self) -> Arc<Notify> {
        Arc::clone(&self.ring)
    }

    /// Changes whenever reviews ended or verdicts were filed, in this process or in another.
    pub fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    /// Says that something became of an event here.
    pub(super) fn tell_all(&self, event: EventId) {
        self.tell(event);
        self.ring.notify_one();
        self.news.send_replace(());
    }

    /// Begins to wait for news of an event.
    pub(in crate::flows) fn join(&self, event: EventId) -> Waiting<'_> {
        let notify = Arc::clone(self.all().entry(event).or_default());
        Waiting { waiters: self, event, notify }
    }

    fn tell(&self, event: EventId) {
        if let Some(notify) = self.all().get(&event) {
            notify.notify_waiters();
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<EventId, Arc<Notify>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One request that waits; the last of an event takes its entry along.
pub(in crate::flows) struct Waiting<'a> {
    waiters: &'a Waiters,
    event: EventId,
    notify: Arc<Notify>,
}

impl Waiting<'_> {
    /// Listens from now on: call it before looking, and no news is missed between the look and the wait.
    pub(in crate::flows) fn listen(&self) -> Told<'_> {
        let mut told = Box::pin(self.notify.notified());
        told.as_mut().enable();
        Told(told)
    }
}

/// News to come.
pub(in crate::flows) struct Told<'a>(Pin<Box<Notified<'a>>>);

impl Told<'_> {
    /// Waits for news until a moment.
    pub(in crate::flows) async fn until(self, moment: Instant) {
        drop(timeout_at(moment, self.0).await);
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut all = self.waiters.all();
        // Ours and the map's: nobody else waits.
        if Arc::strong_count(&self.notify) <= 2 {
            all.remove(&self.event);
        }
    }
}

impl Verdicts {
    /// Tells the waiters of this process about reviews that ended in others.
    pub(in crate::flows) async fn hear_of_reviews(&self) -> Result<(), StoreError> {
        self.waiters.news.send_replace(());
        let waiting: Vec<EventId> = self.waiters.all().keys().copied().collect();
        if !waiting.is_empty() {
            for event in self.store.verdicts().ended_among(&waiting).await? {
                self.waiters.tell(event);
            }
        }
        Ok(())
    }
}
