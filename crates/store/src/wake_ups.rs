//! Wake-ups between processes: coalesced, in a transaction of their own, never in the accept transaction.

use sqlx::postgres::PgListener;

use super::{StoreError, aggregates::QueueStore, availability::Availability, sql};

umbra_domain::words! {
    /// Kind of a wake-up.
    pub enum WakeUpKind {
        /// Jobs are waiting.
        Jobs = "jobs",
        /// Reviews ended.
        Reviews = "reviews",
    }
}

/// Receives wake-ups of other processes.
pub struct Listener {
    listener: PgListener,
    availability: Availability,
}

impl QueueStore<'_> {
    /// Sends a wake-up to every process of this schema.
    ///
    /// # Errors
    /// The database does not answer: other processes find jobs at their next poll, and waiting requests check when
    /// their time is over.
    pub async fn send_wake_up(self, news: WakeUpKind) -> Result<(), StoreError> {
        sql::execute(&self.0.control, "SELECT pg_notify($1, $2)", (self.channel(), news.as_str())).await
    }

    /// Listens for wake-ups of this schema.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn listen(self) -> Result<Listener, StoreError> {
        let availability = self.0.availability.clone();
        let (pool, channel) = (self.0.control.raw(), self.channel());
        let listening = async {
            availability.available().await?;
            let mut listener = PgListener::connect_with(&pool).await?;
            listener.listen(&channel).await?;
            Ok(listener)
        };
        let listener = availability.guard(availability.patience(), listening).await;
        Ok(Listener { listener: listener.ok_or_else(StoreError::late)??, availability: availability.clone() })
    }

    fn channel(self) -> String {
        format!("{}_work", self.0.schema)
    }
}

impl Listener {
    /// Waits for the next wake-up. Returns `None` after a lost connection was made anew: wake-ups may have been missed.
    ///
    /// # Errors
    /// The database stays away: listen again later.
    pub async fn next_wake_up(&mut self) -> Result<Option<WakeUpKind>, StoreError> {
        // A connection whose other end is gone stays silent, so an outage ends the wait.
        let heard = tokio::select! {
            heard = self.listener.try_recv() => heard?,
            () = self.availability.lost() => return Err(StoreError::late()),
        };
        Ok(heard.and_then(|heard| WakeUpKind::parse(heard.payload())))
    }
}
