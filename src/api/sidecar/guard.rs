//! `/v1/guard` and `/v1/tools/select`: what the rules say of one call or message, and which tools fit a task.

use axum::{
    Json,
    extract::{Request, State},
};
use utoipa::ToSchema;

use super::{arrived, read, read_wide};
use crate::{
    api::{Api, auth::Caller, problem::Problem},
    flows::sessions::{guard::GuardAnswer, select::Selected},
    ingest,
};
use umbra_domain::key::Scope;

/// A message or call to judge.
#[derive(Debug, ToSchema)]
#[schema(as = GuardQuestion)]
#[expect(dead_code, reason = "it documents what `ingest::guard_request` reads")]
pub struct GuardSchema {
    /// The session in which it happens: its labels and documents count.
    session: Option<String>,
    /// The agent, where there is no session.
    agent: Option<String>,
    /// The route that the agent is on.
    route: Option<String>,
    /// The modes that it is in.
    modes: Option<Vec<String>>,
    /// What is about to be said: a text, or with who says it.
    message: Option<WordsSchema>,
    /// The call that is about to be made; one of `message` and `call`.
    call: Option<ingest::NamedCall>,
    /// Milliseconds that the caller waits: no longer than the setting `sidecar.deadline`, but for rules in words, which may take
    /// longer and are not waited for beyond this. With 0, what is in memory is answered.
    #[schema(maximum = 600_000)]
    deadline_ms: Option<u64>,
}

/// Something that is said, as a text by the agent, or with who says it.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[schema(as = GuardedWords)]
pub enum WordsSchema {
    /// As a text.
    Text(String),
    /// With who says it.
    Said(SaidSchema),
}

/// Something that is said.
#[derive(Debug, ToSchema)]
#[schema(as = GuardedMessage)]
#[expect(dead_code, reason = "it documents what `ingest::guard_request` reads")]
pub struct SaidSchema {
    /// `user`, `assistant` (unless it is said), `tool` or `system`.
    role: Option<String>,
    /// What is said.
    content: String,
}

/// What the rules say of a call or a message: `allow`, `warn` or `block`, with the rule and its reason.
#[utoipa::path(post, path = "/v1/guard", tag = "sidecar", request_body = inline(GuardSchema),
    responses((status = 200, description = "What the rules say", body = GuardAnswer),
        (status = 404, description = "There is no such session",
            body = crate::api::problem::ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The session is closed",
            body = crate::api::problem::ProblemDocument, content_type = "application/problem+json")))]
pub async fn post_guard(
    State(api): State<Api>,
    caller: Caller,
    request: Request,
) -> Result<Json<GuardAnswer>, Problem> {
    caller.require(Scope::Ingest)?;
    let asked = arrived(&request);
    let guard = read(&api, request, ingest::guard_request).await?;
    if let Some(agent) = &guard.agent {
        caller.speak_for(agent)?;
    }
    Ok(Json(api.flows.sidecar.guard(asked, guard, &|agent| caller.sees(agent)).await?))
}

/// Which tools fit a task, best first, and which that fit may not be offered.
#[utoipa::path(post, path = "/v1/tools/select", tag = "sidecar", request_body = inline(ingest::SelectRequest),
    responses((status = 200, description = "Which tools fit", body = Selected),
        (status = 404, description = "There is no such session",
            body = crate::api::problem::ProblemDocument, content_type = "application/problem+json")))]
pub async fn post_select(State(api): State<Api>, caller: Caller, request: Request) -> Result<Json<Selected>, Problem> {
    caller.require(Scope::Ingest)?;
    let asked = arrived(&request);
    let select = read_wide(&api, request, ingest::select_request).await?;
    if let Some(agent) = &select.agent {
        caller.speak_for(agent)?;
    }
    Ok(Json(api.flows.sidecar.select(asked, select, &|agent| caller.sees(agent)).await?))
}
