//! Dead letters: deliveries that were given up. Buries, lists, resends and expires them.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::{AssertSqlSafe, QueryBuilder};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::WebhookStore,
    paging::{Page, Seek, Span, equals, push_span},
    pool::Connection,
    sql::{self, Parameters, column, json, record},
    transaction::begin,
    webhooks::Addressee,
    workers::interval,
};
use umbra_domain::DeliveryId;

/// Most deliveries that are given up in one statement.
const BATCH: i64 = 500;

/// A delivery that was given up.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DeadLetter {
    /// Id, for sending the delivery again.
    #[schema(value_type = String, example = "whd_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: DeliveryId,
    /// The message's `webhook-id`.
    pub webhook_id: String,
    /// The endpoint's name.
    pub endpoint: String,
    /// The message's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Number of attempts.
    pub attempts: i32,
    /// Last status that the endpoint answered with, if any.
    pub last_status: Option<i32>,
    /// Why the last attempt failed.
    pub last_failure: Option<String>,
    /// When the message was stored.
    pub created_at: Timestamp,
    /// When the delivery was given up.
    pub dead_at: Option<Timestamp>,
    /// The message.
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    pub payload: Value,
}

record! {
    DeadLetter, row: id, endpoint, kind, created_at, dead_at;
    webhook_id: format!("msg_{}", column::<Uuid>(row, "message_id")?.simple()),
    attempts: column(row, "attempt")?,
    last_status: column(row, "status")?,
    last_failure: column(row, "failure")?,
    payload: json(row, "body")?,
}

impl WebhookStore<'_> {
    /// Records that an endpoint is gone, and gives up all deliveries that wait for it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn endpoint_gone(self, to: &Addressee) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* webhooks.gone */ INSERT INTO webhook_gone (endpoint, url_hash) VALUES ($1, $2) ON CONFLICT DO NOTHING",
            (&to.endpoint, &to.url_hash),
        )
        .await?;
        loop {
            let mut tx = begin(&self.0.work).await?;
            sql::execute(
                &mut *tx,
                "/* webhooks.gone_failure */ UPDATE webhook_delivery SET status = 410, failure = 'answered 410 Gone'
                 WHERE id IN (SELECT id FROM webhook_delivery WHERE endpoint = $1 AND state = 'waiting'
                              ORDER BY due_at, id LIMIT $2)",
                (&to.endpoint, BATCH),
            )
            .await?;
            let buried = bury(&mut tx, "endpoint = $1 AND status = 410", (&to.endpoint,)).await?;
            tx.commit().await?;
            if buried == 0 {
                return Ok(());
            }
        }
    }

    /// Gives up deliveries older than three days to endpoints that are no longer declared, and deletes old dead
    /// letters.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn sweep_deliveries(self, declared: &[String], keep: Duration) -> Result<(), StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let strays = "created_at < clock() - interval '3 days' AND due_at < clock() AND endpoint <> ALL($1)";
        bury(&mut tx, strays, (declared,)).await?;
        sql::execute(
            &mut *tx,
            "/* webhooks.forget */ DELETE FROM webhook_delivery WHERE id IN
             (SELECT id FROM webhook_delivery WHERE state = 'dead' AND dead_at < clock() - $1 LIMIT $2)",
            (interval(keep), BATCH),
        )
        .await?;
        Ok(tx.commit().await?)
    }

    /// Returns a page of dead letters, in the order in which they were given up.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn dead_letters(
        self,
        endpoint: Option<&str>,
        span: Span,
        seek: Seek,
    ) -> Result<Page<DeadLetter>, StoreError> {
        let mut query = QueryBuilder::new(
            "SELECT seq, id, message_id, endpoint, kind, body, attempt, status, failure, created_at, dead_at
             FROM webhook_delivery WHERE state = 'dead'",
        );
        equals(&mut query, "endpoint", endpoint);
        push_span(&mut query, "dead_at", span);
        seek.fetch(&mut query, "seq", &self.0.read).await
    }

    /// Returns the endpoint of a dead letter, if the letter exists.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn dead_letter_endpoint(self, id: DeliveryId) -> Result<Option<String>, StoreError> {
        sql::optional(&self.0.read, "SELECT endpoint FROM webhook_delivery WHERE id = $1 AND state = 'dead'", (id.0,))
            .await
    }

    /// Queues a dead letter again from the first attempt, under its old `webhook-id`. An endpoint that was gone is
    /// tried again. Returns false if there is no such letter.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn resend(self, id: DeliveryId) -> Result<bool, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let endpoint: Option<String> = sql::optional(
            &mut *tx,
            "/* webhooks.resend */
             UPDATE webhook_delivery SET state = 'waiting', attempt = 0, due_at = clock(), first_at = NULL,
                 status = NULL, failure = NULL, dead_at = NULL, seq = NULL
             WHERE id = $1 AND state = 'dead' RETURNING endpoint",
            (id.0,),
        )
        .await?;
        if let Some(endpoint) = &endpoint {
            sql::execute(&mut *tx, "DELETE FROM webhook_gone WHERE endpoint = $1", (endpoint,)).await?;
        }
        tx.commit().await?;
        Ok(endpoint.is_some())
    }
}

/// Gives up waiting deliveries that match a condition, at most one batch; returns how many. Their feed numbers are
/// drawn in the statement that makes them visible.
pub(super) async fn bury(
    tx: &mut Connection,
    condition: &str,
    parameters: impl Parameters<'_>,
) -> Result<u64, StoreError> {
    let sql = format!(
        "/* webhooks.bury */
         WITH dying AS MATERIALIZED (
             SELECT id, row_number() OVER (ORDER BY created_at, id) AS n
             FROM (SELECT id, created_at FROM webhook_delivery WHERE state = 'waiting' AND {condition}
                   ORDER BY created_at, id LIMIT {BATCH} FOR UPDATE) w
         ), f AS (UPDATE feed SET last = last + (SELECT count(*) FROM dying)
                  WHERE name = 'dead' AND EXISTS (SELECT FROM dying) RETURNING last)
         UPDATE webhook_delivery d SET state = 'dead', dead_at = clock(),
             seq = f.last - (SELECT count(*) FROM dying) + dying.n,
             failure = coalesce(d.failure, 'no endpoint of this name is declared')
         FROM dying, f WHERE d.id = dying.id"
    );
    sql::count(tx, AssertSqlSafe(sql), parameters).await
}
