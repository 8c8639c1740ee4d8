//! Selects the listed tools of a profile with `select`: the tools that fit the task, those that are always included,
//! and two of our own by which a model reaches all others, `search_tools` and `call_tool`.
//!
//! A selection concerns context, not permission: a tool that is not listed can be called by its name like any other,
//! and `call_tool` becomes the call that it names before it is decided. Tools that the rules deny are neither listed
//! nor found.

use std::collections::{HashMap, HashSet};

use rmcp::model::{CallToolRequestParams, CallToolResult, JsonObject, Tool, ToolAnnotations, object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    call::annotations,
    gateway::{McpCaller, McpGateway, OfferedTool},
    results,
    upstream::{UpstreamError, UpstreamRequestContext},
};
use crate::{
    flows::sessions::select::RankedTool,
    ingest::{SelectRequest, ToolDefinition},
};
use umbra_config::settings::McpSelect;
use umbra_domain::{ToolName, tool::ToolPatterns};

/// Name of the tool that finds tools.
const SEARCH: &str = "search_tools";
/// Name of the tool that calls another.
const CALL: &str = "call_tool";
/// Most tools of a search without `limit`.
const FOUND: usize = 5;
/// Most tools of a search.
const MOST_FOUND: usize = 50;
/// Most bytes of a query.
const MOST_BYTES: usize = 4096;

/// Limits of a profile's list.
pub(super) struct SelectionLimits {
    limit: usize,
    patterns: Vec<String>,
    always: ToolPatterns,
}

/// Arguments of `search_tools`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    query: String,
    limit: Option<usize>,
}

/// Arguments of `call_tool`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallToolArguments {
    name: String,
    arguments: Option<JsonObject>,
}

/// Call of one of our own tools, or of a server's.
pub(super) enum ResolvedCall {
    /// Answer of our own tool.
    Answer(CallToolResult),
    /// Call to decide.
    Call(CallToolRequestParams),
}

impl SelectionLimits {
    /// Returns the limits of the settings, which have checked the patterns.
    pub(super) fn of(settings: &McpSelect) -> Self {
        let patterns = settings.always_include.clone();
        let always = ToolPatterns::compile(patterns.iter().map(String::as_str).zip(0..)).unwrap_or_default();
        Self { limit: settings.limit, patterns, always }
    }

    /// Returns the names of the tools that are always included. Patterns that match no tool are logged.
    fn always(&self, profile: &str, offered: &[OfferedTool]) -> Vec<ToolName> {
        let (mut always, mut matched) = (Vec::new(), HashSet::new());
        for one in offered {
            let matching = self.always.permitting_any_server(&one.name.readings());
            if !matching.is_empty() {
                always.push(one.name.clone());
            }
            matched.extend(matching);
        }
        for (_, pattern) in self.patterns.iter().enumerate().filter(|(place, _)| !matched.contains(place)) {
            tracing::warn!(
                profile,
                pattern,
                "a pattern of always_include matches no tool of this profile: compare it with tools/list"
            );
        }
        always
    }
}

impl McpGateway {
    /// Returns the tools that `caller` is shown, in a stable order.
    ///
    /// # Errors
    /// The only server does not answer, or the client has cancelled.
    pub(super) async fn list(
        &self,
        caller: &McpCaller,
        asking: UpstreamRequestContext<'_>,
    ) -> Result<Vec<Tool>, UpstreamError> {
        let offered = self.offered(&caller.agent, asking, false).await?;
        let Some(selection) = self.selection_of(&offered) else {
            return Ok(offered.into_iter().map(|one| one.tool).collect());
        };
        let all = offered.len();
        let always = selection.always(&self.profile, &offered);
        let ranked: HashSet<usize> =
            self.rank(caller, caller.task.clone(), selection.limit, always, &offered).await.into_iter().collect();
        let listed = offered.into_iter().enumerate().filter(|(place, _)| ranked.contains(place));
        let mut tools: Vec<Tool> = listed.map(|(_, one)| one.tool).collect();
        let hidden = all - tools.len();
        tools.extend(own(hidden, all));
        Ok(tools)
    }

    /// Resolves a call: our own tools are answered here, or become the call that they name.
    ///
    /// # Errors
    /// As [`Self::list`].
    pub(super) async fn resolve_call(
        &self,
        caller: &McpCaller,
        mut request: CallToolRequestParams,
        asking: UpstreamRequestContext<'_>,
    ) -> Result<ResolvedCall, UpstreamError> {
        if self.selection.is_none() || ![SEARCH, CALL].contains(&request.name.as_ref()) {
            return Ok(ResolvedCall::Call(request));
        }
        let offered = self.offered(&caller.agent, asking, true).await?;
        if self.selection_of(&offered).is_none() {
            return Ok(ResolvedCall::Call(request));
        }
        let arguments = Value::Object(request.arguments.take().unwrap_or_default());
        if request.name == SEARCH {
            let found = match Search::deserialize(arguments) {
                Ok(search) => self.search(caller, search, &offered).await,
                Err(error) => results::failure(format!("{error}: give query (the task of the tool) and limit")),
            };
            return Ok(ResolvedCall::Answer(found));
        }
        Ok(match CallToolArguments::deserialize(arguments) {
            Ok(CallToolArguments { name, arguments }) => {
                request.name = name.into();
                request.arguments = arguments;
                ResolvedCall::Call(request)
            }
            Err(error) => {
                let help = "give name (from search_tools) and arguments (an object)";
                ResolvedCall::Answer(results::failure(format!("{error}: {help}")))
            }
        })
    }

    /// Returns the limits, if there are more tools than may be listed.
    fn selection_of(&self, offered: &[OfferedTool]) -> Option<&SelectionLimits> {
        self.selection.as_ref().filter(|selection| offered.len() > selection.limit)
    }

    async fn search(&self, caller: &McpCaller, search: Search, offered: &[OfferedTool]) -> CallToolResult {
        let limit = search.limit.unwrap_or(FOUND);
        if search.query.trim().is_empty() || search.query.len() > MOST_BYTES || !(1..=MOST_FOUND).contains(&limit) {
            let words = format!(
                "query must have 1 to {MOST_BYTES} bytes and not be blank, and limit must be from 1 to {MOST_FOUND}"
            );
            return results::failure(words);
        }
        let ranked = self.rank(caller, Some(search.query), limit, Vec::new(), offered).await;
        let tools: Vec<Value> = ranked
            .into_iter()
            .filter_map(|place| offered.get(place))
            .map(|OfferedTool { tool, .. }| {
                json!({
                    "name": tool.name,
                    "description": tool.description,
                    "inputSchema": tool.input_schema,
                    "annotations": tool.annotations,
                })
            })
            .collect();
        CallToolResult::structured(json!({"tools": tools}))
    }

    /// Returns the indices of the tools that fit, best first. Tools that have nothing in common with the task are left
    /// out, unless they are among `always`.
    async fn rank(
        &self,
        caller: &McpCaller,
        query: Option<String>,
        limit: usize,
        always: Vec<ToolName>,
        offered: &[OfferedTool],
    ) -> Vec<usize> {
        let definition = |one: &OfferedTool| ToolDefinition {
            name: one.name.clone(),
            description: one.tool.description.as_deref().map(ToOwned::to_owned),
            input_schema: Value::Object(one.tool.input_schema.as_ref().clone()),
            annotations: annotations(&one.tool),
        };
        let request = SelectRequest {
            query,
            session: caller.session.as_ref().and_then(|session| session.parse().ok()),
            agent: Some(caller.agent.clone()),
            route: caller.route.clone(),
            modes: Some(caller.modes.clone()).filter(|modes| !modes.is_empty()),
            tools: Some(offered.iter().map(definition).collect()),
            limit: Some(limit),
            always_include: always.clone(),
            deadline_ms: None,
        };
        let places: HashMap<&ToolName, usize> = offered.iter().map(|one| &one.name).zip(0..).collect();
        let ranked = self.guard.select(request).await;
        let fits = |one: &&RankedTool| one.score > 0.0 || always.contains(&one.tool);
        ranked.iter().filter(fits).filter_map(|one| places.get(&one.tool).copied()).collect()
    }
}

/// Returns our own tools, whose descriptions say how many others there are.
fn own(hidden: usize, all: usize) -> [Tool; 2] {
    let schema = |properties: Value, required: &str| {
        object(json!({
            "type": "object", "properties": properties, "required": [required], "additionalProperties": false,
        }))
    };
    let search = schema(
        json!({
            "query": {"type": "string", "description": "What the tool is to do, in plain words."},
            "limit": {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": FOUND,
                "description": "Most tools to return."},
        }),
        "query",
    );
    let call = schema(
        json!({
            "name": {"type": "string", "description": "The tool's name, as search_tools returned it."},
            "arguments": {"type": "object", "description": "The tool's arguments, by its inputSchema."},
        }),
        "name",
    );
    let finds = format!(
        "Finds tools by what they do, and returns their definitions. {hidden} of the {all} tools here are not listed: search \
         before you conclude that there is none for a step, then use call_tool."
    );
    [
        Tool::new(SEARCH, finds, search).annotate(ToolAnnotations::new().read_only(true).open_world(false)),
        Tool::new(CALL, "Calls a tool that search_tools found, and returns its result.", call),
    ]
}
