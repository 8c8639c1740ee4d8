//! `/v1/reviews`: reviews of shadows, and reviews on demand.

pub mod batch;

use std::time::Duration;

use axum::{
    Json,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};

use super::{
    Api, Listing,
    auth::Caller,
    body::{Media, expect_media},
    events::{invalid, refused},
    params::{Params, preferred_wait, prefers_markdown, reached_listing},
    path_ids::missing,
    problem::Problem,
};
use crate::{
    api::path_ids::PathId,
    findings,
    flows::events::{Origin, accept::OnDemand},
    ingest::{self, Incoming, ReviewRequest},
};
use umbra_domain::{
    Assessment, Event, EventId, Mode, Outcome, OutputForm, ReviewId, ReviewState, SkipReason, Trigger, key::Scope,
};
use umbra_store::{
    paging::Feed,
    reviews::{Review, ReviewFilter},
};

/// Names of the list in order of reservation and of the one in order of finishing, in cursors.
const BY_RESERVATION: char = 'r';
const BY_FINISHING: char = 'd';

/// Reviews a text now, and waits for the review. The review counts against the shadow's caps; cooldowns are ignored.
#[utoipa::path(post, path = "/v1/reviews", tag = "reviews", request_body = ingest::ReviewRequest,
    params(("Prefer" = Option<String>, Header,
        description = "`wait=N`: wait N seconds at most (60 or less; 60 unless given)")),
    responses((status = 200, description = "The review", body = Review),
        (status = 202, description = "The review is not finished yet: read it by its id", body = Review),
        (status = 404, description = "Shadow not found, or no shadow watches the target for the trigger"),
        (status = 409, description = "The shadow is disabled"),
        (status = 429, description = "A cap of the shadow for the day is reached; code and detail say which")))]
pub async fn post_review(api: Api, caller: Caller, request: Request) -> Result<Response, Problem> {
    caller.require(Scope::Read)?;
    expect_media(request.headers(), &[Media::Json])?;
    let wait = preferred_wait(request.headers()).map_or(api.max_wait, |wait| wait.min(api.max_wait));
    let body = ingest::review_request(&api.bodies.read(request).await?, &api.limits).map_err(invalid)?;
    caller.speak_for(&body.target)?;
    let (incoming, origin) = on_demand(&api, body)?;
    let accepted = api.flows.events.accept(incoming, &origin).await.map_err(refused)?;
    let id = match accepted.dispositions.first() {
        Some(disposition) if disposition.outcome == Outcome::Queued => disposition.review_id,
        Some(disposition) => {
            let reason = disposition.reason.map_or("skipped", SkipReason::as_str);
            let detail = format!("the shadow {} does not review this event now: {reason}", disposition.shadow);
            return Err(match disposition.reason {
                Some(SkipReason::Overload) => Problem::overloaded(detail),
                Some(SkipReason::ShadowDisabled) => Problem::conflict(detail),
                _ => until_tomorrow(&api, &disposition.shadow, Problem::rate_limited(detail)),
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
    let event = Event {
        agent: body.target,
        triggers: vec![body.trigger],
        task: body.task,
        input: body.context,
        output: Some(body.output),
        output_form: Some(OutputForm::on_demand(body.trigger)),
        ..Event::default()
    };
    let rules = api.flows.rules.load();
    let shadow = match body.shadow {
        Some(name) => name,
        None => rules.first_watching(&event, body.trigger).ok_or_else(|| {
            Problem::unknown_shadow(format!(
                "no shadow watches this target for {}: name a shadow in `shadow` (GET /v1/shadows lists them)",
                body.trigger.as_str()
            ))
        })?,
    };
    let origin = Origin { on_demand: Some(OnDemand { shadow, trigger: body.trigger }), ..Origin::default() };
    Ok((Incoming { event, key: None, digest_input: Vec::new() }, origin))
}

async fn await_review(api: &Api, event: EventId, id: ReviewId, wait: Duration) -> Result<Review, Problem> {
    let store = &api.flows.store;
    let review = match api.draining.run_until_cancelled(api.flows.verdicts.await_review(event, id, wait)).await {
        Some(review) => review?,
        None => store.reviews().get(id).await?,
    };
    match review {
        Some(review) if review.released => Err(given_up(api, &review)),
        Some(review) => Ok(review),
        None => Err(Problem::internal("a reserved review no longer exists")),
    }
}

/// Sets the wait to the end of the shadow's local day, when a daily cap is lifted.
fn until_tomorrow(api: &Api, shadow: &str, problem: Problem) -> Problem {
    match api.flows.rules.load().day_left(shadow, api.flows.clock.now()) {
        Some(left) => problem.retry_after(left),
        None => problem,
    }
}

fn given_up(api: &Api, review: &Review) -> Problem {
    let reason = review.reason.map_or("unknown reason", SkipReason::as_str);
    let detail = format!(
        "the review was given up, and it does not count against the caps: {reason}; GET /v1/reviews/{} says more",
        review.id
    );
    match review.reason {
        Some(SkipReason::UsdCap | SkipReason::TokenCap) => {
            until_tomorrow(api, &review.shadow, Problem::rate_limited(detail))
        }
        _ => Problem::provider_unavailable(detail),
    }
}

async fn with_findings(api: &Api, mut review: Review) -> Result<Review, Problem> {
    review.findings = Some(api.flows.store.findings().findings_of(&[review.id]).await?);
    Ok(review)
}

/// Lists reviews in order of reservation; with `state=done` or an assessment, in order of finishing: polling then
/// misses no review that finishes late. Released reservations are not listed. As markdown where `Accept` asks for it.
#[utoipa::path(get, path = "/v1/reviews", tag = "reviews",
    params(("shadow" = Option<String>, Query, description = "Only those of this shadow"),
        ("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("task_id" = Option<String>, Query, description = "Only those of this task"),
        ("trigger" = Option<String>, Query, description = "Only those of this trigger"),
        ("mode" = Option<Mode>, Query, description = "Only those of shadows in this mode"),
        ("state" = Option<String>, Query, description = "queued, running, done or failed"),
        ("assessment" = Option<Assessment>, Query, description = "Only those with this assessment"),
        super::openapi::Pages, super::openapi::Times),
    responses((status = 200, content((Listing<Review> = "application/json"), (String = "text/markdown")),
        description = "A page. As markdown the page includes the findings, and its cursors are in `umbra-next-cursor` \
                       and `umbra-resume-cursor`")))]
pub async fn list_reviews(api: Api, headers: HeaderMap, mut params: Params) -> Result<Response, Problem> {
    let filter = review_filter(&mut params);
    let (feed, numbers) =
        if filter.only_done() { (BY_FINISHING, Feed::Result) } else { (BY_RESERVATION, Feed::Intake) };
    let seek = params.seek(feed)?;
    let page = api.flows.store.reviews().list(&filter, seek).await?;
    let mut list = reached_listing(&api.flows.store, numbers, feed, seek, page).await?;
    if !prefers_markdown(&headers) {
        return Ok(Json(list).into_response());
    }
    let ids: Vec<ReviewId> = list.items.iter().map(|review| review.id).collect();
    let mut findings = api.flows.store.findings().findings_of(&ids).await?;
    for review in &mut list.items {
        let own;
        (own, findings) = findings.into_iter().partition(|finding| finding.review_id == Some(review.id));
        review.findings = Some(own);
    }
    let text: Vec<String> = list.items.iter().map(findings::page).collect();
    let mut response = markdown(text.join("\n---\n\n"));
    let cursors = [("umbra-next-cursor", list.next_cursor), ("umbra-resume-cursor", Some(list.resume_cursor))];
    for (name, cursor) in cursors {
        if let Some(value) = cursor.and_then(|cursor| HeaderValue::from_str(&cursor).ok()) {
            response.headers_mut().insert(HeaderName::from_static(name), value);
        }
    }
    Ok(response)
}

fn markdown(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text).into_response()
}

/// Reads the filters that reviews and observations share.
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
        assessment: params.parsed("assessment", "APPROVE, CHECKED, INCONCLUSIVE, SUGGEST or FLAG", |word| {
            Assessment::parse(word).map(|assessment| assessment.as_str().to_owned())
        }),
        span: params.span(),
    }
}

pub(super) fn trigger_param(params: &mut Params) -> Option<i16> {
    params.parsed("trigger", "code_written, security_risk, task_complete, error or all", |word| {
        Trigger::parse(word).map(Trigger::code)
    })
}

pub(super) fn mode_param(params: &mut Params) -> Option<i16> {
    params.parsed("mode", "passive, review or active", |word| Mode::parse(word).map(Mode::priority))
}

/// Returns one review with its findings; as markdown where `Accept` asks for it. A released reservation shows as
/// failed, with the reason.
#[utoipa::path(get, path = "/v1/reviews/{id}", tag = "reviews",
    params(("id" = String, Path, description = "A review's id", example = "rev_0197a3c1d2e47f00a1b2c3d4e5f60718")),
    responses((status = 200, description = "The review",
        content((Review = "application/json"), (String = "text/markdown")))))]
pub async fn get_review(api: Api, PathId(id): PathId<ReviewId>, headers: HeaderMap) -> Result<Response, Problem> {
    let Some(row) = api.flows.store.reviews().get(id).await? else { return Err(missing(&api, id).await) };
    let view = with_findings(&api, row).await?;
    if prefers_markdown(&headers) {
        return Ok(markdown(findings::page(&view)));
    }
    Ok(Json(view).into_response())
}
