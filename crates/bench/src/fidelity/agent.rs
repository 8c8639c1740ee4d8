//! Scripted agent, and the ways to answer its calls: the service itself, null, or stubs by contract.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::service::{Domain, Tables};
use umbra_boundary::{
    decide::{BoundaryRules, Decision, DecisionContext, decide},
    overlay::merge,
    stub::RunState,
};
use umbra_domain::{ByExecution, Call, Effect, ToolName};

/// Most calls of a script, which stops endless loops.
const MOST_CALLS: usize = 60;

/// The way in which the agent's calls are answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    /// The service runs every call.
    Live,
    /// Reads run; all other calls are answered `null`.
    Null,
    /// Reads run; all other calls are answered by a contract's stub, as the boundary decides.
    Contracts,
}

/// Branches that the agent took: the way, by place and number of earlier visits to the place.
pub(super) type Branches = BTreeMap<(String, usize), String>;

/// An agent at work on one task.
pub(super) struct Agent<'a> {
    domain: &'a Domain,
    rules: &'a BoundaryRules,
    answers: Answers,
    tables: Tables,
    run: Option<RunState>,
    calls: usize,
    branches: Branches,
}

impl<'a> Agent<'a> {
    /// Runs the agent's task. Returns its branches, and true if the service is unchanged.
    pub fn work(domain: &'a Domain, case: u32, rules: &'a BoundaryRules, answers: Answers) -> (Branches, bool) {
        let tables = (domain.tables)(case);
        let before = tables.clone();
        let branches = Branches::new();
        let mut agent = Self { domain, rules, answers, tables, run: None, calls: 0, branches };
        (domain.script)(&mut agent, case);
        (agent.branches, agent.tables == before)
    }

    /// Calls a tool of the domain's server. An error is a result with a member `error`, as with many tools.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.calls += 1;
        if self.calls > MOST_CALLS {
            return Value::Null;
        }
        if self.answers == Answers::Live {
            return (self.domain.serve)(&mut self.tables, tool, &arguments);
        }
        let Value::Object(arguments) = arguments else { return Value::Null };
        let call = self.asked(tool, arguments);
        let stale = HashMap::new();
        let standing = DecisionContext {
            now: Timestamp::UNIX_EPOCH,
            overrides: &[],
            descent: None,
            run: self.run.clone(),
            recorded: &[],
            taints: &[],
            uninterceptable: &[],
            approvals: ByExecution::default(),
            oversized: None,
            stale: &stale,
        };
        let decided = decide(self.rules, &call, standing);
        if self.answers == Answers::Null && decided.effect != Effect::Read {
            return Value::Null;
        }
        if self.answers == Answers::Contracts {
            self.run = decided.run.or_else(|| self.run.take());
        }
        match (decided.decision, decided.stub) {
            (Decision::Execute, _) => {
                let result = (self.domain.serve)(&mut self.tables, tool, &Value::Object(call.arguments));
                decided.merge.map_or(result.clone(), |more| merge(result, &more))
            }
            (_, Some(stub)) => stub.result,
            _ => json!({"error": {"code": decided.reason, "message": decided.detail}}),
        }
    }

    fn asked(&self, tool: &str, arguments: Map<String, Value>) -> Call {
        Call {
            call_id: self.calls.to_string(),
            run: Some("bench".to_owned()),
            seed: Some(self.domain.name.to_owned()),
            ..Call::new("scripted", ToolName::of(self.domain.name, tool), arguments)
        }
    }

    /// Takes the branch yes or no.
    pub fn is(&mut self, place: &str, holds: bool) -> bool {
        self.took(place, if holds { "yes" } else { "no" });
        holds
    }

    /// Takes the branch that a word of a result names; an empty word where there is none.
    pub fn on(&mut self, place: &str, word: &Value) -> String {
        let word = word.as_str().unwrap_or_default().to_owned();
        self.took(place, &word);
        word
    }

    fn took(&mut self, place: &str, way: &str) {
        let times = self.branches.keys().filter(|(known, _)| known == place).count();
        self.branches.insert((place.to_owned(), times), way.to_owned());
    }
}
