//! The wake-up across replicas: coalesced, in a transaction of its own, never in the accept transaction.

use sqlx::postgres::PgListener;

use super::{Store, StoreError};

/// Hears other processes' wake-ups.
pub struct Listener(PgListener);

impl Store {
    /// Tells every process of this schema that jobs wait.
    ///
    /// # Errors
    /// The database does not answer; the others find the jobs at their next poll.
    pub async fn ring(&self) -> Result<(), StoreError> {
        sqlx::query("SELECT pg_notify($1, '')").bind(self.channel()).execute(&self.control).await?;
        Ok(())
    }

    /// Listens for wake-ups of this schema.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn listen(&self) -> Result<Listener, StoreError> {
        let mut listener = PgListener::connect_with(&self.control).await?;
        listener.listen(&self.channel()).await?;
        Ok(Listener(listener))
    }

    fn channel(&self) -> String {
        format!("{}_work", self.schema)
    }
}

impl Listener {
    /// Waits for the next wake-up. A lost connection is made anew, and counts as one.
    ///
    /// # Errors
    /// The database stays away: listen again later.
    pub async fn heard(&mut self) -> Result<(), StoreError> {
        self.0.try_recv().await?;
        Ok(())
    }
}
