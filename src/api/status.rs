//! `/v1/status`, `/v1/shadows` and `/v1/skips`: state of the service, shadows in force, and counts of skipped reviews.

use axum::Json;
use jiff::civil::Date;
use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::{
    Api, JsonAnswer,
    params::{Params, PathPart},
    problem::Problem,
};
use crate::flows::{
    active_configuration::{ActiveConfiguration, ActiveShadow},
    followers::feedback::ShadowPrecision,
    maintenance::status::Status,
};
use umbra_domain::{CheckName, Datamark, Mode, ReviewScope, Severity, SkipReason, Trigger, WatchRule};
use umbra_store::{feedback::JudgedCount, status::SkipView};

/// Returns the state of the service: queue, shadows with their day so far, providers.
#[utoipa::path(get, path = "/v1/status", tag = "status",
    responses((status = 200,
        description = "The state of the server, its shadows, its models and its queue", body = Status)))]
pub async fn get_status(api: Api) -> JsonAnswer<Status> {
    Ok(Json(api.flows.maintenance.status().await?))
}

/// Configuration of a shadow in force.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Shadow)]
pub struct ShadowView {
    /// Name of the shadow.
    pub name: String,
    /// Hash of this configuration.
    pub version: String,
    /// Mode of the shadow.
    pub mode: Mode,
    /// Alias of the model.
    pub model: String,
    /// `model`, or `checks` where only the built-in checks review.
    pub reviewer: &'static str,
    /// `ok`, or the reason why the model cannot be used.
    pub health: String,
    /// True if the shadow is switched on.
    pub enabled: bool,
    /// Events that the shadow watches.
    pub watch: Vec<WatchView>,
    /// Spending limits; money in US dollars, times in seconds.
    pub cost_control: CostView,
    /// Additional criteria, in words.
    pub criteria: Vec<String>,
    /// Built-in checks that run.
    pub checks: Vec<CheckName>,
    /// Least severity of a finding that makes the assessment FLAG.
    pub flag_at: Severity,
    /// Most characters of an event that a model is shown.
    pub max_input_chars: u32,
    /// Marking of the data in the prompt.
    pub datamark: Datamark,
    /// True if each prompt contains a planted fault that the model must report.
    pub canary: bool,
    /// Unit of a review: an event, or a whole task.
    pub scope: ReviewScope,
    /// Share of the findings that people judged to be right.
    pub precision: ShadowPrecision,
}

/// Rule for the events that a shadow watches.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WatchRule)]
pub struct WatchView {
    /// Name or glob of agents.
    pub agent: String,
    /// Triggers that match.
    pub triggers: Vec<Trigger>,
    /// True if events without any trigger match as well.
    pub all: bool,
    /// Task type of the events.
    pub task_type: Option<String>,
    /// Least known cost of the events, in US dollars.
    pub min_cost: Option<f64>,
    /// Values that the events' metadata must have.
    #[schema(value_type = std::collections::HashMap<String, serde_json::Value>)]
    pub metadata: Map<String, Value>,
    /// Agents (names or globs) left out.
    pub except: Vec<String>,
}

impl From<WatchRule> for WatchView {
    fn from(rule: WatchRule) -> Self {
        let WatchRule { agent, triggers, all, task_type, min_cost, metadata, except } = rule;
        Self { agent, triggers, all, task_type, min_cost: min_cost.map(umbra_domain::NanoUsd::usd), metadata, except }
    }
}

/// Spending limits of a shadow.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CostControl)]
#[expect(missing_docs, reason = "the keys of the shadows file, explained there")]
pub struct CostView {
    pub max_reviews_per_day: Option<u32>,
    pub max_reviews_per_target_per_day: Option<u32>,
    pub max_usd_per_day: Option<f64>,
    pub max_tokens_per_day: Option<u64>,
    pub skip_if_task_cost_below: Option<f64>,
    pub cooldown_seconds: f64,
    pub sample: f64,
    pub time_zone: String,
    pub batch: Option<BatchView>,
}

/// Limits of a batch, in which small events of one agent share a review.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Batch)]
#[expect(missing_docs, reason = "the keys of the shadows file, explained there")]
pub struct BatchView {
    pub max_events: u32,
    pub max_chars: u32,
    pub max_wait_seconds: f64,
}

impl ShadowView {
    fn new(rules: &ActiveConfiguration, armed: &ActiveShadow, judged: &[JudgedCount]) -> Self {
        let shadow = (*armed.shadow).clone();
        let control = shadow.cost_control;
        let (reviewer, health) = rules.reviewer(&armed.shadow);
        let usd = |nano: Option<umbra_domain::NanoUsd>| nano.map(umbra_domain::NanoUsd::usd);
        let cost_control = CostView {
            max_reviews_per_day: control.max_reviews_per_day,
            max_reviews_per_target_per_day: control.max_reviews_per_target_per_day,
            max_usd_per_day: usd(control.max_usd_per_day),
            max_tokens_per_day: control.max_tokens_per_day,
            skip_if_task_cost_below: usd(control.skip_if_task_cost_below),
            cooldown_seconds: control.cooldown.as_secs_f64(),
            sample: f64::from(control.sample_ppm) / 1e6,
            time_zone: control.time_zone,
            batch: control.batch.map(|batch| BatchView {
                max_events: batch.max_events,
                max_chars: batch.max_chars,
                max_wait_seconds: batch.max_wait.as_secs_f64(),
            }),
        };
        Self {
            name: shadow.name,
            version: armed.version.clone(),
            mode: shadow.mode,
            model: shadow.model,
            reviewer,
            health,
            enabled: shadow.enabled,
            watch: shadow.watch.into_iter().map(WatchView::from).collect(),
            cost_control,
            criteria: shadow.criteria,
            checks: shadow.checks.into_iter().collect(),
            flag_at: shadow.flag_at,
            max_input_chars: shadow.max_input_chars,
            datamark: shadow.datamark,
            canary: shadow.canary,
            scope: shadow.scope,
            precision: ShadowPrecision::of(&armed.shadow, judged),
        }
    }
}

/// All shadows in force.
#[derive(Debug, Serialize, ToSchema)]
pub struct ShadowList {
    /// Shadows in the order of the file.
    pub items: Vec<ShadowView>,
}

/// Lists the shadows in force.
#[utoipa::path(get, path = "/v1/shadows", tag = "status",
    responses((status = 200, description = "The shadows", body = ShadowList)))]
pub async fn list_shadows(api: Api, params: Params) -> JsonAnswer<ShadowList> {
    params.finish()?;
    let rules = api.flows.rules.load_full();
    let names: Vec<&str> = rules.shadows.iter().map(|armed| armed.shadow.name.as_str()).collect();
    let judged = api.flows.store.findings().judged_counts(&names).await?;
    Ok(Json(ShadowList { items: rules.shadows.iter().map(|armed| ShadowView::new(&rules, armed, &judged)).collect() }))
}

/// Returns one shadow in force.
#[utoipa::path(get, path = "/v1/shadows/{name}", tag = "status",
    params(("name" = String, Path, description = "A shadow's name")),
    responses((status = 200, description = "The shadow", body = ShadowView)))]
pub async fn get_shadow(api: Api, PathPart(name): PathPart) -> JsonAnswer<ShadowView> {
    let rules = api.flows.rules.load_full();
    let armed = rules.shadows.iter().find(|armed| armed.shadow.name == name);
    let armed = armed.ok_or_else(|| Problem::unknown_shadow("shadow not found; GET /v1/shadows lists them"))?;
    let judged = api.flows.store.findings().judged_counts(&[&name]).await?;
    Ok(Json(ShadowView::new(&rules, armed, &judged)))
}

/// Skips by shadow, reason and day.
#[derive(Debug, Serialize, ToSchema)]
pub struct SkipList {
    /// Counts, newest day first.
    pub items: Vec<SkipView>,
}

/// Counts matching events that were not reviewed, by shadow, reason and day.
#[utoipa::path(get, path = "/v1/skips", tag = "status",
    params(("shadow" = Option<String>, Query, description = "Only skips of this shadow"),
        ("reason" = Option<SkipReason>, Query, description = "Only skips for this reason"),
        ("since" = Option<String>, Query, description = "First day: YYYY-MM-DD"),
        ("until" = Option<String>, Query, description = "Last day: YYYY-MM-DD"),
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 500, description = "Items at most; 50 unless given")),
    responses((status = 200, description = "The counts", body = SkipList)))]
pub async fn list_skips(api: Api, mut params: Params) -> JsonAnswer<SkipList> {
    let shadow = params.text("shadow");
    let reason = params.parsed("reason", "a reason such as daily_cap", SkipReason::parse);
    let mut day = |name| {
        params.parsed(name, "a day such as 2026-02-28", |text| text.parse::<Date>().ok().filter(|day| day.year() >= 1))
    };
    let days = (day("since"), day("until"));
    let limit = params.limit();
    params.finish()?;
    let items = api.flows.store.shadows().skips(shadow.as_deref(), reason, days, limit.unwrap_or(50).into()).await?;
    Ok(Json(SkipList { items }))
}
