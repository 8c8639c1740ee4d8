//! The sidecar: `/v1/sessions`, `/v1/guard`, `/v1/tools/select`, `/v1/patterns`.
//!
//! An agent's own key (scope `ingest`) is enough for its own sessions; others are unknown to it. What fails behind these
//! endpoints is no HTTP error where an agent waits: `degraded` and `warnings` say what is missing.

pub mod documents;
pub mod guard;
pub mod patterns;
pub mod sessions;
pub mod steps;

use axum::extract::Request;
use tokio::time::Instant;

use super::{Api, auth::Caller, entrance::Arrived, events::invalid_request, problem::Problem};
use crate::{
    domain::{SessionId, key::Scope},
    ingest::{Fault, Limits},
    pipeline::sidecar::attach::StepError,
};

/// Bodies may hold the definitions of many tools: so many times what an event may.
const WIDER: usize = 40;
/// And a step so many times.
const LONGER: usize = 8;

/// When a request came.
fn arrived(request: &Request) -> Instant {
    request.extensions().get::<Arrived>().map_or_else(Instant::now, |arrived| arrived.0)
}

/// Reads a body by a rule of `ingest`.
async fn read<T>(
    api: &Api,
    request: Request,
    limits: &Limits,
    rule: impl FnOnce(&[u8], &Limits) -> Result<T, Vec<Fault>>,
) -> Result<T, Problem> {
    super::body::expect_media(request.headers(), &[super::body::Media::Json])?;
    let body = api.bodies.read(request).await?;
    rule(&body, limits).map_err(invalid_request)
}

/// Bounds of what may name many tools.
fn wide(api: &Api) -> Limits {
    widened(api, WIDER)
}

/// Bounds of a step: what tools take and answer is longer than what is told of it in an event.
fn of_step(api: &Api) -> Limits {
    widened(api, LONGER)
}

fn widened(api: &Api, times: usize) -> Limits {
    let Limits { event_bytes, nodes, .. } = api.limits;
    Limits { event_bytes: event_bytes.saturating_mul(times), nodes: nodes.saturating_mul(times), ..api.limits }
}

/// Who reads a session: whoever reads everything, or its agent.
fn may_read(caller: &Caller) -> Result<(), Problem> {
    caller.require_any(&[Scope::Ingest, Scope::Read])
}

fn session_id(text: &str) -> Result<SessionId, Problem> {
    text.parse().map_err(|_| StepError::Unknown.into())
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Unknown => Self::no_session(error.to_string()),
            StepError::Closed => Self::session_closed(error.to_string()),
        }
    }
}
