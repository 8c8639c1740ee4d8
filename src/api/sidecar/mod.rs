//! Endpoints of the sidecar: `/v1/sessions`, `/v1/guard`, `/v1/tools/select`, `/v1/patterns`.
//!
//! An agent's own key (scope `ingest`) is enough for its own sessions; to other keys bound to agents they do not exist.
//! Failures behind these endpoints are no HTTP error where an agent waits: `degraded` and `warnings` name the missing
//! parts.

pub mod documents;
pub mod guard;
pub mod patterns;
pub mod sessions;
pub mod steps;

use axum::extract::Request;

use super::{
    Api,
    body::{Media, expect_media},
    entrance::arrived,
    events::invalid_request,
    problem::Problem,
};
use crate::{
    api::path_ids::Addressed,
    flows::sessions::attach::StepError,
    ingest::{Limits, RequestFault},
};
use umbra_domain::SessionId;

/// Factor by which a body with tool definitions may exceed an event.
const WIDER: usize = 40;
/// Factor by which the body of a step may exceed an event: arguments and results of tools are long.
const LONGER: usize = 8;

/// Reads the body of a step with a reader of `ingest`.
async fn read<T>(
    api: &Api,
    request: Request,
    rule: impl FnOnce(&[u8], &Limits) -> Result<T, Vec<RequestFault>>,
) -> Result<T, Problem> {
    expect_media(request.headers(), &[Media::Json])?;
    let body = api.bodies.read(request).await?;
    rule(&body, &widened(api, LONGER)).map_err(invalid_request)
}

/// Reads a body that may define many tools.
async fn read_wide<T>(
    api: &Api,
    request: Request,
    rule: impl FnOnce(&[u8], &Limits) -> Result<T, Vec<RequestFault>>,
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
