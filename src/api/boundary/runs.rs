//! `/v1/runs`: lists, ends and compares runs of agents.

use axum::{
    Json,
    extract::{Path, Request, rejection::PathRejection},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    api::{
        Api, JsonAnswer,
        auth::Caller,
        params::{Params, PathPart, expect_note, prefers},
        problem::Problem,
    },
    flows::{
        audit::runs::{CompareError, Runs, RunsCompared, compare},
        decisions::{RunItem, RunName},
    },
};
use umbra_store::execution::RunFilter;

/// Runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunList {
    /// Runs with the newest calls first.
    pub items: Vec<RunItem>,
}

/// The end of a run.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct EndRequest {
    /// Agent of the run; without it, the runs of this name of every agent are ended.
    #[schema(max_length = 256)]
    pub agent: Option<String>,
    /// Reason, kept in the audit.
    #[schema(min_length = 1, max_length = 2000)]
    pub reason: String,
}

/// Runs that were ended.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunsEnded {
    /// Agent and name of each run.
    pub ended: Vec<RunName>,
}

/// Lists runs of agents and whether their calls run: named runs, and runs of sessions and processes that have rehearsed
/// calls.
#[utoipa::path(get, path = "/v1/runs", tag = "boundary",
    params(("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("run" = Option<String>, Query, description = "Only runs of this name"),
        ("in_shadow" = Option<bool>, Query,
            description = "`true`: only runs that stay in shadow, and runs of sessions and processes"),
        ("limit" = Option<i64>, Query, description = "Runs at most, 1 to 500; 50 unless given")),
    responses((status = 200, description = "The runs, newest call first", body = RunList)))]
pub async fn list_runs(api: Api, caller: Caller, mut params: Params) -> JsonAnswer<RunList> {
    let [agent, run] = ["agent", "run"].map(|name| params.text(name));
    let in_shadow = params.parsed("in_shadow", "true or false", |text| text.parse().ok()).unwrap_or_default();
    let limit = params.limit();
    params.finish()?;
    caller.read_of(agent.as_deref())?;
    let filter = RunFilter { agent, run, since: None, in_shadow, limit: limit.unwrap_or(50).into() };
    let mut items = api.flows.boundary.runs(filter).await?;
    items.retain(|item| caller.sees(&item.agent));
    Ok(Json(RunList { items }))
}

/// Ends a run: the next call of its name begins a new run without its state. A run that began in shadow stays there
/// until it is ended.
#[utoipa::path(post, path = "/v1/runs/{run}/end", tag = "boundary", request_body = EndRequest,
    params(("run" = String, Path, description = "The run's name, as calls give it", example = "nightly")),
    responses((status = 200, description = "The runs that were ended", body = RunsEnded),
        (status = 404, description = "No run has this name")))]
pub async fn end_run(api: Api, caller: Caller, PathPart(run): PathPart, request: Request) -> JsonAnswer<RunsEnded> {
    let EndRequest { agent, reason } = api.bodies.read_json(request).await?;
    expect_note("/reason", &reason)?;
    let unknown = || Problem::not_found("run not found: no agent has a run of this name; GET /v1/runs lists them");
    if run.contains('\0') || agent.as_ref().is_some_and(|agent| agent.contains('\0')) {
        return Err(unknown());
    }
    let ended = api.flows.boundary.end_run(&run, agent.as_deref(), &reason, caller.key()).await?;
    if ended.is_empty() { Err(unknown()) } else { Ok(Json(RunsEnded { ended })) }
}

/// Default media type of the answer.
const LINES: &str = "application/x-ndjson";

/// Compares two runs by their audit. The answer has a line of JSON for each difference, in order, and last one of kind
/// `summary`; or all of it as one document, where `Accept` asks for `application/json`. Calls are aligned by tool and
/// arguments; results are not compared. `baseline` is a repetition of the first run: where those two differ, a
/// difference is noise. A key that is bound to agents sees only their calls. Reads that are not audited
/// (`boundary.audit.reads`) are not compared.
#[utoipa::path(get, path = "/v1/runs/{a}/diff/{b}", tag = "boundary",
    params(("a" = String, Path, description = "The first run's name, as calls give it", example = "r1"),
        ("b" = String, Path, description = "The second run's name", example = "r2"),
        ("baseline" = Option<String>, Query,
            description = "The name of a repetition of the first run", example = "r1-again")),
    responses((status = 200, description = "The differences and the summary",
            content((String = "application/x-ndjson"), (RunsCompared = "application/json"))),
        (status = 409, description = "A run has more than 5,000 calls, or 32 MiB of arguments and stubs")))]
pub async fn diff_runs(
    api: Api,
    caller: Caller,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Problem> {
    let Path((a, b)) = path?;
    let baseline = params.text("baseline");
    if baseline.as_ref() == Some(&a) {
        params.fault("baseline", "same", "the baseline is the first run itself: give a repetition of that run");
    }
    params.finish()?;
    for (name, side) in [(&a, "a"), (&b, "b")] {
        if name.contains('\0') {
            return Err(Problem::not_found(CompareError::Unknown(side).to_string()));
        }
    }
    let [a, b] = [a, b].map(|run| api.flows.boundary.name_asked_for(&run));
    let baseline = baseline.map(|run| api.flows.boundary.name_asked_for(&run));
    let runs = Runs { a, b, baseline };
    let compared = compare(&api.flows.boundary.store, runs, |agent| caller.sees(agent)).await;
    let compared = compared.map_err(|error| match error {
        CompareError::Unknown(_) => Problem::not_found(error.to_string()),
        CompareError::TooLarge { .. } => Problem::conflict(error.to_string()),
        CompareError::Store(error) => error.into(),
        CompareError::Failed(error) => Problem::internal(error),
    })?;
    if prefers(&headers, "application/json", LINES) {
        return Ok(Json(compared).into_response());
    }
    Ok(([(header::CONTENT_TYPE, LINES)], lines(&compared)).into_response())
}

fn lines(RunsCompared { summary, differences }: &RunsCompared) -> String {
    let mut text = String::new();
    for difference in differences {
        text += &json!(difference).to_string();
        text.push('\n');
    }
    let mut last = json!({"kind": "summary"});
    if let (Value::Object(last), Value::Object(summary)) = (&mut last, json!(summary)) {
        last.extend(summary);
    }
    text + &last.to_string() + "\n"
}
