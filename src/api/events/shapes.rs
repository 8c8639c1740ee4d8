//! What `/v1/events` takes and gives, in JSON.

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    api::problem::{FieldError, Problem},
    flows::{
        events::{Accepted, Durability},
        followers::open_breakers::BreakerAdvice,
    },
};
use umbra_domain::{Disposition, Event, EventId, Mark, StoredEvent, TokenCount, TriggerMark};
use umbra_store::{
    StoreError,
    events::{EventRow, received_at},
    findings::FindingItem,
    reviews::Review,
    verdicts::VerdictItem,
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
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
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
    /// Exit code of the program that it ran; one other than 0 is a failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -2_147_483_648_i64, maximum = 4_294_967_295_i64, example = 0)]
    pub exit_code: Option<i64>,
}

impl From<Event> for EventBody {
    fn from(event: Event) -> Self {
        let tool = event.tool.map(|tool| ToolBody {
            name: tool.name,
            args: tool.args,
            result: tool.result,
            error: tool.error,
            exit_code: tool.exit_code,
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
            cost_usd: event.cost_usd.map(umbra_domain::NanoUsd::usd),
            task_cost_usd: event.task_cost_usd.map(umbra_domain::NanoUsd::usd),
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
    /// `committed`: it survives a crash of everything from now on. `local`: it survives a crash of this server, on whose disk
    /// it waits for the database.
    #[schema(example = "committed")]
    pub durability: &'static str,
    /// True where the database is away: the event is stored once that is back, and what becomes of it for each shadow is
    /// decided then.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spooled: bool,
    /// The triggers that it carries, and why.
    pub triggers: Vec<TriggerMark>,
    /// What became of it for each shadow that watches it; empty where none does.
    pub dispositions: Vec<Disposition>,
    /// Where it stands with its active shadows; only where one reviews it, or the request waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictItem>,
    /// Recommendation about the agent; only where its breaker is not closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerAdvice>,
}

impl From<Accepted> for AcceptedEvent {
    fn from(accepted: Accepted) -> Self {
        let Accepted { id, agent: _, received_at, triggers, dispositions, durability, replayed: _ } = accepted;
        let spooled = durability != Durability::Committed;
        let durability = if spooled { "local" } else { "committed" };
        Self { id, received_at, durability, spooled, triggers, dispositions, verdict: None, breaker: None }
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
    /// True where the database is away: it is stored once that is back.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spooled: bool,
    /// What became of it for each shadow, if it is stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dispositions: Option<Vec<Disposition>>,
    /// Recommendation about its agent, if it is stored; only where the breaker is not closed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerAdvice>,
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
    #[schema(value_type = Vec<std::collections::HashMap<String, serde_json::Value>>)]
    pub marks: Vec<Mark>,
    /// What became of it for each shadow that watches it.
    pub dispositions: Vec<Disposition>,
    /// Its reviews, with what each concludes of this event in `assessments`.
    pub reviews: Vec<Review>,
    /// The event that has its sender's `id`, with another content; it was stored first, while this one waited in a spool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub conflicts_with: Option<EventId>,
}

impl EventView {
    pub(in crate::api) fn new(row: EventRow, reviews: Vec<Review>) -> Result<Self, Problem> {
        let broken = |error: serde_json::Error| {
            Problem::from(StoreError::Inconsistent { table: "event", problem: error.to_string() })
        };
        let StoredEvent { event, triggers, mut marks } = serde_json::from_slice(&row.payload).map_err(broken)?;
        // They tell one value from another, and nothing to a reader.
        for mark in &mut marks {
            mark.value = None;
        }
        Ok(Self {
            id: row.id,
            received_at: received_at(row.id),
            body: event.into(),
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
    /// The event, with its dispositions and its reviews.
    #[serde(flatten)]
    pub event: EventView,
    /// Findings of its reviews, and of looks of the built-in checks. One that it repeats names the first event with it.
    pub findings: Vec<FindingItem>,
}

/// Many events.
#[derive(ToSchema)]
#[schema(as = EventBatch)]
#[expect(dead_code, reason = "it documents the request's schema; `ingest` reads it")]
pub(super) struct BatchSchema {
    /// Up to 1,000.
    #[schema(max_items = 1000)]
    events: Vec<NewEventSchema>,
}
