//! `/v1/drift`: contracts that no longer hold, calls without a decision, and changes in an agent's behaviour.

use std::time::Duration;

use axum::Json;

use crate::{
    api::{Api, JsonAnswer, params::Params},
    flows::audit::drift::{Drift, Windows},
};
use umbra_config::quantity::parse_duration;

/// Length of the recent window unless given.
const RECENT: Duration = Duration::from_hours(24);
/// Shortest recent window.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_hours(365 * 24);

/// Returns drift: stale or misfitting contracts, unguarded calls, and changes in an agent's behaviour. Contracts are
/// those that are stale or did not fit their last live results, each with the next version that these suggest. With
/// `agent`, the last `window` is compared with the time from `since` until then: the mix of tools, their arguments, and
/// their order; the latest 5,000 calls of each.
#[utoipa::path(get, path = "/v1/drift", tag = "boundary",
    params(("agent" = Option<String>, Query, description = "The agent whose behaviour is compared"),
        ("since" = Option<String>, Query, format = DateTime,
            description = "Start of the base window (RFC 3339); seven window lengths before the recent window unless \
                           given"),
        ("window" = Option<String>, Query,
            description = "Length of the recent window, which ends now: 30m, 24h, 7d", example = "24h")),
    responses((status = 200, description = "The contracts and the behaviour that have drifted", body = Drift)))]
pub async fn get_drift(api: Api, mut params: Params) -> JsonAnswer<Drift> {
    let agent = params.text("agent").map(|given| api.flows.boundary.name_asked_for(&given));
    let right = "a duration from 1s to 365d such as 30m, 24h, 7d";
    let recent = params
        .parsed("window", right, |text| parse_duration(text).filter(|window| (SHORTEST..=LONGEST).contains(window)));
    let recent = recent.unwrap_or(RECENT);
    let since = params.time("since");
    let now = api.flows.clock.now();
    if since.is_some_and(|since| now.saturating_sub(recent).is_ok_and(|turn| since >= turn)) {
        params.fault(
            "since",
            "range",
            "the base window must begin before the recent window: give an earlier time, or a shorter window",
        );
    }
    params.finish()?;
    Ok(Json(api.flows.audit.drift(agent, Windows { since, recent }).await?))
}
