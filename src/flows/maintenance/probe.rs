//! Probe of models: one short question to each model that a shadow uses, at start and after a reload that changes the
//! model, so that a wrong name, key or address is known before the first review.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

use crate::flows::{active_configuration::ActiveConfiguration, cleaned, maintenance::Maintenance, rounds::pause};
use umbra_domain::{ModelSpec, NanoUsd};
use umbra_llm::{Charge, ProviderState, Request};

/// Least time between two probes of one model.
const BETWEEN_PROBES: Duration = Duration::from_hours(1);
/// Pause between looks at the configuration in force.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Most tokens of an answer, which is not read.
const MOST_TOKENS: u32 = 16;

/// Probes of models since the servers' start, which count for no shadow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ProbeStatus {
    /// Calls that were made.
    pub calls: u64,
    /// Money spent on the calls, in US dollars; the worst case if a model may have charged and did not say.
    pub usd: f64,
}

impl ProbeStatus {
    /// Returns the sum of both.
    pub(super) fn with(self, other: Self) -> Self {
        Self { calls: self.calls + other.calls, usd: self.usd + other.usd }
    }
}

impl Maintenance {
    /// Probes the models in use until `stop`.
    pub async fn probe_until(self, stop: CancellationToken) {
        let mut probed: HashMap<String, (ModelSpec, Instant)> = HashMap::new();
        loop {
            let rules = self.rules.load_full();
            for spec in in_use(&rules) {
                let recent = probed.get(&spec.alias);
                if recent.is_some_and(|(known, at)| *known == spec && at.elapsed() < BETWEEN_PROBES) {
                    continue;
                }
                if stop.run_until_cancelled(self.probe(&rules, &spec)).await.is_none() {
                    return;
                }
                probed.insert(spec.alias.clone(), (spec, Instant::now()));
            }
            if !pause(&stop, BETWEEN_LOOKS).await {
                return;
            }
        }
    }

    /// Returns a fault of a model in use that an operator has to correct: its provider refuses the key or the request,
    /// or has no such model.
    pub fn model_fault(&self) -> Option<String> {
        let rules = self.rules.load();
        let used: BTreeSet<String> = in_use(&rules).into_iter().map(|spec| spec.alias).collect();
        let at_fault = |state, failures| state == ProviderState::Open || state == ProviderState::Ok && failures == 0;
        rules.gateway.health().into_iter().find_map(|health| {
            let alias = health.aliases.iter().find(|alias| used.contains(*alias))?;
            let why = health.last_error.filter(|_| at_fault(health.state, health.consecutive_failures))?;
            Some(format!("the model {alias} fails: {}", umbra_checks::redact(&why).as_str()))
        })
    }

    async fn probe(&self, rules: &ActiveConfiguration, spec: &ModelSpec) {
        let request = Request {
            system: "This is a test of the connection. Answer with an empty JSON object.".to_owned(),
            user: "{}".to_owned(),
            schema_name: "probe",
            schema: json!({"type": "object", "properties": {}, "additionalProperties": false}),
            max_output_tokens: MOST_TOKENS,
            items: 1,
        };
        let answer = rules.gateway.call(&spec.alias, &request).await;
        let worst = || {
            let worst = rules.gateway.worst_case(&spec.alias, request.prompt_bytes(), Some(MOST_TOKENS), 1);
            worst.and_then(|worst| worst.usd).unwrap_or(NanoUsd::ZERO)
        };
        let spent = match &answer {
            Ok(reply) => reply.usage.map_or_else(worst, |usage| umbra_llm::cost(spec, usage).unwrap_or(NanoUsd::ZERO)),
            Err(failure) if failure.charge == Charge::None => NanoUsd::ZERO,
            Err(_) => worst(),
        };
        let mut probes = self.probes.lock();
        *probes = probes.with(ProbeStatus { calls: 1, usd: spent.usd() });
        if let Err(failure) = answer {
            let why = cleaned(&failure.message);
            tracing::warn!(
                model = %spec.alias,
                "the model does not answer a test call: {why}; correct its name, key or address"
            );
        }
    }
}

/// Returns the models that shadows use and that can be called, each once.
fn in_use(rules: &ActiveConfiguration) -> Vec<ModelSpec> {
    let shadows = rules.shadows.iter().map(|armed| &armed.shadow).filter(|shadow| shadow.enabled);
    let aliases: BTreeSet<&str> = shadows.map(|shadow| shadow.model.as_str()).collect();
    let ready = aliases.into_iter().filter(|alias| rules.gateway.reviewer(alias).is_ok());
    ready.filter_map(|alias| rules.gateway.spec(alias).cloned()).collect()
}
