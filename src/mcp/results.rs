//! Results of tools as the protocol has them: of stubs, of refusals, and what we read out of those of servers.

use rmcp::model::{CallToolResult, ContentBlock, MetaObject};
use serde_json::{Map, Value, json};

use super::guard::{Course, Ruling};
use umbra_domain::json::encoded_len;

/// Marks a result that no tool gave.
const SHADOW: &str = "dev.umbra/shadow";
/// Says what was decided.
const DECISION: &str = "dev.umbra/decision";

/// A result that says in words why there is none. It is a result and no error of the protocol: only so is the model told.
pub(super) fn failure(words: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(words.into())])
}

/// What is answered in the tool's place.
pub(super) fn stub(ruling: &Ruling, contract: Option<&str>, result: &Value, fault: Option<&str>) -> CallToolResult {
    let mut stub = CallToolResult::success(vec![ContentBlock::text(text_of(result))]);
    let is_error = fault.is_some() || sole_text(result, &["error"]).is_some();
    stub.is_error = Some(is_error);
    // Before 2026-07-28 it was an object or nothing.
    if result.is_object() && !is_error {
        stub.structured_content = Some(result.clone());
    }
    mark(&mut stub, SHADOW, json!({"decision_id": ruling.decision_id, "contract": contract}));
    stub
}

/// What is answered where a call does not run, with what to do.
pub(super) fn refusal(ruling: &Ruling) -> CallToolResult {
    let reason = ruling.reason.as_deref().unwrap_or("policy");
    let detail = ruling.detail.as_deref().unwrap_or("no reason was given");
    let words = match &ruling.course {
        Course::Ask { approval } => {
            let whom = approval.as_ref().map_or_else(String::new, |id| format!(" (POST /v1/approvals/{id})"));
            format!(
                "Not executed yet: a person must approve this call{whom}, then repeat it with the same arguments. {reason}: {detail}"
            )
        }
        _ => format!("Not executed: {reason}: {detail}"),
    };
    let mut refusal = failure(words);
    let approval = if let Course::Ask { approval } = &ruling.course { approval.clone() } else { None };
    let said = json!({
        "decision_id": ruling.decision_id,
        "decision": ruling.course.as_str(),
        "reason": reason,
        "approval": approval,
    });
    mark(&mut refusal, DECISION, said);
    refusal
}

/// Adds what the caller should know although the call ran.
pub(super) fn warn(result: &mut CallToolResult, ruling: &Ruling) {
    if let Some(warning) = &ruling.detail {
        mark(result, DECISION, json!({"decision_id": ruling.decision_id, "decision": "execute", "warning": warning}));
    }
}

fn mark(result: &mut CallToolResult, key: &str, value: Value) {
    result.meta.get_or_insert_with(MetaObject::default).0.insert(key.to_owned(), value);
}

/// What a result says, as contracts know it: its structured content, else its text, read as JSON where it is some.
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

/// Members that hold all of a result that is text, as servers wrap it for structured content, and of an error.
const WRAPPERS: [&str; 4] = ["content", "result", "text", "error"];

/// The text of a value: of a text that is wrapped, the text itself, else JSON.
fn text_of(value: &Value) -> String {
    value.as_str().or_else(|| sole_text(value, &WRAPPERS)).map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// The text that is the only member of an object, under one of these names.
fn sole_text<'a>(value: &'a Value, names: &[&str]) -> Option<&'a str> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    names.iter().find_map(|name| members.get(*name)?.as_str())
}

/// The same result with another value.
pub(super) fn with_value(mut result: CallToolResult, value: Value) -> CallToolResult {
    result.content.retain(|block| block.as_text().is_none());
    result.content.insert(0, ContentBlock::text(text_of(&value)));
    if result.structured_content.is_some() {
        result.structured_content = Some(value);
    }
    result
}

/// All text of a result.
pub(super) fn text(result: &CallToolResult) -> String {
    let texts: Vec<&str> =
        result.content.iter().filter_map(|block| block.as_text().map(|text| text.text.as_str())).collect();
    texts.join("\n")
}

/// At most so many bytes of a text, whole characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// JSON arguments within a bound; larger ones are left out of what shadows see.
pub(super) fn bounded(arguments: &Map<String, Value>, most: usize) -> Value {
    let whole = Value::Object(arguments.clone());
    let bytes = encoded_len(&whole);
    if bytes <= most { whole } else { json!({"umbra": format!("{bytes} bytes of arguments, too large to be shown")}) }
}
