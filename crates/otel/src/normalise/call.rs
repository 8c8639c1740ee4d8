//! Facts of a record: names, ids, usage; and its texts by its kind.

use serde_json::{Map, Value};
use umbra_domain::NanoUsd;

use super::{
    Source,
    texts::{self, PartsOf},
};
use crate::{
    attributes::{Attributes, count_of, parsed, text_of},
    dialect::{DIALECTS, FieldNames},
    record::{Record, RecordKind, TokenUsage},
};

/// Longest name or id that is kept, in bytes.
const NAME_BYTES: usize = 512;

/// Fills in a record.
pub(super) fn read(source: &Source<'_>, resource: &Attributes, record: &mut Record) {
    let names = &DIALECTS.names;
    let attributes = source.attributes;
    let metadata = Attributes(members(attributes.0.get("metadata")));
    record.agent = agent(source, &metadata, record.kind);
    let conversation = [attributes, &metadata, resource].into_iter().find_map(|known| conversation(names, known));
    record.conversation = conversation.map(bounded);
    match record.kind {
        RecordKind::Model => {
            read_counts(source, record);
            record.response_id = response_id(names, attributes).map(bounded);
            texts::of_model(source, record);
        }
        RecordKind::Tool => texts::of_tool(source, record),
        RecordKind::Agent => {
            // Repeats the calls below it, which count if there are any.
            read_counts(source, record);
            texts::of_agent(source, record);
        }
        RecordKind::Prompt => PartsOf(record).prompt(texts::read_prompt(attributes).as_deref()),
        RecordKind::Wrapper | RecordKind::Other => {}
    }
}

fn read_counts(source: &Source<'_>, record: &mut Record) {
    let names = &DIALECTS.names;
    let attributes = source.attributes;
    record.model =
        attributes.text(&names.response_model).or_else(|| attributes.text(&names.request_model)).map(bounded);
    let by_choice = || source.events.iter().find_map(|event| event.attributes.first(&names.finish));
    record.stop_reason = attributes.first(&names.finish).or_else(by_choice).and_then(stop_reason).map(bounded);
    record.usage = usage(names, attributes);
    record.cost = attributes.first(&names.cost).and_then(cost);
}

fn bounded(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(NAME_BYTES));
    name
}

/// Returns the members of a value that is an object, or a text of one.
fn members(value: Option<&Value>) -> Map<String, Value> {
    match value.cloned().map(parsed) {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// Returns the name of the agent: by attribute; for the work of an agent also by the name of its span.
fn agent(source: &Source<'_>, metadata: &Attributes, kind: RecordKind) -> Option<String> {
    let names = &DIALECTS.names;
    let wanted = if kind == RecordKind::Agent { &names.agent_of_agent } else { &names.agent };
    let name = source.attributes.text(wanted).or_else(|| metadata.text(wanted));
    name.or_else(|| agent_by_span(source).filter(|_| kind == RecordKind::Agent)).map(bounded)
}

fn agent_by_span(source: &Source<'_>) -> Option<String> {
    // `ai.generateText` and `claude_code.interaction` name what is done.
    let attributes = &source.attributes.0;
    if ["ai.operationId", "span.type"].iter().any(|attribute| attributes.contains_key(*attribute)) {
        return None;
    }
    let name = source.name.trim();
    let name = ["invoke_agent ", "invoke_workflow ", "agent "]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .or_else(|| [".agent", ".run", ".arun"].iter().find_map(|ending| name.strip_suffix(ending)))
        .unwrap_or(name);
    let is_operation = attributes.get("gen_ai.operation.name").and_then(Value::as_str) == Some(name)
        || ["agent run", "agent_run", "invocation"].contains(&name);
    (!name.is_empty() && !is_operation).then(|| name.to_owned())
}

fn conversation(names: &FieldNames, attributes: &Attributes) -> Option<String> {
    let by_ending = || {
        attributes.0.iter().find_map(|(key, value)| {
            let last = key.rsplit('.').next().unwrap_or_default();
            let plain: String = last.chars().filter(char::is_ascii_alphanumeric).collect();
            let is_conversation = names.conversation_endings.contains(&plain.to_ascii_lowercase())
                && !names.no_conversation.contains(key);
            is_conversation.then(|| text_of(value))?
        })
    };
    let is_response = |id: &String| names.response_schemes.iter().any(|scheme| id.starts_with(scheme));
    let id = attributes.text(&names.conversation).filter(|id| !is_response(id));
    id.or_else(by_ending).filter(|id| !id.trim().is_empty())
}

/// Returns the members of the response as the provider sent it, and those that `LangChain` wraps around.
fn responses(attributes: &Attributes) -> Vec<Map<String, Value>> {
    let mut found = Vec::new();
    for value in attributes.filled(&DIALECTS.names.model_output) {
        let response = Value::Object(members(Some(value)));
        let places = ["", "/llm_output", "/generations/0/0/message/kwargs", "/response_metadata"];
        found.extend(places.iter().filter_map(|place| response.pointer(place)?.as_object().cloned()));
    }
    found
}

/// Returns the id of the response: an attribute, or a member of the response.
fn response_id(names: &FieldNames, attributes: &Attributes) -> Option<String> {
    let in_response = || {
        responses(attributes).iter().find_map(|response| {
            let is_response =
                ["object", "model", "model_name", "choices"].iter().any(|name| response.contains_key(*name));
            response.get("id").filter(|_| is_response)?.as_str().map(ToOwned::to_owned)
        })
    };
    attributes.text(&names.response_id).or_else(in_response).filter(|id| !id.is_empty())
}

fn stop_reason(value: &Value) -> Option<String> {
    match value {
        Value::Array(reasons) => reasons.first().and_then(text_of),
        Value::String(text) => match parsed(value.clone()) {
            Value::Array(reasons) => reasons.first().and_then(text_of),
            _ => Some(text.clone()),
        },
        _ => None,
    }
}

fn usage(names: &FieldNames, attributes: &Attributes) -> Option<TokenUsage> {
    let in_object = |attributes: &Attributes| {
        let counts = Attributes(members(attributes.first(&names.usage_object)));
        (counts.count(&names.usage_object_input), counts.count(&names.usage_object_output))
    };
    let uncached = || {
        let fresh = attributes.count(&names.uncached_input_tokens)?;
        let cached = names.cache_tokens.iter().filter_map(|name| attributes.0.get(name)).filter_map(count_of);
        Some(cached.fold(fresh, u64::saturating_add))
    };
    let told = in_object(attributes);
    let input = attributes.count(&names.input_tokens).or(told.0).or_else(uncached);
    let output = attributes.count(&names.output_tokens).or(told.1);
    let (input, output) = if input.is_none() && output.is_none() {
        let counts = responses(attributes).into_iter().map(|response| in_object(&Attributes(response)));
        counts.into_iter().find(|counts| *counts != (None, None)).unwrap_or_default()
    } else {
        (input, output)
    };
    (input.is_some() || output.is_some())
        .then(|| TokenUsage { input: input.unwrap_or_default(), output: output.unwrap_or_default() })
}

fn cost(value: &Value) -> Option<NanoUsd> {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    let in_object = || number(Attributes(members(Some(value))).first(&DIALECTS.names.cost_object)?);
    NanoUsd::from_usd(number(value).or_else(in_object)?)
}
