//! What is known of tools, put together: effects, contracts and rules. The one place of the boundary where they meet.

use std::collections::HashMap;

use jiff::Timestamp;
use serde_json::Value;

use super::{
    contract::{Contracts, Mismatch, Schema},
    drift::{self, StaleContract},
    effects::{EffectOf, Overrides, Word, classify, effect_of},
    overlay::{self, Look},
    stub::{self, Recorded, RunState, Stub, StubError},
};
use umbra_domain::{
    Call, Effect, EffectSource, Guard, PolicyRule, ToolDeclarations, ToolName,
    contract::{Arguments, ContractState, OnUnavailable, ToolContract},
    tool::Readings,
};
use umbra_policy::{Asked, Policy};

/// Faults of arguments that are told.
const TOLD: usize = 5;

/// What is in force about tools.
#[derive(Debug)]
pub struct Tools {
    contracts: Contracts,
    effects: Overrides,
    trusted_servers: Vec<String>,
    policy: Policy,
}

/// Why what a file says cannot be applied. Whoever has read it with our judgement has seen it there.
#[derive(Debug, thiserror::Error)]
pub enum BadTools {
    /// A contract is none.
    #[error(transparent)]
    Contracts(#[from] super::contract::ContractsError),
    /// An effect's pattern is no glob.
    #[error(transparent)]
    Effects(#[from] umbra_domain::tool::BadPattern),
    /// A rule is none.
    #[error(transparent)]
    Policy(#[from] umbra_policy::BadRule),
}

/// A call with its arguments as expressions see them.
#[derive(Debug, Clone, Copy)]
pub struct Given<'a> {
    /// The call.
    pub call: &'a Call,
    /// Its arguments.
    pub args: &'a Value,
    /// Live calls of the tool by any agent, and their results, oldest first.
    pub recorded: &'a [Recorded],
}

impl<'a> Given<'a> {
    fn stub(self) -> stub::Call<'a> {
        let Call { tool, output_schema, stub_fallback, .. } = self.call;
        stub::Call {
            tool,
            args: self.args,
            output_schema: output_schema.as_ref(),
            fallback: stub_fallback.as_ref(),
            says_read: self.call.says_read(),
            recorded: self.recorded,
        }
    }
}

impl Tools {
    /// Puts in force what a file says.
    ///
    /// # Errors
    /// The first contract, pattern or condition that cannot be compiled.
    pub fn compile(file: ToolDeclarations) -> Result<Self, BadTools> {
        Ok(Self {
            contracts: Contracts::compile(file.contracts)?,
            effects: Overrides::compile(&file.effects)?,
            trusted_servers: file.trusted_servers,
            policy: Policy::compile(file.policies)?,
        })
    }

    /// What the call would do.
    pub fn effect(&self, call: &Call) -> EffectOf {
        let trusted = call.by_proxy && self.trusts(&call.tool);
        let found = self.contracts.find(&call.tool).map(|contract| contract.contract());
        let contract = found.map(|contract| contract.effect);
        let readings = self.readings(&call.tool);
        let word = Word { declared: call.declared_effect, annotations: call.annotations, trusted };
        let said = effect_of(contract, self.effects.of(&readings), word, || {
            let schema = call.input_schema.as_ref().unwrap_or(&Value::Null);
            classify(&call.tool, call.description.as_deref().unwrap_or_default(), schema, trusted)
        });
        let vouched = found.is_some_and(|contract| contract.arguments == Arguments::Trusted);
        let rated = if vouched { said } else { said.sent(&call.arguments, &call.tool) };
        self.at_least(&readings, rated)
    }

    /// Raises the effect of a tool to that of the gravest tool that it may be.
    fn at_least(&self, tool: &Readings, rated: EffectOf) -> EffectOf {
        // The word on this very tool goes before the word on others.
        if self.contracts.names(tool) || rated.source == EffectSource::Override && self.effects.names(tool) {
            return rated;
        }
        let (contract, operator) = (self.contracts.at_least(tool), self.effects.at_least(tool));
        let source = if contract >= operator { EffectSource::Contract } else { EffectSource::Override };
        match contract.max(operator) {
            Some(effect) if effect > rated.effect => {
                let why = "by its name it may be another tool, which does so".to_owned();
                EffectOf { effect, source, why, runs: false }
            }
            _ => rated,
        }
    }

    /// All that a tool may be, by its spelling and by the names that contracts have for tools of servers.
    pub fn readings(&self, tool: &ToolName) -> Readings {
        let mut readings = tool.readings();
        if readings.sure().server.is_none() {
            for server in self.contracts.servers_of(&readings.sure().own) {
                readings.may_be_of(server);
            }
        }
        readings
    }

    /// Whether the operator believes what the tool's server says of it. That it is this server, only our own proxy knows.
    fn trusts(&self, tool: &ToolName) -> bool {
        tool.server.as_ref().is_some_and(|server| self.trusted_servers.contains(server))
    }

    /// What a tool would do, as far as that is known without a call; `seen` is what it was decided to do when it was called
    /// last.
    pub fn effect_as_known(&self, tool: &ToolName, description: &str, seen: Option<Effect>) -> Effect {
        let contract = self.contracts.find(tool).map(|contract| contract.effect());
        let said = contract.or_else(|| self.effects.of(&tool.readings())).or(seen);
        said.unwrap_or_else(|| classify(tool, description, &Value::Null, self.trusts(tool)).effect)
    }

    /// The rules in force, in the order of the file.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyRule> {
        self.policy.rules()
    }

    /// The contracts in force.
    pub fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// Those contracts in force that are not believed any more.
    pub fn stale(&self, states: &[ContractState], now: Timestamp) -> Vec<StaleContract> {
        let states: HashMap<(&str, u32), &ContractState> =
            states.iter().map(|state| ((state.tool.as_str(), state.version), state)).collect();
        let stale = |contract: &ToolContract| {
            let learned = states.get(&(contract.tool.as_str(), contract.version))?;
            let stale = drift::contract::stale(contract, learned, now)?;
            Some(StaleContract {
                contract: contract.id(),
                since: stale.since,
                why: drift::contract::why(contract, learned, stale),
            })
        };
        self.contracts.all().filter_map(|contract| stale(contract.contract())).collect()
    }

    /// Faults of the arguments, by the contract and by what the tool's server declares.
    pub fn invalid_arguments(&self, given: Given<'_>) -> Option<String> {
        let faults = match self.contracts.find(&given.call.tool) {
            Some(contract) => contract.check_arguments(given.args),
            None => Ok(()),
        };
        let declared = || match &given.call.input_schema {
            Some(schema) => match Schema::compile(schema) {
                Ok(schema) => schema.check(given.args),
                Err(message) => {
                    Err(vec![Mismatch { pointer: String::new(), message: format!("input_schema: {message}") }])
                }
            },
            None => Ok(()),
        };
        let faults = faults.and_then(|()| declared()).err()?;
        let told = faults.iter().take(TOLD).map(|fault| {
            let place = if fault.pointer.is_empty() { "the arguments" } else { &fault.pointer };
            format!("{place}: {}", fault.message)
        });
        Some(told.collect::<Vec<_>>().join("; "))
    }

    /// What the rules say.
    pub fn judge(&self, given: Given<'_>, effect: Effect, taints: &[String]) -> Guard {
        let call = given.call;
        let readings = self.readings(&call.tool);
        self.policy.judge(&Asked {
            agent: &call.agent,
            route: call.route.as_deref(),
            modes: &call.modes,
            tool: &call.tool,
            readings: &readings,
            effect,
            args: given.args,
            taints,
            session: call.session.as_deref(),
        })
    }

    /// `tool@version` of the contract.
    pub fn contract(&self, call: &Call) -> Option<String> {
        self.contracts.find(&call.tool).map(|contract| contract.id().to_owned())
    }

    /// The labels that the call adds to its session.
    pub fn taints(&self, call: &Call) -> Vec<String> {
        self.contracts.find(&call.tool).map(|contract| contract.contract().taints.clone()).unwrap_or_default()
    }

    /// Whether the call may run live while nobody can be asked.
    pub fn allows_unavailable(&self, call: &Call) -> bool {
        let contract = self.contracts.find(&call.tool);
        contract.is_some_and(|contract| contract.contract().on_unavailable == OnUnavailable::Allow)
    }

    /// True if a stub of the call would be inferred from recorded results, where there are enough.
    pub fn needs_recorded(&self, call: &Call) -> bool {
        let responds =
            self.contracts.find(&call.tool).is_some_and(|contract| !contract.contract().responses.is_empty());
        !responds && call.stub_override.is_none() && call.stub_fallback.is_none()
    }

    /// What a run remembers of what this read asks for.
    ///
    /// # Errors
    /// It cannot be shown as the tool would.
    pub fn remembered(&self, given: Given<'_>, state: &mut RunState) -> Result<Look, StubError> {
        overlay::look(&self.contracts, &given.stub(), state)
    }

    /// What the tool would have answered.
    ///
    /// # Errors
    /// Nothing says what that is, or it is not what the contract promises.
    pub fn stub(&self, given: Given<'_>, state: &mut RunState) -> Result<Stub, StubError> {
        match &given.call.stub_override {
            Some(result) => stub::answer_with(&self.contracts, &given.stub(), result.clone(), state),
            None => stub::answer(&self.contracts, &given.stub(), state),
        }
    }
}

/// The state of a run that begins with this call. Without a seed of its own it is as good as random, but the same for the
/// same run.
pub fn begin(call: &Call, now: Timestamp) -> RunState {
    let mut state = match &call.seed {
        Some(seed) => RunState::seeded(seed.clone(), None),
        None => RunState::new(format!("{}/{}", call.agent, call.run.as_ref().unwrap_or(&call.call_id)), now),
    };
    state.faults = call.faults;
    state
}
