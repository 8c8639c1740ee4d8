//! `/v1/events/{id}/verdict`: verdict of the active shadows on an event.

use std::time::Duration;

use axum::Json;

use super::{Api, JsonAnswer, auth::Caller, params::Params, path_ids::missing_event, problem::Problem};
use crate::api::path_ids::PathId;
use umbra_domain::{EventId, key::Scope};
use umbra_store::verdicts::EventVerdict;

/// Returns the verdict of the active shadows on an event. `wait=N` waits for it, N seconds at most.
#[utoipa::path(get, path = "/v1/events/{id}/verdict", tag = "events",
    params(("id" = String, Path, description = "An event's id", example = "evt_0197a3c1d2e47f00a1b2c3d4e5f60718"),
        ("wait" = Option<u32>, Query, minimum = 0, maximum = 60, description = "Seconds to wait for the verdict")),
    responses((status = 200, description = "The verdict; accepted and rejected are final", body = EventVerdict)))]
pub async fn get_verdict(
    api: Api,
    caller: Caller,
    PathId(id): PathId<EventId>,
    mut params: Params,
) -> JsonAnswer<EventVerdict> {
    let wait = params.parsed("wait", "seconds from 0 to 60", |text| text.parse().ok().filter(|wait| *wait <= 60));
    params.finish()?;
    let Some(agent) = api.flows.store.verdicts().agent_of(id).await? else { return Err(missing_event(&api, id).await) };
    caller.require(Scope::Read).or_else(|_| caller.speak_for(&agent))?;
    waited(&api, id, Duration::from_secs(wait.unwrap_or(0))).await.map(Json)
}

/// Waits for the verdict; returns the present state when the time is over or the server drains.
pub(super) async fn waited(api: &Api, event: EventId, wait: Duration) -> Result<EventVerdict, Problem> {
    let waited = api.flows.verdicts.await_verdict(event, wait.min(api.max_wait));
    match api.draining.run_until_cancelled(waited).await {
        Some(item) => Ok(item?),
        None => Ok(api.flows.verdicts.verdict(event).await?),
    }
}
