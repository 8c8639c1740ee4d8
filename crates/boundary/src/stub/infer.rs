//! Infers a tool's contract from recorded calls: schemas of arguments and results, the response of a stub, and errors
//! as faults.

mod response;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use self::response::{Sample, escaped, fields, template};
use umbra_domain::{
    Effect,
    contract::{FaultRule, StubResponse, ToolContract},
};

/// Fewest recorded results from which a contract is inferred.
pub const LEAST_RECORDED: usize = 5;
/// Most recorded calls that are used, the latest.
const MOST_RECORDED: usize = 200;
/// Deepest level of a schema; deeper values may be anything.
const MAX_DEPTH: usize = 12;
/// Most arguments that a field is compared with.
const MAX_PATHS: usize = 200;

/// A live call and its result.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedResult {
    /// Arguments.
    pub args: Value,
    /// Result.
    pub result: Value,
    /// Number of the calling agent: 0 for the one that asks for the stub, whose literals may be repeated to it.
    pub agent: usize,
}

/// Infers the contract of a tool from its calls, oldest first.
///
/// # Errors
/// Too few calls, or results that are null or of several types.
pub fn infer(tool: &str, effect: Effect, recorded: &[RecordedResult]) -> Result<ToolContract, String> {
    let failed = recorded.iter().filter(|call| is_error(&call.result)).count();
    let found = recorded.len() - failed;
    if found < LEAST_RECORDED {
        let beside = if failed > 0 { format!(" beside {failed} errors") } else { String::new() };
        return Err(format!("{found} recorded results{beside}; at least {LEAST_RECORDED} are needed"));
    }
    shape_of(tool, effect, recorded)
}

/// The same from any number of calls.
///
/// # Errors
/// Results that are null, or of several types.
pub fn shape_of(tool: &str, effect: Effect, recorded: &[RecordedResult]) -> Result<ToolContract, String> {
    let latest = recorded.iter().skip(recorded.len().saturating_sub(MOST_RECORDED));
    let (errors, calls): (Vec<_>, Vec<_>) = latest.partition(|call| is_error(&call.result));
    let results = results(&calls)?;
    let arguments: Vec<Sample<'_>> = calls.iter().map(|call| Sample { call, value: &call.args }).collect();
    let mut contract = ToolContract::new(tool, effect);
    contract.input_schema = Some(schema(&arguments, 0)).filter(|schema| schema["type"] == "object");
    contract.output_schema = Some(schema(&results, 0));
    let paths = calls.last().map(|call| paths(&call.args)).unwrap_or_default();
    contract.responses.push(StubResponse { when: None, result: template(&results, None, &paths, 0) });
    contract.faults = faults(&errors, recorded.len().min(MOST_RECORDED));
    Ok(contract)
}

/// Builds the response to a call with these arguments, and the schema that all recorded results fit. Only arguments
/// that the call has are echoed.
///
/// # Errors
/// As [`infer`].
pub(super) fn response(args: &Value, recorded: &[RecordedResult]) -> Result<(Value, Value), String> {
    let calls: Vec<&RecordedResult> = recorded.iter().filter(|call| !is_error(&call.result)).collect();
    if calls.len() < LEAST_RECORDED {
        return Err(format!("{} recorded results; at least {LEAST_RECORDED} are needed", calls.len()));
    }
    let results = results(&calls)?;
    let mut paths = calls.last().map(|call| paths(&call.args)).unwrap_or_default();
    paths.retain(|path| args.pointer(&path.replace('.', "/")).is_some());
    Ok((template(&results, None, &paths, 0), schema(&results, 0)))
}

/// Results of calls, if all are of one type and none is null.
fn results<'a>(calls: &[&'a RecordedResult]) -> Result<Vec<Sample<'a>>, String> {
    let kinds: BTreeSet<&str> = calls.iter().map(|call| kind(&call.result)).collect();
    if kinds.contains("null") {
        return Err("some recorded results are null, which a stub cannot be".to_owned());
    }
    match kinds.len() {
        0 => Err("all recorded results are errors".to_owned()),
        1 => Ok(calls.iter().map(|call| Sample { call, value: &call.result }).collect()),
        _ => Err("the recorded results are of several types".to_owned()),
    }
}

/// True if a result says that the call failed.
fn is_error(result: &Value) -> bool {
    let said = |name: &str| match result.get(name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    ["error", "errors", "isError"].into_iter().any(said)
        || ["ok", "success"].iter().any(|name| result.get(name) == Some(&json!(false)))
}

/// Faults from error results, each with its share of all calls.
fn faults(errors: &[&RecordedResult], calls: usize) -> Vec<FaultRule> {
    let mut codes: Vec<(String, usize, &Value)> = Vec::new();
    for call in errors {
        let code = code(&call.result);
        match codes.iter_mut().find(|(known, ..)| *known == code) {
            Some((_, count, last)) => (*count, *last) = (*count + 1, &call.result),
            None => codes.push((code, 1, &call.result)),
        }
    }
    let share = |count: usize| f64::from(u32::try_from(count * 1_000 / calls.max(1)).unwrap_or(1_000)) / 1_000.0;
    let fault =
        |(error, count, result)| FaultRule { rate: share(count), error, message: None, result: Some(escaped(result)) };
    codes.into_iter().map(fault).collect()
}

/// Code of an error: a text in the result that has the form of one, else `error`.
fn code(result: &Value) -> String {
    let error = result.get("error").unwrap_or(result);
    let words = [Some(error), error.get("code"), error.get("type"), result.get("code")];
    let is_code = |word: &&str| {
        (1..=60).contains(&word.len())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
    };
    words.into_iter().flatten().filter_map(Value::as_str).find(is_code).unwrap_or("error").to_owned()
}

/// Schema that all of these values fit.
fn schema(samples: &[Sample<'_>], depth: usize) -> Value {
    let kinds: BTreeSet<&str> = samples.iter().map(|sample| kind(sample.value)).collect();
    let mut kinds: Vec<&str> = kinds.into_iter().collect();
    if kinds.contains(&"number") {
        kinds.retain(|kind| *kind != "integer");
    }
    if depth > MAX_DEPTH || kinds.is_empty() {
        return json!({});
    }
    let mut schema = Map::new();
    schema.insert("type".to_owned(), if let [one] = kinds.as_slice() { json!(one) } else { json!(kinds) });
    if kinds.contains(&"object") {
        let fields = fields(samples);
        let required: Vec<&str> =
            fields.iter().filter(|(_, seen)| seen.len() == samples.len()).map(|(name, _)| *name).collect();
        let properties: Map<String, Value> =
            fields.iter().map(|(name, seen)| ((*name).to_owned(), self::schema(seen, depth + 1))).collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        schema.insert("properties".to_owned(), Value::Object(properties));
    }
    if kinds.contains(&"array") {
        let items: Vec<Sample<'_>> = samples
            .iter()
            .flat_map(|sample| sample.value.as_array().into_iter().flatten().map(|value| Sample { value, ..*sample }))
            .collect();
        if !items.is_empty() {
            schema.insert("items".to_owned(), self::schema(&items, depth + 1));
        }
    }
    Value::Object(schema)
}

/// Paths of arguments that are no mappings, as `.a.b`, of names that an expression can use.
fn paths(arguments: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![(String::new(), arguments)];
    while let Some((path, value)) = waiting.pop() {
        if found.len() >= MAX_PATHS || path.len() > 200 {
            break;
        }
        let Value::Object(entries) = value else {
            if !path.is_empty() {
                found.push(path);
            }
            continue;
        };
        // The last is taken first.
        for (name, value) in entries.iter().rev().filter(|(name, _)| is_name(name)) {
            waiting.push((format!("{path}.{name}"), value));
        }
    }
    found
}

/// True if an expression can use a name after a dot.
fn is_name(name: &str) -> bool {
    let words = [
        "in",
        "true",
        "false",
        "null",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !words.contains(&name)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
