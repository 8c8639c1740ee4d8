//! `/v1/sessions`: attaches a sidecar to an agent, reads its state, and closes it.

use axum::{
    Json,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{arrived, read_wide};
use crate::{
    api::{
        Api, JsonAnswer, Listing,
        auth::Caller,
        params::{Params, expect_note, reached_listing},
        path_ids::{Addressed, PathId},
        problem::Problem,
    },
    flows::sessions::attach::{AttachError, Attachment, DocumentState, NoteError, SessionSummary},
    ingest,
};
use umbra_domain::SessionId;
use umbra_domain::{PatternOutcome, Session, SessionState, sidecar::SidecarRules};
use umbra_store::{paging::Feed, sessions::SessionFilter};

/// Name of the list of sessions in cursors.
const FEED: char = 'S';

/// Session with its documents.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionView {
    /// State of the session.
    #[serde(flatten)]
    pub session: Session,
    /// Documents of the session, without their texts.
    pub documents: Vec<DocumentState>,
}

/// Rules in force for a session.
#[derive(Debug, Serialize, ToSchema)]
pub struct PoliciesView {
    /// Hash of the text of all rules.
    pub policy_version: String,
    /// Rules that apply to the session's agent on its route and in its modes; those of the tools file first.
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    pub rules: SidecarRules,
}

/// End of a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CloseRequest {
    /// Outcome of the session's task. If given, the calls of the session become a pattern; otherwise they do so once
    /// reviews approve the task.
    #[serde(default)]
    pub outcome: Option<PatternOutcome>,
}

/// Attaches a sidecar: begins a session. If the session cannot be stored, the answer comes without one.
#[utoipa::path(post, path = "/v1/sessions", tag = "sidecar", request_body = ingest::AttachRequest,
    responses((status = 201, description = "The session has begun", body = Attachment),
        (status = 200, description = "The session could not be stored: go on without the sidecar", body = Attachment),
        (status = 429, description = "The agent has the most open sessions that it may have")))]
pub async fn post_session(api: Api, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked = arrived(&request);
    let attach = read_wide(&api, request, ingest::attach_request).await?;
    caller.speak_for(&attach.agent)?;
    let attached = api.flows.sidecar.attach(asked, attach).await.map_err(|error| match error {
        AttachError::Faults(faults) => Problem::invalid_request("the session has invalid parts; errors lists them")
            .with(faults.into_iter().map(|fault| (format!("/{}", fault.part), "format", fault.detail))),
        AttachError::TooMany(_) => Problem::rate_limited(error.to_string()),
        AttachError::Store(error) => error.into(),
    })?;
    let status = if attached.session.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(attached)).into_response())
}

/// Lists sessions, oldest first: those of an agent, or all, for keys that may read everything.
#[utoipa::path(get, path = "/v1/sessions", tag = "sidecar",
    params(("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("state" = Option<SessionState>, Query, description = "Only those in this state"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "Sessions at most (50)"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` or `resume_cursor` of an earlier answer"),
        ("order" = Option<String>, Query, description = "asc (default) or desc")),
    responses((status = 200, description = "A page", body = Listing<Session>)))]
pub async fn list_sessions(api: Api, caller: Caller, mut params: Params) -> JsonAnswer<Listing<Session>> {
    let agent = params.text("agent");
    let state = params.parsed("state", "open or closed", SessionState::parse);
    let seek = params.seek(FEED)?;
    caller.read_of(agent.as_deref())?;
    let agent = agent.map(|agent| api.flows.sidecar.boundary.name_asked_for(&agent));
    let page = api.flows.sidecar.sessions(&SessionFilter { agent, state, seek }).await?;
    reached_listing(&api.flows.store, Feed::Session, FEED, seek, page).await.map(Json)
}

/// Returns a session with the states of its documents.
#[utoipa::path(get, path = "/v1/sessions/{id}", tag = "sidecar",
    params(("id" = String, Path, description = "A session's id", example = "ses_0197a3c1d2e47f00a1b2c3d4e5f60718")),
    responses((status = 200, description = "The session", body = SessionView)))]
pub async fn get_session(api: Api, caller: Caller, PathId(id): PathId<SessionId>) -> JsonAnswer<SessionView> {
    let found = api.flows.sidecar.session(id, &|agent| caller.sees(agent)).await?;
    let (session, documents) = found.ok_or_else(SessionId::unknown)?;
    Ok(Json(SessionView { session, documents }))
}

/// Returns the rules in force for a session.
#[utoipa::path(get, path = "/v1/sessions/{id}/policies", tag = "sidecar",
    params(("id" = String, Path, description = "A session's id")),
    responses((status = 200, description = "The rules", body = PoliciesView)))]
pub async fn get_policies(api: Api, caller: Caller, PathId(id): PathId<SessionId>) -> JsonAnswer<PoliciesView> {
    let found = api.flows.sidecar.session(id, &|agent| caller.sees(agent)).await?;
    let (session, _) = found.ok_or_else(SessionId::unknown)?;
    let rules = api.flows.sidecar.rules.load();
    let in_force = rules.guardrail.in_force(&session.agent, session.route.as_deref(), &session.modes);
    Ok(Json(PoliciesView { policy_version: rules.guardrail.version().to_owned(), rules: in_force }))
}

/// Closes a session and keeps its successful calls as a pattern. Closing again returns the same summary; an outcome
/// that was not given before is recorded once.
#[utoipa::path(post, path = "/v1/sessions/{id}/close", tag = "sidecar", request_body = Option<CloseRequest>,
    params(("id" = String, Path, description = "A session's id")),
    responses((status = 200, description = "The closed session with its totals", body = SessionSummary)))]
pub async fn post_close(
    api: Api,
    caller: Caller,
    PathId(id): PathId<SessionId>,
    request: Request,
) -> JsonAnswer<SessionSummary> {
    let asked = arrived(&request);
    let close: CloseRequest = api.bodies.read_or_nothing(request).await?;
    Ok(Json(api.flows.sidecar.close(asked, id, close.outcome, &|agent| caller.sees(agent)).await?))
}

/// A person's note for an agent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NoteRequest {
    /// Text for the agent.
    #[schema(min_length = 1, max_length = 2000)]
    pub text: String,
}

/// Leaves a note for the agent of a session. The next turn (`directives`) or message (`warnings`) delivers it, once, as
/// the words of a person.
#[utoipa::path(post, path = "/v1/sessions/{id}/notes", tag = "sidecar", request_body = NoteRequest,
    params(("id" = String, Path, description = "A session's id")),
    responses((status = 200,
        description = "The session; `notes` lists the notes that the agent has not received yet", body = Session),
        (status = 409, description = "The session is closed, or the most notes that may wait are waiting")))]
pub async fn post_note(api: Api, PathId(id): PathId<SessionId>, request: Request) -> JsonAnswer<Session> {
    let NoteRequest { text } = api.bodies.read_json(request).await?;
    expect_note("/text", &text)?;
    let noted = api.flows.sidecar.leave_note(id, &text).await;
    Ok(Json(noted.map_err(|error| match error {
        NoteError::Step(error) => error.into(),
        error @ NoteError::TooMany => Problem::conflict(error.to_string()),
    })?))
}
