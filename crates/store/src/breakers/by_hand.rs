//! Acknowledges and resets breakers by hand.

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use serde::Serialize;
use sqlx::AssertSqlSafe;
use utoipa::ToSchema;

use super::{AGENT_COLUMNS, BreakerAgent, BreakerRow, COLUMNS, announced, put};
use crate::{
    StoreError,
    aggregates::BreakerStore,
    sql,
    transaction::{Tx, begin},
    webhooks::{OutgoingMessage, enqueue},
};
use umbra_domain::BreakerState;

/// Reset of a breaker by hand.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BreakerReset {
    /// When the breaker was reset.
    pub at: Timestamp,
    /// Name of the person or key.
    pub by: Option<String>,
    /// Note of the reset.
    pub note: Option<String>,
}

/// Author and note of a change by hand.
#[derive(Debug, Clone, Default)]
pub struct Signature {
    /// Name of the person or key.
    pub by: Option<String>,
    /// The note.
    pub note: Option<String>,
}

impl BreakerStore<'_> {
    /// Records that a person knows of an agent's breaker, which opened at `opened`; returns false if that was
    /// acknowledged already.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn acknowledge(self, agent: &str, opened: Timestamp, signed: &Signature) -> Result<bool, StoreError> {
        sql::changed(
            &self.0.work,
            "/* breakers.acknowledge */
             UPDATE breaker_agent SET acknowledged_at = clock(), acknowledged_by = $2, note = $3
             WHERE agent = $1 AND (acknowledged_at IS NULL OR acknowledged_at < $4)",
            (agent, &signed.by, &signed.note, opened.to_sqlx()),
        )
        .await
    }

    /// Begins to reset an agent's breakers: locks and reads them, with the time and the number of the newest event.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn begin_reset(self, agent: &str) -> Result<Reset, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        sql::execute(&mut *tx, "/* breakers.reset */ SELECT FROM breaker_agent WHERE agent = $1 FOR UPDATE", (agent,))
            .await?;
        let query = format!(
            "/* breakers.reset_rows */ SELECT {COLUMNS} FROM breaker WHERE agent = $1 ORDER BY shadow FOR UPDATE"
        );
        let rows = sql::all(&mut *tx, AssertSqlSafe(query), (agent,)).await?;
        let (now, last) =
            sql::one(&mut *tx, "/* breakers.reset_at */ SELECT clock(), last FROM feed WHERE name = 'intake'", ())
                .await?;
        Ok(Reset { rows, now, last, tx })
    }
}

/// A reset under way. Dropping it changes nothing.
pub struct Reset {
    /// The agent's breakers, to be changed by the caller.
    pub rows: Vec<BreakerRow>,
    /// The database's time.
    pub now: Timestamp,
    /// The number of the newest event.
    pub last: i64,
    tx: Tx,
}

impl Reset {
    /// Records the author of the reset; returns the agent's row, or nothing if the agent was never judged.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn sign(&mut self, agent: &str, signed: Signature) -> Result<Vec<BreakerAgent>, StoreError> {
        let query = format!(
            "/* breakers.sign */ UPDATE breaker_agent SET reset_at = clock(), reset_by = $2, reset_note = $3
             WHERE agent = $1 RETURNING {AGENT_COLUMNS}"
        );
        sql::all(&mut *self.tx, AssertSqlSafe(query), (agent, signed.by, signed.note)).await
    }

    /// Stores the changed rows and the message about them.
    ///
    /// # Errors
    /// The database does not answer: the outcome is unknown.
    pub async fn done(mut self, agent: &str, message: Option<&OutgoingMessage>) -> Result<(), StoreError> {
        for row in &self.rows {
            put(&mut self.tx, row).await?;
        }
        announced(&mut self.tx, agent, BreakerState::Closed, None).await?;
        if let Some(message) = message {
            enqueue(&mut self.tx, message).await?;
        }
        Ok(self.tx.commit().await?)
    }
}
