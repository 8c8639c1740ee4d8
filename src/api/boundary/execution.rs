//! `/v1/execution`: whether calls of tools run, by which setting, and the overrides above the settings.

use axum::{Json, extract::Request};
use globset::Glob;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::{
        Api, JsonAnswer,
        auth::Caller,
        params::{NOTE_CHARS, Params, fits_note},
        problem::Problem,
    },
    flows::decisions::{EffectiveQuery, NewOverride, OverrideError, RunName, RunsAfter},
};
use umbra_boundary::execution::{ConfiguredExecution, Effective};
use umbra_domain::{Execution, Override, OverrideScope, key::Scope, tool::plain_tool_name};

/// Most bytes of a name or glob.
const VALUE_BYTES: usize = 256;
/// Most overrides in force at a time: each decision reads them all.
const MOST_OVERRIDES: usize = 1_000;

/// Execution by the settings, and the overrides above them.
#[derive(Debug, Serialize, ToSchema)]
pub struct ExecutionView {
    /// Name of the environment.
    pub environment: String,
    /// Execution of the settings file.
    pub settings: Option<Execution>,
    /// Environment variable that means shadow when it is set.
    pub variable: String,
    /// Execution by that variable.
    pub variable_says: Option<Execution>,
    /// Default execution of the environment.
    pub default: Execution,
    /// Execution of a call that no narrower override covers.
    pub effective: Effective,
    /// Overrides from wide to narrow; the narrowest that covers a call wins.
    pub overrides: Vec<Override>,
}

/// An override to be set or lifted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct OverrideRequest {
    /// Kind of the override.
    pub scope: OverrideScope,
    /// Name of the environment or session, or a name or glob of agents or tools (`server.name`). None for `global`.
    #[schema(max_length = 256)]
    pub value: Option<String>,
    /// Execution of the covered calls; null lifts the override of this scope and value.
    pub execution: Option<Execution>,
    /// Reason, kept in the audit.
    #[schema(min_length = 1, max_length = 2000)]
    pub reason: String,
    /// End of the override (RFC 3339); without it, the override holds until it is lifted.
    #[schema(format = DateTime)]
    pub expires_at: Option<String>,
}

/// Changes made by a request.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct OverrideChange {
    /// Override that came into force.
    pub set: Option<Override>,
    /// Override that is no longer in force.
    pub lifted: Option<Override>,
    /// Named runs that stay in shadow although other calls of their agents run now: `POST /v1/runs/{run}/end` ends one.
    pub runs_that_stay: Vec<RunName>,
    /// Runs of sessions and processes that ended with this change.
    pub runs_that_end: Vec<RunName>,
    /// Warnings, such as a name that no agent or tool has.
    pub warnings: Vec<String>,
}

/// Returns the execution that holds for all calls, and the overrides above the settings.
#[utoipa::path(get, path = "/v1/execution", tag = "boundary",
    responses((status = 200,
        description = "The overrides in force, and what calls do in this environment", body = ExecutionView)))]
pub async fn get_execution(api: Api, params: Params) -> JsonAnswer<ExecutionView> {
    params.finish()?;
    let nobody = || Problem::internal("a parent where none was named");
    let effective = api.flows.boundary.effective(EffectiveQuery::default()).await?.ok_or_else(nobody)?;
    let overrides = api.flows.boundary.overrides().await?;
    let rules = api.flows.boundary.rules.load();
    let ConfiguredExecution { environment, settings, variable, default } = rules.configured.clone();
    let (variable, variable_says) = variable;
    Ok(Json(ExecutionView { environment, settings, variable, variable_says, default, effective, overrides }))
}

/// Sets an override, or lifts one (`execution: null`). Once this answers, every later decision on every replica follows
/// it. One override is in force for each scope and value; earlier ones are in the audit.
#[utoipa::path(put, path = "/v1/execution", tag = "boundary", request_body = OverrideRequest,
    responses((status = 200,
        description = "The changed override, and the runs that the change affects", body = OverrideChange),
        (status = 404, description = "No override is in force for this scope and value"),
        (status = 409,
            description = "The session can write in ways that Umbra cannot intercept, so it cannot be set to shadow")))]
pub async fn put_execution(api: Api, caller: Caller, request: Request) -> JsonAnswer<OverrideChange> {
    let request: OverrideRequest = api.bodies.read_json(request).await?;
    let (value, expires_at) = check(&request, api.flows.clock.now())?;
    let OverrideRequest { scope, execution, reason, .. } = request;
    let (before, changed_at) = (api.flows.boundary.overrides().await?, api.flows.store.now().await?);
    let Some(execution) = execution else {
        let lifted = api.flows.boundary.lift_override(scope, &value, &reason, caller.key()).await?;
        let missing =
            || Problem::not_found("no override is in force for this scope and value; GET /v1/execution lists them");
        let lifted = Some(lifted.ok_or_else(missing)?);
        return changed(&api, OverrideChange { lifted, ..OverrideChange::default() }, &before, changed_at).await;
    };
    let kept = api.flows.boundary.name_asked_for(&value);
    let is_set = |one: &Override| one.scope == scope && one.value == kept;
    if before.len() >= MOST_OVERRIDES && !before.iter().any(is_set) {
        return Err(Problem::conflict(format!(
            "{MOST_OVERRIDES} overrides are in force, the most there may be: lift some, or use a wider scope"
        )));
    }
    let lifted = before.iter().find(|one| is_set(one)).cloned();
    let new = NewOverride { scope, value, execution, reason, expires_at };
    let set = api.flows.boundary.set_override(new, caller.key()).await.map_err(|error| match error {
        OverrideError::Uninterceptable(_) => Problem::conflict(error.to_string()),
        OverrideError::Store(error) => error.into(),
    })?;
    let warnings = api.flows.boundary.unmatched(&set).await?.into_iter().collect();
    changed(&api, OverrideChange { set: Some(set), lifted, warnings, ..OverrideChange::default() }, &before, changed_at)
        .await
}

/// Completes the answer with the runs that the change ends or leaves in shadow.
async fn changed(
    api: &Api,
    mut change: OverrideChange,
    before: &[Override],
    changed_at: Timestamp,
) -> JsonAnswer<OverrideChange> {
    let RunsAfter { stay, ended } = api.flows.boundary.settle_runs(before, changed_at).await?;
    if !stay.is_empty() {
        let names: Vec<String> =
            stay.iter().take(5).map(|RunName { agent, run }| format!("{run} of {agent}")).collect();
        let more = if stay.len() > names.len() { " and others" } else { "" };
        change.warnings.push(format!(
            "these runs began in shadow and stay in shadow: {}{more}; POST /v1/runs/{{run}}/end ends a run",
            names.join(", ")
        ));
    }
    (change.runs_that_stay, change.runs_that_end) = (stay, ended);
    Ok(Json(change))
}

/// Returns whether a call would run, by which setting or override, and which of them are overruled.
#[utoipa::path(get, path = "/v1/execution/effective", tag = "boundary",
    params(("agent" = Option<String>, Query, description = "The calling agent"),
        ("session" = Option<String>, Query, description = "The call's session"),
        ("tool" = Option<String>, Query, description = "The called tool, as `server.name`"),
        ("run" = Option<String>, Query, description = "The call's run; a run that began in shadow stays in shadow"),
        ("parent_run" = Option<String>, Query, description = "The run that started the call's run")),
    responses((status = 200,
            description = "Effective execution of the call, with the setting or override that decides it",
            body = Effective),
        (status = 404, description = "The parent run is unknown, so calls that change something would not run")))]
pub async fn get_effective(api: Api, caller: Caller, mut params: Params) -> JsonAnswer<Effective> {
    let [agent, session, tool, run, parent_run] =
        ["agent", "session", "tool", "run", "parent_run"].map(|name| params.text(name));
    params.finish()?;
    caller.require(Scope::Read).or_else(|_| caller.speak_for(agent.as_deref().unwrap_or_default()))?;
    let asked = EffectiveQuery { agent, session, tool, run, parent_run };
    let effective = api.flows.boundary.effective(asked).await?;
    let unknown =
        || Problem::not_found("this parent_run, or a run above it, is unknown: name a run that has made a call");
    Ok(Json(effective.ok_or_else(unknown)?))
}

/// Checks a request and returns value and end as they are stored; otherwise reports every fault.
fn check(request: &OverrideRequest, now: Timestamp) -> Result<(String, Option<Timestamp>), Problem> {
    let OverrideRequest { scope, value, reason, expires_at, .. } = request;
    let value = value.clone().unwrap_or_default();
    let mut faults = Vec::new();
    match scope {
        OverrideScope::Global if !value.is_empty() => {
            faults.push(("/value", "format", "the scope global applies to every call: leave value out".to_owned()));
        }
        OverrideScope::Global => {}
        _ if value.trim().is_empty() || value.len() > VALUE_BYTES || value.contains(char::is_control) => {
            faults.push((
                "/value",
                "range",
                format!("give the name that the override applies to: 1 to {VALUE_BYTES} bytes of visible characters"),
            ));
        }
        OverrideScope::Tool if plain_tool_name(&value).is_err() => {
            let right = plain_tool_name(&value).err().unwrap_or_default();
            faults.push(("/value", "format", right.to_owned()));
        }
        OverrideScope::Agent | OverrideScope::Tool if Glob::new(&value).is_err() => {
            faults.push(("/value", "format", "write a name or a glob such as stripe.*".to_owned()));
        }
        _ => {}
    }
    if reason.trim().is_empty() || !fits_note(reason) {
        faults.push(("/reason", "range", format!("give a reason of at most {NOTE_CHARS} characters")));
    }
    let expires_at = expires_at.as_ref().and_then(|end| end.parse::<Timestamp>().ok());
    if request.expires_at.is_some() && expires_at.is_none() {
        let words = "write a time such as 2026-02-28T14:30:00Z (RFC 3339), at the latest 9999-12-30T22:00:00Z; \
                     leave expires_at out for an override without an end";
        faults.push(("/expires_at", "format", words.to_owned()));
    }
    if expires_at.is_some_and(|end| end <= now) {
        let words = "this time is in the past: give a future time, or leave expires_at out";
        faults.push(("/expires_at", "range", words.to_owned()));
    }
    if faults.is_empty() {
        return Ok((value, expires_at));
    }
    Err(Problem::invalid_request("the override has invalid values; errors lists them").with(faults))
}
