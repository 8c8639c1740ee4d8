//! `/v1/events`: copies of what agents do.

mod shapes;

use std::time::Duration;

use axum::{
    Json,
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::Response,
};

use self::shapes::BatchSchema;
pub use self::shapes::{AcceptedEvent, BatchError, BatchItem, BatchResult, EventDetail, EventView, NewEventSchema};
use super::{
    Api, JsonAnswer, Listing, audit,
    auth::Caller,
    body::{Media, expect_media},
    front::RequestId,
    params::{Params, preferred_wait, reached_listing},
    path_ids::missing_event,
    problem::Problem,
    verdicts::waited,
};
use crate::{
    api::path_ids::PathId,
    flows::events::{AcceptError, Durability, EventReceipt, Origin},
    ingest::{self, Incoming, RequestFault, code},
};
use umbra_domain::{EventId, verdict::VerdictState};
use umbra_llm::ORIGIN_HEADER;
use umbra_store::{
    events::{EventFilter, EventRow},
    paging::{Feed, Page},
    verdicts::EventVerdict,
};

/// Path of the endpoint for single events.
pub const PATH: &str = "/v1/events";
/// Name of this list in cursors.
const FEED: char = 'e';
static IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
static ORIGIN: HeaderName = HeaderName::from_static(ORIGIN_HEADER);

/// Posts one event. The event is durable when this answers: in the database, or, while that is away, in the spool on
/// the server's disk, from where it is stored once the database is back. The answer does not wait for a review, except
/// with `Prefer: wait=N`. Faults are reported in this order: the body's bytes (413), its UTF-8 and the depth of its
/// JSON (400), the event's bytes (413), then every fault of JSON and fields (400). An integer beyond 64 bits is kept as
/// text.
#[utoipa::path(post, path = "/v1/events", tag = "events", request_body = NewEventSchema,
    params(("Idempotency-Key" = Option<String>, Header, description = "The event's id, the same as the body's `id`."),
        ("Prefer" = Option<String>, Header, example = "wait=20",
            description = "`wait=N`: wait for the verdict of active shadows, N seconds at most (60 or less).")),
    responses((status = 202,
        description = "The event is stored, with each shadow's disposition; or it waits in the spool, with `spooled`",
            body = AcceptedEvent),
        (status = 200, description = "The event is stored, with the verdict that was waited for", body = AcceptedEvent),
        (status = 422, description = "The id was used before for a different event")))]
pub async fn post_event(api: Api, caller: Caller, request: Request) -> Result<Response, Problem> {
    expect_media(request.headers(), &[Media::Json])?;
    let origin = origin(request.headers(), &caller);
    let header_key = idempotency_key(request.headers())?;
    let wait = preferred_wait(request.headers());
    let body = api.bodies.read(request).await?;
    let read = if header_key.is_some() { ingest::event } else { ingest::event_alone };
    let mut incoming = read(&body, &api.limits).map_err(invalid)?;
    if let Some(key) = header_key {
        if incoming.key.as_ref().is_some_and(|own| *own != key) {
            return Err(Problem::invalid_event("the event's id and the Idempotency-Key header differ").at(
                "/id",
                "conflict",
                "give one of the two, or the same value in both",
            ));
        }
        incoming.key = Some(key);
    }
    caller.speak_for(&incoming.event.agent)?;
    let accepted = api.flows.events.accept(incoming, &origin).await.map_err(refused)?;
    let replayed = accepted.replayed;
    let verdict = verdict(&api, &accepted, wait).await?;
    let decided = wait.is_some() && verdict.as_ref().is_some_and(|item| item.verdict != VerdictState::Pending);
    let status = if decided { StatusCode::OK } else { StatusCode::ACCEPTED };
    let breaker = api.flows.followers.open_breakers.of(&accepted.agent);
    let mut event = AcceptedEvent { verdict, breaker, ..AcceptedEvent::from(accepted) };
    event.dispositions = caller.shown(event.dispositions);
    Ok(marked(replayed, answer(status, &event)?))
}

/// Adds the header of an answer that repeats an earlier one.
pub(super) fn marked(replayed: bool, mut response: Response) -> Response {
    if replayed {
        response.headers_mut().insert("idempotent-replayed", HeaderValue::from_static("true"));
    }
    response
}

/// Returns the answer to one event.
pub fn answer(status: StatusCode, event: &AcceptedEvent) -> Result<Response, Problem> {
    let mut response = Response::new(serde_json::to_vec(event).map_err(Problem::internal)?.into());
    *response.status_mut() = status;
    // The layers of the front add headers.
    response.headers_mut().reserve(8);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(Media::Json.as_str()));
    Ok(response)
}

/// Returns an event's verdict by its active shadows; waits for it where the sender asks to.
async fn verdict(api: &Api, accepted: &EventReceipt, wait: Option<Duration>) -> Result<Option<EventVerdict>, Problem> {
    let by = api.flows.verdicts.verdict_by(accepted);
    let spooled = accepted.durability != Durability::Committed;
    Ok(match (by, wait) {
        (Some(by), _) if spooled => Some(EventVerdict::pending(accepted.id, by)),
        (Some(_), Some(wait)) => Some(waited(api, accepted.id, wait).await?),
        (Some(_), None) if accepted.replayed => Some(api.flows.verdicts.verdict(accepted.id).await?),
        (Some(by), None) => Some(EventVerdict::pending(accepted.id, by)),
        (None, Some(_)) => Some(EventVerdict::not_reviewed(accepted.id, &accepted.dispositions)),
        (None, None) => None,
    })
}

/// Posts many events, each by itself: faults of one do not affect the others. If none can be taken, since the database
/// is away or the server is overloaded, that is the answer to all.
#[utoipa::path(post, path = "/v1/events/batch", operation_id = "post_events_batch", tag = "events",
    request_body(description = "`{\"events\": [...]}`, or one event a line as application/x-ndjson",
        content((BatchSchema = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, description = "The result of each event", body = BatchResult)))]
pub async fn post_batch(api: Api, caller: Caller, request: Request) -> JsonAnswer<BatchResult> {
    let media = expect_media(request.headers(), &[Media::Json, Media::Ndjson])?;
    if request.headers().contains_key(&IDEMPOTENCY_KEY) {
        return Err(Problem::invalid_event("the Idempotency-Key header cannot be used").at(
            "",
            "conflict",
            "a batch takes no Idempotency-Key: give each event its own `id`, which makes the batch safe to send again",
        ));
    }
    let origin = origin(request.headers(), &caller);
    let request_id = request.extensions().get::<RequestId>().cloned();
    let body = api.bodies.read(request).await?;
    let read = match media {
        Media::Ndjson => ingest::batch_ndjson(&body, &api.limits),
        _ => ingest::batch_json(&body, &api.limits),
    }
    .map_err(invalid)?;
    let checked: Vec<Result<Incoming, Problem>> = read
        .into_iter()
        .map(|one| {
            let incoming = one.map_err(invalid)?;
            caller.speak_for(&incoming.event.agent)?;
            Ok(incoming)
        })
        .collect();
    audit::events(checked.iter().filter_map(|one| one.as_ref().err()), request_id.as_ref());
    let mut problems = Vec::with_capacity(checked.len());
    let mut good = Vec::with_capacity(checked.len());
    for one in checked {
        match one {
            Ok(incoming) => {
                good.push(incoming);
                problems.push(None);
            }
            Err(problem) => problems.push(Some(problem)),
        }
    }
    let mut accepted = api.flows.events.accept_all(good, &origin).await.into_iter();
    let mut unavailable = None;
    let mut result = BatchResult { accepted: 0, replayed: 0, rejected: 0, results: Vec::with_capacity(problems.len()) };
    for (index, problem) in problems.into_iter().enumerate() {
        let outcome = match problem {
            Some(problem) => Err(problem),
            None => accepted.next().unwrap_or(Err(AcceptError::Unavailable)).map_err(refused),
        };
        result.results.push(match outcome {
            Ok(one) => {
                *(if one.replayed { &mut result.replayed } else { &mut result.accepted }) += 1;
                let spooled = one.durability != Durability::Committed;
                let breaker = api.flows.followers.open_breakers.of(&one.agent);
                let dispositions = (!spooled).then(|| caller.shown(one.dispositions));
                BatchItem { index, id: Some(one.id), spooled, dispositions, breaker, error: None }
            }
            Err(problem) => {
                result.rejected += 1;
                let error = BatchError {
                    code: problem.code(),
                    status: problem.status().as_u16(),
                    detail: problem.detail.to_string(),
                    errors: problem.errors.clone(),
                };
                if problem.status() == StatusCode::SERVICE_UNAVAILABLE {
                    unavailable = Some(problem);
                }
                BatchItem { index, id: None, spooled: false, dispositions: None, breaker: None, error: Some(error) }
            }
        });
    }
    if result.accepted + result.replayed == 0
        && let Some(problem) = unavailable
    {
        return Err(problem);
    }
    Ok(Json(result))
}

/// Lists events in order of receipt.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("task_id" = Option<String>, Query, description = "Only events of this task"),
        super::openapi::Pages, super::openapi::Times),
    responses((status = 200, description = "A page", body = Listing<EventView>)))]
pub async fn list_events(api: Api, mut params: Params) -> JsonAnswer<Listing<EventView>> {
    let filter = EventFilter {
        agent: params.text("agent"),
        task_id: params.text("task_id"),
        span: params.span(),
        ..EventFilter::default()
    };
    let seek = params.seek(FEED)?;
    let page = api.flows.store.events().list(&filter, seek).await?;
    // Erased events are left out; the cursor passes them like the others.
    let (seqs, rows): (Vec<i64>, Vec<EventRow>) = page.items.into_iter().filter(|(_, row)| !row.erased).unzip();
    let ids: Vec<EventId> = rows.iter().map(|row| row.id).collect();
    let reviews = api.flows.store.reviews().reviews_of(&ids).await?;
    let mut views = Vec::with_capacity(rows.len());
    for ((seq, row), reviews) in seqs.into_iter().zip(rows).zip(reviews) {
        views.push((seq, EventView::new(row, reviews)?));
    }
    let page = Page { items: views, more: page.more };
    reached_listing(&api.flows.store, Feed::Intake, FEED, seek, page).await.map(Json)
}

/// Returns an event with its dispositions, its reviews, and its findings except those of passive shadows.
#[utoipa::path(get, path = "/v1/events/{id}", tag = "events",
    params(("id" = String, Path, description = "An event's id", example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718")),
    responses((status = 200, description = "The event", body = EventDetail)))]
pub async fn get_event(api: Api, PathId(id): PathId<EventId>) -> JsonAnswer<EventDetail> {
    let Some(row) = api.flows.store.events().get(id).await? else { return Err(missing_event(&api, id).await) };
    if row.erased {
        return Err(Problem::not_found(
            "the contents of this event were erased on request; its reviews stay, without texts",
        ));
    }
    let reviews = api.flows.store.reviews().reviews_of(&[id]).await?.pop().unwrap_or_default();
    let repeat = api.flows.store.events().repeat_of(id).await?;
    let conflicts_with = repeat.filter(|repeat| repeat.conflicts).map(|repeat| repeat.original);
    let event = EventView { conflicts_with, ..EventView::new(row, reviews)? };
    let found = api.flows.store.findings().findings_in(&[id], None).await?;
    let findings = found.into_iter().map(|(_, finding)| finding).collect();
    Ok(Json(EventDetail { event, findings }))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(&IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let unusable = |code: &'static str, detail: String| {
        Problem::invalid_event("the Idempotency-Key header cannot be used").at("", code, detail)
    };
    if values.any(|other| other != value) {
        return Err(unusable(
            "conflict",
            "the request has this header more than once, with different values: send one".into(),
        ));
    }
    let text = value.to_str().unwrap_or("\u{0}");
    ingest::key_from_header(text).map(Some).map_err(|fault| unusable(fault.code, fault.detail))
}

/// Umbra's own calls carry a header that instrumented proxies and gateways pass on.
fn origin(headers: &HeaderMap, caller: &Caller) -> Origin {
    Origin { own_traffic: headers.contains_key(&ORIGIN), on_demand: None, by: caller.key() }
}

/// Returns the problem for faults of a body: of its JSON, or of the event.
pub fn invalid(faults: Vec<RequestFault>) -> Problem {
    let rule = "the event has invalid values; errors lists them, and it was not stored";
    of_faults(faults, Problem::invalid_event(rule))
}

/// Returns the problem for faults of a body that is not an event.
pub fn invalid_request(faults: Vec<RequestFault>) -> Problem {
    of_faults(faults, Problem::invalid_request("the request has invalid values; errors lists them"))
}

fn of_faults(faults: Vec<RequestFault>, of_rule: Problem) -> Problem {
    let first = |codes: &[&str]| faults.iter().find(|fault| codes.contains(&fault.code));
    let problem = if let Some(limit) = first(&[code::TOO_LARGE, code::TOO_MANY_EVENTS]) {
        Problem::body_too_large(format!("the request exceeds a limit: {}", limit.detail))
    } else if first(&[code::SYNTAX, code::EMPTY, code::NOT_UTF8]).is_some() {
        Problem::bad_json("the body is not JSON that can be read; errors says where and why")
    } else {
        of_rule
    };
    problem.with(faults.into_iter().map(|fault| (fault.pointer, fault.code, fault.detail)))
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
pub(super) fn refused(error: AcceptError) -> Problem {
    let text = error.to_string();
    match error {
        AcceptError::Overloaded { retry_after } => Problem::overloaded(text).retry_after(retry_after),
        AcceptError::Mismatch(_) => Problem::idempotency_mismatch(text),
        AcceptError::Unstorable(_) => Problem::invalid_event(text),
        AcceptError::NamelessAgent => {
            Problem::invalid_event(text).at("/agent", "format", "use a name with visible characters")
        }
        AcceptError::Unavailable | AcceptError::SpoolFull => Problem::database_unavailable(text),
        AcceptError::UnknownShadow => Problem::unknown_shadow(text),
    }
}
