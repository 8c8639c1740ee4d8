//! Declarations about tools, combined: effects, contracts, packs and rules meet only here.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    by_tool::ByTool,
    contract::{CompiledContract, Contracts, Mismatch, Schema},
    drift::{self, StaleContract},
    effects::{CallDeclarations, EffectOf, classify, effect_of},
    overlay::{self, OverlayAnswer},
    stub::{self, RecordedResult, RunState, Stub, StubError},
};
use umbra_domain::{
    Call, Effect, EffectOverride, EffectSource, Guard, PolicyRule, ToolDeclarations, ToolName,
    contract::{Arguments, ContractState, OnUnavailable, ToolContract},
    declarations::Pack,
    tool::Readings,
};
use umbra_policy::{AgentContext, CallFacts, Policy};

/// Most faults of arguments in one message.
const TOLD: usize = 5;

/// Declarations about tools that are in force.
#[derive(Debug)]
pub struct Tools {
    contracts: Contracts,
    /// Packs, by the name that an MCP server gives itself.
    packs: HashMap<String, Arc<CompiledPack>>,
    effects: ByTool<EffectOverride>,
    trusted_servers: Vec<String>,
    policy: Policy,
}

/// Contracts of a well-known server.
#[derive(Debug)]
struct CompiledPack {
    /// Server part of the names of the pack's tools.
    name: String,
    contracts: Contracts,
}

/// A call with its arguments as expressions see them.
#[derive(Debug, Clone, Copy)]
pub struct CallInput<'a> {
    /// The call.
    pub call: &'a Call,
    /// Arguments of the call.
    pub args: &'a Value,
    /// Live calls of the tool by any agent, and their results, oldest first.
    pub recorded: &'a [RecordedResult],
}

impl<'a> CallInput<'a> {
    /// The call as stubs see it, under this tool name.
    fn stub<'b>(self, tool: &'b ToolName) -> stub::StubCall<'b>
    where
        'a: 'b,
    {
        let Call { output_schema, stub_fallback, .. } = self.call;
        stub::StubCall {
            tool,
            args: self.args,
            output_schema: output_schema.as_ref(),
            fallback: stub_fallback.as_ref(),
            says_read: self.call.says_read(),
            recorded: if runs_input(self.call) { &[] } else { self.recorded },
        }
    }
}

/// True if the tool runs what it is given, so that the result of one call says nothing of another's.
fn runs_input(call: &Call) -> bool {
    let schema = call.input_schema.as_ref().unwrap_or(&Value::Null);
    classify(&call.tool, call.description.as_deref().unwrap_or_default(), schema, false).runs
}

impl Tools {
    /// Compiles a tools file and packs. The reader of the tools file reports the same faults earlier.
    ///
    /// # Errors
    /// The first contract, pattern or condition that cannot be compiled.
    pub fn compile(file: ToolDeclarations, packs: Vec<Pack>) -> anyhow::Result<Self> {
        let mut by_server = HashMap::new();
        for Pack { name, server_names, contracts } in packs {
            let pack = Arc::new(CompiledPack { name, contracts: Contracts::compile(contracts)? });
            by_server.extend(server_names.into_iter().map(|server| (server, Arc::clone(&pack))));
        }
        Ok(Self {
            packs: by_server,
            contracts: Contracts::compile(file.contracts)?,
            effects: ByTool::compile(file.effects, |one| &one.tool)?,
            trusted_servers: file.trusted_servers,
            policy: Policy::compile(file.policies)?,
        })
    }

    /// Rates the effect of a call.
    pub fn effect(&self, call: &Call) -> EffectOf {
        let trusted = call.by_proxy && self.trusts(&call.tool);
        let found = self.contracts.find(&call.tool);
        let named = self.pack(call);
        let pack = named.as_ref().and_then(|(pack, tool)| pack.find(tool));
        let contract = found.map(|contract| contract.effect());
        let readings = self.readings(&call.tool);
        let word = CallDeclarations {
            declared: call.declared_effect,
            annotations: call.annotations,
            trusted,
            pack: pack.map(|pack| pack.effect()),
        };
        let said = effect_of(contract, self.override_of(&readings), word, || {
            let schema = call.input_schema.as_ref().unwrap_or(&Value::Null);
            classify(&call.tool, call.description.as_deref().unwrap_or_default(), schema, trusted)
        });
        let vouched = found.or(pack).is_some_and(|contract| contract.contract().arguments == Arguments::Trusted);
        let rated = if vouched { said } else { said.with_arguments(&call.arguments, &call.tool) };
        self.at_least(&readings, rated)
    }

    /// Raises a rated effect to that of the most severe tool that this name may denote.
    fn at_least(&self, tool: &Readings, rated: EffectOf) -> EffectOf {
        // A declaration of this very tool goes before one of others.
        if self.contracts.by_tool.names(tool) || rated.source == EffectSource::Override && self.effects.names(tool) {
            return rated;
        }
        let contract = self.contracts.by_tool.may_name(tool).map(|contract| contract.effect()).max();
        let operator = self.effects.may_name(tool).map(|one| one.effect).max();
        let source = if contract >= operator { EffectSource::Contract } else { EffectSource::Override };
        match contract.max(operator) {
            Some(effect) if effect > rated.effect => {
                let why = "its name may denote another tool, which has this effect".to_owned();
                EffectOf { effect, source, why, runs: false }
            }
            _ => rated,
        }
    }

    /// Effect by which the operator overrides a tool's.
    fn override_of(&self, tool: &Readings) -> Option<Effect> {
        self.effects.find(tool).map(|one| one.effect)
    }

    /// All tools that a name may denote, by its spelling and by the servers that contracts name.
    pub fn readings(&self, tool: &ToolName) -> Readings {
        let mut readings = tool.readings();
        if readings.sure().server.is_none() {
            for server in self.contracts.servers_of(&readings.sure().own) {
                readings.may_be_of(server);
            }
        }
        readings
    }

    /// The pack of the tool's server, with the tool's name in it; none if a contract of the file names the tool.
    fn pack(&self, call: &Call) -> Option<(&Contracts, ToolName)> {
        let pack = self.packs.get(call.server_name.as_ref()?)?;
        let tool = ToolName::of(&*pack.name, &*call.tool.name);
        let is_in_pack = self.contracts.find(&call.tool).is_none() && pack.contracts.find(&tool).is_some();
        is_in_pack.then_some((&pack.contracts, tool))
    }

    /// The contract of the called tool, from the file or from its server's pack.
    fn contract_of(&self, call: &Call) -> Option<&Arc<CompiledContract>> {
        let of_pack = || self.pack(call).and_then(|(pack, tool)| pack.find(&tool));
        self.contracts.find(&call.tool).or_else(of_pack)
    }

    /// True if the operator trusts what this server declares. Only our own proxy knows that it is this server.
    fn trusts(&self, tool: &ToolName) -> bool {
        tool.server.as_ref().is_some_and(|server| self.trusted_servers.contains(server))
    }

    /// Effect of a tool as far as it is known without a call: by contract, override, `seen` (the effect decided at its
    /// last call) or classifier.
    pub fn effect_as_known(&self, tool: &ToolName, description: &str, seen: Option<Effect>) -> Effect {
        let contract = self.contracts.find(tool).map(|contract| contract.effect());
        let said = contract.or_else(|| self.override_of(&tool.readings())).or(seen);
        said.unwrap_or_else(|| classify(tool, description, &Value::Null, self.trusts(tool)).effect)
    }

    /// Rules in force, in the order of the file.
    pub fn policies(&self) -> impl Iterator<Item = &PolicyRule> {
        self.policy.rules()
    }

    /// Contracts in force.
    pub fn contracts(&self) -> &Contracts {
        &self.contracts
    }

    /// Contracts in force that have become stale.
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

    /// Describes faults of the arguments, by the contract and by the schema that the tool's server declares.
    pub fn invalid_arguments(&self, given: CallInput<'_>) -> Option<String> {
        let faults = match self.contract_of(given.call) {
            Some(contract) => contract.check_arguments(given.args),
            None => Ok(()),
        };
        let declared = || match &given.call.input_schema {
            Some(schema) => match Schema::compile(schema) {
                Ok(schema) => schema.check(given.args),
                Err(message) => Err(vec![Mismatch::whole(format!("input_schema: {message}"))]),
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

    /// Applies the rules to a call.
    pub fn judge(&self, given: CallInput<'_>, effect: Effect, taints: &[String]) -> Guard {
        let call = given.call;
        let readings = self.readings(&call.tool);
        self.policy.judge(&CallFacts {
            context: AgentContext {
                agent: &call.agent,
                route: call.route.as_deref(),
                modes: &call.modes,
                taints,
                session: call.session.as_deref(),
            },
            tool: &call.tool,
            readings: &readings,
            effect,
            args: given.args,
        })
    }

    /// `tool@version` of the call's contract.
    pub fn contract(&self, call: &Call) -> Option<String> {
        self.contract_of(call).map(|contract| contract.id().to_owned())
    }

    /// Address where the call can be tried without consequences, by its contract.
    pub fn sandbox(&self, call: &Call) -> Option<String> {
        self.contract_of(call).and_then(|contract| contract.contract().sandbox.clone())
    }

    /// Labels that the call adds to its session.
    pub fn taints(&self, call: &Call) -> Vec<String> {
        self.contract_of(call).map(|contract| contract.contract().taints.clone()).unwrap_or_default()
    }

    /// True if the contract lets the call run live while no decision can be stored.
    pub fn allows_unavailable(&self, call: &Call) -> bool {
        let contract = self.contract_of(call);
        contract.is_some_and(|contract| contract.contract().on_unavailable == OnUnavailable::Allow)
    }

    /// True if a stub of the call would be inferred from recorded results, given enough of them.
    pub fn needs_recorded(&self, call: &Call) -> bool {
        let responds = self.contract_of(call).is_some_and(|contract| !contract.contract().responses.is_empty());
        !responds && call.stub_override.is_none() && call.stub_fallback.is_none() && !runs_input(call)
    }

    /// Looks up the run's own records that this read asks for.
    ///
    /// # Errors
    /// A record cannot be rendered as the tool would answer.
    pub fn remembered(&self, given: CallInput<'_>, state: &mut RunState) -> Result<OverlayAnswer, StubError> {
        let look = overlay::read_overlay(&self.contracts, &given.stub(&given.call.tool), state)?;
        match (look, self.pack(given.call)) {
            (OverlayAnswer::Live, Some((pack, tool))) => overlay::read_overlay(pack, &given.stub(&tool), state),
            (look, _) => Ok(look),
        }
    }

    /// Builds the stub: the result that the tool would have returned.
    ///
    /// # Errors
    /// Nothing describes the result, or it does not fit the contract.
    pub fn stub(&self, given: CallInput<'_>, state: &mut RunState) -> Result<Stub, StubError> {
        let pack = self.pack(given.call);
        let (contracts, tool) = pack.as_ref().map_or((&self.contracts, &given.call.tool), |(pack, tool)| (*pack, tool));
        match &given.call.stub_override {
            Some(result) => stub::answer_with(contracts, &given.stub(tool), result.clone(), state),
            None => stub::answer(contracts, &given.stub(tool), state),
        }
    }
}

/// Initial state of a run that begins with this call. Without a seed in the call, agent and run are the seed: as good
/// as random, but the same for the same run.
pub fn begin(call: &Call, now: Timestamp) -> RunState {
    let mut state = match &call.seed {
        Some(seed) => RunState::seeded(seed.clone(), None),
        None => RunState::new(format!("{}/{}", call.agent, call.run.as_ref().unwrap_or(&call.call_id)), now),
    };
    state.faults = call.faults;
    state
}
