//! Results of tools in the form of the protocol: results of stubs and refusals, and values read from servers' results.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Map, Value, json};

use super::call_guard::CallRuling;
use umbra_boundary::{decide::Decision, stub::Stub};
use umbra_domain::json::encoded_len;

/// Key in `_meta` of a result that no tool gave.
const SHADOW: &str = "dev.umbra/shadow";
/// Key in `_meta` of the decision.
const DECISION: &str = "dev.umbra/decision";

/// Returns a result with `isError` that says why the call failed. Models see such a result, but not an error of the
/// protocol.
pub(super) fn failure(words: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(words.into())])
}

/// Returns the result of a stub.
pub(super) fn stub(ruling: &CallRuling, Stub { contract, result, fault, .. }: &Stub) -> CallToolResult {
    let mut stub = CallToolResult::success(vec![ContentBlock::text(text_of(result))]);
    let is_error = fault.is_some() || sole_text(result, &["error"]).is_some();
    stub.is_error = Some(is_error);
    // Before 2026-07-28 it was an object or absent.
    if result.is_object() && !is_error {
        stub.structured_content = Some(result.clone());
    }
    mark(&mut stub, SHADOW, json!({"decision_id": ruling.decision_id, "contract": contract}));
    stub
}

/// Returns the result of a call that does not run, with a remedy.
pub(super) fn refusal(ruling: &CallRuling) -> CallToolResult {
    let reason = ruling.reason.as_deref().unwrap_or("policy");
    let detail = ruling.detail.as_deref().unwrap_or("no reason was given");
    let words = if ruling.decision == Decision::Ask {
        let whom = ruling.approval.as_ref().map_or_else(String::new, |id| format!(" (POST /v1/approvals/{id})"));
        format!(
            "Not executed yet: a person must approve this call{whom}, then repeat it with the same arguments. {reason}: {detail}"
        )
    } else {
        format!("Not executed: {reason}: {detail}")
    };
    let mut refusal = failure(words);
    let said = json!({
        "decision_id": ruling.decision_id,
        "decision": ruling.decision.as_str(),
        "reason": reason,
        "approval": ruling.approval,
    });
    mark(&mut refusal, DECISION, said);
    refusal
}

/// Adds a warning to the result of a call that ran.
pub(super) fn warn(result: &mut CallToolResult, ruling: &CallRuling) {
    if let Some(warning) = &ruling.detail {
        mark(result, DECISION, json!({"decision_id": ruling.decision_id, "decision": "execute", "warning": warning}));
    }
}

fn mark(result: &mut CallToolResult, key: &str, value: Value) {
    result.meta.get_or_insert_with(MetaObject::default).0.insert(key.to_owned(), value);
}

/// Returns the value of a result, as contracts know it: its structured content, else its text, read as JSON if it is an
/// object or array.
pub(super) fn value(result: &CallToolResult) -> Value {
    if let Some(structured) = &result.structured_content {
        return structured.clone();
    }
    let text = text(result);
    match serde_json::from_str(&text) {
        Ok(value @ (Value::Object(_) | Value::Array(_))) => value,
        _ => Value::String(text),
    }
}

/// Names of a member that wraps a text for structured content, or an error.
const WRAPPERS: [&str; 4] = ["content", "result", "text", "error"];

/// Returns the text of a value: a text, or a wrapped text, as it is; other values as JSON.
fn text_of(value: &Value) -> String {
    value.as_str().or_else(|| sole_text(value, &WRAPPERS)).map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// Returns the text that is the only member of an object, under one of these names.
fn sole_text<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    names.iter().find_map(|name| members.get(*name)?.as_str())
}

/// Returns the same result with another value.
pub(super) fn with_value(mut result: CallToolResult, value: Value) -> CallToolResult {
    result.content.retain(|block| block.as_text().is_none());
    result.content.insert(0, ContentBlock::text(text_of(&value)));
    if result.structured_content.is_some() {
        result.structured_content = Some(value);
    }
    result
}

/// Returns all text of a result.
pub(super) fn text(result: &CallToolResult) -> String {
    let texts: Vec<&str> =
        result.content.iter().filter_map(|block| block.as_text().map(|text| text.text.as_str())).collect();
    texts.join("\n")
}

/// Cuts a text to at most so many bytes, at a character's end.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(most)])
}

/// Returns JSON arguments within a bound; larger ones are replaced by a note for the shadows.
pub(super) fn bounded(arguments: &Map<String, Value>, most: usize) -> Value {
    let whole = Value::Object(arguments.clone());
    let bytes = encoded_len(&whole);
    if bytes <= most {
        whole
    } else {
        json!({"umbra": format!("the arguments have {bytes} bytes, too many to be shown")})
    }
}
