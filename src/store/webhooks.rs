//! The outbox of webhooks: messages stored with what they tell, claimed by whoever delivers, and the dead letters.
//!
//! A claim moves `due_at` to the end of its lease and counts the attempt; what became of it is noted only under that
//! attempt. What was delivered is deleted.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use sqlx::{FromRow, PgConnection, QueryBuilder};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{
    Store, StoreError,
    follow::Following,
    seek::{Page, Seek, Span, equals, push_span},
    workers::interval,
};
use crate::domain::DeliveryId;

/// Most deliveries that are given up in one statement.
const BATCH: i64 = 500;
/// Longest description of a failure that is kept.
const MAX_FAILURE_CHARS: usize = 300;

/// A message, ready to be stored: what is told, and whom.
#[derive(Debug, Clone)]
pub struct Outgoing {
    /// The same at every attempt and for every endpoint.
    pub id: Uuid,
    /// Its `type`.
    pub kind: &'static str,
    /// What is sent.
    pub body: String,
    /// At least one.
    pub to: Vec<Addressee>,
}

/// An endpoint, as its deliveries are filed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressee {
    /// Its name.
    pub endpoint: String,
    /// The hash of its URL: one that was gone is another at a new address.
    pub url_hash: String,
}

/// A delivery that this process holds, until its lease ends.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Its id.
    pub id: DeliveryId,
    /// The message's id.
    pub message: Uuid,
    /// The endpoint's name.
    pub endpoint: String,
    /// What is sent.
    pub body: String,
    /// From 1.
    pub attempt: i32,
    /// How long it has been tried.
    pub tried_for: Duration,
}

/// A delivery that was given up.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct DeadLetter {
    /// Its id, for sending it again.
    #[schema(value_type = String, example = "whd_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: DeliveryId,
    /// The message's `webhook-id`.
    pub webhook_id: String,
    /// The endpoint's name.
    pub endpoint: String,
    /// The message's type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How often it was tried.
    pub attempts: i32,
    /// The last status that the endpoint answered with, if it did.
    pub last_status: Option<i32>,
    /// Why the last attempt failed.
    pub last_failure: Option<String>,
    /// When it was stored.
    #[schema(value_type = String, format = DateTime)]
    pub created_at: Timestamp,
    /// When it was given up.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub dead_at: Option<Timestamp>,
    /// The message.
    #[schema(value_type = Object)]
    pub payload: Value,
}

/// How an endpoint's outbox stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Backlog {
    /// The endpoint.
    pub endpoint: String,
    /// Deliveries that wait.
    pub waiting: i64,
    /// Deliveries that were given up.
    pub dead: i64,
}

#[derive(FromRow)]
struct DeliveryRow {
    id: Uuid,
    message_id: Uuid,
    endpoint: String,
    body: String,
    attempt: i32,
    tried_for: f64,
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

/// Stores a message in the transaction of what it tells: one delivery an endpoint, but for those that are gone.
///
/// # Errors
/// The database does not answer.
pub async fn enqueue(tx: &mut PgConnection, message: &Outgoing) -> Result<(), StoreError> {
    let (names, hashes): (Vec<&str>, Vec<&str>) =
        message.to.iter().map(|to| (to.endpoint.as_str(), to.url_hash.as_str())).unzip();
    // The delivery's id follows from the message's: as unique, and none has to be handed in for each endpoint.
    sqlx::query(
        "/* webhooks.enqueue */
         INSERT INTO webhook_delivery (id, message_id, endpoint, kind, body)
         SELECT overlay(md5($1::text || e.name) placing left(replace($1::text, '-', ''), 12) from 1 for 12)::uuid,
                $1, e.name, $2, $3
         FROM unnest($4::text[], $5::text[]) e (name, url_hash)
         WHERE NOT EXISTS (SELECT FROM webhook_gone g WHERE g.endpoint = e.name AND g.url_hash = e.url_hash)",
    )
    .bind(message.id)
    .bind(message.kind)
    .bind(&message.body)
    .bind(names)
    .bind(hashes)
    .execute(tx)
    .await?;
    Ok(())
}

impl Following {
    /// Stores a message with what follows from the page.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn enqueue(&mut self, message: &Outgoing) -> Result<(), StoreError> {
        enqueue(&mut self.tx, message).await
    }
}

impl Store {
    /// Takes due deliveries for a while: of each endpoint, so many at most.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn claim_deliveries(
        &self,
        wanted: &[(Addressee, usize)],
        lease: Duration,
    ) -> Result<Vec<Delivery>, StoreError> {
        let names: Vec<&str> = wanted.iter().map(|(to, _)| to.endpoint.as_str()).collect();
        let hashes: Vec<&str> = wanted.iter().map(|(to, _)| to.url_hash.as_str()).collect();
        let counts: Vec<i64> = wanted.iter().map(|(_, count)| i64::try_from(*count).unwrap_or(0)).collect();
        let rows: Vec<DeliveryRow> = sqlx::query_as(
            "/* webhooks.claim */
             WITH due AS MATERIALIZED (
                 SELECT d.id FROM unnest($1::text[], $2::text[], $3::int8[]) e (name, url_hash, n),
                 LATERAL (SELECT id FROM webhook_delivery
                          WHERE state = 'waiting' AND endpoint = e.name AND due_at <= (SELECT clock())
                          ORDER BY due_at, id LIMIT e.n FOR UPDATE SKIP LOCKED) d
                 WHERE NOT EXISTS (SELECT FROM webhook_gone g WHERE g.endpoint = e.name AND g.url_hash = e.url_hash)
             )
             UPDATE webhook_delivery SET attempt = attempt + 1, due_at = clock() + $4,
                 first_at = coalesce(first_at, clock())
             WHERE id IN (SELECT id FROM due)
             RETURNING id, message_id, endpoint, body, attempt,
                 greatest(0, extract(epoch FROM clock() - first_at))::float8 AS tried_for",
        )
        .bind(names)
        .bind(hashes)
        .bind(counts)
        .bind(interval(lease))
        .fetch_all(&self.work)
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Delivery {
                id: DeliveryId(row.id),
                message: row.message_id,
                endpoint: row.endpoint,
                body: row.body,
                attempt: row.attempt,
                tried_for: Duration::try_from_secs_f64(row.tried_for).unwrap_or_default(),
            })
            .collect())
    }

    /// Notes that the endpoint has taken it.
    ///
    /// # Errors
    /// The database does not answer: it is delivered again, under the same id.
    pub async fn delivered(&self, delivery: &Delivery) -> Result<(), StoreError> {
        sqlx::query("/* webhooks.delivered */ DELETE FROM webhook_delivery WHERE id = $1 AND state = 'waiting'")
            .bind(delivery.id.0)
            .execute(&self.work)
            .await?;
        Ok(())
    }

    /// Notes a failed attempt; it is due again after `delay`, or given up without one.
    ///
    /// # Errors
    /// The database does not answer: it is tried again when the lease ends.
    pub async fn not_delivered(
        &self,
        delivery: &Delivery,
        status: Option<u16>,
        why: &str,
        delay: Option<Duration>,
    ) -> Result<(), StoreError> {
        let why: String = why.chars().take(MAX_FAILURE_CHARS).collect();
        let mut tx = self.work.begin().await?;
        sqlx::query(
            "/* webhooks.failed */ UPDATE webhook_delivery SET status = $3, failure = $4, due_at = clock() + $5
             WHERE id = $1 AND attempt = $2 AND state = 'waiting'",
        )
        .bind(delivery.id.0)
        .bind(delivery.attempt)
        .bind(status.map(i32::from))
        .bind(why)
        .bind(interval(delay.unwrap_or_default()))
        .execute(&mut *tx)
        .await?;
        if delay.is_none() {
            bury(&mut tx, "id = $1 AND attempt = $2", |query| query.bind(delivery.id.0).bind(delivery.attempt)).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Notes that an endpoint wants nothing any more, and gives up what waits for it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn endpoint_gone(&self, to: &Addressee) -> Result<(), StoreError> {
        sqlx::query(
            "/* webhooks.gone */ INSERT INTO webhook_gone (endpoint, url_hash) VALUES ($1, $2) ON CONFLICT DO NOTHING",
        )
        .bind(&to.endpoint)
        .bind(&to.url_hash)
        .execute(&self.work)
        .await?;
        loop {
            let mut tx = self.work.begin().await?;
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

    /// Gives up what waits for endpoints that nobody has declared for a while, and forgets old dead letters.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn sweep_deliveries(&self, declared: &[String], keep: Duration) -> Result<(), StoreError> {
        let mut tx = self.work.begin().await?;
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

    /// A page of dead letters, in the order in which they were given up.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn dead_letters(
        &self,
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
        let rows: Vec<DeadRow> = query.build_query_as().fetch_all(&self.read).await?;
        Ok(seek.page(rows.into_iter().map(|row| (row.seq, row.into())).collect()))
    }

    /// The endpoint of a dead letter, if there is such a letter.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn dead_letter_endpoint(&self, id: DeliveryId) -> Result<Option<String>, StoreError> {
        let endpoint = sqlx::query_scalar("SELECT endpoint FROM webhook_delivery WHERE id = $1 AND state = 'dead'");
        Ok(endpoint.bind(id.0).fetch_optional(&self.read).await?)
    }

    /// Lets a dead letter be delivered again, from the first attempt on, under its old `webhook-id`; an endpoint that
    /// was gone is asked again. Answers whether there was such a letter.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn resend(&self, id: DeliveryId) -> Result<bool, StoreError> {
        let mut tx = self.work.begin().await?;
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

    /// How each endpoint's outbox stands.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn backlogs(&self) -> Result<Vec<Backlog>, StoreError> {
        let rows: Vec<(String, i64, i64)> = sqlx::query_as(
            "/* webhooks.backlogs */
             SELECT endpoint, count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'dead')
             FROM webhook_delivery GROUP BY endpoint ORDER BY endpoint",
        )
        .fetch_all(&self.read)
        .await?;
        Ok(rows.into_iter().map(|(endpoint, waiting, dead)| Backlog { endpoint, waiting, dead }).collect())
    }

    /// The endpoints that are gone.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn gone_endpoints(&self) -> Result<Vec<Addressee>, StoreError> {
        let rows: Vec<(String, String)> =
            sqlx::query_as("SELECT endpoint, url_hash FROM webhook_gone ORDER BY 1, 2").fetch_all(&self.read).await?;
        Ok(rows.into_iter().map(|(endpoint, url_hash)| Addressee { endpoint, url_hash }).collect())
    }
}

type Statement<'q> = sqlx::query::Query<'q, sqlx::Postgres, sqlx::postgres::PgArguments>;

/// Gives up what waits and fulfils a condition of ours, a batch of it at most; answers how many that were. Their numbers
/// are drawn in the statement that makes them visible.
async fn bury<'q>(
    tx: &mut PgConnection,
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
