//! In-process lock per session id, taken before a pool connection, so queued steps hold no connection. Order across
//! processes is left to the database's row lock.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use uuid::Uuid;

/// Number of entries above which unused ones are removed.
const MANY: usize = 1_024;

/// Locks by id. All clones share one map.
#[derive(Debug, Clone, Default)]
pub(super) struct KeyedLock(Arc<Mutex<HashMap<Uuid, Weak<Turn<()>>>>>);

impl KeyedLock {
    /// Waits for the lock of this id.
    pub async fn take(&self, id: Uuid) -> OwnedMutexGuard<()> {
        self.turn(id).lock_owned().await
    }

    fn turn(&self, id: Uuid) -> Arc<Turn<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(&id).and_then(Weak::upgrade) {
            return turn;
        }
        if turns.len() >= MANY {
            turns.retain(|_, turn| turn.strong_count() > 0);
        }
        let turn = Arc::default();
        turns.insert(id, Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[tokio::test]
    async fn holders_of_one_key_wait_and_unused_keys_are_dropped() {
        let turns = KeyedLock::default();
        let first = turns.take(Uuid::from_u128(1)).await;
        let (mut second, other) = (Box::pin(turns.take(Uuid::from_u128(1))), turns.take(Uuid::from_u128(2)));
        drop(other.await);
        assert!(second.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        drop(first);
        drop(second.await);
        for id in 0..3 * MANY {
            drop(turns.take(Uuid::from_u128(id as u128)).await);
        }
        assert!(turns.0.lock().unwrap().len() <= MANY);
    }
}
