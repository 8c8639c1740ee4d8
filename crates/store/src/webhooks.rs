//! Outbox of webhooks: messages are stored with their causes, and claimed by any process that delivers.
//!
//! A claim moves `due_at` to the end of its lease and counts the attempt; the result is stored only under that attempt.
//! Delivered messages are deleted.

use std::time::Duration;

use jiff::Timestamp;
use uuid::Uuid;

use super::{
    StoreError,
    aggregates::WebhookStore,
    dead_letters::bury,
    follow::FollowerPage,
    pool::Connection,
    sql::{self, column, record},
    transaction::begin,
    workers::interval,
};
use umbra_domain::DeliveryId;

/// Longest failure text that is kept, in characters.
const MAX_FAILURE_CHARS: usize = 300;

/// A message to be stored, with its addressees.
#[derive(Debug, Clone)]
pub struct OutgoingMessage {
    /// Message id, the same for each attempt and endpoint.
    pub id: Uuid,
    /// Message type, sent as `type`.
    pub kind: &'static str,
    /// Agent that the message is about, if any.
    pub agent: Option<String>,
    /// Task that the message is about, if any.
    pub task_id: Option<String>,
    /// Body of the request.
    pub body: String,
    /// Endpoints that get the message; at least one.
    pub to: Vec<Addressee>,
}

/// An endpoint, as deliveries store it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressee {
    /// Name of the endpoint.
    pub endpoint: String,
    /// Hash of its URL. An endpoint that is gone counts as another one at a new URL.
    pub url_hash: String,
}

record!(Addressee: endpoint, url_hash);

/// A delivery that this process has claimed, until the lease ends.
#[derive(Debug, Clone)]
pub struct Delivery {
    /// Delivery id.
    pub id: DeliveryId,
    /// The message's id.
    pub message: Uuid,
    /// The endpoint's name.
    pub endpoint: String,
    /// Body of the request.
    pub body: String,
    /// Attempt, from 1.
    pub attempt: i32,
    /// Time since the first attempt.
    pub tried_for: Duration,
}

record! {
    Delivery, row: id, endpoint, body, attempt, tried_for;
    message: column(row, "message_id")?,
}

/// Outbox of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OutboxStatus {
    /// The endpoint.
    pub endpoint: String,
    /// Deliveries that wait.
    pub waiting: i64,
    /// Deliveries that were given up.
    pub dead: i64,
    /// Last failure of the waiting deliveries; `None` while none has failed.
    pub failure: Option<String>,
    /// Next attempt at a delivery that has failed.
    pub next_try_at: Option<Timestamp>,
}

record!(OutboxStatus: endpoint, waiting, dead, failure, next_try_at);

/// Stores a message in the transaction of its cause: one delivery for each endpoint, except those that are gone.
///
/// # Errors
/// The database does not answer.
pub async fn enqueue(tx: &mut Connection, message: &OutgoingMessage) -> Result<(), StoreError> {
    let (names, hashes): (Vec<&str>, Vec<&str>) =
        message.to.iter().map(|to| (to.endpoint.as_str(), to.url_hash.as_str())).unzip();
    // The delivery's id is derived from the message's: as unique, and the caller need not make one for each endpoint.
    sql::execute(
        tx,
        "/* webhooks.enqueue */
         INSERT INTO webhook_delivery (id, message_id, endpoint, kind, agent, task_id, body)
         SELECT overlay(md5($1::text || e.name) placing left(replace($1::text, '-', ''), 12) from 1 for 12)::uuid,
                $1, e.name, $2, $3, $4, $5
         FROM unnest($6::text[], $7::text[]) e (name, url_hash)
         WHERE NOT EXISTS (SELECT FROM webhook_gone g WHERE g.endpoint = e.name AND g.url_hash = e.url_hash)",
        (message.id, message.kind, &message.agent, &message.task_id, &message.body, names, hashes),
    )
    .await
}

impl FollowerPage {
    /// Stores a message in the transaction of the page.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn enqueue(&mut self, message: &OutgoingMessage) -> Result<(), StoreError> {
        enqueue(&mut self.tx, message).await
    }
}

impl WebhookStore<'_> {
    /// Claims due deliveries for the time of a lease, for each endpoint at most the given number.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn claim(self, wanted: &[(Addressee, usize)], lease: Duration) -> Result<Vec<Delivery>, StoreError> {
        let names: Vec<&str> = wanted.iter().map(|(to, _)| to.endpoint.as_str()).collect();
        let hashes: Vec<&str> = wanted.iter().map(|(to, _)| to.url_hash.as_str()).collect();
        let counts: Vec<i64> = wanted.iter().map(|(_, count)| i64::try_from(*count).unwrap_or(0)).collect();
        sql::all(
            &self.0.work,
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
            (names, hashes, counts, interval(lease)),
        )
        .await
    }

    /// Deletes a delivery that the endpoint has accepted.
    ///
    /// # Errors
    /// The database does not answer: it is delivered again, under the same id.
    pub async fn delivered(self, delivery: &Delivery) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* webhooks.delivered */ DELETE FROM webhook_delivery WHERE id = $1 AND state = 'waiting'",
            (delivery.id.0,),
        )
        .await
    }

    /// Records a failed attempt. The delivery is due again after `delay`, or is given up without one.
    ///
    /// # Errors
    /// The database does not answer: it is tried again when the lease ends.
    pub async fn not_delivered(
        self,
        delivery: &Delivery,
        status: Option<u16>,
        why: &str,
        delay: Option<Duration>,
    ) -> Result<(), StoreError> {
        let why: String = why.chars().take(MAX_FAILURE_CHARS).collect();
        let mut tx = begin(&self.0.work).await?;
        sql::execute(
            &mut *tx,
            "/* webhooks.failed */ UPDATE webhook_delivery SET status = $3, failure = $4, due_at = clock() + $5
             WHERE id = $1 AND attempt = $2 AND state = 'waiting'",
            (delivery.id.0, delivery.attempt, status.map(i32::from), why, interval(delay.unwrap_or_default())),
        )
        .await?;
        if delay.is_none() {
            bury(&mut tx, "id = $1 AND attempt = $2", (delivery.id.0, delivery.attempt)).await?;
        }
        Ok(tx.commit().await?)
    }

    /// Returns the outbox of each endpoint.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn backlogs(self) -> Result<Vec<OutboxStatus>, StoreError> {
        sql::all(
            &self.0.read,
            "/* webhooks.backlogs */
             SELECT endpoint, count(*) FILTER (WHERE state = 'waiting') AS waiting,
                    count(*) FILTER (WHERE state = 'dead') AS dead,
                    (array_agg(failure ORDER BY due_at DESC)
                        FILTER (WHERE state = 'waiting' AND failure IS NOT NULL))[1] AS failure,
                    min(due_at) FILTER (WHERE state = 'waiting' AND failure IS NOT NULL) AS next_try_at
             FROM webhook_delivery GROUP BY endpoint ORDER BY endpoint",
            (),
        )
        .await
    }

    /// Returns the endpoints that are gone.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn gone_endpoints(self) -> Result<Vec<Addressee>, StoreError> {
        sql::all(&self.0.read, "SELECT endpoint, url_hash FROM webhook_gone ORDER BY 1, 2", ()).await
    }
}
