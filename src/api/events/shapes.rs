//! JSON shapes of the requests and answers of `/v1/events`.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{Ref, RefOr, Schema, schema::SchemaType},
};

use crate::{
    api::problem::{FieldError, Problem},
    flows::{
        events::{Durability, EventReceipt},
        followers::open_breakers::BreakerAdvice,
    },
};
use umbra_domain::{Disposition, Event, EventId, Mark, NanoUsd, StoredEvent, ToolCall, TriggerMark};
use umbra_store::{
    StoreError,
    events::{EventRow, received_at},
    findings::FindingItem,
    reviews::Review,
    verdicts::EventVerdict,
};

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
    /// Your own id of the event: the idempotency key, kept 72 h. The same id with other content is refused.
    #[schema(max_length = 255, example = "run-17-step-4")]
    id: Option<String>,
    /// Kinds of action that the event shows; Umbra adds those that it detects.
    #[schema(value_type = Option<Vec<DeclaredTrigger>>)]
    triggers: Option<Vec<String>>,
    #[schema(inline)]
    #[serde(flatten)]
    body: PostedBody,
}

/// Content of an event as it is posted: some texts may be any JSON.
struct PostedBody;

impl ToSchema for PostedBody {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        Event::schemas(schemas);
        schemas.push(("NewToolCall".to_owned(), with_any_json(ToolCall::schema(), &["result", "error"])));
    }
}

impl PartialSchema for PostedBody {
    fn schema() -> RefOr<Schema> {
        let mut body = with_any_json(Event::schema(), &["input", "output"]);
        if let RefOr::T(Schema::Object(body)) = &mut body
            && let Some(RefOr::T(Schema::OneOf(tool))) = body.properties.get_mut("tool")
        {
            tool.items.iter_mut().for_each(|item| {
                if let RefOr::Ref(item) = item {
                    *item = Ref::from_schema_name("NewToolCall");
                }
            });
        }
        body
    }
}

/// Opens these text properties of an object to any JSON.
fn with_any_json(mut schema: RefOr<Schema>, properties: &[&str]) -> RefOr<Schema> {
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        for name in properties {
            if let Some(RefOr::T(Schema::Object(text))) = object.properties.get_mut(*name) {
                text.schema_type = SchemaType::AnyValue;
            }
        }
    }
    schema
}

/// Answer to a posted event.
#[derive(Debug, Serialize, ToSchema)]
pub struct AcceptedEvent {
    /// Id of the event.
    #[schema(value_type = String, example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: EventId,
    /// Time of receipt.
    pub received_at: Timestamp,
    /// `committed`: the event survives a crash of the server and the database. `local`: it survives a crash of this
    /// server, on whose disk it waits for the database.
    #[schema(example = "committed")]
    pub durability: &'static str,
    /// True while the database is away: the event is stored, and its dispositions are decided, once the database is
    /// back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spooled: bool,
    /// Triggers of the event, each with its source.
    pub triggers: Vec<TriggerMark>,
    /// Disposition for each shadow that watches the event; empty where none does.
    pub dispositions: Vec<Disposition>,
    /// Verdict by the active shadows; only where one reviews the event, or the request waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<EventVerdict>,
    /// Recommendation about the agent; only where its breaker is not closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerAdvice>,
}

impl From<EventReceipt> for AcceptedEvent {
    fn from(accepted: EventReceipt) -> Self {
        let EventReceipt { id, agent: _, received_at, triggers, dispositions, durability, replayed: _ } = accepted;
        let spooled = durability != Durability::Committed;
        let durability = if spooled { "local" } else { "committed" };
        Self { id, received_at, durability, spooled, triggers, dispositions, verdict: None, breaker: None }
    }
}

/// Answer to a batch, event by event.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchResult {
    /// Number of newly stored events.
    pub accepted: usize,
    /// Number of events that were stored before under the same id.
    pub replayed: usize,
    /// Number of events that were not stored; each result says why.
    pub rejected: usize,
    /// Results in the order of the batch.
    pub results: Vec<BatchItem>,
}

/// Answer to one event of a batch.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchItem {
    /// Position in the batch, from 0.
    pub index: usize,
    /// Id of the event, if it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub id: Option<EventId>,
    /// True while the database is away: the event is stored once that is back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spooled: bool,
    /// Disposition for each shadow, if the event is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispositions: Option<Vec<Disposition>>,
    /// Recommendation about the agent, if the event is stored; only where the breaker is not closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerAdvice>,
    /// Reason why the event is not stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<BatchError>,
}

/// Reason why one event of a batch is not stored.
#[derive(Debug, Serialize, ToSchema)]
pub struct BatchError {
    /// Code of the problem that the event would have had alone.
    pub code: &'static str,
    /// HTTP status that the event would have had alone.
    pub status: u16,
    /// Description of the fault and its remedy.
    pub detail: String,
    /// Faults, each with its place.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
}

/// A stored event.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventView {
    /// Id of the event.
    #[schema(value_type = String)]
    pub id: EventId,
    /// Time of receipt.
    pub received_at: Timestamp,
    /// Content of the event, normalised and redacted.
    #[serde(flatten)]
    pub body: Event,
    /// Cost of the action, in US dollars.
    #[schema(ignore)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    /// Cost of the whole task so far, in US dollars.
    #[schema(ignore)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_cost_usd: Option<f64>,
    /// Triggers of the event, each with its source.
    pub triggers: Vec<TriggerMark>,
    /// Marks of the screening: secrets (redacted) and hidden characters (removed).
    #[schema(value_type = Vec<std::collections::HashMap<String, serde_json::Value>>)]
    pub marks: Vec<Mark>,
    /// Disposition for each shadow that watches the event.
    pub dispositions: Vec<Disposition>,
    /// Reviews of the event, with the assessments of this event in `assessments`.
    pub reviews: Vec<Review>,
    /// Event that has the same `id` by the sender but other content; it was stored first, while this one waited in a
    /// spool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub conflicts_with: Option<EventId>,
}

impl EventView {
    pub(in crate::api) fn new(row: EventRow, reviews: Vec<Review>) -> Result<Self, Problem> {
        let broken = |error: serde_json::Error| {
            Problem::from(StoreError::Inconsistent { table: "event", problem: error.to_string() })
        };
        let StoredEvent { mut event, triggers, mut marks } = serde_json::from_slice(&row.payload).map_err(broken)?;
        (event.triggers, event.output_form) = (Vec::new(), None);
        let [cost_usd, task_cost_usd] =
            [event.cost_usd.take(), event.task_cost_usd.take()].map(|cost| cost.map(NanoUsd::usd));
        // Values only tell one secret from another; readers do not need them.
        for mark in &mut marks {
            mark.value = None;
        }
        Ok(Self {
            id: row.id,
            received_at: received_at(row.id),
            body: event,
            cost_usd,
            task_cost_usd,
            triggers,
            marks,
            dispositions: row.dispositions,
            reviews,
            conflicts_with: None,
        })
    }
}

/// A stored event with its findings.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = TrajectoryEvent)]
pub struct EventDetail {
    /// The event, with its dispositions and reviews.
    #[serde(flatten)]
    pub event: EventView,
    /// Findings of its reviews, and of looks of the built-in checks. A repeated finding names the first event that had
    /// it.
    pub findings: Vec<FindingItem>,
}

/// Many events.
#[derive(ToSchema)]
#[schema(as = EventBatch)]
#[expect(dead_code, reason = "it documents the request's schema; `ingest` reads it")]
pub(super) struct BatchSchema {
    /// Up to 1,000 events.
    #[schema(max_items = 1000)]
    events: Vec<NewEventSchema>,
}
