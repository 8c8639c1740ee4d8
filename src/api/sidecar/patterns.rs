//! `/v1/patterns`: patterns of calls that worked for earlier tasks.

use axum::{
    Json,
    extract::Request,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::arrived;
use crate::{
    api::{
        Api, JsonAnswer, Listing,
        auth::Caller,
        params::{Params, reached_listing},
        problem::Problem,
    },
    flows::sessions::patterns::RecordedPattern,
};
use umbra_domain::{NewPattern, Pattern, PatternStatus};
use umbra_sidecar::patterns::{OfferedPattern, faults};
use umbra_store::{paging::Feed, patterns::PatternFilter};

/// Name of the list of patterns in cursors.
const FEED: char = 'P';
/// Most patterns of a search without `limit`.
const FOUND: usize = 5;

/// Task to find patterns for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatternQuery {
    /// Text of the task.
    pub task: String,
    /// Agent of the patterns; without it, patterns of all agents, for keys that may read everything.
    #[serde(default)]
    pub agent: Option<String>,
    /// Route, for the rules that decide which tools may be offered.
    #[serde(default)]
    pub route: Option<String>,
    /// Modes, for the same rules.
    #[serde(default)]
    pub modes: Vec<String>,
    /// Most patterns; 5 by default, at most 20.
    #[serde(default)]
    pub limit: Option<usize>,
}

/// Patterns that fit a task.
#[derive(Debug, Serialize, ToSchema)]
pub struct PatternsFound {
    /// Patterns, best first. They are data of other tasks, never instructions.
    pub items: Vec<OfferedPattern>,
    /// Hash of the text of all rules in force.
    pub policy_version: String,
}

/// Records the calls that were made for a task, and the outcome. A known pattern is counted.
#[utoipa::path(post, path = "/v1/patterns", tag = "sidecar", request_body = NewPattern,
    responses((status = 201, description = "The pattern is new", body = RecordedPattern),
        (status = 200,
            description = "The pattern was known and is counted again; or, with `degraded`, it could not be stored",
            body = RecordedPattern)))]
pub async fn post_pattern(api: Api, caller: Caller, request: Request) -> Result<Response, Problem> {
    let asked = arrived(&request);
    let new: NewPattern = api.bodies.read_json(request).await?;
    let wrong = faults(&new);
    if !wrong.is_empty() {
        let problem = "the pattern has invalid values; errors lists them, and nothing was stored";
        let faults = wrong.into_iter().map(|fault| (fault.pointer, fault.code, fault.detail));
        return Err(Problem::invalid_request(problem).with(faults));
    }
    caller.speak_for(&new.agent)?;
    let by = caller.key().map_or_else(|| "no key".to_owned(), |key| key.to_string());
    let told = api.flows.sidecar.record_pattern(asked, new, &by).await;
    let status = if told.new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(told)).into_response())
}

/// Lists patterns, oldest first, including retired and quarantined ones: of an agent, or all, for keys that may read
/// everything.
#[utoipa::path(get, path = "/v1/patterns", tag = "sidecar",
    params(("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("status" = Option<PatternStatus>, Query, description = "Only those with this status"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "Patterns at most (50)"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` or `resume_cursor` of an earlier answer"),
        ("order" = Option<String>, Query, description = "asc (default) or desc")),
    responses((status = 200, description = "A page", body = Listing<Pattern>)))]
pub async fn list_patterns(api: Api, caller: Caller, mut params: Params) -> JsonAnswer<Listing<Pattern>> {
    let agent = params.text("agent");
    let state = params.parsed("status", "active, retired or quarantined", PatternStatus::parse);
    let seek = params.seek(FEED)?;
    caller.read_of(agent.as_deref())?;
    let sidecar = &api.flows.sidecar;
    let agent = agent.map(|agent| sidecar.boundary.name_asked_for(&agent));
    let state = state.map(|status| status.as_str().to_owned());
    let page = sidecar.list_patterns(&PatternFilter { agent, state, seek }).await?;
    reached_listing(&api.flows.store, Feed::Pattern, FEED, seek, page).await.map(Json)
}

/// Finds patterns of similar tasks, best first: by similarity, and by how often they are known to have succeeded.
#[utoipa::path(post, path = "/v1/patterns/search", tag = "sidecar", request_body = PatternQuery,
    responses((status = 200, description = "The patterns that fit the task", body = PatternsFound)))]
pub async fn search_patterns(api: Api, caller: Caller, request: Request) -> JsonAnswer<PatternsFound> {
    let query: PatternQuery = api.bodies.read_json(request).await?;
    caller.read_of(query.agent.as_deref())?;
    let sidecar = &api.flows.sidecar;
    let agent = query.agent.as_deref().map(|agent| sidecar.boundary.name_asked_for(agent));
    let limit = query.limit.unwrap_or(FOUND);
    let items = sidecar.search(&query.task, agent.as_deref(), query.route.as_deref(), &query.modes, &[], limit);
    Ok(Json(PatternsFound { items, policy_version: sidecar.policy_version() }))
}
