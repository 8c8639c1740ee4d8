//! Stubs: answers to tool calls that do not run. Typed, validated, null only where a schema or the caller says so, and
//! the same for the same seed and calls.
//!
//! The contract's first response that applies answers. For a tool without responses, the caller's fallback result
//! answers, else a result in the form of at least five recorded ones, else the example in the contract, else a sample
//! of the output schema; else nothing, and the call is refused.

pub mod infer;
pub mod recordings;
mod sample;
mod state;
pub mod template;
#[cfg(test)]
mod tests;

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use thiserror::Error;
use utoipa::ToSchema;

use super::{
    contract::{CompiledContract, Contracts, Mismatch, Schema},
    overlay,
};
pub use infer::RecordedResult;
pub(super) use sample::sample;
pub(super) use state::SharedMint;
pub use state::{MAX_RECORD_BYTES, MAX_RECORDS, RunState};
use template::{RenderError, Template};
use umbra_domain::{ToolName, json::encoded_len};
use umbra_policy::{EvalError, EvaluationScope};

/// Largest stub that a call may bring along, in bytes of JSON.
const MAX_OVERRIDE_BYTES: usize = 256 * 1024;

/// A call, as far as a stub depends on it.
#[derive(Debug, Clone, Copy)]
pub struct StubCall<'a> {
    /// Called tool.
    pub tool: &'a ToolName,
    /// Arguments of the call.
    pub args: &'a Value,
    /// Output schema that the tool's server declares.
    pub output_schema: Option<&'a Value>,
    /// Result by the caller's word, for a tool without responses.
    pub fallback: Option<&'a Value>,
    /// True if the caller or the tool's server calls it a read, and is not believed: a made-up result would mislead
    /// where a real one could be had.
    pub says_read: bool,
    /// Live calls of the tool by any agent, and their results, oldest first.
    pub recorded: &'a [RecordedResult],
}

umbra_domain::words! {
    /// Source of the schema that a stub was checked against.
    #[derive(Default)]
    pub enum ValidatedAgainst {
        /// The contract's output schema.
        Contract = "contract",
        /// The output schema that the tool's server declares.
        OutputSchema = "output_schema",
        /// The shape of recorded results.
        RecordedResults = "recorded_results",
        /// None: no schema is known, and the stub is not null.
        #[default]
        Nothing = "nothing",
    }
}

/// Answer in the place of a tool.
// Its contract is `tool@` and the origin without a contract; `stub_fallback` is [`StubCall::fallback`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = StubAnswer)]
pub struct Stub {
    /// Contract that the stub comes from, as `tool@version`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub contract: String,
    /// Result that the tool would have returned, any JSON.
    pub result: Value,
    /// Source of the schema that the result fits: `contract`, `output_schema`, `recorded_results` or `nothing`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    pub validated_against: ValidatedAgainst,
    /// Code of the simulated fault that the contract asks for at a rate: `result` is the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// True if the result is the `stub_fallback` of the call.
    #[serde(default)]
    pub is_fallback: bool,
}

impl Stub {
    pub(super) fn of(contract: String, result: Value, validated_against: ValidatedAgainst) -> Self {
        Self { contract, result, validated_against, fault: None, is_fallback: false }
    }
}

/// Reason why there is no stub. It repeats nothing that an agent wrote.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum StubError {
    /// No description of the tool's answer.
    #[error("the result of {tool} is not described: write a contract, or declare an output schema{why}")]
    NoContract {
        /// The tool.
        tool: String,
        /// Reason why other sources do not suffice.
        why: String,
    },
    /// The contract, the stub or the run has a fault.
    #[error("{message}")]
    Fault {
        /// Code of the reason.
        code: &'static str,
        /// The reason in words.
        message: String,
    },
}

impl StubError {
    pub(super) fn fault(code: &'static str, message: impl Into<String>) -> Self {
        Self::Fault { code, message: message.into() }
    }

    /// A predicate or a template at this key cannot be evaluated.
    pub(super) fn failed(contract: &str, place: &str, error: impl Display) -> Self {
        Self::fault("stub_failed", format!("{contract}: {place}: {error}"))
    }

    /// The stub does not fit the schema.
    pub(super) fn invalid(contract: &str, mismatches: &[Mismatch]) -> Self {
        let first = mismatches.first().map(|mismatch| format!(": {}", mismatch.told())).unwrap_or_default();
        Self::fault("invalid_stub", format!("the stub of {contract} does not fit its schema{first}"))
    }

    pub(super) fn null(contract: &str) -> Self {
        Self::fault("invalid_stub", format!("the stub of {contract} is null, and no output_schema allows null"))
    }

    fn large_override() -> Self {
        let message = format!("the call's stub_override has more than {MAX_OVERRIDE_BYTES} bytes");
        Self::fault("invalid_stub", message)
    }

    /// Code of the reason.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoContract { .. } => "no_contract",
            Self::Fault { code, .. } => code,
        }
    }
}

/// Answers a call that does not run, and records in the run what it would have written.
///
/// # Errors
/// The reason why there is no answer; the run is unchanged then.
pub fn answer(contracts: &Contracts, call: &StubCall<'_>, state: &mut RunState) -> Result<Stub, StubError> {
    let mint = SharedMint::of(state);
    let Some(contract) = contracts.find(call.tool) else {
        let stub = fallback(None, call).unwrap_or_else(|| known(None, call, &mint))?;
        mint.commit(state);
        return Ok(stub);
    };
    let tool = tool_variable(call.tool);
    let mut scope = EvaluationScope::of([("args", call.args), ("tool", &tool)]);
    template::add_functions(&mut scope, &mint);
    if let Some(stub) = fault(contract, &scope, state, &mint)? {
        mint.commit(state);
        return Ok(stub);
    }
    let stub = match respond(contract, &scope)? {
        Some(result) => {
            let validated_against = validate(Some(contract), contract.id(), call, &result)?;
            Stub::of(contract.id().to_owned(), result, validated_against)
        }
        None => fallback(Some(contract), call).unwrap_or_else(|| known(Some(contract), call, &mint))?,
    };
    overlay::store_records(contract, call, &stub.result, state, &mint)?;
    mint.commit(state);
    Ok(stub)
}

/// Answers a call with the stub that came with it, if the tool could have given that result.
///
/// # Errors
/// A fault of that stub; the run is unchanged then.
pub fn answer_with(
    contracts: &Contracts,
    call: &StubCall<'_>,
    result: Value,
    state: &mut RunState,
) -> Result<Stub, StubError> {
    if encoded_len(&result) > MAX_OVERRIDE_BYTES {
        return Err(StubError::large_override());
    }
    let contract = contracts.find(call.tool);
    let id = contract.map_or_else(|| format!("{}@override", call.tool), |contract| contract.id().to_owned());
    let validated_against = validate(contract.map(AsRef::as_ref), &id, call, &result)?;
    let mint = SharedMint::of(state);
    if let Some(contract) = contract {
        overlay::store_records(contract, call, &result, state, &mint)?;
    }
    mint.commit(state);
    Ok(Stub::of(id, result, validated_against))
}

/// Stub from the caller's result for a tool without responses; none if the caller gave none.
fn fallback(contract: Option<&CompiledContract>, call: &StubCall<'_>) -> Option<Result<Stub, StubError>> {
    let result = call.fallback?;
    let id = contract.map_or_else(|| format!("{}@fallback", call.tool), |contract| contract.id().to_owned());
    if encoded_len(result) > MAX_OVERRIDE_BYTES {
        return Some(Err(StubError::large_override()));
    }
    let validated = match contract {
        // A caller writes null to say that the tool gives nothing.
        _ if result.is_null() && call.output_schema.is_none() && contract.is_none_or(|c| c.output.is_none()) => {
            Ok(ValidatedAgainst::Nothing)
        }
        _ => validate(contract, &id, call, result),
    };
    Some(validated.map(|validated| Stub { is_fallback: true, ..Stub::of(id, result.clone(), validated) }))
}

/// Value of the variable `tool` in expressions.
pub(super) fn tool_variable(tool: &ToolName) -> Value {
    json!({"server": tool.server.as_deref().unwrap_or_default(), "name": tool.name})
}

/// Renders the first response that applies; none if the contract has none at all.
fn respond(contract: &CompiledContract, scope: &EvaluationScope<'_>) -> Result<Option<Value>, StubError> {
    if contract.responses.is_empty() {
        return Ok(None);
    }
    let failed = |index: usize, key: &str, error: RenderError| {
        StubError::failed(contract.id(), &format!("responses[{index}].{key}"), error)
    };
    for (index, response) in contract.responses.iter().enumerate() {
        let holds = response.when.as_ref().map_or(Ok(true), |when| {
            when.holds(scope).map_err(|error| failed(index, "when", eval(when.source(), error)))
        })?;
        if holds {
            let result = response.result.render(scope);
            return result.map(Some).map_err(|error| failed(index, "result", error));
        }
    }
    let (id, advice) = (contract.id(), "end the contract's responses with a response without `when`");
    Err(StubError::fault("no_response", format!("no response of {id} applies to this call: {advice}")))
}

pub(super) fn eval(source: &str, error: EvalError) -> RenderError {
    RenderError::Eval { expression: source.chars().take(60).collect(), error }
}

/// Simulated error for this call, if the run asked for errors and one is due.
fn fault(
    contract: &CompiledContract,
    scope: &EvaluationScope<'_>,
    state: &RunState,
    mint: &SharedMint,
) -> Result<Option<Stub>, StubError> {
    if !state.faults {
        return Ok(None);
    }
    for (index, fault) in contract.faults.iter().enumerate() {
        if mint.share() >= fault.rate {
            continue;
        }
        let failed = |error| StubError::failed(contract.id(), &format!("faults[{index}].result"), error);
        let result = fault.result.render(scope).map_err(failed)?;
        let fault = Some(fault.error.clone());
        return Ok(Some(Stub { fault, ..Stub::of(contract.id().to_owned(), result, ValidatedAgainst::Nothing) }));
    }
    Ok(None)
}

/// Checks a stub against the contract's schema or, without one, that of the tool's server.
fn validate(
    contract: Option<&CompiledContract>,
    id: &str,
    call: &StubCall<'_>,
    result: &Value,
) -> Result<ValidatedAgainst, StubError> {
    let (checked, against) = match (contract.filter(|contract| contract.output.is_some()), call.output_schema) {
        (Some(contract), _) => (contract.check_result(result), ValidatedAgainst::Contract),
        (None, Some(schema)) => {
            let schema = Schema::compile(schema).map_err(|message| vec![Mismatch::whole(message)]);
            (schema.and_then(|schema| schema.check(result)), ValidatedAgainst::OutputSchema)
        }
        (None, None) if result.is_null() => return Err(StubError::null(id)),
        (None, None) => (Ok(()), ValidatedAgainst::Nothing),
    };
    checked.map(|()| against).map_err(|mismatches| StubError::invalid(id, &mismatches))
}

/// Stub of a tool without responses, from recorded results, an example or a schema.
fn known(contract: Option<&CompiledContract>, call: &StubCall<'_>, mint: &SharedMint) -> Result<Stub, StubError> {
    let mut why = String::new();
    let id = |origin: &str| match contract {
        Some(contract) => contract.id().to_owned(),
        None => format!("{}@{origin}", call.tool),
    };
    let own = contract.and_then(|contract| contract.output.as_ref());
    let declared = match (own, call.output_schema) {
        (None, Some(schema)) => Schema::compile(schema).map_err(|error| why = format!(" ({error})")).ok(),
        _ => None,
    };
    let (schema, against) = match own {
        Some(own) => (Some(own), ValidatedAgainst::Contract),
        None => (declared.as_ref(), ValidatedAgainst::OutputSchema),
    };
    let accepted = |result: &Value| schema.map_or(!result.is_null(), |schema| schema.fits(result));
    let stub = |origin: &str, result: Value, against| Ok(Stub::of(id(origin), result, against));
    match recorded(call, mint) {
        Ok((result, true)) if accepted(&result) => {
            let against = if schema.is_some() { against } else { ValidatedAgainst::RecordedResults };
            return stub("recorded", result, against);
        }
        Ok(_) => " (the result inferred from recorded results does not fit)".clone_into(&mut why),
        Err(error) if why.is_empty() => why = format!(" ({error})"),
        Err(_) => {}
    }
    if let Some(example) = contract.and_then(|contract| contract.contract.example.as_ref())
        && accepted(example)
    {
        let against = if schema.is_some() { against } else { ValidatedAgainst::Nothing };
        return stub("example", example.clone(), against);
    }
    if let Some(schema) = schema.filter(|_| contract.is_some() || !call.says_read) {
        match sample(schema.source(), call.args, mint) {
            Ok(result) if accepted(&result) => {
                return stub("output_schema", result, against);
            }
            Ok(_) => " (a sample of the output schema does not fit that schema)".clone_into(&mut why),
            Err(error) => why = format!(" (no sample of the output schema: {error})"),
        }
    }
    Err(StubError::NoContract { tool: call.tool.to_string(), why })
}

/// Result in the form of recorded ones, and whether it fits all of them. For a tool that is called a read, and not
/// believed to be one, only results of the same agent count.
fn recorded(call: &StubCall<'_>, mint: &SharedMint) -> Result<(Value, bool), String> {
    let own: Vec<RecordedResult>;
    let recorded = if call.says_read {
        own = call.recorded.iter().filter(|call| call.agent == 0).cloned().collect();
        &own
    } else {
        call.recorded
    };
    let (response, schema) = infer::response(call.args, recorded)?;
    let template = Template::compile(&response, &["args", "tool"])?;
    let tool = tool_variable(call.tool);
    let mut scope = EvaluationScope::of([("args", call.args), ("tool", &tool)]);
    template::add_functions(&mut scope, mint);
    let result = template.render(&scope).map_err(|error| error.to_string())?;
    let fits = Schema::compile(&schema)?.fits(&result);
    Ok((result, fits))
}
