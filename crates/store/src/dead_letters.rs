//! Dead letters: deliveries that were given up. Buries, lists, resends and expires them.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::{FromRow, QueryBuilder};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::WebhookStore,
    paging::{Page, Seek, Span, equals, push_span},
    pool::Connection,
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

#[derive(FromRow)]
struct DeadRow {
    seq: i64,
    id: Uuid,
    message_id: Uuid,
    endpoint: String,
    kind: String,
    body: String,
    attempt: i32,
    status: Option<i32>,
    failure: Option<String>,
    created_at: jiff_sqlx::Timestamp,
    dead_at: Option<jiff_sqlx::Timestamp>,
}

impl From<DeadRow> for DeadLetter {
    fn from(row: DeadRow) -> Self {
        Self {
            id: DeliveryId(row.id),
            webhook_id: format!("msg_{}", row.message_id.simple()),
            endpoint: row.endpoint,
            kind: row.kind,
            attempts: row.attempt,
            last_status: row.status,
            last_failure: row.failure,
            created_at: row.created_at.to_jiff(),
            dead_at: row.dead_at.map(jiff_sqlx::Timestamp::to_jiff),
            payload: serde_json::from_str(&row.body).unwrap_or_default(),
        }
    }
}

impl WebhookStore<'_> {
    /// Records that an endpoint is gone, and gives up all deliveries that wait for it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn endpoint_gone(self, to: &Addressee) -> Result<(), StoreError> {
        sqlx::query(
            "/* webhooks.gone */ INSERT INTO webhook_gone (endpoint, url_hash) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        )
        .bind(&to.endpoint)
        .bind(&to.url_hash)
        .execute(&self.0.work)
        .await?;
        loop {
            let mut tx = begin(&self.0.work).await?;
            sqlx::query(
                "/* webhooks.gone_failure */ UPDATE webhook_delivery SET status = 410, failure = 'answered 410 Gone'
                 WHERE id IN (SELECT id FROM webhook_delivery WHERE endpoint = $1 AND state = 'waiting'
                              ORDER BY due_at, id LIMIT $2)",
            )
            .bind(&to.endpoint)
            .bind(BATCH)
            .execute(&mut *tx)
            .await?;
            let buried = bury(&mut tx, "endpoint = $1 AND status = 410", |query| query.bind(&to.endpoint)).await?;
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
        bury(&mut tx, strays, |query| query.bind(declared)).await?;
        sqlx::query(
            "/* webhooks.forget */ DELETE FROM webhook_delivery WHERE id IN
             (SELECT id FROM webhook_delivery WHERE state = 'dead' AND dead_at < clock() - $1 LIMIT $2)",
        )
        .bind(interval(keep))
        .bind(BATCH)
        .execute(&mut *tx)
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
        seek.push(&mut query, "seq");
        let rows: Vec<DeadRow> = query.build_query_as().fetch_all(&self.0.read).await?;
        Ok(seek.page(rows.into_iter().map(|row| (row.seq, row.into())).collect()))
    }

    /// Returns the endpoint of a dead letter, if the letter exists.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn dead_letter_endpoint(self, id: DeliveryId) -> Result<Option<String>, StoreError> {
        let endpoint = sqlx::query_scalar("SELECT endpoint FROM webhook_delivery WHERE id = $1 AND state = 'dead'");
        Ok(endpoint.bind(id.0).fetch_optional(&self.0.read).await?)
    }

    /// Queues a dead letter again from the first attempt, under its old `webhook-id`. An endpoint that was gone is
    /// tried again. Returns false if there is no such letter.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn resend(self, id: DeliveryId) -> Result<bool, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let endpoint: Option<String> = sqlx::query_scalar(
            "/* webhooks.resend */
             UPDATE webhook_delivery SET state = 'waiting', attempt = 0, due_at = clock(), first_at = NULL,
                 status = NULL, failure = NULL, dead_at = NULL, seq = NULL
             WHERE id = $1 AND state = 'dead' RETURNING endpoint",
        )
        .bind(id.0)
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(endpoint) = &endpoint {
            sqlx::query("DELETE FROM webhook_gone WHERE endpoint = $1").bind(endpoint).execute(&mut *tx).await?;
        }
        tx.commit().await?;
        Ok(endpoint.is_some())
    }
}

pub(super) type Statement<'q> = sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// Gives up waiting deliveries that match a condition, at most one batch; returns how many. Their feed numbers are
/// drawn in the statement that makes them visible.
pub(super) async fn bury<'q>(
    tx: &mut Connection,
    condition: &str,
    bind: impl FnOnce(Statement<'q>) -> Statement<'q>,
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
    Ok(bind(sqlx::query(sqlx::AssertSqlSafe(sql))).execute(tx).await?.rows_affected())
}
