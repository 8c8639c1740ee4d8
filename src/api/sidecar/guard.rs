//! `/v1/guard` and `/v1/tools/select`: judgement of a call or message by the rules, and selection of tools for a task.

use axum::{Json, extract::Request};
use utoipa::ToSchema;

use super::{arrived, read, read_wide};
use crate::{
    api::{Api, JsonAnswer, auth::Caller},
    flows::sessions::{guard::GuardAnswer, select::Selection},
    ingest,
};

/// Message or call to judge.
#[derive(Debug, ToSchema)]
#[schema(as = GuardRequest)]
#[expect(dead_code, reason = "it documents what `ingest::guard_request` reads")]
pub struct GuardSchema {
    /// Session of the message or call: its labels and documents count.
    session: Option<String>,
    /// Agent, where there is no session.
    agent: Option<String>,
    /// Route that the agent is on.
    route: Option<String>,
    /// Modes that the agent is in.
    modes: Option<Vec<String>>,
    /// Message that is about to be sent: a text, or a text with its role.
    message: Option<WordsSchema>,
    /// Call that is about to be made; one of `message` and `call`.
    call: Option<ingest::NamedCall>,
    /// Longest wait of the caller, in milliseconds. Rules without a model take at most the setting `sidecar.deadline`;
    /// rules in words may take longer, up to this. With 0, the answer comes from memory.
    #[schema(maximum = 600_000)]
    deadline_ms: Option<u64>,
}

/// Message, as a text by the agent or as a text with its role.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[schema(as = GuardedWords)]
pub enum WordsSchema {
    /// Text by the agent.
    Text(String),
    /// Text with its role.
    Said(SaidSchema),
}

/// Text with its role.
#[derive(Debug, ToSchema)]
#[schema(as = GuardedMessage)]
#[expect(dead_code, reason = "it documents what `ingest::guard_request` reads")]
pub struct SaidSchema {
    /// `user`, `assistant` (the default), `tool` or `system`.
    role: Option<String>,
    /// Text of the message.
    content: String,
}

/// Judges a call or a message by the rules: `allow`, `warn` or `block`, with the rule and its reason.
#[utoipa::path(post, path = "/v1/guard", tag = "sidecar", request_body = GuardSchema,
    responses((status = 200, description = "The ruling of the guardrail", body = GuardAnswer),
        (status = 404, description = "Session not found"),
        (status = 409, description = "The session is closed")))]
pub async fn post_guard(api: Api, caller: Caller, request: Request) -> JsonAnswer<GuardAnswer> {
    let asked = arrived(&request);
    let guard = read(&api, request, ingest::guard_request).await?;
    if let Some(agent) = &guard.agent {
        caller.speak_for(agent)?;
    }
    Ok(Json(api.flows.sidecar.guard(asked, guard, &|agent| caller.sees(agent)).await?))
}

/// Selects the tools that fit a task, best first, and reports those that fit but may not be offered.
#[utoipa::path(post, path = "/v1/tools/select", tag = "sidecar", request_body = ingest::SelectRequest,
    responses((status = 200, description = "The tools that fit the task", body = Selection),
        (status = 404, description = "Session not found")))]
pub async fn post_select(api: Api, caller: Caller, request: Request) -> JsonAnswer<Selection> {
    let asked = arrived(&request);
    let select = read_wide(&api, request, ingest::select_request).await?;
    if let Some(agent) = &select.agent {
        caller.speak_for(agent)?;
    }
    Ok(Json(api.flows.sidecar.select(asked, select, &|agent| caller.sees(agent)).await?))
}
