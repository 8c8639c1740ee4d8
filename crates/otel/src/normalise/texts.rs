//! Texts of a record: prompt, output, calls of tools and their results.

use serde_json::{Map, Value, json};
use umbra_domain::{Event, StoredEvent, ToolCall};

use super::Source;
use crate::{
    attributes::{Attributes, parsed, text_of},
    dialect::DIALECTS,
    message::{Message, Role, ToolReturn, ToolUse, is_request, is_wrapper, messages, plain, read_result, use_of},
    record::{Part, PartRole, Record},
};

/// Events that hold one message each, and the speaker in it.
const MESSAGE_EVENTS: [(&str, Role); 5] = [
    ("gen_ai.system.message", Role::System),
    ("gen_ai.user.message", Role::User),
    ("gen_ai.assistant.message", Role::Assistant),
    ("gen_ai.tool.message", Role::Tool),
    ("gen_ai.choice", Role::Assistant),
];

/// True for the name of an event that holds one message.
pub(super) fn is_message(name: &str) -> bool {
    MESSAGE_EVENTS.iter().any(|(event, _)| *event == name)
}

/// Adds parts to a record.
pub(super) struct PartsOf<'a>(pub &'a mut Record);

impl PartsOf<'_> {
    fn push(&mut self, role: PartRole, id: Option<String>, event: Event) {
        let stored = StoredEvent { event, triggers: Vec::new(), marks: Vec::new() };
        self.0.parts.push(Part { role, id, stored });
    }

    pub fn prompt(&mut self, text: Option<&str>) {
        if let Some(text) = text.and_then(content_of) {
            self.push(PartRole::Prompt, None, Event { task: Some(text.to_owned()), ..Event::default() });
        }
    }

    fn output(&mut self, text: &str) {
        if let Some(text) = content_of(text) {
            self.push(PartRole::Output, None, Event { output: Some(text.to_owned()), ..Event::default() });
        }
    }

    fn call(&mut self, call: ToolUse) {
        let args = match call.arguments {
            Value::String(text) if content_of(&text).is_none() => Value::Null,
            arguments => arguments,
        };
        let tool = ToolCall { name: call.name, args, ..ToolCall::default() };
        self.push(PartRole::Call, call.id, Event { tool: Some(tool), ..Event::default() });
    }

    fn result(&mut self, returned: ToolReturn, error: Option<String>, exit_code: Option<i64>) {
        let ToolReturn { id, name, text, is_error } = returned;
        let text = content_of(&text).map(ToOwned::to_owned);
        let error = error.filter(|text| content_of(text).is_some());
        let (result, error) = if is_error { (None, text.or(error)) } else { (text, error) };
        if result.is_some() || error.is_some() || exit_code.is_some() {
            // The name stands for the id that some providers do not give.
            let name = name.filter(|_| id.is_none()).unwrap_or_default();
            let tool = ToolCall { name, result, error, exit_code, ..ToolCall::default() };
            self.push(PartRole::Result, id, Event { tool: Some(tool), ..Event::default() });
        }
    }

    /// Adds the input of a model: the last prompt, and results of tools that the model had not seen before.
    fn add_input(&mut self, input: Vec<Message>) {
        let history = input.iter().flat_map(|message| {
            message.uses.iter().map(|call| &call.id).chain(message.returns.iter().map(|result| &result.id))
        });
        self.0.history.extend(history.flatten().cloned());
        self.prompt(last_prompt(&input));
        let last = input.iter().rposition(|message| message.role == Role::Assistant).unwrap_or(0);
        let returns = input.into_iter().skip(last).flat_map(|message| message.returns);
        returns.for_each(|returned| self.result(returned, None, None));
    }

    /// Adds the output of a model, with results of tools that its provider ran.
    fn add_output(&mut self, output: Vec<Message>) {
        self.output(&joined(&output));
        for message in output {
            message.uses.into_iter().for_each(|call| self.call(call));
            message.returns.into_iter().for_each(|returned| self.result(returned, None, None));
        }
    }
}

/// Returns a text that says something: not empty, and no sign of withheld content.
fn content_of(text: &str) -> Option<&str> {
    let is_withheld = DIALECTS.names.withheld.iter().any(|sign| sign == text.trim());
    (!text.trim().is_empty() && !is_withheld).then_some(text)
}

fn joined(messages: &[Message]) -> String {
    let texts = messages.iter().map(|message| message.text.as_str()).filter(|text| !text.is_empty());
    texts.collect::<Vec<_>>().join("\n")
}

fn last_prompt(input: &[Message]) -> Option<&str> {
    let by_user = || input.iter().rev().filter(|message| message.role == Role::User && !message.text.is_empty());
    // Text beside results of tools is a note, not a prompt.
    let prompt = by_user().find(|message| message.returns.is_empty()).or_else(|| by_user().next());
    prompt.map(|message| message.text.as_str())
}

/// Drops the history before an output: a list that holds the whole chat ends with the output.
fn without_history(mut messages: Vec<Message>) -> Vec<Message> {
    let is_given =
        |message: &Message| message.role == Role::User || message.role == Role::Tool && message.uses.is_empty();
    match messages.iter().rposition(is_given) {
        Some(last) if last + 1 < messages.len() => messages.split_off(last + 1),
        _ => messages,
    }
}

/// Returns the messages in the first of these attributes that has any.
fn first_messages(attributes: &Attributes, names: &[String], role: Role) -> Vec<Message> {
    let values = attributes.structured(names).map(parsed).filter(|value| role == Role::User || !is_request(value));
    let found = values.map(|value| messages(&value, role));
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// Reads an output from attributes: messages, parts beside each other, else an object as JSON.
fn output_of(attributes: &Attributes) -> Vec<Message> {
    let names = &DIALECTS.names;
    let mut output = without_history(first_messages(attributes, &names.model_output, Role::Assistant));
    if output.is_empty() {
        let parts = names.output_text.iter().chain(&names.output_calls).filter_map(|name| attributes.0.get(name));
        output.extend(parts.flat_map(|part| messages(part, Role::Assistant)));
    }
    if output.is_empty() {
        // `{"answer": ...}`; a response without content is none.
        let is_object = |value: &Value| match parsed(value.clone()) {
            Value::Object(members) => !members.is_empty() && !is_wrapper(&members),
            _ => false,
        };
        let values = || attributes.filled(&names.output_object).chain(attributes.filled(&names.model_output));
        let text = values().find(|value| is_object(value)).map(plain).unwrap_or_default();
        output = messages(&json!({"role": "assistant", "content": text}), Role::Assistant);
    }
    output
}

/// Reads the texts of a model's call: from events of one message each, else from attributes.
pub(super) fn of_model(source: &Source<'_>, record: &mut Record) {
    let names = &DIALECTS.names;
    let (mut input, mut output) = (Vec::new(), Vec::new());
    for event in source.events {
        let attributes = &event.attributes;
        if let Some((name, role)) = MESSAGE_EVENTS.iter().find(|(name, _)| *name == event.name) {
            let found = event_messages(attributes, *role);
            if *name == "gen_ai.choice" { output.extend(found) } else { input.extend(found) }
        } else {
            input.extend(first_messages(attributes, &names.model_input, Role::User));
            output.extend(first_messages(attributes, &names.model_output, Role::Assistant));
        }
    }
    if !is_message(source.name) {
        if input.is_empty() {
            input = first_messages(source.attributes, &names.model_input, Role::User);
        }
        if output.is_empty() {
            output = output_of(source.attributes);
        }
    }
    let asks = output.iter().any(|message| !message.uses.is_empty());
    let mut parts = PartsOf(record);
    parts.add_input(input);
    parts.add_output(output);
    // Some senders tell of the tool call beside the output.
    let beside = source.attributes.text(&DIALECTS.sure_tool_name).filter(|_| !asks && !is_message(source.name));
    if let Some(name) = beside {
        let id = tool_id(source.attributes);
        let arguments = source.attributes.first(&names.tool_arguments_beside).cloned().map(parsed);
        if id.is_some() || arguments.is_some() {
            parts.call(ToolUse { id, name, arguments: arguments.unwrap_or_default() });
        }
    }
}

/// Reads the texts of an agent's work: its prompt, and its output without the steps to it.
pub(super) fn of_agent(source: &Source<'_>, record: &mut Record) {
    let by_event = |wanted: &str| {
        let events = source.events.iter().filter(|event| event.name == wanted);
        let role = if wanted == "gen_ai.choice" { Role::Assistant } else { Role::User };
        events.flat_map(|event| event_messages(&event.attributes, role)).last().map(|message| message.text)
    };
    let prompt = read_prompt(source.attributes).or_else(|| by_event("gen_ai.user.message"));
    let output = output_of(source.attributes).pop().map(|message| message.text);
    let output = output.or_else(|| by_event("gen_ai.choice"));
    let mut parts = PartsOf(record);
    parts.prompt(prompt.as_deref());
    parts.output(&output.unwrap_or_default());
}

/// Reads the message of an event: its attributes are the message, or hold it as a member.
fn event_messages(attributes: &Attributes, role: Role) -> Vec<Message> {
    let members = &attributes.0;
    let inner = ["message", "gen_ai.event.content"].iter().find_map(|name| members.get(*name));
    if let Some(message) = inner {
        return messages(message, role);
    }
    let word = match role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut message = members.clone();
    message.entry("role").or_insert_with(|| json!(word));
    messages(&Value::Object(message), role)
}

/// Reads the texts of a tool's call.
pub(super) fn of_tool(source: &Source<'_>, record: &mut Record) {
    let names = &DIALECTS.names;
    let attributes = source.attributes;
    let event = |name: &str, member: &str| {
        let found = source.events.iter().find(|event| event.name == name);
        found.and_then(|event| event.attributes.0.get(member).cloned())
    };
    let is_empty = |value: &&Value| value.as_str().is_some_and(|text| matches!(text.trim(), "{}" | "null"));
    let result = attributes.filled(&names.tool_result).find(|value| !is_empty(value)).cloned();
    let result = result.or_else(|| event("gen_ai.choice", "message")).or_else(|| event("tool.output", "output"));
    let mut returned = result.as_ref().map(read_result);
    record.tool_name = tool_name(source);
    let given = attributes.filled(&names.tool_arguments).cloned().map(parsed).find(|given| !is_schema(given));
    let given = given.or_else(|| event("gen_ai.tool.message", "content").map(parsed));
    let id = tool_id(attributes).or_else(|| returned.as_ref()?.id.clone());
    record.tool_id.clone_from(&id);
    let arguments = given.map(|given| arguments(given, record.tool_name.as_deref()));
    let arguments = arguments.filter(|value| !value.is_null()).or_else(|| part_arguments(attributes));
    let exit_code = attributes.first(&names.tool_exit).and_then(Value::as_i64);
    let error = failure(source, returned.as_ref());
    let mut parts = PartsOf(record);
    if parts.0.tool_name.is_some() || arguments.is_some() {
        let name = parts.0.tool_name.clone().unwrap_or_default();
        parts.call(ToolUse { id: id.clone(), name, arguments: arguments.unwrap_or_default() });
    }
    // The result of a failed call often is its error.
    if let Some(returned) = returned.as_mut().filter(|returned| Some(&returned.text) == error.as_ref()) {
        returned.is_error = true;
    }
    let nothing = ToolReturn { id: None, name: None, text: String::new(), is_error: false };
    parts.result(ToolReturn { id, name: None, ..returned.unwrap_or(nothing) }, error, exit_code);
}

/// Returns the id of a tool call, which is one word: `<not specified>` is none.
fn tool_id(attributes: &Attributes) -> Option<String> {
    let ids = attributes.filled(&DIALECTS.names.tool_id).filter_map(text_of);
    ids.into_iter().find(|id| !id.is_empty() && !id.contains(char::is_whitespace))
}

/// True for a description of arguments in the place of arguments.
fn is_schema(value: &Value) -> bool {
    value.get("properties").is_some_and(Value::is_object) && value.get("type").is_some_and(Value::is_string)
}

/// Returns the name of a tool, by attribute or by its span.
fn tool_name(source: &Source<'_>) -> Option<String> {
    let given = source.attributes.text(&DIALECTS.names.tool_name);
    let by_span = || {
        // These name what is done, not with what.
        let is_word = source.name.contains("ai.toolCall") || source.attributes.0.contains_key("span.type");
        let name = [".tool", ".run"].iter().find_map(|ending| source.name.strip_suffix(ending)).unwrap_or(source.name);
        let name = ["execute_tool ", "tools/call ", "tool "]
            .iter()
            .find_map(|prefix| name.strip_prefix(prefix))
            .unwrap_or(name);
        let is_event = source.attributes.0.get("event.name").and_then(Value::as_str) == Some(source.name);
        (!is_word && !is_event && !name.is_empty() && name != "execute_tool").then(|| name.to_owned())
    };
    let mut name = given.or_else(by_span)?;
    name.truncate(name.floor_char_boundary(256));
    // A handoff to another agent is a tool to the model.
    Some(match name.strip_prefix("handoff to ") {
        Some(agent) => {
            let plain: String =
                agent.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' }).collect();
            format!("transfer_to_{plain}")
        }
        None => name,
    })
}

/// Reads arguments: JSON, the call of a tool that holds them, or what a callback is given beside them.
fn arguments(value: Value, tool: Option<&str>) -> Value {
    let Value::Object(mut members) = value else { return value };
    let is_call = |call: &ToolUse| tool == Some(&call.name) && (members.len() > 2 || call.id.is_some());
    if let Some(call) = use_of(&members).filter(is_call) {
        return call.arguments;
    }
    // LangChain's callbacks: the text of the arguments, and often the arguments themselves.
    if let Some(text) = members.get("input_str") {
        let inputs = members.get("inputs").filter(|inputs| inputs.is_object()).cloned();
        return inputs.unwrap_or_else(|| parsed(text.clone()));
    }
    if let Some(inner) = members.get("input").filter(|_| members.len() == 1).cloned() {
        return parsed(inner);
    }
    // Python's way to give arguments to a function.
    let is_function =
        members.contains_key("kwargs") && (members.len() <= 2 || members.get("args").is_some_and(Value::is_array));
    if !is_function {
        return Value::Object(members);
    }
    let args = members.remove("args").filter(|args| args.as_array().is_some_and(|args| !args.is_empty()));
    match (members.remove("kwargs"), args) {
        (Some(Value::Object(mut named)), Some(args)) => {
            named.insert("args".to_owned(), args);
            Value::Object(named)
        }
        (Some(named), None) => named,
        (_, args) => args.unwrap_or_default(),
    }
}

fn part_arguments(attributes: &Attributes) -> Option<Value> {
    let names = &DIALECTS.names;
    let command = attributes.text(&names.tool_command).map(|command| json!({"command": command}));
    command.or_else(|| attributes.text(&names.tool_path).map(|path| json!({"file_path": path})))
}

/// Returns the error of a failed call: what was thrown, else what the status or an attribute says, else the result.
fn failure(source: &Source<'_>, returned: Option<&ToolReturn>) -> Option<String> {
    let names = &DIALECTS.names;
    let attributes = source.attributes;
    let has = |names: &[String], words: &[&str]| {
        let signs = names.iter().filter_map(|name| attributes.0.get(name)).filter_map(text_of);
        signs.into_iter().any(|sign| words.contains(&&*sign.to_ascii_lowercase()))
    };
    let failed = source.failure.is_some()
        || has(&names.failed, &["true", "error", "failed", "failure"])
        || has(&names.succeeded, &["false"])
        || attributes.0.contains_key("error.type");
    if !failed {
        return None;
    }
    let thrown = source.events.iter().rev().find(|event| event.name == "exception");
    let thrown = thrown.and_then(|thrown| thrown.attributes.0.get("exception.message")).and_then(text_of);
    let kind = || ["error.type", "error_type"].iter().find_map(|name| attributes.0.get(*name)).and_then(text_of);
    let status = || source.failure.map(ToOwned::to_owned).filter(|message| !message.is_empty());
    let said = || attributes.text(&names.error);
    let result = || returned.map(|returned| returned.text.clone()).filter(|text| content_of(text).is_some());
    let error = thrown.filter(|text| !text.is_empty()).or_else(status).or_else(said).or_else(result).or_else(kind);
    Some(error.unwrap_or_else(|| "the tool failed".to_owned()))
}

/// Returns the prompt in the input of an agent, or of a log of a prompt.
pub(super) fn read_prompt(attributes: &Attributes) -> Option<String> {
    let given = attributes.structured(&DIALECTS.names.model_input).map(parsed);
    given.into_iter().find_map(|given| {
        if let Value::Object(members) = &given {
            let of_function = [members.get("args"), members.get("kwargs")].into_iter().flatten().find_map(first_text);
            if of_function.is_some() && members.len() <= 2 {
                return of_function;
            }
        }
        let found = messages(&given, Role::User);
        let other = || given.as_object().filter(|members| !is_wrapper(members)).and_then(first_text_of);
        last_prompt(&found).map(ToOwned::to_owned).or_else(other)
    })
}

/// Returns the first text in the arguments of a function.
fn first_text(value: &Value) -> Option<String> {
    match value {
        Value::Array(items) => items.iter().find_map(Value::as_str).map(ToOwned::to_owned),
        Value::Object(members) => first_text_of(members),
        _ => None,
    }
}

fn first_text_of(members: &Map<String, Value>) -> Option<String> {
    members.values().find_map(Value::as_str).map(ToOwned::to_owned)
}
