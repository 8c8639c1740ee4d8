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

use super::{
    Api,
    auth::Caller,
    body::{Media, expect_media},
    entrance::Arrived,
    events::invalid_request,
    problem::Problem,
};
use crate::{
    api::missing::Addressed,
    flows::sessions::attach::StepError,
    ingest::{Fault, Limits},
};
use umbra_domain::{SessionId, key::Scope};

/// Bodies may hold the definitions of many tools: so many times what an event may.
const WIDER: usize = 40;
/// And a step so many times: what tools take and answer is longer than what is told of it in an event.
const LONGER: usize = 8;

/// When a request came.
fn arrived(request: &Request) -> Instant {
    request.extensions().get::<Arrived>().map_or_else(Instant::now, |arrived| arrived.0)
}

/// Reads the body of a step by a rule of `ingest`.
async fn read<T>(
    api: &Api,
    request: Request,
    rule: impl FnOnce(&[u8], &Limits) -> Result<T, Vec<Fault>>,
) -> Result<T, Problem> {
    expect_media(request.headers(), &[Media::Json])?;
    let body = api.bodies.read(request).await?;
    rule(&body, &widened(api, LONGER)).map_err(invalid_request)
}

/// Reads a body that may name many tools.
async fn read_wide<T>(
    api: &Api,
    request: Request,
    rule: impl FnOnce(&[u8], &Limits) -> Result<T, Vec<Fault>>,
) -> Result<T, Problem> {
    expect_media(request.headers(), &[Media::Json])?;
    let limits = widened(api, WIDER);
    let body = api.bodies.up_to(limits.event_bytes).read(request).await?;
    rule(&body, &limits).map_err(invalid_request)
}

fn widened(api: &Api, times: usize) -> Limits {
    let Limits { event_bytes, nodes, .. } = api.limits;
    Limits { event_bytes: event_bytes.saturating_mul(times), nodes: nodes.saturating_mul(times), ..api.limits }
}

/// Who reads a session: whoever reads everything, or its agent.
fn may_read(caller: &Caller) -> Result<(), Problem> {
    caller.require_any(&[Scope::Ingest, Scope::Read])
}

impl Addressed for SessionId {
    fn unknown() -> Problem {
        StepError::Unknown.into()
    }
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Unknown => Self::no_session(error.to_string()),
            StepError::Closed => Self::session_closed(error.to_string()),
            StepError::Store(error) => error.into(),
        }
    }
}
