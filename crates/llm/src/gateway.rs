//! Gateway to all declared models: which can review, the worst case of a call, the call itself, health.
//!
//! In: the models, keys and outbound policy of the settings. Out: replies and failures. A gateway does not
//! change: after a reload a new one is built, which takes over the health of every endpoint that stayed the
//! same. It never retries and never spends more than the worst case.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use umbra_domain::{ModelKind, ModelSpec, NanoUsd, Provider};

use super::{
    Charge, Failure, FailureKind, OutboundPolicy, Reply, Request, UrlRefused, Usage,
    breaker::{Breaker, ProviderCallOutcome},
    endpoint::{Identity, ModelEndpoint},
    prices,
};

/// Tokens that a protocol adds around a prompt: roles, separators, the decoder's own instructions. Generous; the
/// providers name a few hundred for structured output.
const FRAME_TOKENS: u64 = 1024;

/// Reason why no gateway can be built from the settings.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Two models share an alias.
    #[error("model `{0}` is declared twice: declare each alias once")]
    Twice(String),
    /// The base URL is not allowed.
    #[error("model `{alias}`: base_url")]
    Url {
        /// Alias of the model.
        alias: String,
        /// Reason.
        source: UrlRefused,
    },
    /// The key holds characters that an HTTP header cannot have.
    #[error("model `{alias}`: the key in {env} has a line break or another character that is not allowed in a header")]
    Key {
        /// Alias of the model.
        alias: String,
        /// Environment variable of the key.
        env: String,
    },
}

/// Upper bound of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorstCase {
    /// Tokens read and written together.
    pub tokens: u64,
    /// Cost; `None` if the model's prices are unknown.
    pub usd: Option<NanoUsd>,
}

/// Health of a model's endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct ProviderHealth {
    /// Aliases of the endpoint, sorted.
    pub aliases: Vec<String>,
    /// Wire protocol.
    pub provider: Provider,
    /// Name of the model at the provider.
    pub model: String,
    /// State of the endpoint.
    pub state: ProviderState,
    /// Failures since the last good call.
    pub consecutive_failures: u32,
    /// Message of the last failure; `None` after a good call.
    pub last_error: Option<String>,
    /// While open: milliseconds until the next try.
    pub retry_in_ms: Option<u64>,
}

/// State of a model's endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProviderState {
    /// The model is called.
    Ok,
    /// The model failed too often, and is not called for a while.
    Open,
    /// The next call is a probe.
    HalfOpen,
    /// The key is not set: reviews run on the built-in checks.
    NoKey,
    /// No model is behind it, or it cannot be called from here (`last_error` says why).
    Checks,
}

/// Reason why a model is not called for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SuspensionReason {
    /// The model failed too often, and is tried again after a wait.
    Failing {
        /// Time until the next try.
        wait: Duration,
        /// Message of the last failure.
        why: String,
    },
    /// The provider refuses our key or account. Waiting does not help: an operator must act.
    Refused {
        /// Message of the last failure.
        why: String,
    },
}

/// The declared models, ready to be called.
pub struct Gateway {
    routes: BTreeMap<String, Route>,
    policy: OutboundPolicy,
}

struct Route {
    spec: ModelSpec,
    link: Arc<Link>,
}

/// An endpoint and its health, shared by aliases and passed on from one gateway to the next.
struct Link {
    identity: Identity,
    /// The endpoint, or the reason why there is none.
    endpoint: Result<ModelEndpoint, String>,
    breaker: Arc<Breaker>,
}

impl Gateway {
    /// Builds the clients. `keys` holds the keys that are set, by the name of their environment variable. Health is
    /// taken over from `previous` if provider, base URL, model and key stayed the same.
    pub fn new(
        models: Vec<ModelSpec>,
        keys: &HashMap<String, SecretString>,
        policy: OutboundPolicy,
        previous: Option<&Self>,
    ) -> Result<Self, GatewayError> {
        let mut routes = BTreeMap::<String, Route>::new();
        for spec in models {
            let identity = Identity {
                provider: spec.provider,
                base_url: spec.base_url.clone(),
                model: spec.name.clone(),
                key: spec.api_key_env.as_ref().and_then(|env| keys.get(env)).filter(|key| !is_blank(key)).cloned(),
                key_env: spec.api_key_env.clone(),
            };
            let same = |routes: &BTreeMap<String, Route>| {
                routes.values().find(|route| route.link.identity == identity).map(|route| Arc::clone(&route.link))
            };
            let before = previous.and_then(|gateway| same(&gateway.routes));
            let link = match (same(&routes), before) {
                (Some(link), _) => link,
                (None, Some(link)) if previous.is_some_and(|gateway| gateway.policy == policy) => link,
                (None, before) => {
                    let endpoint = ModelEndpoint::new(&spec.alias, &identity, &policy)?;
                    let breaker = before.map(|link| Arc::clone(&link.breaker)).unwrap_or_default();
                    Arc::new(Link { identity, endpoint, breaker })
                }
            };
            let alias = spec.alias.clone();
            if routes.insert(alias.clone(), Route { spec, link }).is_some() {
                return Err(GatewayError::Twice(alias));
            }
        }
        Ok(Self { routes, policy })
    }

    /// Returns the same models with a health of their own: failures there do not stop other callers.
    #[must_use]
    pub fn with_own_health(&self) -> Self {
        let mut links: Vec<(&Arc<Link>, Arc<Link>)> = Vec::new();
        let mut routes = BTreeMap::new();
        for (alias, Route { spec, link }) in &self.routes {
            let known = links.iter().find(|(before, _)| Arc::ptr_eq(before, link)).map(|(_, own)| Arc::clone(own));
            let own = known.unwrap_or_else(|| {
                let (identity, endpoint) = (link.identity.clone(), link.endpoint.clone());
                let own = Arc::new(Link { identity, endpoint, breaker: Arc::default() });
                links.push((link, Arc::clone(&own)));
                own
            });
            routes.insert(alias.clone(), Route { spec: spec.clone(), link: own });
        }
        Self { routes, policy: self.policy.clone() }
    }

    /// Returns every model, by its alias.
    pub fn specs(&self) -> BTreeMap<String, ModelSpec> {
        self.routes.iter().map(|(alias, route)| (alias.clone(), route.spec.clone())).collect()
    }

    /// Returns the model behind an alias.
    pub fn spec(&self, alias: &str) -> Option<&ModelSpec> {
        self.routes.get(alias).map(|route| &route.spec)
    }

    /// Confirms that an alias can review with its model. A provider that is down for now still counts as ready.
    ///
    /// # Errors
    /// The reason why only the built-in checks can review, in words for status, review and log.
    pub fn reviewer(&self, alias: &str) -> Result<(), String> {
        self.callable(alias, ModelKind::Chat).map(drop).map_err(|failure| failure.message)
    }

    /// Returns a true upper bound of one call's tokens and cost: a token for each byte of the prompt (no tokenizer
    /// makes more), the protocol's frame, and all the output that is allowed for so many events (`items`).
    /// `prompt_bytes` is [`Request::prompt_bytes`] or more; without `max_output_tokens` the model's own limit counts.
    /// `None` for an unknown alias.
    pub fn worst_case(
        &self,
        alias: &str,
        prompt_bytes: usize,
        max_output_tokens: Option<u32>,
        items: usize,
    ) -> Option<WorstCase> {
        let spec = self.spec(alias)?;
        if spec.provider == Provider::Checks {
            return Some(WorstCase { tokens: 0, usd: Some(NanoUsd::ZERO) });
        }
        let limit = max_output_tokens.unwrap_or(u32::MAX).min(spec.output_limit(items));
        let usage = Usage {
            input_tokens: u64::try_from(prompt_bytes).unwrap_or(u64::MAX).saturating_add(FRAME_TOKENS),
            output_tokens: u64::from(limit),
        };
        let tokens = usage.input_tokens.saturating_add(usage.output_tokens);
        Some(WorstCase { tokens, usd: prices::cost(spec, usage) })
    }

    /// Returns the reason why the model is not called for now; `None` if it may be called.
    pub fn suspension(&self, alias: &str) -> Option<SuspensionReason> {
        let snapshot = self.routes.get(alias)?.link.breaker.snapshot(Instant::now());
        let wait = snapshot.rest?;
        let why = snapshot.last_error.unwrap_or_default();
        Some(if snapshot.barred { SuspensionReason::Refused { why } } else { SuspensionReason::Failing { wait, why } })
    }

    /// Returns the message of the last failure of the model behind an alias; `None` after a good call.
    pub fn last_error(&self, alias: &str) -> Option<String> {
        self.routes.get(alias)?.link.breaker.snapshot(Instant::now()).last_error
    }

    /// Calls a model once, within its timeout. Cancelling the call (dropping the future) leaves the health as it was.
    pub async fn call(&self, alias: &str, request: &Request) -> Result<Reply, Failure> {
        let (route, endpoint) = self.callable(alias, ModelKind::Chat)?;
        route.call_through_breaker(endpoint.ask(&route.spec, request), &request.user).await
    }

    /// Returns the model for embeddings, if one is declared.
    pub fn embedding_model(&self) -> Option<&ModelSpec> {
        self.routes.values().map(|route| &route.spec).find(|spec| spec.kind == ModelKind::Embedding)
    }

    /// Returns vectors of texts, in order, all of one length, by one call of [`Self::embedding_model`] within its
    /// timeout.
    pub async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        let alias = self.embedding_model().map_or("", |spec| spec.alias.as_str());
        let (route, endpoint) = self.callable(alias, ModelKind::Embedding)?;
        route.call_through_breaker(endpoint.embed(&route.spec, texts), &texts.join(" ")).await
    }

    /// Returns the health of each endpoint, in the order of its first alias.
    pub fn health(&self) -> Vec<ProviderHealth> {
        let mut links: Vec<(&Arc<Link>, Vec<String>)> = Vec::new();
        for (alias, route) in &self.routes {
            match links.iter_mut().find(|(link, _)| Arc::ptr_eq(link, &route.link)) {
                Some((_, aliases)) => aliases.push(alias.clone()),
                None => links.push((&route.link, vec![alias.clone()])),
            }
        }
        links.into_iter().map(|(link, aliases)| link.health(aliases, Instant::now())).collect()
    }

    fn callable(&self, alias: &str, kind: ModelKind) -> Result<(&Route, &ModelEndpoint), Failure> {
        let route = self.routes.get(alias).ok_or_else(|| {
            Failure::free(FailureKind::NotFound, format!("model `{alias}` not found: declare it under `models`"))
        })?;
        if route.spec.kind != kind {
            let message = format!("`{alias}` is a model of the kind {}", route.spec.kind.as_str());
            return Err(Failure::free(FailureKind::NotFound, message));
        }
        if let Some(env) = route.link.missing_key() {
            return Err(Failure::free(FailureKind::Auth, format!("no key: {env} is not set")));
        }
        match &route.link.endpoint {
            Ok(endpoint) => Ok((route, endpoint)),
            Err(why) => Err(Failure::free(FailureKind::NotFound, why.clone())),
        }
    }
}

impl Route {
    /// Awaits a call, if the breaker admits it, and records its outcome. Failures repeat nothing of `prompt`.
    async fn call_through_breaker<T>(
        &self,
        asking: impl Future<Output = Result<T, Failure>>,
        prompt: &str,
    ) -> Result<T, Failure> {
        let breaker = &self.link.breaker;
        let permit = breaker.admit(Instant::now()).map_err(|rest| breaker_open_failure(breaker, rest))?;
        let result = asking.await.map_err(|failure| failure.without_quotes_of(prompt));
        let outcome = result.as_ref().map_or_else(Failure::outcome, |_| ProviderCallOutcome::Answered);
        permit.settle(outcome, Instant::now());
        result
    }
}

impl Link {
    fn missing_key(&self) -> Option<&str> {
        self.identity.key_env.as_deref().filter(|_| self.identity.key.is_none())
    }

    fn health(&self, aliases: Vec<String>, now: Instant) -> ProviderHealth {
        let snapshot = self.breaker.snapshot(now);
        let state = match snapshot.state {
            _ if self.missing_key().is_some() => ProviderState::NoKey,
            _ if self.endpoint.is_err() => ProviderState::Checks,
            state => state,
        };
        ProviderHealth {
            aliases,
            provider: self.identity.provider,
            model: self.identity.model.clone(),
            state,
            consecutive_failures: snapshot.in_a_row,
            last_error: snapshot.last_error.or_else(|| self.endpoint.as_ref().err().cloned()),
            retry_in_ms: snapshot.rest.map(|rest| u64::try_from(rest.as_millis()).unwrap_or(u64::MAX)),
        }
    }
}

fn breaker_open_failure(breaker: &Breaker, rest: Duration) -> Failure {
    let last = breaker.snapshot(Instant::now()).last_error.unwrap_or_default();
    Failure {
        kind: FailureKind::BreakerOpen,
        message: format!("not called because it failed before ({last}): next try in {} s", rest.as_secs().max(1)),
        retry_after: Some(rest),
        charge: Charge::None,
    }
}

fn is_blank(key: &SecretString) -> bool {
    key.expose_secret().trim().is_empty()
}
