//! `/v1/reviews`: what shadows concluded, and a review on demand.

pub mod batch;

use std::time::Duration;

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::ToSchema;

use super::{
    Api, Listing,
    auth::Caller,
    body::{Media, expect_media, from_json},
    events::refused,
    params::{Params, PathPart, listing, preferred_wait},
    problem::Problem,
};
use crate::{
    domain::{Assessment, Event, EventId, Mode, Outcome, ReviewId, ReviewState, SkipReason, Trigger, key::Scope},
    findings,
    ingest::Incoming,
    pipeline::{Origin, accept::OnDemand},
    store::reviews::{Review, ReviewFilter},
};

/// Names the list in order of reservation, and the one in order of finishing.
const BY_RESERVATION: char = 'r';
const BY_FINISHING: char = 'd';

/// A text to be reviewed now.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReviewRequest {
    /// The agent whose output it is.
    #[schema(min_length = 1, max_length = 256)]
    pub target: String,
    /// As if by this trigger.
    pub trigger: String,
    /// By this shadow; without it, by the first that watches the target for the trigger.
    pub shadow: Option<String>,
    /// What was asked of the agent.
    pub task: Option<String>,
    /// The text.
    pub output: String,
    /// What the agent was given.
    pub context: Option<String>,
}

/// Reviews a text now, and waits for it. It counts against the shadow's caps; its cooldown does not hold it back.
#[utoipa::path(post, path = "/v1/reviews", tag = "reviews", request_body = ReviewRequest,
    params(("Prefer" = Option<String>, Header, description = "`wait=N` seconds, at most 60, which is the default")),
    responses((status = 200, description = "The review", body = Review),
        (status = 202, description = "Not finished within the wait: ask for it by its id", body = Review),
        (status = 404, description = "There is no such shadow, or none that watches the target for the trigger",
            body = super::problem::ProblemDocument, content_type = "application/problem+json"),
        (status = 409, description = "The shadow is switched off",
            body = super::problem::ProblemDocument, content_type = "application/problem+json"),
        (status = 429, description = "The shadow's cap of the day is reached; code and detail say which",
            body = super::problem::ProblemDocument, content_type = "application/problem+json")))]
pub async fn post_review(State(api): State<Api>, caller: Caller, request: Request) -> Result<Response, Problem> {
    caller.require(Scope::Ingest)?;
    caller.require(Scope::Read)?;
    expect_media(request.headers(), &[Media::Json])?;
    let wait = preferred_wait(request.headers()).map_or(api.max_wait, |wait| wait.min(api.max_wait));
    let body: ReviewRequest = from_json(&api.bodies.read(request).await?)?;
    caller.speak_for(&body.target)?;
    let (incoming, origin) = on_demand(&api, body)?;
    let accepted = api.pipeline.accept(incoming, &origin).await.map_err(refused)?;
    let id = match accepted.dispositions.first() {
        Some(disposition) if disposition.outcome == Outcome::Queued => disposition.review_id,
        Some(disposition) => {
            let reason = disposition.reason.map_or("skipped", SkipReason::as_str);
            let detail = format!("the shadow {} does not review this now: {reason}", disposition.shadow);
            return Err(match disposition.reason {
                Some(SkipReason::Overload) => Problem::overloaded(detail),
                Some(SkipReason::ShadowDisabled) => Problem::conflict(detail),
                _ => Problem::rate_limited(detail),
            });
        }
        None => None,
    };
    let id = id.ok_or_else(|| Problem::internal("a review on demand without a disposition"))?;
    let row = await_review(&api, accepted.id, id, wait).await?;
    let ended = row.has_ended();
    let view = with_findings(&api, row).await?;
    Ok((if ended { StatusCode::OK } else { StatusCode::ACCEPTED }, Json(view)).into_response())
}

fn on_demand(api: &Api, body: ReviewRequest) -> Result<(Incoming, Origin), Problem> {
    let bad = |pointer: &str, detail: String| {
        Problem::invalid_event("the request breaks rules; errors lists them").at(pointer, "bad_value", detail)
    };
    if body.target.trim().is_empty() || body.target.len() > 256 {
        return Err(bad("/target", "1 to 256 bytes, not blank".into()));
    }
    let trigger = Trigger::parse(&body.trigger)
        .ok_or_else(|| bad("/trigger", "expected code_written, security_risk, task_complete or error".into()))?;
    let texts = [Some(&body.output), body.task.as_ref(), body.context.as_ref(), Some(&body.target)];
    if texts.iter().flatten().any(|text| text.contains('\0')) {
        return Err(bad("", "U+0000 is not allowed in any text".into()));
    }
    if texts.iter().flatten().map(|text| text.len()).sum::<usize>() > api.limits.event_bytes {
        let limit = api.limits.event_bytes;
        return Err(Problem::body_too_large(format!("the texts hold more than {limit} bytes, the limit of an event")));
    }
    let event = Event {
        agent: body.target,
        triggers: vec![trigger],
        task: body.task,
        input: body.context,
        output: Some(body.output),
        ..Event::default()
    };
    let rules = api.pipeline.rules.load();
    let shadow = match body.shadow {
        Some(name) => name,
        None => rules.first_watching(&event, trigger).ok_or_else(|| {
            Problem::unknown_shadow(format!(
                "no shadow watches this target for {}: name one in `shadow` (GET /v1/shadows lists them)",
                trigger.as_str()
            ))
        })?,
    };
    let origin = Origin { own_traffic: false, on_demand: Some(OnDemand { shadow, trigger }) };
    Ok((Incoming { event, key: None, digest_input: Vec::new() }, origin))
}

async fn await_review(api: &Api, event: EventId, id: ReviewId, wait: Duration) -> Result<Review, Problem> {
    let store = &api.pipeline.store;
    let review = match api.draining.run_until_cancelled(api.pipeline.await_review(event, id, wait)).await {
        Some(review) => review?,
        None => store.review(id).await?,
    };
    match review {
        Some(review) => Ok(review),
        None => Err(given_up(api, event).await?),
    }
}

/// A released review has no row to show: its reason stands on the event.
async fn given_up(api: &Api, event: EventId) -> Result<Problem, Problem> {
    let row = api.pipeline.store.event(event).await?;
    let reason = row.and_then(|row| row.dispositions.first().and_then(|disposition| disposition.reason));
    let detail = format!(
        "the review was given up and its unit returned: {}; the event {event} is stored",
        reason.map_or("no reason is known", SkipReason::as_str)
    );
    Ok(match reason {
        Some(SkipReason::UsdCap | SkipReason::TokenCap) => Problem::rate_limited(detail),
        _ => Problem::provider_unavailable(detail),
    })
}

async fn with_findings(api: &Api, mut review: Review) -> Result<Review, Problem> {
    review.findings = Some(api.pipeline.store.findings_of(&[review.id]).await?);
    Ok(review)
}

/// Lists reviews in order of reservation; those asked for by `state=done` or an assessment in order of finishing, so
/// that whoever polls does not miss one that finishes late. Released reservations are not listed.
#[utoipa::path(get, path = "/v1/reviews", tag = "reviews",
    params(("shadow" = Option<String>, Query, description = "By this shadow"),
        ("agent" = Option<String>, Query, description = "Of this agent"),
        ("task_id" = Option<String>, Query, description = "Of this task"),
        ("trigger" = Option<String>, Query, description = "By this trigger"),
        ("mode" = Option<Mode>, Query, description = "With this mode"),
        ("state" = Option<String>, Query, description = "queued, running, done or failed"),
        ("assessment" = Option<Assessment>, Query, description = "With this assessment"),
        super::openapi::Paging),
    responses((status = 200, description = "A page", body = Listing<Review>)))]
pub async fn list_reviews(
    State(api): State<Api>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Listing<Review>>, Problem> {
    caller.require(Scope::Read)?;
    let filter = review_filter(&mut params);
    let feed = if filter.only_done() { BY_FINISHING } else { BY_RESERVATION };
    let seek = params.seek(feed);
    params.finish()?;
    let page = api.pipeline.store.reviews(&filter, seek).await?;
    Ok(listing(feed, seek, page, |review| review).json())
}

/// The filters that reviews and observations share.
pub(super) fn review_filter(params: &mut Params) -> ReviewFilter {
    ReviewFilter {
        shadow: params.text("shadow"),
        agent: params.text("agent"),
        task_id: params.text("task_id"),
        trigger: trigger_param(params),
        mode: mode_param(params),
        state: params.parsed("state", "queued, running, done or failed", |word| {
            ReviewState::parse(word)
                .filter(|state| *state != ReviewState::Released)
                .map(|state| state.as_str().to_owned())
        }),
        assessment: params.parsed("assessment", "APPROVE, INCONCLUSIVE, SUGGEST or FLAG", |word| {
            Assessment::parse(word).map(|assessment| assessment.as_str().to_owned())
        }),
        span: params.span(),
    }
}

pub(super) fn trigger_param(params: &mut Params) -> Option<i16> {
    params.parsed("trigger", "code_written, security_risk, task_complete, error or all", |word| {
        Trigger::parse_stored(word).map(Trigger::code)
    })
}

pub(super) fn mode_param(params: &mut Params) -> Option<i16> {
    params.parsed("mode", "passive, review or active", |word| Mode::parse(word).map(Mode::priority))
}

/// One review with its findings; as markdown where `Accept` asks for it.
#[utoipa::path(get, path = "/v1/reviews/{id}", tag = "reviews",
    params(("id" = String, Path, description = "A review's id", example = "rev_0197a3c1d2e47f00a1b2c3d4e5f60718")),
    responses((status = 200, description = "The review",
        content((Review = "application/json"), (String = "text/markdown")))))]
pub async fn get_review(
    State(api): State<Api>,
    caller: Caller,
    PathPart(id): PathPart,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    caller.require(Scope::Read)?;
    let missing = || Problem::not_found("there is no such review; ids look like rev_ and 32 hex digits");
    let id: ReviewId = id.parse().map_err(|_| missing())?;
    let row = api.pipeline.store.review(id).await?.ok_or_else(missing)?;
    let view = with_findings(&api, row).await?;
    let markdown = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    if markdown.is_some_and(|accept| accept.contains("text/markdown")) {
        return Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], findings::page(&view)).into_response());
    }
    Ok(Json(view).into_response())
}
