//! `/v1/events`: copies of what agents do.

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, HeaderName, StatusCode},
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api, Listing,
    auth::Caller,
    body::{Media, expect_media},
    params::{Params, PathPart, listing},
    problem::{FieldError, Problem},
};
use crate::{
    domain::{Disposition, Event, EventId, Mark, StoredEvent, TokenCount, TriggerMark, key::Scope},
    ingest::{self, Fault, Incoming, code},
    llm::ORIGIN_HEADER,
    pipeline::{AcceptError, Accepted, Origin},
    store::{
        StoreError,
        events::{EventFilter, EventRow, received_at},
        reviews::Review,
    },
};

/// Names this list in cursors.
const FEED: char = 'e';
/// Marks an answer that repeats an earlier one.
static REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// A trigger that a sender may name.
#[derive(ToSchema)]
#[schema(as = DeclaredTrigger, rename_all = "snake_case")]
#[expect(dead_code, reason = "it documents the request's schema")]
enum DeclaredTrigger {
    CodeWritten,
    SecurityRisk,
    TaskComplete,
    Error,
}

/// An event as it is posted. `agent` and one of `output`, `tool`, `input` are required.
#[derive(ToSchema)]
#[schema(as = NewEvent)]
#[expect(dead_code, reason = "it documents the request's schema; `ingest` reads it")]
pub struct NewEventSchema {
    /// Your own id: the idempotency key, kept 72 h. The same id with other content is refused.
    #[schema(max_length = 255, example = "run-17-step-4")]
    id: Option<String>,
    /// What kind of action this is; Umbra adds what it sees by itself.
    #[schema(value_type = Option<Vec<DeclaredTrigger>>)]
    triggers: Option<Vec<String>>,
    #[schema(inline)]
    #[serde(flatten)]
    body: EventBody,
}

/// What happened.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = EventBody)]
pub struct EventBody {
    /// The watched agent's name.
    #[schema(min_length = 1, max_length = 256, example = "writer-agent")]
    pub agent: String,
    /// The piece of work that it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256, example = "t-1")]
    pub task_id: Option<String>,
    /// The agent's session.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub session_id: Option<String>,
    /// What was asked of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The kind of task.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub task_type: Option<String>,
    /// What the agent was given: text, or any JSON, which is kept as its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// What the agent produced: text, or any JSON, which is kept as its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "Deployed. The key is in config.py.")]
    pub output: Option<String>,
    /// A tool call and what came of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolBody>,
    /// What this action cost, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub cost_usd: Option<f64>,
    /// What the whole task has cost so far, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 1_000_000)]
    pub task_cost_usd: Option<f64>,
    /// Tokens that the action took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<TokenCount>,
    /// How the action ended: `ok`, `error`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub status: Option<String>,
    /// Why the model stopped: `stop`, `length`, …
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub stop_reason: Option<String>,
    /// Which attempt at the same output this is.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub attempt: Option<u32>,
    /// The event whose output this one replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, pattern = "^evt_[0-9a-f]{32}$")]
    pub supersedes: Option<EventId>,
    /// When it happened, as the sender says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub occurred_at: Option<Timestamp>,
    /// Your own data.
    #[serde(skip_serializing_if = "serde_json::Map::is_empty")]
    #[schema(value_type = Option<Object>)]
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

/// A tool call.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = ToolCall)]
pub struct ToolBody {
    /// The tool's name.
    #[schema(min_length = 1, max_length = 256, example = "write_file")]
    pub name: String,
    /// Its arguments, any JSON.
    #[serde(skip_serializing_if = "serde_json::Value::is_null")]
    pub args: serde_json::Value,
    /// Its result: text, or any JSON, which is kept as its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Its error: text, or any JSON, which is kept as its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<Event> for EventBody {
    fn from(event: Event) -> Self {
        let tool = event.tool.map(|tool| ToolBody {
            name: tool.name,
            args: tool.args,
            result: tool.result,
            error: tool.error,
        });
        Self {
            agent: event.agent,
            task_id: event.task_id,
            session_id: event.session_id,
            task: event.task,
            task_type: event.task_type,
            input: event.input,
            output: event.output,
            tool,
            cost_usd: event.cost_usd.map(crate::domain::NanoUsd::usd),
            task_cost_usd: event.task_cost_usd.map(crate::domain::NanoUsd::usd),
            tokens: event.tokens,
            status: event.status,
            stop_reason: event.stop_reason,
            attempt: event.attempt,
            supersedes: event.supersedes,
            occurred_at: event.occurred_at,
            metadata: event.metadata,
        }
    }
}

/// What became of a posted event.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedEvent {
    /// Its id.
    #[schema(value_type = String, example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: EventId,
    /// When it was received.
    #[schema(value_type = String, format = DateTime)]
    pub received_at: Timestamp,
    /// `committed`: it survives a crash of everything from now on.
    #[schema(example = "committed")]
    pub durability: &'static str,
    /// The triggers that it carries, and why.
    pub triggers: Vec<TriggerMark>,
    /// What became of it for each shadow that watches it; empty where none does.
    pub dispositions: Vec<Disposition>,
}

impl From<Accepted> for AcceptedEvent {
    fn from(accepted: Accepted) -> Self {
        let Accepted { id, received_at, triggers, dispositions, replayed: _ } = accepted;
        Self { id, received_at, durability: "committed", triggers, dispositions }
    }
}

/// What became of a batch, event by event.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchResult {
    /// Newly stored.
    pub accepted: usize,
    /// Stored before, under the same id.
    pub replayed: usize,
    /// Not stored; each says why.
    pub rejected: usize,
    /// In the order of the batch.
    pub results: Vec<BatchItem>,
}

/// What became of one event of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchItem {
    /// Its place in the batch, from 0.
    pub index: usize,
    /// Its id, if it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub id: Option<EventId>,
    /// What became of it for each shadow, if it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispositions: Option<Vec<Disposition>>,
    /// Why it is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<BatchError>,
}

/// Why one event of a batch is not stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchError {
    /// As in a problem of a single event.
    pub code: &'static str,
    /// The status that the event would have had alone.
    pub status: u16,
    /// What is wrong and what would be right.
    pub detail: String,
    /// Where.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// A stored event.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventView {
    /// Its id.
    #[schema(value_type = String)]
    pub id: EventId,
    /// When it was received.
    #[schema(value_type = String, format = DateTime)]
    pub received_at: Timestamp,
    /// The event, normalised and redacted.
    #[serde(flatten)]
    pub body: EventBody,
    /// The triggers that it carries, and why.
    pub triggers: Vec<TriggerMark>,
    /// What the screening saw: secrets (redacted) and hidden characters (removed).
    #[schema(value_type = Vec<Object>)]
    pub marks: Vec<Mark>,
    /// What became of it for each shadow that watches it.
    pub dispositions: Vec<Disposition>,
    /// Its reviews; only where one event is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reviews: Option<Vec<Review>>,
}

impl EventView {
    fn new(row: EventRow, reviews: Option<Vec<Review>>) -> Result<Self, Problem> {
        let broken = |error: serde_json::Error| {
            Problem::from(StoreError::Inconsistent { table: "event", problem: error.to_string() })
        };
        let StoredEvent { event, triggers, marks } = serde_json::from_slice(&row.payload).map_err(broken)?;
        Ok(Self {
            id: row.id,
            received_at: received_at(row.id),
            body: event.into(),
            triggers,
            marks,
            dispositions: row.dispositions,
            reviews,
        })
    }
}

/// Posts one event. It is durable when this answers; nobody waits for a review.
#[utoipa::path(post, path = "/v1/events", tag = "events", request_body = inline(NewEventSchema),
    params(("Idempotency-Key" = Option<String>, Header, description = "As the event's own `id`.")),
    responses((status = 202, description = "Stored, with what became of it for each shadow", body = AcceptedEvent),
        (status = 422, description = "The id was used for another event",
            body = super::problem::ProblemDocument, content_type = "application/problem+json")))]
pub async fn post_event(State(api): State<Api>, caller: Caller, request: Request) -> Result<Response, Problem> {
    caller.require(Scope::Ingest)?;
    expect_media(request.headers(), &[Media::Json])?;
    let origin = origin(request.headers());
    let header_key = idempotency_key(request.headers())?;
    let body = api.bodies.read(request).await?;
    let read = if header_key.is_some() { ingest::event } else { ingest::event_alone };
    let mut incoming = read(&body, &api.limits).map_err(invalid)?;
    if let Some(key) = header_key {
        if incoming.key.as_ref().is_some_and(|own| *own != key) {
            return Err(Problem::invalid_event("the event's id and the Idempotency-Key header differ").at(
                "/id",
                "conflict",
                "give one of them, or the same value twice",
            ));
        }
        incoming.key = Some(key);
    }
    caller.speak_for(&incoming.event.agent)?;
    let accepted = api.pipeline.accept(incoming, &origin).await.map_err(refused)?;
    let replayed = accepted.replayed;
    let mut response = (StatusCode::ACCEPTED, Json(AcceptedEvent::from(accepted))).into_response();
    if replayed {
        response.headers_mut().insert(REPLAYED.clone(), axum::http::HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Posts many events, each for itself: what is wrong with one does not touch the others.
#[utoipa::path(post, path = "/v1/events/batch", tag = "events",
    request_body(description = "`{\"events\": [...]}`, or one event a line as application/x-ndjson",
        content((BatchSchema = "application/json"), (String = "application/x-ndjson"))),
    responses((status = 200, description = "What became of each", body = BatchResult)))]
pub async fn post_batch(
    State(api): State<Api>,
    caller: Caller,
    request: Request,
) -> Result<Json<BatchResult>, Problem> {
    caller.require(Scope::Ingest)?;
    let media = expect_media(request.headers(), &[Media::Json, Media::Ndjson])?;
    let origin = origin(request.headers());
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
    let mut accepted = api.pipeline.accept_all(good, &origin).await.into_iter();
    let mut result = BatchResult { accepted: 0, replayed: 0, rejected: 0, results: Vec::with_capacity(problems.len()) };
    for (index, problem) in problems.into_iter().enumerate() {
        let outcome = match problem {
            Some(problem) => Err(problem),
            None => accepted.next().unwrap_or(Err(AcceptError::Unavailable)).map_err(refused),
        };
        result.results.push(match outcome {
            Ok(one) => {
                *(if one.replayed { &mut result.replayed } else { &mut result.accepted }) += 1;
                BatchItem { index, id: Some(one.id), dispositions: Some(one.dispositions), error: None }
            }
            Err(problem) => {
                result.rejected += 1;
                let error = BatchError {
                    code: problem.code(),
                    status: problem.status().as_u16(),
                    detail: problem.detail().to_owned(),
                    errors: problem.errors().to_vec(),
                };
                BatchItem { index, id: None, dispositions: None, error: Some(error) }
            }
        });
    }
    Ok(Json(result))
}

/// Many events.
#[derive(ToSchema)]
#[schema(as = EventBatch)]
#[expect(dead_code, reason = "it documents the request's schema; `ingest` reads it")]
struct BatchSchema {
    /// Up to 1,000.
    #[schema(max_items = 1000)]
    events: Vec<NewEventSchema>,
}

/// Lists events in order of receipt.
#[utoipa::path(get, path = "/v1/events", tag = "events",
    params(("agent" = Option<String>, Query, description = "Of this agent"),
        ("task_id" = Option<String>, Query, description = "Of this task"),
        super::openapi::Paging),
    responses((status = 200, description = "A page", body = Listing<EventView>)))]
pub async fn list_events(
    State(api): State<Api>,
    caller: Caller,
    mut params: Params,
) -> Result<Json<Listing<EventView>>, Problem> {
    caller.require(Scope::Read)?;
    let filter = EventFilter { agent: params.text("agent"), task_id: params.text("task_id"), span: params.span() };
    let seek = params.seek(FEED);
    params.finish()?;
    let page = api.pipeline.store.events(&filter, seek).await?;
    let mut views = Vec::with_capacity(page.items.len());
    for (seq, row) in page.items {
        views.push((seq, EventView::new(row, None)?));
    }
    Ok(listing(FEED, seek, crate::store::seek::Page { items: views, more: page.more }, |view| view).json())
}

/// One event, with what became of it and its reviews.
#[utoipa::path(get, path = "/v1/events/{id}", tag = "events",
    params(("id" = String, Path, description = "An event's id", example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718")),
    responses((status = 200, description = "The event", body = EventView)))]
pub async fn get_event(
    State(api): State<Api>,
    caller: Caller,
    PathPart(id): PathPart,
) -> Result<Json<EventView>, Problem> {
    caller.require(Scope::Read)?;
    let missing = || Problem::not_found("there is no such event; ids look like evt_ and 32 hex digits");
    let id: EventId = id.parse().map_err(|_| missing())?;
    let row = api.pipeline.store.event(id).await?.ok_or_else(missing)?;
    let reviews = api.pipeline.store.reviews_of(id.0).await?;
    Ok(Json(EventView::new(row, Some(reviews))?))
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all("idempotency-key").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let unusable = |code: &'static str, detail: String| {
        Problem::invalid_event("the Idempotency-Key header cannot be used").at("", code, detail)
    };
    if values.any(|other| other != value) {
        return Err(unusable(
            "conflict",
            "the header stands here more than once, with different values: keep one".into(),
        ));
    }
    let text = value.to_str().unwrap_or("\u{0}");
    ingest::key_from_header(text).map(Some).map_err(|fault| unusable(fault.code, fault.detail))
}

/// Our own calls carry a header that instrumented proxies and gateways pass on.
fn origin(headers: &HeaderMap) -> Origin {
    Origin { own_traffic: headers.contains_key(ORIGIN_HEADER), on_demand: None }
}

/// Faults of the form: of JSON itself, or of the event.
pub(super) fn invalid(faults: Vec<Fault>) -> Problem {
    let any = |codes: &[&str]| faults.iter().any(|fault| codes.contains(&fault.code));
    let mut problem = if any(&[code::TOO_LARGE, code::TOO_MANY_EVENTS]) {
        Problem::body_too_large("the request holds more than is accepted here; errors names the limit")
    } else if any(&[code::SYNTAX, code::EMPTY, code::NOT_UTF8]) {
        Problem::bad_json("the body is not JSON that is accepted here; errors says where and why")
    } else {
        Problem::invalid_event("the event breaks rules; errors lists each, and nothing was stored")
    };
    for Fault { pointer, code, detail } in faults {
        problem = problem.at(pointer, code, detail);
    }
    problem
}

#[expect(clippy::needless_pass_by_value, reason = "the shape of map_err")]
pub(super) fn refused(error: AcceptError) -> Problem {
    let text = error.to_string();
    match error {
        AcceptError::Overloaded { retry_after } => Problem::overloaded(text).retry_after(retry_after),
        AcceptError::Mismatch(_) => Problem::idempotency_mismatch(text),
        AcceptError::Unstorable(_) => Problem::invalid_event(text),
        AcceptError::NamelessAgent => {
            Problem::invalid_event(text).at("/agent", "format", "write a name of visible characters")
        }
        AcceptError::Unavailable => Problem::database_unavailable(text),
        AcceptError::UnknownShadow => Problem::unknown_shadow(text),
    }
}
