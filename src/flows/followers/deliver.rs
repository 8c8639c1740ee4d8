//! Delivers the messages of the outbox, together with the other processes of the cluster. Each endpoint has slots of
//! its own, so an endpoint that is slow or down holds up no other.

use std::{sync::Arc, time::Duration};

use tokio::{sync::OwnedSemaphorePermit, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    flows::followers::Followers,
    telemetry::metric,
    webhooks::{DeliveryResult, Endpoint, next_delay},
};
use umbra_store::{StoreError, webhooks::Delivery};

/// Pause between looks for due deliveries.
const POLL: Duration = Duration::from_secs(1);
/// Lease after which a delivery of a silent process is due again; longer than any delivery may take.
const LEASE: Duration = Duration::from_secs(90);
/// Time between counts for the metrics, and between sweeps.
const BETWEEN_COUNTS: Duration = Duration::from_mins(1);
/// Time for which dead letters are kept.
const KEEP_DEAD: Duration = Duration::from_hours(30 * 24);

impl Followers {
    /// Delivers until `stop`; deliveries under way then come to their end, unless the task is dropped.
    pub async fn deliver_until(self, stop: CancellationToken) {
        let mut running = JoinSet::new();
        let mut counted: Option<Instant> = None;
        while !stop.is_cancelled() {
            if let Err(error) = self.deliver_due(&mut running).await {
                tracing::debug!(
                    %error,
                    "messages to webhooks cannot be claimed because the database failed; trying again"
                );
            }
            if counted.is_none_or(|at| at.elapsed() >= BETWEEN_COUNTS) {
                counted = Some(Instant::now());
                if let Err(error) = self.count_deliveries().await {
                    tracing::debug!(%error, "messages to webhooks could not be counted");
                }
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.outbox.notified() => {}
                () = tokio::time::sleep(POLL) => {}
                Some(_) = running.join_next(), if !running.is_empty() => {}
            }
        }
        while running.join_next().await.is_some() {}
    }

    async fn deliver_due(&self, running: &mut JoinSet<()>) -> Result<(), StoreError> {
        let endpoints = self.webhooks.load_full();
        // A slot is taken before a delivery is claimed, so claimed deliveries are sent at once.
        let mut places: Vec<(Arc<Endpoint>, Vec<OwnedSemaphorePermit>)> = Vec::new();
        for endpoint in endpoints.all() {
            let free = std::iter::from_fn(|| Arc::clone(endpoint.places()).try_acquire_owned().ok()).collect();
            places.push((Arc::clone(endpoint), free));
        }
        places.retain(|(_, free)| !free.is_empty());
        if places.is_empty() {
            return Ok(());
        }
        let wanted: Vec<_> = places.iter().map(|(endpoint, free)| (endpoint.addressee(), free.len())).collect();
        for delivery in self.store.webhooks().claim(&wanted, LEASE).await? {
            let place = places.iter_mut().find(|(endpoint, _)| endpoint.name() == delivery.endpoint);
            let Some((endpoint, free)) = place else { continue };
            let (followers, endpoint, permit) = (self.clone(), Arc::clone(endpoint), free.pop());
            running.spawn(async move {
                followers.deliver(&endpoint, &delivery).await;
                drop(permit);
            });
        }
        Ok(())
    }

    async fn deliver(&self, endpoint: &Endpoint, delivery: &Delivery) {
        let started = Instant::now();
        let sent = endpoint.send(delivery.message, &delivery.body, self.clock.now()).await;
        metrics::histogram!(metric::WEBHOOK_SECONDS).record(started.elapsed().as_secs_f64());
        let (result, noted) = match sent {
            DeliveryResult::Delivered => ("delivered", self.store.webhooks().delivered(delivery).await),
            DeliveryResult::Gone => {
                tracing::warn!(
                    endpoint = endpoint.name(),
                    "the webhook answered 410 Gone and receives no more messages"
                );
                ("gone", self.store.webhooks().endpoint_gone(&endpoint.addressee()).await)
            }
            DeliveryResult::Failed { status, is_final, retry_after, why } => {
                let delay = next_delay(delivery.attempt, delivery.tried_for, retry_after, rand::random());
                let delay = delay.filter(|_| !is_final);
                if delay.is_none() {
                    tracing::warn!(
                        endpoint = endpoint.name(),
                        delivery = %delivery.id,
                        why,
                        "a message to a webhook was given up; GET /v1/webhooks/dead lists it"
                    );
                }
                let result = if delay.is_some() { "retried" } else { "dead" };
                (result, self.store.webhooks().not_delivered(delivery, status, &why, delay).await)
            }
        };
        if let Err(error) = noted {
            // The lease ends, and the message is sent again under the same id.
            tracing::debug!(
                %error,
                delivery = %delivery.id,
                "the result of a delivery to a webhook could not be stored"
            );
        }
        let endpoint = endpoint.name().to_owned();
        metrics::counter!(metric::WEBHOOK_DELIVERIES, "endpoint" => endpoint, "result" => result).increment(1);
    }

    async fn count_deliveries(&self) -> Result<(), StoreError> {
        let endpoints = self.webhooks.load_full();
        let names: Vec<String> = endpoints.all().iter().map(|endpoint| endpoint.name().to_owned()).collect();
        self.store.webhooks().sweep_deliveries(&names, KEEP_DEAD).await?;
        let backlogs = self.store.webhooks().backlogs().await?;
        for name in names {
            let backlog = backlogs.iter().find(|backlog| backlog.endpoint == name);
            let (waiting, dead) = backlog.map_or((0, 0), |backlog| (backlog.waiting, backlog.dead));
            for (state, count) in [("waiting", waiting), ("dead", dead)] {
                #[expect(clippy::cast_precision_loss, reason = "a gauge")]
                metrics::gauge!(metric::WEBHOOK_BACKLOG, "endpoint" => name.clone(), "state" => state)
                    .set(count as f64);
            }
        }
        Ok(())
    }
}
