//! `/v1/trajectories`: tasks with their events in order, the reviews of each, and a recommendation for the whole.

use std::collections::HashMap;

use axum::Json;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api, JsonAnswer, Listing,
    auth::Caller,
    events::{EventDetail, EventView},
    params::{Params, PathPart, reached_listing},
    problem::Problem,
    reviews::mode_param,
};
use umbra_domain::{
    Assessment, Coverage, EventId, Mode,
    trajectory::{TaskRecommendation, conclude, recommend},
};
use umbra_store::{
    events::{EventFilter, EventRow, received_at},
    findings::FindingItem,
    paging::{Feed, Page},
    reviews::Review,
    trajectories::{TaskFilter, TaskPart},
};

/// Names of the list of tasks and of the list of a task's events in cursors.
const TASKS: char = 't';
const STEPS: char = 's';

/// Summary of a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct TrajectorySummary {
    /// Id of the task.
    pub task_id: String,
    /// Agents of the task, in order of their first event.
    pub agents: Vec<String>,
    /// Number of events.
    pub events: i64,
    /// Time of receipt of the first event.
    pub first_at: Timestamp,
    /// Time of receipt of the last event.
    pub last_at: Timestamp,
    /// Number of reviews of its events.
    pub reviews: i64,
    /// Strictest assessment of any review. APPROVE only where a model judged every watched step, or a sample left it to
    /// the built-in checks. Null while nothing is reviewed, or while reviews of steps that no model judged are open.
    pub assessment: Option<Assessment>,
    /// Numbers of steps that were judged, checked and left out.
    pub coverage: Coverage,
}

impl TrajectorySummary {
    /// Summarizes all visible parts; `None` if there are none.
    fn new(parts: &[TaskPart]) -> Option<Self> {
        let first = parts.iter().map(|part| received_at(part.first)).min()?;
        let last = parts.iter().map(|part| received_at(part.last)).max()?;
        let coverage = Coverage::of(parts.iter().flat_map(|part| part.coverage.iter().cloned()));
        Some(Self {
            task_id: parts.first()?.task_id.clone(),
            agents: parts.iter().map(|part| part.agent.clone()).collect(),
            events: parts.iter().map(|part| part.events).sum(),
            first_at: first,
            last_at: last,
            reviews: parts.iter().map(|part| part.reviews).sum(),
            assessment: conclude(parts.iter().filter_map(|part| part.worst).max(), &coverage),
            coverage,
        })
    }
}

/// Step of a task: an event with its place in the work.
#[derive(Debug, Serialize, ToSchema)]
pub struct TrajectoryStep {
    /// The event, with its dispositions, reviews and findings.
    #[serde(flatten)]
    pub detail: EventDetail,
    /// Start of the step: `occurred_at`, else the time of receipt less `duration_ms`.
    pub started_at: Timestamp,
    /// Step of this answer within which this one was taken, such as the call of a tool that is itself an agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub parent_id: Option<EventId>,
}

/// Task with its events.
#[derive(Debug, Serialize, ToSchema)]
pub struct Trajectory {
    /// Id of the task.
    pub task_id: String,
    /// Agents of the task, in order of their first event.
    pub agents: Vec<String>,
    /// Number of events.
    pub event_count: i64,
    /// Number of reviews of its events.
    pub review_count: i64,
    /// Time of receipt of the first event.
    pub first_at: Timestamp,
    /// Time of receipt of the last event.
    pub last_at: Timestamp,
    /// Recommendation for the whole task, with its reasons.
    #[serde(flatten)]
    pub whole: TaskRecommendation,
    /// Numbers of steps that were judged, checked and left out.
    pub coverage: Coverage,
    /// Page of steps: the events that were received next, in the order of their start.
    pub events: Vec<TrajectoryStep>,
    /// Cursor of the next page; null when there is nothing more now.
    pub next_cursor: Option<String>,
    /// Cursor to poll with.
    pub resume_cursor: String,
}

/// Lists tasks in order of their first event. Reviews of passive shadows count only with `mode=passive`. A key that is
/// bound to agents sees only their part.
#[utoipa::path(get, path = "/v1/trajectories", tag = "trajectories",
    params(("agent" = Option<String>, Query, description = "Only tasks with events of this agent"),
        ("mode" = Option<Mode>, Query, description = "Count only reviews of this mode; all but passive unless given"),
        super::openapi::Pages, super::openapi::Times),
    responses((status = 200, description = "A page", body = Listing<TrajectorySummary>)))]
pub async fn list_trajectories(api: Api, caller: Caller, mut params: Params) -> JsonAnswer<Listing<TrajectorySummary>> {
    let filter = TaskFilter { agent: params.text("agent"), span: params.span() };
    let mode = mode_param(&mut params);
    let seek = params.seek(TASKS)?;
    let store = &api.flows.store;
    let page = store.events().tasks(&filter, seek).await?;
    let names: Vec<String> = page.items.iter().map(|(_, task)| task.clone()).collect();
    let mut parts = store.events().task_parts(&names, mode).await?;
    parts.retain(|part| caller.sees(&part.agent));
    let items = page.items.into_iter().map(|(seq, task)| {
        let own: Vec<TaskPart> = parts.iter().filter(|part| part.task_id == task).cloned().collect();
        (seq, TrajectorySummary::new(&own))
    });
    let page = Page { items: items.collect(), more: page.more };
    let Listing { items, next_cursor, resume_cursor } = reached_listing(store, Feed::Intake, TASKS, seek, page).await?;
    // A task that the key may not see moves the cursor all the same.
    Ok(Json(Listing { items: items.into_iter().flatten().collect(), next_cursor, resume_cursor }))
}

/// Returns one task: its events in the order of their start, each with its reviews and findings, one recommendation
/// for the whole, and the coverage of its steps. Reviews of passive shadows come only with `mode=passive`. A key that is
/// bound to agents sees only their events.
#[utoipa::path(get, path = "/v1/trajectories/{task_id}", tag = "trajectories",
    params(("task_id" = String, Path, description = "A task's id, as its events name it", example = "t-1"),
        ("mode" = Option<Mode>, Query, description = "Show only reviews of this mode; all but passive unless given"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "Events at most; 50 unless given"),
        ("order" = Option<String>, Query, description = "`asc` (oldest first, unless given) or `desc`"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` or `resume_cursor` of an earlier answer")),
    responses((status = 200, description = "The task", body = Trajectory)))]
pub async fn get_trajectory(
    api: Api,
    caller: Caller,
    PathPart(task): PathPart,
    mut params: Params,
) -> JsonAnswer<Trajectory> {
    let mode = mode_param(&mut params);
    let seek = params.seek(STEPS)?;
    let missing = || Problem::not_found("task not found; GET /v1/trajectories lists the tasks");
    if task.contains('\0') {
        return Err(missing());
    }
    let store = &api.flows.store;
    let mut parts = store.events().task_parts(std::slice::from_ref(&task), mode).await?;
    parts.retain(|part| caller.sees(&part.agent));
    let summary = TrajectorySummary::new(&parts).ok_or_else(missing)?;
    let (opinions, open) = store.events().opinions(&task, &summary.agents, mode).await?;
    let filter = EventFilter { task_id: Some(task), agents: Some(summary.agents.clone()), ..EventFilter::default() };
    let page = store.events().list(&filter, seek).await?;
    let ids: Vec<EventId> = page.items.iter().map(|(_, row)| row.id).collect();
    let reviews = store.reviews().reviews_among(&ids, mode).await?;
    let mut findings = store.findings().findings_in(&ids, mode).await?;
    let mut steps = Vec::with_capacity(ids.len());
    for (seq, row) in page.items {
        let found = findings.extract_if(.., |(event, _)| *event == row.id).map(|(_, finding)| finding).collect();
        steps.push((seq, step(row, mode, &reviews, found)?));
    }
    let Listing { mut items, next_cursor, resume_cursor } =
        reached_listing(store, Feed::Intake, STEPS, seek, Page { items: steps, more: page.more }).await?;
    if seek.descending {
        items.reverse();
    }
    // Telemetry tells of a step when it ends, and of its parts before: the agents' own time is the order of the work.
    // Without it, steps keep the order of their receipt, which the clocks of several servers do not tell.
    let is_timed = |event: &EventView| event.body.occurred_at.is_some() || event.body.duration_ms.is_some();
    if items.iter().any(|step| is_timed(&step.detail.event)) {
        items.sort_by_key(|step| step.started_at);
    }
    link_parents(&mut items);
    if seek.descending {
        items.reverse();
    }
    let TrajectorySummary { task_id, agents, first_at, last_at, coverage, .. } = summary;
    Ok(Json(Trajectory {
        task_id,
        agents,
        event_count: summary.events,
        review_count: summary.reviews,
        first_at,
        last_at,
        whole: recommend(&opinions, open, &coverage),
        coverage,
        events: items,
        next_cursor,
        resume_cursor,
    }))
}

fn step(
    mut row: EventRow,
    mode: Option<i16>,
    reviews: &[Review],
    findings: Vec<FindingItem>,
) -> Result<TrajectoryStep, Problem> {
    let shown = |of: Mode| mode.map_or(of != Mode::Passive, |rank| rank == of.priority());
    row.dispositions.retain(|disposition| shown(disposition.mode));
    let own = reviews.iter().filter(|review| review.events.contains(&row.id)).cloned().map(|mut review| {
        review.assessments.retain(|own| own.event_id == row.id);
        review
    });
    let own = own.collect();
    let event = EventView::new(row, own)?;
    let started_at = started_at(&event);
    Ok(TrajectoryStep { detail: EventDetail { event, findings }, started_at, parent_id: None })
}

/// Returns the start of an event. Hooks and proxies tell of a call when it has ended.
fn started_at(event: &EventView) -> Timestamp {
    let took = event.body.duration_ms.and_then(|duration| i64::try_from(duration).ok()).unwrap_or_default();
    let began = event.received_at.checked_sub(SignedDuration::from_millis(took)).unwrap_or(event.received_at);
    event.body.occurred_at.unwrap_or(began)
}

/// Links steps that OpenTelemetry tells of to the step of their parent span. Only an earlier step is a parent, so a circle
/// of spans makes no circle of steps.
fn link_parents(steps: &mut [TrajectoryStep]) {
    let mut spans: HashMap<(String, String), EventId> = HashMap::new();
    for step in steps {
        let otel = step.detail.event.body.metadata.get("otel");
        let of = |name: &str| otel.and_then(|otel| otel.get(name)?.as_str()).map(ToOwned::to_owned);
        let Some(trace) = of("trace_id") else { continue };
        let (span, parent) = (of("span_id"), of("parent_id"));
        if span == parent {
            // The call of a tool without a span of its own: this one is of the model's call that asked for it.
            continue;
        }
        step.parent_id = parent.and_then(|parent| spans.get(&(trace.clone(), parent)).copied());
        if let Some(span) = span {
            spans.insert((trace, span), step.detail.event.id);
        }
    }
}
