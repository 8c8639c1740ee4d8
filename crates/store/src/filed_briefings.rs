//! Briefings and reports that are stored once their day or week is over.

use jiff::civil::Date;
use jiff_sqlx::ToSqlx;

use super::{
    StoreError,
    aggregates::BriefingStore,
    sql,
    transaction::begin,
    webhooks::{OutgoingMessage, enqueue},
};

impl BriefingStore<'_> {
    /// Returns a stored briefing (`day`) or report (`week`), as JSON.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn filed(self, kind: &str, first: Date) -> Result<Option<String>, StoreError> {
        sql::optional(
            &self.0.read,
            "/* briefings.filed */ SELECT body FROM briefing WHERE kind = $1 AND first = $2",
            (kind, first.to_sqlx()),
        )
        .await
    }

    /// Stores a briefing or report with the message about it; returns false if it was stored before. Of several
    /// processes, one succeeds.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file(
        self,
        kind: &str,
        first: Date,
        body: &str,
        message: Option<&OutgoingMessage>,
    ) -> Result<bool, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let filed = sql::changed(
            &mut *tx,
            "/* briefings.file */ INSERT INTO briefing (kind, first, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            (kind, first.to_sqlx(), body),
        )
        .await?;
        if let (true, Some(message)) = (filed, message) {
            enqueue(&mut tx, message).await?;
        }
        tx.commit().await?;
        Ok(filed)
    }

    /// Returns when this installation began.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn installed_at(self) -> Result<Option<jiff::Timestamp>, StoreError> {
        sql::optional(&self.0.read, "SELECT created_at FROM installation", ()).await
    }
}
