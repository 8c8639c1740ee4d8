//! `/v1/hooks/{host}`: hooks of coding agents.

use axum::{
    Json,
    extract::Request,
    http::{HeaderName, HeaderValue},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::{
    Api, JsonAnswer,
    auth::Caller,
    entrance::arrived,
    events::{invalid_request, refused},
    params::{Params, PathPart},
    problem::Problem,
};
use crate::{
    flows::hooks::{HookError, HookRequest},
    ingest::{self, RequestFault},
    telemetry::metric,
};
use umbra_domain::key::Scope;
use umbra_hooks::{
    EventKind, HOSTS, HookAnswer, HookMessage, HookMode, Host,
    event::{kind_of, label_of},
    host,
};
use umbra_store::hooks::HookedHost;

/// Response header with the `nonce` of the request: proof that Umbra answers.
static PROOF: HeaderName = HeaderName::from_static("umbra-hook");
/// Most characters of a nonce.
const NONCE: usize = 64;
/// Most bytes of an id or a name in a payload; longer ones are known by their hash.
const NAME: usize = 128;
/// Most faults of a payload that the model is told.
const TOLD: usize = 3;

/// Payload of a hook.
#[derive(Debug, ToSchema)]
#[schema(as = HookPayload)]
#[expect(dead_code, reason = "it documents what `umbra_hooks` reads")]
pub struct HookPayloadSchema {
    /// Name of the event, as the host gives it.
    #[schema(example = "PreToolUse")]
    hook_event_name: Option<String>,
    /// The host's id of the session.
    session_id: Option<String>,
    /// Name of the tool.
    #[schema(example = "Bash")]
    tool_name: Option<String>,
    /// Arguments of the tool.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    tool_input: Option<Value>,
}

/// Takes the payload of a coding agent's hook and answers as that agent expects: an empty object if there is nothing to
/// say. With `mode=enforce` a call of a tool is decided before it runs, as `POST /v1/decide` does, and is denied if
/// anything goes wrong. All other events are copied to the shadows. Unknown fields and events are accepted.
#[utoipa::path(post, path = "/v1/hooks/{host}", tag = "boundary", request_body = HookPayloadSchema,
    params(("host" = String, Path, example = "claude-code",
            description = "`claude-code`, `codex`, `gemini-cli`, `qwen-code`, `copilot`, `droid`, `cursor`, `cline`, \
                           `opencode` or `pi`"),
        ("mode" = Option<String>, Query, description = "`observe` (the default) or `enforce`"),
        ("agent" = Option<String>, Query, description = "Name of the agent; the host's name by default"),
        ("event" = Option<String>, Query, description = "Name of the event, for payloads that do not name it"),
        ("nonce" = Option<String>, Query,
            description = "Text that comes back in the header `umbra-hook`, as proof that Umbra answers")),
    responses((status = 200, description = "The answer in the form of the host",
        body = std::collections::HashMap<String, serde_json::Value>)))]
pub async fn post_hook(
    api: Api,
    caller: Caller,
    PathPart(name): PathPart,
    mut params: Params,
    request: Request,
) -> Result<Response, Problem> {
    let asked = arrived(&request);
    let host = host(&name).ok_or_else(|| {
        let known = HOSTS.map(|host| host.name).join(", ");
        Problem::not_found(format!("unknown host: use one of {known}"))
    })?;
    let mode = params.parsed("mode", "observe or enforce", HookMode::parse).unwrap_or_default();
    let agent = params.parsed("agent", format!("a name of at most {NAME} bytes"), agent_name);
    let event = params.text("event");
    let nonce = params.parsed("nonce", format!("at most {NONCE} letters and digits"), nonce);
    params.finish()?;
    if mode == HookMode::Enforce {
        caller.require(Scope::Decide)?;
    }
    let agent = agent.unwrap_or_else(|| host.name.to_owned());
    caller.speak_for(&agent)?;
    let by = caller.key();
    let may_be_call = event.as_deref().and_then(kind_of).is_none_or(|kind| kind == EventKind::Call);
    let must_answer = mode == HookMode::Enforce && may_be_call;
    let read = match api.bodies.read(request).await {
        Ok(body) if may_be_call => ingest::hook_payload(&body, &api.limits).map_err(|faults| (told(&faults), faults)),
        Ok(body) => ingest::hook_report(&body, &api.limits).map_err(|faults| (told(&faults), faults)),
        Err(problem) if must_answer => Err((problem.detail.to_string(), Vec::new())),
        Err(problem) => return Err(problem),
    };
    let answer = match read {
        Ok(payload) => {
            let mut message = HookMessage::read(host, event.as_deref(), &payload);
            message.for_each_name(|name| {
                if name.len() > NAME {
                    let hash = api.flows.installation.hash("hook-name", &[name.as_bytes()]);
                    *name = hex::encode(hash.get(..16).unwrap_or_default());
                }
            });
            count(host, &message);
            let hook = HookRequest { host, mode, agent, by, message };
            let answer = api.flows.hooks.answer(asked, &hook).await.map_err(problem)?;
            match (&answer, mode) {
                // An allowance that some hosts want to read would stand for the user's own.
                (HookAnswer::Pass, HookMode::Observe) => json!({}),
                _ => answer.render(hook.message.reader(host), &hook.message),
            }
        }
        Err((_, faults)) if !must_answer => return Err(invalid_request(faults)),
        Err((why, _)) => {
            // Without the payload the call cannot be decided. A host takes an error of HTTP for an allowance.
            let reason = format!("Umbra cannot read this call, so it was not made: {why}");
            let event = event.unwrap_or_else(|| "PreToolUse".to_owned());
            HookAnswer::Deny(reason).render(host, &HookMessage { event, ..HookMessage::default() })
        }
    };
    let mut response = Json(answer).into_response();
    if let Some(nonce) = nonce.as_deref().and_then(|nonce| HeaderValue::from_str(nonce).ok()) {
        response.headers_mut().insert(PROOF.clone(), nonce);
    }
    Ok(response)
}

/// Words the first faults of a payload.
fn told(faults: &[RequestFault]) -> String {
    let words = faults.iter().take(TOLD).map(|fault| format!("{} {}", fault.pointer, fault.detail));
    words.collect::<Vec<_>>().join("; ").trim().to_owned()
}

fn agent_name(text: &str) -> Option<String> {
    (!text.trim().is_empty() && text.len() <= NAME).then(|| text.to_owned())
}

fn nonce(text: &str) -> Option<String> {
    let fits = (1..=NONCE).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    fits.then(|| text.to_owned())
}

/// Counts an event that is unknown, or known without use.
fn count(host: &Host, message: &HookMessage) {
    let label = label_of(&message.event);
    metrics::counter!(metric::HOOKS, "host" => host.name, "event" => label).increment(1);
    if message.kind.is_none() {
        metrics::counter!(metric::HOOKS_UNKNOWN, "host" => host.name, "event" => label).increment(1);
    }
}

fn problem(error: HookError) -> Problem {
    match error {
        HookError::Refused(error) => refused(error),
        HookError::Store(error) => error.into(),
    }
}

/// Hooks that were heard of.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HookedHosts)]
pub struct HookedHosts {
    /// Hosts, the last seen first.
    pub items: Vec<HookedHost>,
}

/// Lists the coding agents whose hooks were heard of, with the calls that ran without a decision.
#[utoipa::path(get, path = "/v1/hooks", tag = "boundary",
    responses((status = 200, description = "Hosts, agents and modes, the last seen first", body = HookedHosts)))]
pub async fn list_hooks(api: Api, caller: Caller, params: Params) -> JsonAnswer<HookedHosts> {
    params.finish()?;
    let mut items = api.flows.store.hooks().list().await?;
    items.retain(|hooked| caller.sees(&hooked.agent));
    Ok(Json(HookedHosts { items }))
}
