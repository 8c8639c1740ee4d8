//! `POST /v1/reviews/batch`: reviews of recent stored events that no shadow has reviewed.

use axum::{Json, extract::Request, http::StatusCode};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::{Api, problem::Problem},
    flows::events::catch_up::{CatchUp, CatchUpError, CaughtUp},
};
use umbra_config::quantity::parse_moment;

/// Selection of stored events to review.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BatchRequest {
    /// Earliest time of receipt: a duration up to now, such as `24h` (the default), or a time (RFC 3339).
    #[schema(example = "24h")]
    pub since: Option<String>,
    /// Most events to review; the newest are taken.
    #[schema(minimum = 1, maximum = 500, default = 5)]
    pub max: Option<usize>,
    /// Shadow that reviews them, even if it does not watch them; without it, the first shadow that watches each.
    pub shadow: Option<String>,
    /// Agent of the events.
    pub agent: Option<String>,
    /// True if events count whose task cost less than the shadow's cost floor.
    pub ignore_floor: bool,
}

/// Result of the request.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchAnswer {
    /// Number of reserved reviews.
    pub queued: usize,
    /// Number of reviews refused by caps.
    pub refused: usize,
    /// One item for each event, newest first; fewer than `max` if no more events without a review were found.
    pub items: Vec<CaughtUp>,
}

/// Reviews recent stored events that no shadow has reviewed, newest first. The reviews count against the shadows' caps;
/// those that a cap refuses are reported. Events of tasks below a shadow's cost floor are left out, unless
/// `ignore_floor` is set. Cooldown and sample are ignored; the reviews never give a verdict. Ask for the reviews by
/// their ids.
#[utoipa::path(post, path = "/v1/reviews/batch", operation_id = "post_reviews_batch", tag = "reviews", request_body = BatchRequest,
    responses((status = 202,
        description = "The reviews that were queued, and those that were refused", body = BatchAnswer),
        (status = 404, description = "Shadow not found"),
        (status = 409, description = "The shadow is disabled")))]
pub async fn post_batch(api: Api, request: Request) -> Result<(StatusCode, Json<BatchAnswer>), Problem> {
    let body: BatchRequest = api.bodies.read_json(request).await?;
    let request = catch_up(&api, body)?;
    let items = api.flows.reservations.catch_up(&request).await.map_err(|error| match error {
        CatchUpError::UnknownShadow => Problem::unknown_shadow(error.to_string()),
        CatchUpError::ShadowDisabled => Problem::conflict(error.to_string()),
        CatchUpError::Store(error) => error.into(),
    })?;
    let queued = items.iter().filter(|item| item.disposition.review_id.is_some()).count();
    if queued > 0 {
        api.flows.intake.wake();
    }
    Ok((StatusCode::ACCEPTED, Json(BatchAnswer { queued, refused: items.len() - queued, items })))
}

/// Checks a request; otherwise reports every fault of it.
fn catch_up(api: &Api, body: BatchRequest) -> Result<CatchUp, Problem> {
    let since = parse_moment(body.since.as_deref().unwrap_or("24h"), api.flows.clock.now());
    let max = body.max.unwrap_or(5);
    let mut faults = Vec::new();
    if since.is_none() {
        faults.push(("/since", "bad_value", "expected a duration such as 24h, or an RFC 3339 time"));
    }
    if !(1..=500).contains(&max) {
        faults.push(("/max", "bad_value", "expected a number from 1 to 500"));
    }
    for (pointer, text) in [("/shadow", &body.shadow), ("/agent", &body.agent)] {
        if text.as_ref().is_some_and(|text| text.is_empty() || text.contains('\0')) {
            let right = "expected a name without U+0000; leave the field out for no limit";
            faults.push((pointer, "bad_value", right));
        }
    }
    match since {
        Some(since) if faults.is_empty() => {
            let BatchRequest { shadow, agent, ignore_floor, .. } = body;
            Ok(CatchUp { since, max, shadow, agent, ignore_floor })
        }
        _ => Err(Problem::invalid_values(faults)),
    }
}
