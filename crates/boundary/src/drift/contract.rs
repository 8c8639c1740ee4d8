//! Drift of contracts: checks live results against them. In: contracts, live results and what was learned before. Out:
//! mismatches, in words that repeat nothing of a result; the new state; a proposal to replace a stale contract.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::shape;
use crate::{
    contract::{CompiledContract, Contracts, Schema, compile},
    stub::{self, RecordedResult, RunState, SharedMint, infer::shape_of, template::add_functions},
};
use umbra_domain::{
    ToolName,
    contract::{ContractState, DEFAULT_MISMATCHES, StaleReason, StaleSince, StubResponse, ToolContract},
};
use umbra_policy::EvaluationScope;

/// Fewest results from which a contract is proposed.
pub const LEAST_PROPOSED: usize = 3;
/// Most results that are remembered for a proposal; the latest are kept.
pub const MOST_RECENT: usize = 50;

/// A live result, checked against its contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedResult {
    /// Row of the result in the audit.
    pub seq: i64,
    /// Time of its report.
    pub at: Timestamp,
    /// Mismatch; none if the result fits.
    pub misfit: Option<String>,
}

/// Describes where a live result does not fit the tool's contract: its output schema, or the shape of a stub for these
/// arguments. The shape of any response of the contract will do, since the right response may depend on what only the
/// tool knows.
pub fn misfit(contracts: &Contracts, tool: &ToolName, args: &Value, result: &Value) -> Option<String> {
    let contract = contracts.find(tool)?;
    if let Err(mismatches) = contract.check_result(result) {
        let real = mismatches.iter().find(|mismatch| {
            let there = if mismatch.pointer.is_empty() { Some(result) } else { result.pointer(&mismatch.pointer) };
            !there.is_some_and(is_redacted)
        });
        if let Some(mismatch) = real {
            return Some(mismatch.told());
        }
    }
    // A sample of the schema shows nothing that the schema does not say.
    if contract.contract().responses.is_empty() {
        return None;
    }
    let strict = contract.contract().output_schema.is_none();
    let call = stub::StubCall { tool, args, output_schema: None, fallback: None, says_read: false, recorded: &[] };
    match stub::answer(contracts, &call, &mut RunState::seeded("drift", None)) {
        Ok(stub) => {
            let difference = shape::difference(&stub.result, result, strict)?;
            let other = || renderings(contract, tool, args);
            if other().iter().any(|other| shape::difference(other, result, strict).is_none()) {
                return None;
            }
            Some(difference)
        }
        // With redacted arguments, a stub may fail where the tool did not.
        Err(_) if holds_redacted(args) => None,
        Err(error) => Some(format!("no stub for these arguments: {error}")),
    }
}

/// Renders each response of a contract.
fn renderings(contract: &CompiledContract, tool: &ToolName, args: &Value) -> Vec<Value> {
    let mint = SharedMint::of(&RunState::seeded("drift", None));
    let name = stub::tool_variable(tool);
    let mut scope = EvaluationScope::of([("args", args), ("tool", &name)]);
    add_functions(&mut scope, &mint);
    contract.responses.iter().filter_map(|response| response.result.render(&scope).ok()).collect()
}

fn is_redacted(value: &Value) -> bool {
    value.as_str().is_some_and(umbra_checks::is_redacted)
}

fn holds_redacted(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(holds_redacted),
        Value::Object(entries) => entries.values().any(holds_redacted),
        other => is_redacted(other),
    }
}

/// Learns from a result. Returns true if the contract became stale by it. Staleness by mismatches lasts until there is
/// a new version, or a person confirms the contract; staleness by age ends with a result that fits.
pub fn learn(contract: &ToolContract, state: &mut ContractState, held: &CheckedResult) -> bool {
    state.results += 1;
    state.last_at = Some(held.at);
    let stale_by_misfits = state.stale.is_some_and(|stale| stale.reason == StaleReason::Misfits);
    match &held.misfit {
        None => {
            state.misfits = 0;
            state.fit_at = Some(held.at);
            if !stale_by_misfits {
                state.stale = None;
                state.recent.clear();
                return false;
            }
        }
        Some(misfit) => {
            state.misfits += 1;
            state.misfit = Some(misfit.clone());
        }
    }
    state.recent.push(held.seq);
    let over = state.recent.len().saturating_sub(MOST_RECENT);
    state.recent.drain(..over);
    let limit = i64::from(contract.stale.live_mismatches.unwrap_or(DEFAULT_MISMATCHES));
    if stale_by_misfits || state.misfits < limit {
        return false;
    }
    state.stale = Some(StaleSince { since: held.at, reason: StaleReason::Misfits });
    true
}

/// Returns since when and why a contract is stale; none if it is not.
pub fn stale(contract: &ToolContract, state: &ContractState, now: Timestamp) -> Option<StaleSince> {
    state.stale.or_else(|| {
        let newest = state.fit_at.max(state.confirmed_at).max(Some(state.since))?;
        let since = newest.saturating_add(contract.stale.max_age?).ok()?;
        (since <= now).then_some(StaleSince { since, reason: StaleReason::Age })
    })
}

/// Describes why a contract is stale.
pub fn why(contract: &ToolContract, learned: &ContractState, stale: StaleSince) -> String {
    let since = stale.since;
    match stale.reason {
        StaleReason::Misfits => {
            let what = learned.misfit.as_deref().unwrap_or("details unknown");
            format!("the contract is stale since {since}: consecutive live results did not fit it ({what})")
        }
        StaleReason::Age => {
            let hours = contract.stale.max_age.map_or(0, |age| age.as_secs() / 3_600);
            format!("the contract is stale since {since}: no live result has fitted it for {hours} h (stale.max_age)")
        }
    }
}

/// Proposes the next version of a contract from live results. Parts that still fit stay: predicates, expressions, parts
/// of the schema, the overlay.
///
/// # Errors
/// The reason why none can be proposed.
pub fn propose(contract: &ToolContract, recorded: &[RecordedResult]) -> Result<ToolContract, String> {
    if recorded.len() < LEAST_PROPOSED {
        return Err(format!(
            "{} live results since the contract no longer fits; {LEAST_PROPOSED} are needed",
            recorded.len()
        ));
    }
    let shown = shape_of(&contract.tool, contract.effect, recorded)?;
    let results: Vec<&Value> = recorded.iter().map(|call| &call.result).collect();
    let output_schema = shown.output_schema.map(|shown| next_schema(contract.output_schema.as_ref(), &shown, &results));
    let fields = output_schema.as_ref().unwrap_or(&Value::Null);
    let responses = |next: &dyn Fn(&Value, &Value) -> Value| match shown.responses.as_slice() {
        [shown] if !contract.responses.is_empty() => {
            let response =
                |old: &StubResponse| StubResponse { result: next(&old.result, &shown.result), ..old.clone() };
            contract.responses.iter().map(response).collect()
        }
        shown => shown.to_vec(),
    };
    // If parts of the old results conflict with the new schema, take all as live results show them.
    let kept = responses(&|old, shown| next_result(old, shown, fields));
    let mut why = String::new();
    for responses in [kept, responses(&|_, shown| shown.clone())] {
        let version = contract.version.saturating_add(1);
        let output_schema = output_schema.clone();
        let proposed = ToolContract { version, output_schema, responses, example: None, ..contract.clone() };
        let Err(faults) = compile(proposed.clone()) else { return Ok(proposed) };
        why = faults.first().map_or_else(String::new, |fault| format!("{}: {}", fault.key, fault.message));
    }
    Err(format!("the schema of the results does not fit the rest of the contract ({why}): change the contract by hand"))
}

/// Schema that all results fit; parts of the old one stay where they still fit.
fn next_schema(old: Option<&Value>, shown: &Value, results: &[&Value]) -> Value {
    let fit =
        |schema: &Value| Schema::compile(schema).is_ok_and(|schema| results.iter().all(|result| schema.fits(result)));
    let Some(old) = old else { return shown.clone() };
    if fit(old) {
        return old.clone();
    }
    let (Value::Object(old), Some(Value::Object(properties))) = (old, shown.get("properties")) else {
        return shown.clone();
    };
    let next = |(name, shown): (&String, &Value)| {
        let values: Vec<&Value> = results.iter().filter_map(|result| result.get(name)).collect();
        let old = old.get("properties").and_then(|properties| properties.get(name));
        (name.clone(), next_schema(old, shown, &values))
    };
    let mut schema = old.clone();
    schema.insert("properties".to_owned(), Value::Object(properties.iter().map(next).collect()));
    schema.insert("required".to_owned(), shown.get("required").cloned().unwrap_or_else(|| json!([])));
    let schema = Value::Object(schema);
    if fit(&schema) { schema } else { shown.clone() }
}

/// Updates the result of a response to the fields that live results show: remaining fields keep their old values,
/// missing ones are dropped, new ones added.
fn next_result(old: &Value, shown: &Value, schema: &Value) -> Value {
    match (old, shown) {
        (Value::Object(old), Value::Object(shown)) => {
            let field = |name: &str| &schema["properties"][name];
            let mut fields: Map<String, Value> = old
                .iter()
                .filter(|(name, _)| field(name).is_object())
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            for (name, shown) in shown {
                let next = old.get(name).map_or_else(|| shown.clone(), |old| next_result(old, shown, field(name)));
                fields.insert(name.clone(), next);
            }
            Value::Object(fields)
        }
        (Value::String(text), _) if text.contains("{{") => old.clone(),
        // The result of an expression may be of any type.
        (_, Value::String(text)) if text.contains("{{") && !old.is_object() => old.clone(),
        _ if std::mem::discriminant(old) == std::mem::discriminant(shown) => old.clone(),
        _ => shown.clone(),
    }
}

/// Builds a recorded call from the payloads of its audit rows; none where they were erased, or the call failed.
pub fn recorded(decision: &str, outcome: &str, agent: usize) -> Option<RecordedResult> {
    let mut decision: Value = serde_json::from_str(decision).ok()?;
    let mut outcome: Value = serde_json::from_str(outcome).ok()?;
    let outcome = outcome.get_mut("outcome")?;
    if outcome["status"] != json!("ok") {
        return None;
    }
    let result = outcome.get_mut("result")?.take();
    let args = decision.get_mut("args").map_or_else(|| json!({}), Value::take);
    (!result.is_null()).then_some(RecordedResult { args, result, agent })
}
