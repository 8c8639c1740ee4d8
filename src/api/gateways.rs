//! `/v1/gateways`: guardrails of model gateways, in the form of each. In: texts and calls of tools on their way to a
//! model or from it. Out: go on, go on with other texts, or not at all.

use axum::{Json, extract::Request};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::time::Instant;
use utoipa::ToSchema;

use super::{Api, JsonAnswer, auth::Caller, entrance::arrived, events::refused, params::Params, problem::Problem};
use crate::{
    flows::{
        events::Origin,
        gateways::{Exchange, ExchangeRuling},
    },
    ingest::NamedCall,
};
use umbra_domain::ToolName;

/// Most bytes of the name of an agent.
const NAME: usize = 128;

/// Request of LiteLLM's generic guardrail. Other members are ignored.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = LiteLlmGuardrail)]
pub struct LiteLlmRequest {
    /// `request` or `response`.
    #[schema(example = "response")]
    input_type: String,
    /// Texts on their way.
    texts: Option<Vec<String>>,
    /// Calls of tools that the model asks for.
    #[schema(value_type = Option<Vec<std::collections::HashMap<String, serde_json::Value>>>)]
    tool_calls: Option<Vec<Value>>,
    /// Messages of the request; the last one of a user is the task.
    #[schema(value_type = Option<Vec<std::collections::HashMap<String, serde_json::Value>>>)]
    structured_messages: Option<Vec<Value>>,
    /// Id of the call of the model.
    litellm_call_id: Option<String>,
    /// Id of the conversation.
    litellm_trace_id: Option<String>,
    /// Facts about the key: `user_api_key_alias` is the agent, unless `agent` is set.
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    request_data: Map<String, Value>,
    /// Settings: `agent`, and `mask_secrets` (true replaces credentials by markers).
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    additional_provider_specific_params: Option<Map<String, Value>>,
}

/// Settings of the guardrail in LiteLLM's configuration. A misspelt one is refused: it must not leave credentials unmasked.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LiteLlmSettings {
    /// Name of the agent.
    agent: Option<String>,
    /// True if credentials are replaced by markers.
    mask_secrets: Option<bool>,
}

/// Answer to LiteLLM.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = LiteLlmRuling)]
pub struct LiteLlmAnswer {
    /// `NONE`, `GUARDRAIL_INTERVENED` (with `texts`) or `BLOCKED` (with `blocked_reason`).
    #[schema(example = "NONE")]
    action: &'static str,
    /// Reason, for the caller of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked_reason: Option<String>,
    /// Texts that go on in the place of those of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<String>>,
}

/// Judges the answer of a model for LiteLLM's generic guardrail (`api_base: .../v1/gateways/litellm`): by the rules of the
/// sidecar, and planned calls by the built-in checks too. Answers become events. Requests pass; their credentials are
/// masked where that is asked for.
#[utoipa::path(post, path = "/v1/gateways/litellm/beta/litellm_basic_guardrail_api", tag = "sidecar",
    request_body = LiteLlmRequest,
    responses((status = 200, description = "The ruling", body = LiteLlmAnswer)))]
pub async fn post_litellm(api: Api, caller: Caller, request: Request) -> JsonAnswer<LiteLlmAnswer> {
    let asked = arrived(&request);
    let said: LiteLlmRequest = read(&api, request).await?;
    let is_answer = match said.input_type.as_str() {
        "response" => true,
        "request" => false,
        _ => return Err(fault("/input_type", "expected request or response")),
    };
    let settings = Value::Object(said.additional_provider_specific_params.unwrap_or_default());
    let settings: LiteLlmSettings = serde_json::from_value(settings).map_err(|error| {
        fault(
            "/additional_provider_specific_params",
            format!("{error}; agent is a text and mask_secrets true or false"),
        )
    })?;
    let named = [settings.agent.as_deref(), said.request_data.get("user_api_key_alias").and_then(Value::as_str)];
    let agent = named.into_iter().flatten().find(|name| !name.is_empty()).unwrap_or("litellm");
    let told = said.tool_calls.unwrap_or_default();
    let calls: Vec<NamedCall> = told.iter().filter_map(call_of).collect();
    let exchange = Exchange {
        gateway: "litellm",
        agent: agent_name(&caller, agent)?,
        id: said.litellm_call_id.filter(|id| id.len() <= NAME),
        session: said.litellm_trace_id.filter(|id| id.len() <= NAME),
        is_answer,
        prompt: said.structured_messages.unwrap_or_default().iter().rev().find_map(user_text),
        texts: said.texts.unwrap_or_default(),
        unreadable_calls: told.len() - calls.len(),
        calls,
        masks: settings.mask_secrets.unwrap_or(false),
    };
    let (action, blocked_reason, texts) = match judge(&api, &caller, asked, exchange).await? {
        ExchangeRuling::Pass => ("NONE", None, None),
        ExchangeRuling::Masked(texts) => ("GUARDRAIL_INTERVENED", None, Some(texts)),
        ExchangeRuling::Blocked(reason) => ("BLOCKED", Some(reason), None),
    };
    Ok(Json(LiteLlmAnswer { action, blocked_reason, texts }))
}

/// Message of agentgateway. Members that are not named here go back as they came.
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[schema(as = GatewayMessage)]
pub struct GatewayMessage {
    /// Role of the author.
    #[serde(default)]
    role: String,
    /// Text of the message.
    #[serde(default)]
    content: String,
    #[serde(flatten)]
    #[schema(ignore)]
    rest: Map<String, Value>,
}

/// Webhook of agentgateway: the messages of a request, or the choices of an answer.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = AgentgatewayGuardrail)]
pub struct AgentgatewayRequest {
    /// Messages of a request, or choices of an answer.
    body: GatewayBody,
}

/// Messages of a request, or choices of an answer.
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = GatewayBody)]
pub enum GatewayBody {
    /// Messages of a request.
    Messages {
        /// Messages, the newest last.
        messages: Vec<GatewayMessage>,
    },
    /// Choices of an answer.
    Choices {
        /// Alternative answers.
        choices: Vec<GatewayChoice>,
    },
}

/// Choice of an answer.
#[derive(Debug, Clone, Deserialize, Serialize, ToSchema)]
#[schema(as = GatewayChoice)]
pub struct GatewayChoice {
    /// Message of the model.
    message: GatewayMessage,
}

/// Answer to agentgateway.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AgentgatewayRuling)]
pub struct AgentgatewayAnswer {
    /// With nothing but a `reason` it goes on, with a `body` it goes on with other texts, with both it does not.
    action: GatewayAction,
}

/// Action of agentgateway.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = GatewayAction)]
pub struct GatewayAction {
    /// Messages or choices that go on; with `status_code` the reason, for the caller of the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<ActionBody>,
    /// Status of the refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    status_code: Option<u16>,
    /// Reason, for people.
    reason: String,
}

/// Body of an action.
#[derive(Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = GatewayActionBody)]
pub enum ActionBody {
    /// Messages or choices, with other texts.
    Masked(GatewayBody),
    /// Reason of a refusal.
    Refusal(String),
}

impl GatewayBody {
    /// Returns the texts, in order.
    fn texts(&mut self) -> Vec<&mut String> {
        match self {
            Self::Messages { messages } => messages.iter_mut().map(|message| &mut message.content).collect(),
            Self::Choices { choices } => choices.iter_mut().map(|choice| &mut choice.message.content).collect(),
        }
    }
}

/// Judges the answer of a model as a guardrail webhook of agentgateway, by the rules of the sidecar. Answers become events.
/// Requests pass; their credentials are masked where that is asked for.
#[utoipa::path(post, path = "/v1/gateways/agentgateway", tag = "sidecar", request_body = AgentgatewayRequest,
    params(("agent" = Option<String>, Query, description = "Name of the agent; `agentgateway` by default"),
        ("mask_secrets" = Option<bool>, Query, description = "True replaces credentials by markers")),
    responses((status = 200, description = "The ruling", body = AgentgatewayAnswer)))]
pub async fn post_agentgateway(
    api: Api,
    caller: Caller,
    mut params: Params,
    request: Request,
) -> JsonAnswer<AgentgatewayAnswer> {
    let asked = arrived(&request);
    let agent = params.text("agent");
    let masks = params.parsed("mask_secrets", "true or false", |word| word.parse().ok()).unwrap_or(false);
    params.finish()?;
    let AgentgatewayRequest { mut body } = read(&api, request).await?;
    let prompt = match &body {
        GatewayBody::Messages { messages } => {
            messages.iter().rev().find(|message| message.role == "user").map(|message| message.content.clone())
        }
        GatewayBody::Choices { .. } => None,
    };
    let exchange = Exchange {
        gateway: "agentgateway",
        agent: agent_name(&caller, agent.as_deref().unwrap_or("agentgateway"))?,
        is_answer: matches!(body, GatewayBody::Choices { .. }),
        prompt,
        texts: body.texts().into_iter().map(|text| text.clone()).collect(),
        masks,
        ..Exchange::default()
    };
    let (body, status_code, reason) = match judge(&api, &caller, asked, exchange).await? {
        ExchangeRuling::Pass => (None, None, "no rule is against it".to_owned()),
        ExchangeRuling::Masked(texts) => {
            body.texts().into_iter().zip(texts).for_each(|(text, masked)| *text = masked);
            (Some(ActionBody::Masked(body)), None, "credentials are masked".to_owned())
        }
        ExchangeRuling::Blocked(reason) => (Some(ActionBody::Refusal(reason.clone())), Some(403), reason),
    };
    let action = GatewayAction { body, status_code, reason };
    Ok(Json(AgentgatewayAnswer { action }))
}

async fn judge(api: &Api, caller: &Caller, asked: Instant, exchange: Exchange) -> Result<ExchangeRuling, Problem> {
    let origin = Origin { by: caller.key(), ..Origin::default() };
    api.flows.gateways.judge(asked, exchange, &origin).await.map_err(refused)
}

/// Reads the body of a gateway, whose newer versions may send more than is known here.
async fn read<T: for<'a> Deserialize<'a>>(api: &Api, request: Request) -> Result<T, Problem> {
    let body = api.bodies.read(request).await?;
    let bad = |why: String| Problem::bad_json("the body is not what the gateway sends").at("", "invalid", why);
    // An array would be read as the members in their order.
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(bad("expected an object".to_owned()));
    }
    serde_json::from_slice(&body).map_err(|error| bad(error.to_string()))
}

fn agent_name(caller: &Caller, name: &str) -> Result<String, Problem> {
    if name.len() > NAME {
        return Err(fault("/agent", "the name has more than 128 bytes"));
    }
    caller.speak_for(name)?;
    Ok(name.to_owned())
}

fn fault(pointer: &'static str, detail: impl Into<String>) -> Problem {
    Problem::invalid_values([(pointer, "value", detail)])
}

/// Returns the text of a user's message: a text, or parts of which some are.
fn user_text(message: &Value) -> Option<String> {
    if message["role"] != "user" {
        return None;
    }
    let text = match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => return None,
    };
    Some(text).filter(|text| !text.is_empty())
}

/// Reads a call of a tool in the forms of Chat Completions (functions and custom tools), Responses and Anthropic.
fn call_of(call: &Value) -> Option<NamedCall> {
    let inner = [&call["function"], &call["custom"]].into_iter().find(|inner| inner.is_object()).unwrap_or(call);
    let name = inner["name"].as_str().filter(|name| !name.is_empty())?;
    let told = [&inner["arguments"], &inner["input"]].into_iter().find(|told| !told.is_null()).unwrap_or(&Value::Null);
    Some(NamedCall { tool: ToolName { server: None, name: name.to_owned() }, arguments: arguments_of(told) })
}

/// Reads arguments: an object, or its text. Text that is no JSON, or goes on behind it, is judged as a text too: an agent
/// may read more into it than this does.
fn arguments_of(told: &Value) -> Map<String, Value> {
    match told {
        Value::Null => Map::new(),
        Value::Object(members) => members.clone(),
        Value::String(text) if text.trim().is_empty() => Map::new(),
        Value::String(text) => {
            if let Ok(whole) = serde_json::from_str::<Value>(text) {
                return arguments_of(&whole);
            }
            let first = serde_json::Deserializer::from_str(text).into_iter::<Value>().next();
            let mut members = match first {
                Some(Ok(Value::Object(members))) => members,
                _ => Map::new(),
            };
            members.insert("arguments".to_owned(), told.clone());
            members
        }
        other => Map::from_iter([("arguments".to_owned(), other.clone())]),
    }
}
