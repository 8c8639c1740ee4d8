//! Chat messages of any shape: of OpenAI, Anthropic, Gemini, Bedrock, the conventions for generative AI,
//! `OpenInference`, Vercel AI, `LangChain`. Members are read by their names, so that a new mixture is read as well.

use serde_json::{Map, Value};

use crate::{attributes::parsed, dialect::DIALECTS};

/// Deepest nesting of messages within messages.
const DEPTH: usize = 12;

/// Speaker of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    System,
    User,
    Assistant,
    Tool,
}

/// Tool call that a model asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolUse {
    pub id: Option<String>,
    pub name: String,
    pub arguments: Value,
}

/// Result of a tool call, as the model is given it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolReturn {
    pub id: Option<String>,
    pub name: Option<String>,
    pub text: String,
    pub is_error: bool,
}

/// Message of a chat.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Message {
    pub role: Role,
    pub text: String,
    pub uses: Vec<ToolUse>,
    pub returns: Vec<ToolReturn>,
}

impl Message {
    fn new(role: Role) -> Self {
        Self { role, text: String::new(), uses: Vec::new(), returns: Vec::new() }
    }

    fn is_empty(&self) -> bool {
        self.text.is_empty() && self.uses.is_empty() && self.returns.is_empty()
    }

    fn add_text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(text);
    }
}

/// Reads messages from JSON, or from a text that may be JSON. A message without a role has this one.
pub(crate) fn messages(value: &Value, role: Role) -> Vec<Message> {
    let mut found = Vec::new();
    read(&decoded(value), role, DEPTH, &mut found);
    found.retain(|message| !message.is_empty());
    for message in &mut found {
        // Only a model asks for tools, whatever its role is called.
        if !message.uses.is_empty() {
            message.role = Role::Assistant;
        }
    }
    found
}

/// Reads a text as JSON if it is some; some dialects encode it once more.
fn decoded(value: &Value) -> Value {
    let text = value.as_str().filter(|text| text.starts_with('"'));
    parsed(text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(|| value.clone()))
}

/// True for the request of a model's call, which some helpers return: messages beside tools or settings.
pub(crate) fn is_request(value: &Value) -> bool {
    let has = |name: &str| value.get(name).is_some();
    has("messages") && ["tools", "tool_choice", "model", "stream"].into_iter().any(has)
}

/// True for an object with a member that holds messages, by its name.
pub(crate) fn is_wrapper(members: &Map<String, Value>) -> bool {
    has_content(members) || DIALECTS.names.message_wrappers.iter().any(|name| members.contains_key(name))
}

fn read(value: &Value, role: Role, depth: usize, found: &mut Vec<Message>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    match value {
        Value::String(text) => transcript(text, role, depth, found),
        Value::Array(items) => match items.as_slice() {
            // `["user", "text"]`
            [Value::String(word), content @ Value::String(_)] if role_by_word(word).is_some() => {
                read(content, role_by_word(word).unwrap_or(role), depth, found);
            }
            items if items.iter().any(is_message) => items.iter().for_each(|item| read(item, role, depth, found)),
            items => {
                // Blocks of one message.
                let mut message = Message::new(role);
                for item in items {
                    block(item, &mut message, depth);
                }
                found.push(message);
            }
        },
        Value::Object(members) => {
            let own = role_of(members).unwrap_or(role);
            match inner_messages(members) {
                Some(text @ Value::String(_)) => read(&parsed(text.clone()), own, depth, found),
                Some(inner) => read(inner, own, depth, found),
                None => found.push(message_of(members, own, depth)),
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Reads a text, or a chat as text: lines that begin with the speaker and a colon.
fn transcript(text: &str, role: Role, depth: usize, found: &mut Vec<Message>) {
    let speaker = |line: &str| role_by_word(line.split_once(':')?.0);
    let mut said: Vec<(Role, String)> = Vec::new();
    for line in text.lines() {
        match (speaker(line), said.last_mut()) {
            (Some(role), _) => said.push((role, line.split_once(':').map_or(line, |(_, rest)| rest).trim().to_owned())),
            (None, Some((_, text))) => text.extend(["\n", line]),
            // Begins with no speaker.
            (None, None) => break,
        }
    }
    if said.is_empty() {
        return found.push(Message { text: text.to_owned(), ..Message::new(role) });
    }
    for (role, text) in said {
        match parsed(Value::String(text)) {
            list @ Value::Array(_) if is_message(&list) => read(&list, role, depth, found),
            other => {
                let members = Map::from_iter([("content".to_owned(), other)]);
                found.push(message_of(&members, role, depth));
            }
        }
    }
}

/// Returns the member of a wrapper that holds messages: a list, an object, or the text of a prompt.
fn inner_messages(members: &Map<String, Value>) -> Option<&Value> {
    let (has_content, is_tool) = (has_content(members), is_item(members) || name_of(members).is_some());
    let named = DIALECTS.names.message_wrappers.iter().filter_map(|name| Some((&**name, members.get(name)?)));
    let mut inner = named.filter(|(name, value)| match value {
        // A generation of LangChain has a text and a message, which says more.
        Value::Object(_) if *name == "message" => true,
        Value::Array(_) | Value::Object(_) => !(has_content || is_tool && matches!(*name, "input" | "output")),
        Value::String(text) => !has_content && !is_tool && !text.is_empty(),
        _ => false,
    });
    inner.next().map(|(_, inner)| inner)
}

/// True for an object that is a message, not a wrapper of some.
fn has_content(members: &Map<String, Value>) -> bool {
    let has = |name: &str| members.get(name).is_some_and(|own| !own.is_null() && own.as_str() != Some(""));
    ["content", "parts", "blocks", "tool_calls", "toolCalls", "text"].into_iter().any(has)
        || members.contains_key("role") && members.contains_key("contents")
}

/// True for an item of OpenAI's responses that stands beside messages: a tool call, its output, reasoning.
fn is_item(members: &Map<String, Value>) -> bool {
    let kind = kind_of(members);
    kind.ends_with("_call") || kind.ends_with("_call_output") || kind == "reasoning"
}

fn kind_of(members: &Map<String, Value>) -> &str {
    members.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn is_message(value: &Value) -> bool {
    match value {
        Value::Object(members) => {
            role_of(members).is_some()
                || is_item(members)
                || members.contains_key("kwargs")
                || members.get("message").is_some_and(Value::is_object)
                || kind_of(members) == "message"
        }
        Value::Array(items) => match items.as_slice() {
            [Value::String(word), Value::String(_)] => role_by_word(word).is_some(),
            items => items.iter().any(is_message),
        },
        _ => false,
    }
}

fn role_of(members: &Map<String, Value>) -> Option<Role> {
    let by_name = |name: &str| role_by_word(members.get(name)?.as_str()?);
    // LangChain names the class of a message last.
    let by_class = || role_by_word(members.get("id")?.as_array()?.last()?.as_str()?);
    if members.contains_key("function") && !members.contains_key("role") {
        return None;
    }
    by_name("role").or_else(|| by_name("type")).or_else(by_class)
}

fn role_by_word(word: &str) -> Option<Role> {
    let word = word.to_ascii_lowercase();
    let word = word.strip_suffix("chunk").unwrap_or(&word);
    Some(match word.strip_suffix("message").unwrap_or(word) {
        "system" | "developer" => Role::System,
        "user" | "human" => Role::User,
        "assistant" | "ai" | "model" => Role::Assistant,
        "tool" | "function" => Role::Tool,
        _ => return None,
    })
}

fn message_of(members: &Map<String, Value>, role: Role, depth: usize) -> Message {
    let mut message = Message::new(role);
    let content = ["content", "parts", "contents", "blocks"]
        .iter()
        .find_map(|name| members.get(*name).filter(|value| !value.is_null() && value.as_str() != Some("")));
    if role == Role::Tool && !is_item(members) {
        let mut inner = Message::new(role);
        match content {
            Some(content) => blocks(content, &mut inner, depth),
            None => object_block(members, &mut inner, depth),
        }
        message.returns = inner.returns;
        if message.returns.is_empty() {
            let text = if inner.text.is_empty() { content.map(plain).unwrap_or_default() } else { inner.text };
            message.returns.push(ToolReturn {
                id: id_of(members),
                name: name_of(members),
                text,
                is_error: is_error(members),
            });
        }
        return message;
    }
    match content {
        Some(content) if !is_item(members) => blocks(content, &mut message, depth),
        // `{"text": ...}`, or a tool call that stands alone.
        _ => object_block(members, &mut message, depth),
    }
    let calls = |members: &Map<String, Value>| match members.get("tool_calls").or_else(|| members.get("toolCalls")) {
        Some(Value::Array(calls)) if !calls.is_empty() => Some(calls.clone()),
        Some(text @ Value::String(_)) => parsed(text.clone()).as_array().cloned(),
        _ => None,
    };
    let calls = calls(members).or_else(|| calls(members.get("additional_kwargs")?.as_object()?));
    let before = message.uses.len();
    for call in calls.unwrap_or_default() {
        let mut one = Message::new(role);
        block(&call, &mut one, depth);
        // Blocks of the content may name the same calls.
        let is_known = |call: &ToolUse| {
            let same = |known: &ToolUse| known.id == call.id && (call.id.is_some() || known == call);
            message.uses.iter().take(before).any(same)
        };
        one.uses.retain(|call| !is_known(call));
        message.uses.append(&mut one.uses);
    }
    if message.role == Role::User && message.text.is_empty() && !message.returns.is_empty() {
        message.role = Role::Tool;
    }
    message
}

fn blocks(content: &Value, message: &mut Message, depth: usize) {
    match content {
        // Blocks as a text of JSON.
        Value::String(text) if text.starts_with("[{") => match parsed(content.clone()) {
            list @ Value::Array(_) => block(&list, message, depth),
            _ => message.add_text(text),
        },
        other => block(other, message, depth),
    }
}

fn block(value: &Value, message: &mut Message, depth: usize) {
    match value {
        Value::String(text) => message.add_text(text),
        Value::Array(items) if depth > 0 => items.iter().for_each(|item| block(item, message, depth - 1)),
        Value::Object(members) => object_block(members, message, depth),
        _ => {}
    }
}

fn object_block(members: &Map<String, Value>, message: &mut Message, depth: usize) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let kind = kind_of(members);
    let is_thought = members.get("thought").and_then(Value::as_bool) == Some(true);
    if is_thought || !kind.ends_with("_call") && DIALECTS.names.silent_kinds.iter().any(|silent| kind.contains(silent))
    {
        return;
    }
    let mut wrappers = DIALECTS.names.block_wrappers.iter();
    let wrapped = wrappers.find_map(|name| Some((&**name, members.get(name)?.as_object()?)));
    match wrapped {
        Some((name, inner)) if is_return(name, inner) => message.returns.extend(return_of(inner)),
        Some(("message_content", inner)) => object_block(inner, message, depth),
        Some((_, inner)) => message.uses.extend(use_of(inner)),
        None if is_return(kind, members) => message.returns.extend(return_of(members)),
        None => {
            if let Some(call) = use_of(members).filter(|_| !kind.contains("text")) {
                // A tool that the provider ran.
                if members.get("output").is_some_and(|output| !output.is_null()) {
                    message.returns.extend(return_of(members));
                }
                message.uses.push(call);
            } else if let Some(inner) =
                ["text", "content", "parts", "refusal"].iter().find_map(|name| members.get(*name))
            {
                blocks(inner, message, depth);
            }
        }
    }
}

fn is_return(kind: &str, members: &Map<String, Value>) -> bool {
    let kind = kind.to_ascii_lowercase();
    kind.contains("result")
        || kind.contains("response")
        || kind.ends_with("_output")
        || members.contains_key("tool_use_id")
}

/// Reads a tool call from an object that names the tool and its arguments.
pub(crate) fn use_of(members: &Map<String, Value>) -> Option<ToolUse> {
    let function = members.get("function").and_then(Value::as_object).unwrap_or(members);
    let kind = kind_of(members);
    // `local_shell_call` has no name.
    let name = name_of(function).or_else(|| kind.strip_suffix("_call").map(ToOwned::to_owned))?;
    let arguments = DIALECTS.names.argument_members.iter().find_map(|key| function.get(key));
    let is_call =
        arguments.is_some() || members.contains_key("function") || kind.contains("call") || kind.ends_with("tool_use");
    is_call.then(|| ToolUse { id: id_of(members), name, arguments: parsed(arguments.cloned().unwrap_or_default()) })
}

fn return_of(members: &Map<String, Value>) -> Option<ToolReturn> {
    let given = ["response", "result", "output", "content", "text"].iter().find_map(|key| members.get(*key))?;
    let mut inner = Message::new(Role::Tool);
    let mut is_error = is_error(members);
    match given {
        // `{"type": "text", "value": ...}`
        Value::Object(value) if value.len() == 2 && value.contains_key("value") => {
            is_error |= kind_of(value).starts_with("error");
            inner.add_text(&value.get("value").map(plain).unwrap_or_default());
        }
        list @ Value::Array(_) => block(list, &mut inner, 4),
        _ => {}
    }
    let text = if inner.text.is_empty() { plain(given) } else { inner.text };
    Some(ToolReturn { id: id_of(members), name: name_of(members), text, is_error })
}

fn is_error(members: &Map<String, Value>) -> bool {
    let is_set = |name: &str| members.get(name).and_then(Value::as_bool) == Some(true);
    is_set("is_error") || is_set("isError") || members.get("status").and_then(Value::as_str) == Some("error")
}

fn name_of(members: &Map<String, Value>) -> Option<String> {
    let names = ["name", "toolName", "tool_name", "function_call_name"];
    let name = names.iter().find_map(|key| members.get(*key)?.as_str())?;
    (!name.is_empty()).then(|| name.to_owned())
}

pub(crate) fn id_of(members: &Map<String, Value>) -> Option<String> {
    let names = ["tool_call_id", "toolCallId", "toolUseId", "tool_use_id", "call_id", "callId", "id", "ref"];
    names.iter().find_map(|name| members.get(*name)?.as_str()).filter(|id| !id.is_empty()).map(ToOwned::to_owned)
}

/// Returns a value as a tool would print it: text as it is, everything else as JSON.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Returns the result of a tool in a value: a message of a tool, a result of the Model Context Protocol, or anything
/// else as text.
pub(crate) fn read_result(value: &Value) -> ToolReturn {
    read_result_within(value, DEPTH)
}

fn read_result_within(value: &Value, depth: usize) -> ToolReturn {
    let value = decoded(value);
    if let Value::Object(members) = &value {
        // `{"output": ..., "kwargs": {}}` of LangChain's callbacks.
        let is_wrapped = members.len() == 1 || members.contains_key("kwargs");
        if let Some(output) = members.get("output").filter(|_| is_wrapped && depth > 0) {
            return read_result_within(output, depth - 1);
        }
        let names = ["tool_call_id", "kwargs", "toolResult", "toolUseId", "isError", "is_error", "update"];
        if role_of(members) == Some(Role::Tool) || names.iter().any(|name| members.contains_key(*name)) {
            let found = messages(&value, Role::Tool).into_iter().find_map(|mut message| message.returns.pop());
            if let Some(found) = found.filter(|found| !found.text.is_empty() || found.id.is_some()) {
                return found;
            }
        }
    }
    let mut inner = Message::new(Role::Tool);
    // `[{"text": ...}]`
    if value.as_array().is_some_and(|items| items.iter().all(|item| item.get("text").is_some_and(Value::is_string))) {
        block(&value, &mut inner, 2);
    }
    let text = if inner.text.is_empty() { plain(&value) } else { inner.text };
    ToolReturn { id: None, name: None, text, is_error: false }
}
