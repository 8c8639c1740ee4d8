//! What is known of tools, put together: effects, contracts and rules. The one place of the boundary where they meet.

use serde_json::Value;

use crate::domain::{Call, Effect, EffectSource, Guard};

/// What stubs of a run remember.
pub type RunState = Value;

/// What is in force about tools.
#[derive(Debug, Default)]
pub struct Tools {}

/// An effect, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rated {
    /// What a call would do.
    pub effect: Effect,
    /// Who says so.
    pub source: EffectSource,
    /// Why.
    pub why: String,
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
    /// What the call would do.
    pub fn effect(&self, call: &Call) -> Rated {
        let (effect, source, why) = match (call.annotations.read_only, call.annotations.destructive) {
            (Some(true), _) => (Effect::Read, EffectSource::Annotations, "readOnlyHint"),
            (_, Some(false)) => (Effect::Write, EffectSource::Annotations, "destructiveHint"),
            _ => (Effect::Destructive, EffectSource::Unknown, "nothing is known of the tool"),
        };
        Rated { effect, source, why: why.to_owned() }
    }

    /// Faults of the arguments.
    pub fn invalid_arguments(&self, _call: &Call) -> Option<String> {
        None
    }

    /// What the rules say.
    pub fn judge(&self, _call: &Call, _effect: Effect, _taints: &[String]) -> Guard {
        Guard::default()
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
