//! Reads requests of agents to their sidecar from JSON bodies, by the same rules as events. All faults are reported at
//! once, with their pointers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Limits,
    call::{DESCRIPTION_BYTES, MODES, MOST_MS, annotations, any, members, names},
    fault::{At, RequestFault, RequestFaults, code},
    native::{Fields, any_text, flag, label, listed, name, text, whole, word, wrong_type},
    request::read,
    tree::Tree,
};
use umbra_domain::{Objective, SessionId, ToolAnnotations, ToolName};

/// Most calls that are planned or reported at a time.
const CALLS: usize = 128;
/// Most documents of a session.
const DOCUMENTS: usize = 64;
/// Most tools that an agent may be shown.
const TOOLS: usize = 10_000;
/// Default role of a message.
const SPEAKS: &str = "assistant";
/// Roles of messages.
const ROLES: &str = "user, assistant, tool, system";
/// Most ranked tools in one answer.
const MOST_RANKED: u64 = 100;
/// Most tools that are always included in an answer.
const ALWAYS: usize = 100;

/// Tool: its name as a text, `server.name` where its server is known, or in two parts.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[schema(as = ToolRef)]
#[expect(dead_code, reason = "it documents what `ingest` reads")]
pub enum ToolRefSchema {
    /// Name as a text.
    Text(String),
    /// Name and server in two parts.
    Named(ToolName),
}

/// Tool definition, as in `tools/list` of the Model Context Protocol, with the name of its server.
#[derive(Debug, ToSchema)]
#[schema(as = ToolDefinition)]
#[expect(dead_code, reason = "it documents what `ingest` reads")]
pub struct ToolDefinitionSchema {
    /// Server that offers the tool.
    server: Option<String>,
    /// Name of the tool on its server.
    name: String,
    /// Description by its server.
    description: Option<String>,
    /// JSON Schema of the arguments.
    #[schema(rename = "inputSchema", value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    input_schema: Option<Value>,
    /// Hints by its server.
    annotations: Option<ToolAnnotations>,
    /// Title for people; not used.
    title: Option<String>,
    /// JSON Schema of the result; not used.
    #[schema(rename = "outputSchema", value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    output_schema: Option<Value>,
}

/// Session to begin.
#[derive(Clone, PartialEq, ToSchema, Default)]
#[schema(as = SessionRequest)]
pub struct AttachRequest {
    /// Agent of the session.
    #[schema(min_length = 1, max_length = 256)]
    pub agent: String,
    /// Task, in words: tools and patterns are found by it.
    pub task: Option<String>,
    /// Task id of the agent's events.
    pub task_id: Option<String>,
    /// Route that the agent is on.
    pub route: Option<String>,
    /// Modes that the agent is in, the outermost first.
    #[schema(max_items = 16, value_type = Option<Vec<String>>)]
    pub modes: Vec<String>,
    /// Parts of the sidecar that serve the session; all unless given.
    #[schema(value_type = Option<Vec<Objective>>)]
    pub objectives: Vec<Objective>,
    /// Model that the agent runs on, stored with the session.
    #[schema(max_length = 256)]
    pub model: Option<String>,
    /// Tools that the agent may be shown, as in `tools/list` of the Model Context Protocol, each with the name of its
    /// server.
    #[schema(value_type = Option<Vec<ToolDefinitionSchema>>)]
    pub tools: Vec<ToolDefinition>,
    /// Documents by name: a text, or `{"format": "markdown" or "yaml", "text": …}`.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    pub documents: BTreeMap<String, DocumentText>,
    /// Folder of the server's workspace (`sidecar.workspace`) in which the documents are files, such as `apps/site`; it
    /// must exist. By default the workspace itself.
    pub folder: Option<String>,
    /// Longest wait of the caller, in milliseconds; five seconds by default, since many tools are read.
    #[schema(maximum = 600_000)]
    pub deadline_ms: Option<u64>,
}

/// Tool as its server lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Name of the tool.
    pub name: ToolName,
    /// Description by its server.
    pub description: Option<String>,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// Hints by its server.
    pub annotations: ToolAnnotations,
}

/// Document as it is sent.
#[derive(Clone, PartialEq, Eq)]
pub struct DocumentText {
    /// `markdown` or `yaml`, if given.
    pub format: Option<String>,
    /// Text of the document.
    pub text: String,
}

/// Call of a tool. `name` is accepted instead of `tool`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SidecarCall)]
pub struct NamedCall {
    /// Tool: its name as a text, or with its server.
    #[schema(value_type = ToolRefSchema)]
    pub tool: ToolName,
    /// Arguments of the call.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    pub arguments: Map<String, Value>,
}

/// Outcome of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = SidecarResult)]
pub struct SaidResult {
    /// Tool that was called.
    #[schema(value_type = ToolRefSchema)]
    pub tool: ToolName,
    /// False if the call failed; true unless given.
    #[schema(value_type = Option<bool>)]
    pub ok: bool,
    /// Answer of the tool.
    #[schema(value_type = Option<Value>)]
    pub content: String,
}

/// Next step of an agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct TurnRequest {
    /// Route that the agent is on from now on.
    pub route: Option<String>,
    /// Modes that the agent is in from now on.
    pub modes: Option<Vec<String>>,
    /// Aim of the step, in words; the session's task unless given.
    pub intent: Option<String>,
    /// Calls that the agent is about to make.
    #[schema(value_type = Option<Vec<NamedCall>>)]
    pub planned_calls: Vec<NamedCall>,
    /// Most tools in the answer; ten unless given. Where fewer fit, the list is filled up with others.
    #[schema(value_type = Option<u64>)]
    pub limit: Option<usize>,
    /// Tools that are always included, if they may be offered.
    #[schema(value_type = Option<Vec<ToolRefSchema>>)]
    #[serde(default)]
    pub always_include: Vec<ToolName>,
    /// Longest wait of the caller, in milliseconds. Rules without a model take at most the setting `sidecar.deadline`;
    /// rules in words may take longer, up to this. With 0, the answer comes from memory.
    #[schema(maximum = 600_000)]
    pub deadline_ms: Option<u64>,
}

/// Message, with the calls that were made and their results.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct MessageRequest {
    /// `user`, `assistant`, `tool` or `system`.
    #[schema(example = "assistant")]
    pub role: String,
    /// Text of the message.
    pub content: Option<String>,
    /// Route that the agent is on from now on.
    pub route: Option<String>,
    /// Modes that the agent is in from now on.
    pub modes: Option<Vec<String>>,
    /// Calls that were made.
    #[schema(value_type = Option<Vec<NamedCall>>)]
    pub tool_calls: Vec<NamedCall>,
    /// Results of those calls.
    #[schema(value_type = Option<Vec<SaidResult>>)]
    pub results: Vec<SaidResult>,
    /// Longest wait of the caller, in milliseconds. Rules without a model take at most the setting `sidecar.deadline`;
    /// rules in words may take longer, up to this. With 0, the answer comes from memory.
    #[schema(maximum = 600_000)]
    pub deadline_ms: Option<u64>,
}

/// Body of `POST /v1/guard`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardRequest {
    /// Session of the call or message.
    pub session: Option<SessionId>,
    /// Agent, where there is no session.
    pub agent: Option<String>,
    /// Route that the agent is on.
    pub route: Option<String>,
    /// Modes that the agent is in.
    pub modes: Option<Vec<String>>,
    /// Call or message to judge.
    pub subject: GuardSubject,
    /// Longest wait of the caller, in milliseconds.
    pub deadline_ms: Option<u64>,
}

/// Message or call that guardrails judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuardSubject {
    /// Message.
    Message {
        /// Role of its author.
        role: String,
        /// Text of the message.
        content: String,
    },
    /// Call of a tool.
    Call(NamedCall),
}

/// Task to select tools for.
#[derive(Debug, Clone, PartialEq, ToSchema)]
pub struct SelectRequest {
    /// Task, in words; the session's task unless given.
    pub query: Option<String>,
    /// Session whose tools and rules count.
    #[schema(value_type = Option<String>)]
    pub session: Option<SessionId>,
    /// Agent, where there is no session.
    pub agent: Option<String>,
    /// Route that the agent is on.
    pub route: Option<String>,
    /// Modes that the agent is in.
    pub modes: Option<Vec<String>>,
    /// Tools to choose from, as in `tools/list`; the session's unless given.
    #[schema(value_type = Option<Vec<ToolDefinitionSchema>>)]
    pub tools: Option<Vec<ToolDefinition>>,
    /// Most tools in the answer; ten unless given. Where fewer fit, the list is filled up with others.
    #[schema(value_type = Option<u64>)]
    pub limit: Option<usize>,
    /// Tools that are always included, if they may be offered.
    #[schema(value_type = Option<Vec<ToolRefSchema>>)]
    pub always_include: Vec<ToolName>,
    /// Longest wait of the caller, in milliseconds. Rules without a model take at most the setting `sidecar.deadline`;
    /// rules in words may take longer, up to this. With 0, the answer comes from memory.
    #[schema(maximum = 600_000)]
    pub deadline_ms: Option<u64>,
}

/// Reads the body of `POST /v1/sessions`.
pub fn attach_request(body: &[u8], limits: &Limits) -> Result<AttachRequest, Vec<RequestFault>> {
    read(body, limits, |fields| {
        let agent = fields.required("agent", "the session's agent", name);
        let task = fields.optional("task", any_text);
        let task_id = fields.optional("task_id", label);
        let (route, modes) = situation(fields);
        let objectives = fields.optional("objectives", objectives);
        let runs_on = fields.optional("model", label);
        let tools = fields.optional("tools", tools);
        let documents = fields.optional("documents", documents);
        let folder = fields.optional("folder", name);
        let deadline_ms = fields.optional("deadline_ms", waits);
        Some(AttachRequest {
            agent: agent?,
            task,
            task_id,
            route,
            modes: modes.unwrap_or_default(),
            objectives: objectives.unwrap_or_else(|| Objective::ALL.to_vec()),
            model: runs_on,
            tools: tools.unwrap_or_default(),
            documents: documents.unwrap_or_default(),
            folder,
            deadline_ms,
        })
    })
}

/// Reads the body of `POST /v1/sessions/{id}/turns`.
pub fn turn_request(body: &[u8], limits: &Limits) -> Result<TurnRequest, Vec<RequestFault>> {
    read(body, limits, |fields| {
        let (route, modes) = situation(fields);
        let intent = fields.optional("intent", any_text);
        let planned_calls = fields.optional("planned_calls", calls).unwrap_or_default();
        let limit = fields.optional("limit", whole(0, MOST_RANKED));
        let deadline_ms = fields.optional("deadline_ms", waits);
        let always_include = fields.optional("always_include", always).unwrap_or_default();
        Some(TurnRequest { route, modes, intent, planned_calls, limit, always_include, deadline_ms })
    })
}

/// Reads the body of `POST /v1/sessions/{id}/messages`.
pub fn message_request(body: &[u8], limits: &Limits) -> Result<MessageRequest, Vec<RequestFault>> {
    read(body, limits, |fields| {
        let role = fields.required("role", "the speaker: user, assistant, tool or system", word(role, ROLES));
        let content = fields.optional("content", any_text);
        let (route, modes) = situation(fields);
        let tool_calls = fields.optional("tool_calls", calls).unwrap_or_default();
        let results = fields.optional("results", results).unwrap_or_default();
        let deadline_ms = fields.optional("deadline_ms", waits);
        Some(MessageRequest { role: role?, content, route, modes, tool_calls, results, deadline_ms })
    })
}

/// Reads the body of `POST /v1/guard`.
pub fn guard_request(body: &[u8], limits: &Limits) -> Result<GuardRequest, Vec<RequestFault>> {
    read(body, limits, |fields| {
        let named = fields.gives("session") || fields.gives("agent");
        let given = [fields.gives("message"), fields.gives("call")];
        let session = fields.optional("session", session);
        let agent = fields.optional("agent", name);
        let (route, modes) = situation(fields);
        let message = fields.optional("message", message);
        let call = fields.optional("call", call);
        let deadline_ms = fields.optional("deadline_ms", waits);
        if !named {
            fields.fault("agent", code::MISSING, "required unless `session` is given");
        }
        if given[0] == given[1] {
            fields.fault("call", code::MISSING, "give either `message` or `call`, whichever the guardrail judges");
        }
        let subject = match (message, call) {
            (Some((role, content)), None) => GuardSubject::Message { role, content },
            (None, Some(call)) => GuardSubject::Call(call),
            _ => return None,
        };
        Some(GuardRequest { session, agent, route, modes, subject, deadline_ms })
    })
}

/// Reads the body of `POST /v1/tools/select`.
pub fn select_request(body: &[u8], limits: &Limits) -> Result<SelectRequest, Vec<RequestFault>> {
    read(body, limits, |fields| {
        let query = fields.optional("query", any_text);
        let session = fields.optional("session", session);
        let agent = fields.optional("agent", name);
        let (route, modes) = situation(fields);
        let tools = fields.optional("tools", tools);
        let limit = fields.optional("limit", whole(0, MOST_RANKED));
        let always_include = fields.optional("always_include", always).unwrap_or_default();
        let deadline_ms = fields.optional("deadline_ms", waits);
        if session.is_none() && (tools.is_none() || query.is_none()) {
            let detail = "without a session, `query` (the task) and `tools` (the tools to choose from) are required";
            fields.fault("session", code::MISSING, detail);
        }
        Some(SelectRequest { query, session, agent, route, modes, tools, limit, always_include, deadline_ms })
    })
}

/// Reads the longest wait of the caller, in milliseconds; with 0 the answer comes from memory.
fn waits(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<u64> {
    whole(0, MOST_MS)(tree, at, faults)
}

fn situation(fields: &mut Fields<'_>) -> (Option<String>, Option<Vec<String>>) {
    let route = fields.optional("route", label);
    let modes = fields.optional("modes", |tree, at, faults| names(tree, MODES, at, faults));
    (route, modes)
}

fn role(word: &str) -> Option<String> {
    ROLES.split(", ").any(|role| role == word).then(|| word.to_owned())
}

fn session(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<SessionId> {
    let word = text(tree, at, faults)?;
    word.parse().ok().or_else(|| faults.refuse(at, code::FORMAT, "must be a session's id: ses_ and 32 hex digits"))
}

/// Reads a message: a text by the agent, or a text with its role.
fn message(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<(String, String)> {
    if let Tree::Text(_) = tree {
        return Some((SPEAKS.to_owned(), any_text(tree, at, faults)?));
    }
    let mut fields = Fields::open(tree, at, faults)?;
    let who = fields.optional("role", word(role, ROLES));
    let content = fields.required("content", "the message's text", any_text);
    fields.refuse_rest_of_request();
    Some((who.unwrap_or_else(|| SPEAKS.to_owned()), content?))
}

fn always(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<ToolName>> {
    listed(tree, "a list", ALWAYS, at, faults, tool)
}

fn calls(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<NamedCall>> {
    listed(tree, "a list", CALLS, at, faults, call)
}

fn call(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<NamedCall> {
    let mut fields = Fields::open(tree, at, faults)?;
    // Some clients send `name`, as in `tools/call` of the Model Context Protocol.
    let key = if fields.gives("name") && !fields.gives("tool") { "name" } else { "tool" };
    let tool = fields.required(key, r#"the called tool: its name, or {"server": "github", "name": "get_issue"}"#, tool);
    let arguments = fields.optional("arguments", members);
    fields.refuse_rest_of_request();
    Some(NamedCall { tool: tool?, arguments: arguments.unwrap_or_default() })
}

fn results(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<SaidResult>> {
    listed(tree, "a list", CALLS, at, faults, |tree, at, faults| {
        let mut fields = Fields::open(tree, at, faults)?;
        let tool = fields.required("tool", "the called tool's name", tool);
        let ok = fields.optional("ok", flag);
        let content = fields.optional("content", any);
        fields.refuse_rest_of_request();
        let content = match content.unwrap_or_default() {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        Some(SaidResult { tool: tool?, ok: ok.unwrap_or(true), content })
    })
}

/// Reads a tool's name in any spelling: one that no tool can have is blocked, and the rest of the request is judged all
/// the same.
fn tool(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<ToolName> {
    if let Tree::Text(_) = tree {
        return Some(ToolName::bare(name(tree, at, faults)?));
    }
    let mut fields = Fields::open(tree, at, faults)?;
    let server = fields.optional("server", label);
    let own = fields.required("name", "the tool's name", name);
    fields.refuse_rest_of_request();
    Some(ToolName { server, name: own? })
}

fn objectives(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<Objective>> {
    let most = Objective::ALL.len() * 4;
    let found = listed(tree, "a list", most, at, faults, |tree, at, faults| {
        let word = text(tree, at, faults)?;
        Objective::parse(&word).or_else(|| {
            let known = Objective::ALL.map(Objective::as_str).join(", ");
            faults.refuse(at, code::FORMAT, format!("must be one of {known}"))
        })
    })?;
    Some(Objective::ALL.into_iter().filter(|objective| found.is_empty() || found.contains(objective)).collect())
}

/// Reads definitions as in `tools/list` of the Model Context Protocol; unknown members are ignored.
fn tools(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<Vec<ToolDefinition>> {
    let read = listed(tree, "a list", TOOLS, at, faults, |tree, at, faults| {
        if !matches!(tree, Tree::Object(_)) {
            return wrong_type(r#"a tool, such as {"name": "search", "description": "…"}"#, &tree, at, faults);
        }
        let mut fields = Fields::open(tree, at, faults)?;
        // A tool without a usable name is left out of lists later: a fault of one server does not refuse the session.
        let server = fields.optional("server", any_text);
        let own = fields.optional("name", any_text).unwrap_or_default();
        let description = fields.optional("description", |tree, at, faults| {
            let mut text = any_text(tree, at, faults)?;
            text.truncate(text.floor_char_boundary(DESCRIPTION_BYTES));
            Some(text)
        });
        let theirs = fields.optional("inputSchema", any);
        let ours = fields.optional("input_schema", any);
        let annotations = fields.optional("annotations", annotations);
        Some(ToolDefinition {
            name: ToolName { server, name: own },
            description,
            input_schema: theirs.or(ours).unwrap_or_default(),
            annotations: annotations.unwrap_or_default(),
        })
    })?;
    if !read.is_empty() && read.iter().all(|tool| tool.name.name.is_empty()) {
        let first = At::Index(&at, 0);
        return faults.refuse(At::Key(&first, "name"), code::MISSING, "is required: the tool's name");
    }
    Some(read)
}

/// Reads documents by name: a text each, or a text with its format.
fn documents(tree: Tree<'_>, at: At<'_>, faults: &mut RequestFaults) -> Option<BTreeMap<String, DocumentText>> {
    let Tree::Object(mut members) = tree else {
        return wrong_type(r##"documents by name, such as {"todo": "# Plan"}"##, &tree, at, faults);
    };
    let mut read = BTreeMap::new();
    let names: Vec<String> = members.keys().map(str::to_owned).collect();
    if names.len() > DOCUMENTS {
        return faults.refuse(at, code::RANGE, format!("may have {DOCUMENTS} entries, has {}", names.len()));
    }
    for name in names {
        let Some(tree) = members.take(&name) else { continue };
        let here = At::Key(&at, &name);
        let document = match tree {
            Tree::Text(text) => Some(DocumentText { format: None, text: text.into_owned() }),
            Tree::Object(_) => Fields::open(tree, here, faults).and_then(|mut fields| {
                let known = |word: &str| ["markdown", "yaml"].contains(&word).then(|| word.to_owned());
                let format = fields.optional("format", word(known, "markdown, yaml"));
                let text = fields.required("text", "the document's text", any_text);
                fields.refuse_rest_of_request();
                Some(DocumentText { format, text: text? })
            }),
            other => wrong_type("a text", &other, here, faults),
        };
        if let Some(document) = document {
            read.insert(name, document);
        }
    }
    Some(read)
}
