//! Endpoint of webhooks: its filters, and the client that reaches it.

use std::{collections::HashSet, sync::Arc, time::Duration};

use anyhow::Context as _;
use reqwest::{Client, Url, header::HeaderMap};
use secrecy::{ExposeSecret, SecretString};
use tokio::sync::Semaphore;

use umbra_config::settings::{Otlp, Secret, Webhook, WebhookFormat};
use umbra_domain::{
    Severity,
    key::AgentGlobs,
    notice::{Notice, Topic},
};
use umbra_llm::OutboundPolicy;
use umbra_store::webhooks::Addressee;

/// Name of the endpoint of evaluations.
pub(super) const EVALUATIONS: &str = "telemetry.otlp";

/// Endpoint that receives messages.
pub struct Endpoint {
    name: String,
    url_hash: String,
    events: Vec<Topic>,
    agents: Option<AgentGlobs>,
    shadows: HashSet<String>,
    severity: Severity,
    pub(super) client: Client,
    pub(super) url: Url,
    pub(super) secrets: Vec<Secret>,
    pub(super) format: WebhookFormat,
    pub(super) headers: HeaderMap,
    pub(super) timeout: Duration,
    places: Arc<Semaphore>,
}

impl std::fmt::Debug for Endpoint {
    /// Shows neither URL nor secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Endpoint {
    pub(super) fn new(webhook: &Webhook, policy: &OutboundPolicy) -> anyhow::Result<Self> {
        let name = || format!("webhook `{}`", webhook.name);
        let (client, url) = umbra_llm::client(webhook.url.expose_secret(), policy).with_context(name)?;
        let globs = (!webhook.agents.is_empty()).then(|| AgentGlobs::compile(&webhook.agents)).transpose();
        Ok(Self {
            agents: globs.with_context(name)?,
            name: webhook.name.clone(),
            url_hash: blake3::hash(webhook.url.expose_secret().as_bytes()).to_hex().to_string(),
            events: webhook.events.clone(),
            shadows: webhook.shadows.iter().cloned().collect(),
            severity: webhook.severity,
            client,
            url,
            secrets: webhook.secrets.clone(),
            format: webhook.format.clone(),
            headers: HeaderMap::new(),
            timeout: webhook.timeout,
            places: Arc::new(Semaphore::new(webhook.max_in_flight)),
        })
    }

    /// Returns the endpoint of evaluations. It receives no notice.
    pub(super) fn of_evaluations(otlp: &Otlp, policy: &OutboundPolicy) -> anyhow::Result<Self> {
        let url = format!("{}/v1/logs", otlp.endpoint.expose_secret().trim_end_matches('/'));
        let endpoint = Self::new(
            &Webhook {
                name: EVALUATIONS.to_owned(),
                url: SecretString::from(url),
                secrets: Vec::new(),
                format: WebhookFormat::Standard,
                events: Vec::new(),
                agents: Vec::new(),
                shadows: Vec::new(),
                severity: Severity::Info,
                enabled: true,
                timeout: Duration::from_secs(15),
                max_in_flight: 4,
            },
            policy,
        )?;
        Ok(Self { headers: umbra_llm::secret_headers(&otlp.headers), ..endpoint })
    }

    /// Returns the name of the endpoint.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the topics that it receives.
    pub fn events(&self) -> &[Topic] {
        &self.events
    }

    /// Returns the host of its URL, for lists.
    pub fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    /// Returns the longest time of one delivery.
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Returns its slots for concurrent deliveries.
    pub fn places(&self) -> &Arc<Semaphore> {
        &self.places
    }

    /// Returns the address under which its messages are stored.
    pub fn addressee(&self) -> Addressee {
        Addressee { endpoint: self.name.clone(), url_hash: self.url_hash.clone() }
    }

    /// Returns the shadows of its filter that are not known, in order.
    pub(super) fn unknown_shadows(&self, known: &HashSet<&str>) -> Vec<&str> {
        let mut unknown: Vec<&str> =
            self.shadows.iter().map(String::as_str).filter(|shadow| !known.contains(shadow)).collect();
        unknown.sort_unstable();
        unknown
    }

    /// True if the endpoint receives the notice. A notice without an agent or without a single shadow passes those
    /// filters.
    pub fn wants(&self, notice: &Notice) -> bool {
        let agent_fits = match (&self.agents, &notice.agent) {
            (Some(globs), Some(agent)) => globs.contains(agent),
            _ => true,
        };
        let shadow_fits =
            self.shadows.is_empty() || notice.shadow.as_ref().is_none_or(|shadow| self.shadows.contains(shadow));
        self.events.contains(&notice.kind.topic())
            && agent_fits
            && shadow_fits
            && notice.severity.is_none_or(|severity| severity >= self.severity)
    }
}
