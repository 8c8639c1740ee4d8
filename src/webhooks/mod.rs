//! Webhooks, and the receiver of evaluations: filters, messages, signatures, delivery, and the schedule of retries.
//!
//! Messages follow the Standard Webhooks scheme (standardwebhooks.com): headers `webhook-id`, `webhook-timestamp` and
//! `webhook-signature`, body `{type, timestamp, data}`. A message is stored in the transaction of the change that it
//! reports (`store::webhooks`), and delivered at least once under the same id by any process
//! (`flows::followers::deliver`). URLs come only from the settings and go through the outbound policy of `llm` at each
//! connection; no redirect is followed. No secret and no URL reaches a log, an error or a list. Chat and on-call services
//! get the same messages in forms of their own, without a signature ([`format`]).

mod endpoint;
mod format;
mod schedule;
mod send;
mod signature;
#[cfg(test)]
mod tests;

use std::{collections::HashSet, sync::Arc};

use serde_json::json;
use uuid::Uuid;

pub use self::{
    endpoint::Endpoint,
    schedule::{ATTEMPTS, next_delay},
    send::DeliveryResult,
    signature::sign,
};
use umbra_config::settings::{Otlp, Webhook};
use umbra_domain::notice::Notice;
use umbra_llm::OutboundPolicy;
use umbra_store::webhooks::{Addressee, OutgoingMessage};

/// All enabled endpoints. Replaced as a whole on reload.
#[derive(Debug, Default)]
pub struct Endpoints(Vec<Arc<Endpoint>>);

impl Endpoints {
    /// Returns the endpoints of these settings.
    ///
    /// # Errors
    /// A URL is refused by the policy, with a remedy.
    pub fn new(webhooks: &[Webhook], otlp: Option<&Otlp>, policy: &OutboundPolicy) -> anyhow::Result<Self> {
        let enabled = webhooks.iter().filter(|webhook| webhook.enabled);
        let own = enabled.map(|webhook| Endpoint::new(webhook, policy));
        let evaluations = otlp.map(|otlp| Endpoint::of_evaluations(otlp, policy));
        own.chain(evaluations).map(|endpoint| endpoint.map(Arc::new)).collect::<anyhow::Result<_>>().map(Self)
    }

    /// Returns the receiver of evaluations, if there is one.
    pub fn evaluations(&self) -> Option<&Arc<Endpoint>> {
        self.named(endpoint::EVALUATIONS)
    }

    /// Returns all endpoints.
    pub fn all(&self) -> &[Arc<Endpoint>] {
        &self.0
    }

    /// Returns the endpoint of this name.
    pub fn named(&self, name: &str) -> Option<&Arc<Endpoint>> {
        self.0.iter().find(|endpoint| endpoint.name() == name)
    }

    /// Returns warnings about filters by shadows that are not among these, in sentences.
    pub fn remarks<'a>(&self, shadows: impl Iterator<Item = &'a str>) -> Vec<String> {
        let known: HashSet<&str> = shadows.collect();
        let remark = |endpoint: &Arc<Endpoint>| {
            let unknown = endpoint.unknown_shadows(&known);
            (!unknown.is_empty()).then(|| {
                let name = endpoint.name();
                format!("webhook `{name}` names shadows that do not exist: {}", unknown.join(", "))
            })
        };
        self.0.iter().filter_map(remark).collect()
    }

    /// Returns the message of a notice with its addressees; `None` where there are none. `id` is new.
    pub fn address(&self, notice: &Notice, id: Uuid) -> Option<OutgoingMessage> {
        let to: Vec<Addressee> =
            self.0.iter().filter(|endpoint| endpoint.wants(notice)).map(|endpoint| endpoint.addressee()).collect();
        let kind = notice.kind.as_str();
        let body = json!({"type": kind, "timestamp": notice.at, "data": notice.data}).to_string();
        let (agent, task_id) = (notice.agent.clone(), notice.task_id.clone());
        (!to.is_empty()).then_some(OutgoingMessage { id, kind, agent, task_id, body, to })
    }
}
