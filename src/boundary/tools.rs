//! What is known of tools, put together: effects, contracts and rules. The one place of the boundary where they meet.

use serde_json::Value;

use super::effects::{EffectOf, Overrides, classify, effect_of};
use crate::{
    config,
    domain::{Call, Effect, Guard},
    policy::{Asked, Policy},
};

/// What stubs of a run remember.
pub type RunState = Value;

/// What is in force about tools.
#[derive(Debug)]
pub struct Tools {
    effects: Overrides,
    trusted_servers: Vec<String>,
    policy: Policy,
}

/// Why what a file says cannot be applied. Whoever has read it with our judgement has seen it there.
#[derive(Debug, thiserror::Error)]
pub enum BadTools {
    /// An effect's pattern is no glob.
    #[error(transparent)]
    Effects(#[from] super::effects::BadGlob),
    /// A rule is none.
    #[error(transparent)]
    Policy(#[from] crate::policy::BadRule),
}

/// A stub.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendered {
    /// `tool@version` of the contract.
    pub contract: Option<String>,
    /// What the tool would have answered.
    pub result: Value,
    /// What the result was validated against.
    pub validated_against: Option<String>,
    /// It is the fault of this name, not an answer.
    pub fault: Option<String>,
}

/// Why there is no stub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoStub {
    /// The reason's code, such as `no_contract`.
    pub code: &'static str,
    /// What to do about it.
    pub detail: String,
}

/// What a run remembers of what a read asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Remembered {
    /// Nothing: it runs.
    Nothing,
    /// The record that the run wrote, or that it is gone.
    Stub(Rendered),
    /// It runs, and its result is to be merged with this.
    Merge(Value),
}

impl Tools {
    /// Puts in force what a file says.
    ///
    /// # Errors
    /// The first pattern or condition that cannot be compiled.
    pub fn compile(file: config::tools::Tools) -> Result<Self, BadTools> {
        Ok(Self {
            effects: Overrides::compile(&file.effects)?,
            trusted_servers: file.trusted_servers,
            policy: Policy::compile(file.policies)?,
        })
    }

    /// What the call would do.
    pub fn effect(&self, call: &Call) -> EffectOf {
        let trusted = call.tool.server.as_ref().is_some_and(|server| self.trusted_servers.contains(server));
        effect_of(None, self.effects.of(&call.tool), call.annotations, trusted, || {
            let schema = call.input_schema.as_ref().unwrap_or(&Value::Null);
            classify(&call.tool, call.description.as_deref().unwrap_or_default(), schema)
        })
    }

    /// Faults of the arguments.
    pub fn invalid_arguments(&self, _call: &Call) -> Option<String> {
        None
    }

    /// What the rules say.
    pub fn judge(&self, call: &Call, args: &Value, effect: Effect, taints: &[String]) -> Guard {
        self.policy.judge(&Asked {
            agent: &call.agent,
            route: call.route.as_deref(),
            modes: &call.modes,
            tool: &call.tool,
            effect,
            args,
            taints,
            session: call.session.as_deref(),
        })
    }

    /// `tool@version` of the contract.
    pub fn contract(&self, _call: &Call) -> Option<String> {
        None
    }

    /// The labels that the call adds to its session.
    pub fn taints(&self, _call: &Call) -> Vec<String> {
        Vec::new()
    }

    /// Whether the call may run live while nobody can be asked.
    pub fn allows_unavailable(&self, _call: &Call) -> bool {
        false
    }

    /// What a run remembers of what this read asks for.
    pub fn remembered(&self, _call: &Call, _state: &mut RunState) -> Result<Remembered, NoStub> {
        Ok(Remembered::Nothing)
    }

    /// What the tool would have answered.
    ///
    /// # Errors
    /// Nothing says what that is, or it is not what the contract promises.
    pub fn stub(&self, call: &Call, _state: &mut RunState) -> Result<Rendered, NoStub> {
        let missing = || NoStub {
            code: "no_contract",
            detail: format!(
                "nothing says what {} answers: write a contract for it, or send tool.output_schema",
                call.tool
            ),
        };
        let result = call.stub_override.clone().ok_or_else(missing)?;
        Ok(Rendered { contract: None, result, validated_against: None, fault: None })
    }
}
