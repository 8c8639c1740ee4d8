//! The wake-up across replicas: coalesced, in a transaction of its own, never in the accept transaction.

use sqlx::postgres::PgListener;

use super::{StoreError, aggregates::QueueStore};

umbra_domain::words! {
    /// What other processes are told.
    pub enum News {
        /// Jobs wait.
        Jobs = "jobs",
        /// Reviews ended.
        Reviews = "reviews",
    }
}

/// Hears other processes' wake-ups.
pub struct Listener(PgListener);

impl QueueStore<'_> {
    /// Tells every process of this schema.
    ///
    /// # Errors
    /// The database does not answer; the others find jobs at their next poll, and waiting requests look when their time is over.
    pub async fn ring(self, news: News) -> Result<(), StoreError> {
        sqlx::query("SELECT pg_notify($1, $2)")
            .bind(self.channel())
            .bind(news.as_str())
            .execute(&self.0.control)
            .await?;
        Ok(())
    }

    /// Listens for wake-ups of this schema.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn listen(self) -> Result<Listener, StoreError> {
        let mut listener = PgListener::connect_with(&self.0.control).await?;
        listener.listen(&self.channel()).await?;
        Ok(Listener(listener))
    }

    fn channel(self) -> String {
        format!("{}_work", self.0.schema)
    }
}

impl Listener {
    /// Waits for the next wake-up. A lost connection is made anew, and may have missed anything: `None`.
    ///
    /// # Errors
    /// The database stays away: listen again later.
    pub async fn heard(&mut self) -> Result<Option<News>, StoreError> {
        let notification = self.0.try_recv().await?;
        Ok(notification.and_then(|heard| News::parse(heard.payload())))
    }
}
