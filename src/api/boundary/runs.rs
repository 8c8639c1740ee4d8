//! `/v1/runs`: two runs of an agent beside each other.

use axum::{
    Json,
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, header},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};

use crate::{
    api::{
        Api,
        auth::Caller,
        params::{Params, prefers},
        problem::Problem,
    },
    flows::audit::runs::{CompareError, Runs, RunsCompared, compare},
};
use umbra_domain::key::Scope;

/// The usual type of the answer.
const LINES: &str = "application/x-ndjson";

/// Compares two runs by their audit: a line of JSON for each difference, in order, and at last one of kind `summary`; or
/// all of it as one document, where `Accept` asks for `application/json`. Calls are aligned by tool and arguments; results
/// are not compared. `baseline` is a repetition of the first run: where those two differ, a difference is noise. A key that
/// is bound to agents sees their calls alone. Reads that are not audited (`boundary.audit.reads`) are not compared.
#[utoipa::path(get, path = "/v1/runs/{a}/diff/{b}", tag = "boundary",
    params(("a" = String, Path, description = "The first run, as calls name it", example = "r1"),
        ("b" = String, Path, description = "The second run", example = "r2"),
        ("baseline" = Option<String>, Query, description = "A repetition of the first run", example = "r1-again")),
    responses((status = 200, description = "The differences and the summary",
            content((String = "application/x-ndjson"), (RunsCompared = "application/json"))),
        (status = 409, description = "A run has more than 5,000 calls, or 32 MiB of arguments and stubs",
            body = crate::api::problem::ProblemDocument, content_type = "application/problem+json")))]
pub async fn diff_runs(
    State(api): State<Api>,
    caller: Caller,
    path: Result<Path<(String, String)>, PathRejection>,
    headers: HeaderMap,
    mut params: Params,
) -> Result<Response, Problem> {
    caller.require(Scope::Read)?;
    let Path((a, b)) = path?;
    let baseline = params.text("baseline");
    if baseline.as_ref() == Some(&a) {
        params.fault("baseline", "same", "this is the first run itself: give a repetition of it");
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
