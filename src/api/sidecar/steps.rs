//! `/v1/sessions/{id}/turns` and `/v1/sessions/{id}/messages`: one request before each step of an agent, and one after.

use std::{collections::VecDeque, fmt::Write, time::Duration};

use axum::{Json, extract::Request, http::HeaderMap, response::Response};
use bytes::Bytes;
use serde_json::Value;

use super::{arrived, read};
use crate::{
    api::{
        Api, JsonAnswer,
        auth::Caller,
        path_ids::{Addressed, PathId},
        problem::Problem,
        stream::event_stream,
    },
    flows::sessions::{message::MessageAnswer, turn::TurnAnswer},
    ingest,
};
use umbra_domain::{SessionId, SessionState, StepKind};

/// Pause between reads of a session's steps.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Most steps of one read.
const PAGE: i64 = 100;

/// Prepares the next step of an agent: fitting tools, judgement of the planned calls, due documents, and patterns of
/// earlier tasks.
#[utoipa::path(post, path = "/v1/sessions/{id}/turns", tag = "sidecar", request_body = ingest::TurnRequest,
    params(("id" = String, Path, description = "A session's id")),
    responses((status = 200,
        description = "The agent's next directives; where something is missing, `degraded` and `warnings` say so",
            body = TurnAnswer),
        (status = 409, description = "The session is closed")))]
pub async fn post_turn(
    api: Api,
    caller: Caller,
    PathId(id): PathId<SessionId>,
    request: Request,
) -> JsonAnswer<TurnAnswer> {
    let asked = arrived(&request);
    let turn = read(&api, request, ingest::turn_request).await?;
    Ok(Json(api.flows.sidecar.turn(asked, id, turn, &|agent| caller.sees(agent)).await?))
}

/// Reports messages and calls of a step: they are judged by the rules and stored.
#[utoipa::path(post, path = "/v1/sessions/{id}/messages", tag = "sidecar", request_body = ingest::MessageRequest,
    params(("id" = String, Path, description = "A session's id")),
    responses((status = 200, description = "The ruling about the message", body = MessageAnswer),
        (status = 409, description = "The session is closed")))]
pub async fn post_message(
    api: Api,
    caller: Caller,
    PathId(id): PathId<SessionId>,
    request: Request,
) -> JsonAnswer<MessageAnswer> {
    let asked = arrived(&request);
    let message = read(&api, request, ingest::message_request).await?;
    Ok(Json(api.flows.sidecar.message(asked, id, message, &|agent| caller.sees(agent)).await?))
}

/// Streams the sidecar's answers to the steps of a session, as server-sent events `turn`, `message`, `guard` or `close`
/// with the answer as data. Without `Last-Event-ID` the stream begins now; with `0`, at the first step. It ends with
/// the session.
#[utoipa::path(get, path = "/v1/sessions/{id}/messages", tag = "sidecar",
    params(("id" = String, Path, description = "A session's id"),
        ("Last-Event-ID" = Option<String>, Header, description = "The `id` of the last event that was received; 0 for all")),
    responses((status = 200, description = "Events until the session ends", body = String, content_type = "text/event-stream")))]
pub async fn get_messages(
    api: Api,
    caller: Caller,
    PathId(id): PathId<SessionId>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let found = api.flows.sidecar.session(id, &|agent| caller.sees(agent)).await?;
    let (session, _) = found.ok_or_else(SessionId::unknown)?;
    let last = api.flows.store.sessions().last_step(id).await?;
    let after = match headers.get("last-event-id").map(|value| value.to_str().ok().and_then(|text| text.parse().ok())) {
        Some(Some(after)) if (0..=last).contains(&after) => after,
        Some(_) => {
            return Err(Problem::bad_cursor("Last-Event-ID is not an id of this stream; leave it out to begin now"));
        }
        None => last,
    };
    let opening = VecDeque::from([format!("retry: 2000\nid: {after}\n\n")]);
    let listener = SessionStepStream {
        keep_alive: api.stream_keep_alive,
        api,
        id,
        after,
        ready: opening,
        over: session.state == SessionState::Closed && after == last,
        quiet: Duration::ZERO,
    };
    Ok(event_stream(listener, SessionStepStream::next))
}

/// State of one stream.
struct SessionStepStream {
    api: Api,
    id: SessionId,
    after: i32,
    ready: VecDeque<String>,
    over: bool,
    keep_alive: Duration,
    quiet: Duration,
}

impl SessionStepStream {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        let draining = self.api.draining.clone();
        loop {
            if let Some(piece) = self.ready.pop_front() {
                self.quiet = Duration::ZERO;
                return Some((piece.into(), self));
            }
            if self.over {
                return None;
            }
            let steps = self.api.flows.store.sessions().session_steps(self.id, self.after, PAGE);
            let steps = draining.run_until_cancelled(steps).await?.ok()?;
            for step in &steps {
                self.after = step.number;
                self.over |= step.kind == StepKind::Close;
                let body: Value = serde_json::from_str(&step.body).unwrap_or_default();
                let mut piece = String::new();
                let answered = body.get("answered").cloned().unwrap_or_default();
                // Compact JSON has no line ends of its own.
                write!(piece, "id: {}\nevent: {}\ndata: {answered}\n\n", step.number, step.kind.as_str()).ok()?;
                self.ready.push_back(piece);
            }
            if steps.is_empty() {
                if self.quiet >= self.keep_alive {
                    self.ready.push_back(": \n\n".to_owned());
                    let found = self.api.flows.store.sessions().get(self.id).await.ok()?;
                    self.over = found.is_none_or(|(session, _)| session.state == SessionState::Closed);
                    continue;
                }
                draining.run_until_cancelled(tokio::time::sleep(BETWEEN_LOOKS)).await?;
                self.quiet += BETWEEN_LOOKS;
            }
        }
    }
}
