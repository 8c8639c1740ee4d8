//! `/v1/backtests`: tries a version of a shadow on stored events before it goes live.

use axum::{
    Json,
    extract::Request,
    http::{HeaderName, StatusCode, header},
};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::{
    Api, JsonAnswer, Listing,
    params::{Params, listing, reached_listing},
    problem::Problem,
};
use crate::{
    api::path_ids::{Addressed, PathId},
    flows::backtests::{PlanError, PlannedBacktest},
};
use umbra_config::{Models, quantity::parse_moment, shadows::load};
use umbra_domain::{Assessment, AssessmentChange, BacktestId, ItemOutcome, NanoUsd, Shadow};
use umbra_store::{
    backtests::{Backtest, Item, ItemFilter},
    paging::Feed,
};

/// Names of the lists in cursors: a cursor of one list is refused by another.
const BACKTESTS: char = 'b';
const ITEMS: char = 'i';

/// Version of a shadow to try, and the stored events to try it on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BacktestRequest {
    /// A shadows file as YAML or JSON text, or as a JSON object. Without it, a shadow in force is tried.
    #[schema(value_type = Option<std::collections::HashMap<String, serde_json::Value>>)]
    pub shadows: Option<Value>,
    /// Name of the shadow; may be left out where `shadows` holds one.
    pub shadow: Option<String>,
    /// Earliest time of receipt: a duration up to now, such as `7d` (the default), or a time (RFC 3339).
    #[schema(example = "7d")]
    pub since: Option<String>,
    /// Latest time of receipt: a duration up to now, or a time (RFC 3339). Now, without it.
    pub until: Option<String>,
    /// Only events of this agent.
    pub agent: Option<String>,
    /// Most events to try; the newest are taken.
    #[schema(minimum = 1, maximum = 100_000, default = 10_000)]
    pub max_events: Option<u32>,
    /// Most that it may cost, in US dollars. A model needs this or `max_tokens`.
    pub max_usd: Option<f64>,
    /// Most tokens that it may use.
    pub max_tokens: Option<u64>,
}

/// A larger budget.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ResumeRequest {
    /// Most that it may cost in all, in US dollars. An amount below the present one changes nothing.
    pub max_usd: Option<f64>,
    /// Most tokens that it may use in all. A number below the present one changes nothing.
    pub max_tokens: Option<u64>,
}

/// Tries a version of a shadow on stored events. The answer comes with the forecast. The reviews follow within the
/// budget; live data is not touched. Each event is reviewed alone.
#[utoipa::path(post, path = "/v1/backtests", tag = "backtests", request_body = BacktestRequest,
    responses((status = 202,
        description = "The backtest is planned and running: read its state by its id", body = Backtest,
            headers(("Location" = String, description = "Path of the backtest"))),
        (status = 409, description = "Too many backtests are not finished yet")))]
pub async fn post_backtest(
    api: Api,
    request: Request,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Backtest>), Problem> {
    let body: BacktestRequest = api.bodies.read_json(request).await?;
    let tried = tried(&api, body)?;
    let flows = &api.flows;
    let id = flows.backtests.plan_backtest(&tried, &|_, _| ()).await.map_err(|error| match error {
        PlanError::Store(error) => error.into(),
        PlanError::Pattern(_) | PlanError::OfTasks => refuse([("/shadows", error.to_string())]),
        PlanError::TooMany | PlanError::Deleted => Problem::conflict(error.to_string()),
    })?;
    flows.store.backtests().start(id, None, None).await?;
    flows.backtests.bell.notify_one();
    let backtest = find(&api, id).await?;
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, format!("/v1/backtests/{id}"))], Json(backtest)))
}

/// Checks a request and returns the backtest to run, or every fault of the request.
fn tried(api: &Api, body: BacktestRequest) -> Result<PlannedBacktest, Problem> {
    let now = api.flows.clock.now();
    let gateway = &api.flows.rules.load().gateway;
    let mut faults = Vec::new();
    let right = "expected a duration such as 7d, or an RFC 3339 time";
    let mut moment = |pointer, text: Option<String>, otherwise: &str| {
        let moment = parse_moment(text.as_deref().unwrap_or(otherwise), now);
        if moment.is_none() {
            faults.push((pointer, right.to_owned()));
        }
        moment.unwrap_or(now)
    };
    let (since, until) = (moment("/since", body.since, "7d"), moment("/until", body.until, "0s"));
    if since >= until && faults.is_empty() {
        faults.push(("/since", "the time range is empty: since must be before until".into()));
    }
    let max_events = body.max_events.unwrap_or(10_000);
    if !(1..=100_000).contains(&max_events) {
        faults.push(("/max_events", "expected a number from 1 to 100000".into()));
    }
    if body.agent.as_ref().is_some_and(|agent| agent.is_empty() || agent.contains('\0')) {
        faults.push(("/agent", "expected a name without U+0000; leave the field out for no limit".into()));
    }
    let (max_usd, max_tokens) = budget(body.max_usd, body.max_tokens, &mut faults);
    let shadow = shadow(api, body.shadows, body.shadow.as_deref(), &mut faults);
    let Some(shadow) = shadow.filter(|_| faults.is_empty()) else { return Err(refuse(faults)) };
    let (agent, by_server) = (body.agent, true);
    let tried = PlannedBacktest { shadow, by_server, since, until, agent, max_events, max_usd, max_tokens };
    if tried.lacks_budget(gateway) {
        let model = &tried.shadow.model;
        let pointer = if tried.max_usd.is_some() { "/max_tokens" } else { "/max_usd" };
        let detail = format!("this backtest calls the model {model}: set a budget (max_usd or max_tokens)");
        return Err(refuse([(pointer, detail)]));
    }
    Ok(tried)
}

fn budget(
    usd: Option<f64>,
    tokens: Option<u64>,
    faults: &mut Vec<(&'static str, String)>,
) -> (Option<NanoUsd>, Option<u64>) {
    let max_usd = usd.and_then(NanoUsd::from_usd).filter(|usd| usd.0 > 0);
    if usd.is_some() && max_usd.is_none() {
        faults.push(("/max_usd", "expected an amount in US dollars above 0".into()));
    }
    if tokens == Some(0) {
        faults.push(("/max_tokens", "expected a number of tokens above 0".into()));
    }
    (max_usd, tokens)
}

/// Returns the version to try: from the text, or the one in force.
fn shadow(
    api: &Api,
    shadows: Option<Value>,
    name: Option<&str>,
    faults: &mut Vec<(&'static str, String)>,
) -> Option<Shadow> {
    let rules = api.flows.rules.load();
    let candidates: Vec<Shadow> = match shadows {
        None => rules.shadows.iter().map(|armed| (*armed.shadow).clone()).collect(),
        Some(value) => {
            let text = if let Value::String(text) = value { text } else { value.to_string() };
            let specs = rules.gateway.specs();
            match load("shadows", &text, &Models { specs: &specs, ceiling: api.cheap_ceiling }) {
                Ok(loaded) => loaded.value,
                Err(report) => {
                    faults.extend(report.faults.iter().map(|fault| ("/shadows", fault.to_string())));
                    return None;
                }
            }
        }
    };
    let names = || candidates.iter().map(|shadow| shadow.name.as_str()).collect::<Vec<_>>().join(", ");
    let found = match (name, candidates.as_slice()) {
        (None, [only]) => Some(only.clone()),
        (None, _) => None,
        (Some(name), all) => all.iter().find(|shadow| shadow.name == name).cloned(),
    };
    if found.is_none() {
        faults.push(("/shadow", format!("expected one of: {}", names())));
    }
    found
}

fn refuse(faults: impl IntoIterator<Item = (&'static str, String)>) -> Problem {
    Problem::invalid_values(faults.into_iter().map(|(pointer, detail)| (pointer, "bad_value", detail)))
}

async fn find(api: &Api, id: BacktestId) -> Result<Backtest, Problem> {
    api.flows.store.backtests().get(id).await?.ok_or_else(BacktestId::unknown)
}

/// Lists backtests, without their results.
#[utoipa::path(get, path = "/v1/backtests", tag = "backtests",
    params(("shadow" = Option<String>, Query, description = "Only those of this shadow"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "Items at most; 50 unless given"),
        ("order" = Option<String>, Query, description = "`asc`, oldest first, or `desc`"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` or `resume_cursor` of an earlier answer")),
    responses((status = 200, description = "A page", body = Listing<Backtest>)))]
pub async fn list_backtests(api: Api, mut params: Params) -> JsonAnswer<Listing<Backtest>> {
    let shadow = params.text("shadow");
    let seek = params.seek(BACKTESTS)?;
    let page = api.flows.store.backtests().list(shadow.as_deref(), seek).await?;
    reached_listing(&api.flows.store, Feed::Backtest, BACKTESTS, seek, page).await.map(Json)
}

/// Returns one backtest: its state, its forecast, its results so far, and the differences from the live reviews.
#[utoipa::path(get, path = "/v1/backtests/{id}", tag = "backtests",
    params(("id" = String, Path, description = "A backtest's id", example = "bkt_0197a3c1d2e47f00a1b2c3d4e5f60718")),
    responses((status = 200, description = "The backtest", body = Backtest)))]
pub async fn get_backtest(api: Api, PathId(id): PathId<BacktestId>) -> JsonAnswer<Backtest> {
    find(&api, id).await.map(Json)
}

/// Lists a backtest's events in order of receipt: events that the version watches, and events that the live shadow
/// reviewed. A list filtered by a result of the review is complete once the backtest is done.
#[utoipa::path(get, path = "/v1/backtests/{id}/items", tag = "backtests",
    params(("id" = String, Path, description = "A backtest's id", example = "bkt_0197a3c1d2e47f00a1b2c3d4e5f60718"),
        ("change" = Option<AssessmentChange>, Query, description = "Only items with this change"),
        ("outcome" = Option<ItemOutcome>, Query, description = "Only items with this outcome"),
        ("assessment" = Option<Assessment>, Query, description = "Only items with this assessment by the version"),
        ("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "Items at most; 50 unless given"),
        ("order" = Option<String>, Query, description = "`asc`, oldest first, or `desc`"),
        ("cursor" = Option<String>, Query, description = "`next_cursor` or `resume_cursor` of an earlier answer")),
    responses((status = 200, description = "A page", body = Listing<Item>)))]
pub async fn list_items(api: Api, PathId(id): PathId<BacktestId>, mut params: Params) -> JsonAnswer<Listing<Item>> {
    let words = |words: Vec<&str>| words.join(", ");
    let changes = words(AssessmentChange::ALL.iter().map(|change| change.as_str()).collect());
    let outcomes = words(ItemOutcome::ALL.iter().map(|outcome| outcome.as_str()).collect());
    let filter = ItemFilter {
        change: params.parsed("change", changes, AssessmentChange::parse),
        outcome: params.parsed("outcome", outcomes, ItemOutcome::parse),
        assessment: params.parsed("assessment", "APPROVE, CHECKED, INCONCLUSIVE, SUGGEST or FLAG", Assessment::parse),
        agent: params.text("agent"),
    };
    let seek = params.seek(ITEMS)?;
    let page = api.flows.store.backtests().items(id, &filter, seek).await?;
    if page.items.is_empty() {
        find(&api, id).await?;
    }
    Ok(Json(listing(ITEMS, seek, page)))
}

/// Resumes a stopped backtest, with a larger budget where one is given.
#[utoipa::path(post, path = "/v1/backtests/{id}/resume", tag = "backtests", request_body = ResumeRequest,
    params(("id" = String, Path, description = "A backtest's id", example = "bkt_0197a3c1d2e47f00a1b2c3d4e5f60718")),
    responses((status = 202, description = "The backtest is running again", body = Backtest),
        (status = 409, description = "The backtest is done, or its planning was interrupted")))]
pub async fn post_resume(
    api: Api,
    PathId(id): PathId<BacktestId>,
    request: Request,
) -> Result<(StatusCode, Json<Backtest>), Problem> {
    let body: ResumeRequest = api.bodies.read_json(request).await?;
    let mut faults = Vec::new();
    let (max_usd, max_tokens) = budget(body.max_usd, body.max_tokens, &mut faults);
    if !faults.is_empty() {
        return Err(refuse(faults));
    }
    find(&api, id).await?;
    if !api.flows.store.backtests().resume_on_server(id, max_usd, max_tokens).await? {
        return Err(Problem::conflict(
            "the backtest is done, or its planning was interrupted: start a new one with POST /v1/backtests",
        ));
    }
    api.flows.backtests.bell.notify_one();
    Ok((StatusCode::ACCEPTED, Json(find(&api, id).await?)))
}

/// Deletes a backtest; a running one is stopped.
#[utoipa::path(delete, path = "/v1/backtests/{id}", tag = "backtests",
    params(("id" = String, Path, description = "A backtest's id", example = "bkt_0197a3c1d2e47f00a1b2c3d4e5f60718")),
    responses((status = 204, description = "The backtest is deleted")))]
pub async fn delete_backtest(api: Api, PathId(id): PathId<BacktestId>) -> Result<StatusCode, Problem> {
    if api.flows.store.backtests().delete(id).await? { Ok(StatusCode::NO_CONTENT) } else { Err(BacktestId::unknown()) }
}
