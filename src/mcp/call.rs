//! Handles one call of a tool, from the client's request to its result.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, CustomRequest,
        ErrorCode, Extensions, JsonObject, ServerResult, Tool,
    },
    service::RequestContext,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{
    call_guard::CallRuling,
    catalogue::CatalogueEntry,
    gateway::{McpCaller, McpGateway},
    results,
    upstream::{Upstream, UpstreamError, UpstreamRequestContext},
};
use umbra_boundary::overlay::{self, OverlayMerge};
use umbra_domain::{Call, CallOutcome, Event, OutcomeStatus, ToolAnnotations, ToolCall, ToolName, json::encoded_len};

/// Most bytes of arguments, and of a result's text, in an event.
const EVENT_TEXT: usize = 32 * 1024;
/// Most bytes of a result in the audit.
const OUTCOME_BYTES: usize = 64 * 1024;
/// Most bytes of a call's id by the client.
const ID_BYTES: usize = 255;
/// Key in `_meta` of the client's own id of a call: sent again, it gets the same decision.
const CALL_ID: &str = "dev.umbra/call_id";
/// Key in `_meta` of the result that a stub must return.
const STUB: &str = "dev.umbra/stub";

/// Outcome of a call, for the audit and the shadows.
struct CallResult {
    status: OutcomeStatus,
    result: Option<Value>,
    text: String,
    error: Option<String>,
}

impl McpGateway {
    /// Decides a call, and runs it or answers in the tool's place.
    pub(super) async fn call(
        &self,
        caller: &McpCaller,
        (upstream, entry): (&Upstream, &CatalogueEntry),
        params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, UpstreamError> {
        let _underway = self.underway.token();
        let call = self.call_of(caller, upstream, entry, &params, context);
        let ruling = match entry.doubt.filter(|_| self.settings.withhold_suspicious) {
            Some(doubt) => {
                let (doubt, profile) = (doubt.as_str(), &self.profile);
                let help = "review its description, then accept the tool: umbra mcp --profile";
                CallRuling::block("withheld", format!("{doubt}; {help} {profile} --accept"))
            }
            None => self.guard.decide(call.clone()).await,
        };
        if ruling.runs() {
            return self.run(upstream, entry, params, context, &call, &ruling).await;
        }
        let answer =
            ruling.stub.as_ref().map_or_else(|| results::refusal(&ruling), |stub| results::stub(&ruling, stub));
        self.observe(&call, &ruling, &came_of(&answer), None);
        Ok(answer.into())
    }

    async fn run(
        &self,
        upstream: &Upstream,
        entry: &CatalogueEntry,
        mut params: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        call: &Call,
        ruling: &CallRuling,
    ) -> Result<CallToolResponse, UpstreamError> {
        let began = Instant::now();
        params.name = entry.tool.name.clone();
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let asking = UpstreamRequestContext::of(context);
        let answer = match upstream.ask(request, asking).await {
            Ok(ServerResult::CallToolResult(result)) if encoded_len(&result) > self.settings.max_result_bytes => {
                Err(upstream.too_large())
            }
            Ok(ServerResult::CallToolResult(result)) => Ok(CallToolResponse::Complete(result)),
            Ok(ServerResult::InputRequiredResult(result)) => Ok(CallToolResponse::InputRequired(result)),
            // Without the extension, which is not passed on, a server has no reason to answer with a task.
            Ok(_) => Err(upstream.odd()),
            Err(error) => Err(error),
        };
        let came = match &answer {
            Ok(CallToolResponse::Complete(result)) => came_of(result),
            // The server asks back: the client sends the call again, with the answers.
            Ok(_) => return answer,
            Err(error) => CallResult {
                status: OutcomeStatus::Error,
                result: None,
                text: String::new(),
                error: Some(match error {
                    UpstreamError::Refused(error) => results::shortened(&error.message, EVENT_TEXT),
                    other => other.to_string(),
                }),
            },
        };
        let duration_ms = u64::try_from(began.elapsed().as_millis()).ok();
        let outcome = CallOutcome {
            agent: call.agent.clone(),
            status: came.status,
            result: came.result.clone().filter(|result| encoded_len(result) <= OUTCOME_BYTES),
            error: came.error.clone(),
            duration_ms,
        };
        self.guard.report(call.call_id.clone(), outcome);
        self.observe(call, ruling, &came, duration_ms);
        match answer {
            Ok(CallToolResponse::Complete(mut result)) => {
                // The run's simulated writes.
                if let Some(Ok(merge)) = ruling.merge.as_ref().map(OverlayMerge::deserialize)
                    && result.is_error != Some(true)
                {
                    let merged = overlay::merge(results::value(&result), &merge);
                    result = results::with_value(result, merged);
                }
                results::warn(&mut result, ruling);
                Ok(result.into())
            }
            // An error of the protocol stays one; a failure on the way becomes a result with `isError`.
            Err(error @ UpstreamError::Refused(_)) => Err(error),
            Err(error) => Ok(results::failure(error.to_string()).into()),
            other => other,
        }
    }

    /// Decides about a method outside the protocol as if it were a tool of that name, and passes it on if it may run.
    pub(super) async fn call_custom(
        &self,
        caller: &McpCaller,
        upstream: &Upstream,
        mut request: CustomRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value, ErrorData> {
        let _underway = self.underway.token();
        let entry =
            CatalogueEntry { tool: Tool::new_with_raw(request.method.clone(), None, JsonObject::new()), doubt: None };
        let mut params = CallToolRequestParams::new(request.method.clone());
        params.arguments = request.params.as_ref().and_then(Value::as_object).cloned();
        let mut call = self.call_of(caller, upstream, &entry, &params, context);
        call.input_schema = None;
        let ruling = self.guard.decide(call.clone()).await;
        let answer = if ruling.runs() {
            request.extensions = Extensions::default();
            let answer = upstream.ask(ClientRequest::CustomRequest(request), UpstreamRequestContext::of(context)).await;
            answer.map_err(ErrorData::from)
        } else {
            Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, results::text(&results::refusal(&ruling)), None))
        };
        let value = answer.and_then(|answer| {
            serde_json::to_value(answer).map_err(|error| ErrorData::internal_error(error.to_string(), None))
        });
        let error = value.as_ref().err().map(|error| results::shortened(&error.message, EVENT_TEXT));
        let status = if error.is_some() { OutcomeStatus::Error } else { OutcomeStatus::Ok };
        if ruling.runs() {
            let outcome = CallOutcome {
                agent: call.agent.clone(),
                status,
                result: None,
                error: error.clone(),
                duration_ms: None,
            };
            self.guard.report(call.call_id.clone(), outcome);
        }
        self.observe(&call, &ruling, &CallResult { status, result: None, text: String::new(), error }, None);
        value
    }

    fn call_of(
        &self,
        caller: &McpCaller,
        upstream: &Upstream,
        entry: &CatalogueEntry,
        params: &CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Call {
        let meta = &context.meta.0.0;
        let given = meta.get(CALL_ID).and_then(Value::as_str).filter(|id| (1..=ID_BYTES).contains(&id.len()));
        let call_id = given.map_or_else(|| format!("mcp_{}", self.guard.new_id().simple()), ToOwned::to_owned);
        let schema = |schema: &std::sync::Arc<Map<String, Value>>| Value::Object(schema.as_ref().clone());
        Call {
            call_id: call_id.replace('\0', ""),
            session: caller.session.clone(),
            run: caller.run.clone(),
            seed: caller.seed.clone(),
            route: caller.route.clone(),
            modes: caller.modes.clone(),
            by_proxy: true,
            server_name: upstream.server_info().and_then(|says| Some(says.server_info.as_ref()?.name.clone())),
            annotations: annotations(&entry.tool),
            description: entry.tool.description.as_deref().map(|text| results::shortened(text, EVENT_TEXT)),
            input_schema: Some(schema(&entry.tool.input_schema)),
            output_schema: entry.tool.output_schema.as_ref().map(schema),
            stub_override: meta.get(STUB).cloned(),
            traceparent: context.meta.0.get_traceparent().map(|text| results::shortened(text, ID_BYTES)),
            ..Call::new(
                caller.agent.clone(),
                ToolName::of(&*upstream.server, entry.tool.name.as_ref()),
                params.arguments.clone().unwrap_or_default(),
            )
        }
    }

    /// Sends the call to the shadows as an event, as POST /v1/events would.
    fn observe(&self, call: &Call, ruling: &CallRuling, came: &CallResult, duration_ms: Option<u64>) {
        let said = json!({
            "call_id": call.call_id,
            "decision_id": ruling.decision_id,
            "decision": ruling.decision.as_str(),
            "mcp": {"profile": self.profile},
        });
        let ran = ruling.runs();
        let word = if ran { came.status.as_str() } else { ruling.decision.as_str() };
        let tool = ToolCall {
            name: call.tool.to_string(),
            args: results::bounded(&call.arguments, EVENT_TEXT),
            result: came.error.is_none().then(|| results::shortened(&came.text, EVENT_TEXT)),
            exit_code: None,
            // Only a tool that ran can have failed.
            error: came.error.as_ref().filter(|_| ran).map(|text| results::shortened(text, EVENT_TEXT)),
        };
        let event = Event {
            agent: call.agent.clone(),
            task_id: call.run.clone().or_else(|| call.session.clone()),
            session_id: call.session.clone(),
            tool: Some(tool),
            status: Some(word.to_owned()),
            duration_ms,
            metadata: if let Value::Object(members) = said { members } else { Map::new() },
            ..Event::default()
        };
        self.guard.observe(event);
    }
}

/// Returns a server's hints about its tool.
pub(super) fn annotations(tool: &Tool) -> ToolAnnotations {
    tool.annotations.as_ref().map_or_else(ToolAnnotations::default, |said| ToolAnnotations {
        read_only: said.read_only_hint,
        destructive: said.destructive_hint,
        idempotent: said.idempotent_hint,
        open_world: said.open_world_hint,
    })
}

fn came_of(result: &CallToolResult) -> CallResult {
    let text = results::text(result);
    let failed = result.is_error == Some(true);
    CallResult {
        status: if failed { OutcomeStatus::Error } else { OutcomeStatus::Ok },
        result: (!failed).then(|| results::value(result)),
        error: failed.then(|| results::shortened(&text, EVENT_TEXT)),
        text,
    }
}
