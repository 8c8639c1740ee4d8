//! `/v1/gate`: obstacles to running an environment as production.

use axum::Json;

use crate::{
    api::{Api, JsonAnswer, params::Params},
    flows::audit::gate::gate,
};
use umbra_boundary::gate::Gate;

/// Most bytes of an environment's name.
const NAME_BYTES: usize = 100;

/// Returns the obstacles to running an environment as production, as `umbra check --environment` does. A database that
/// does not answer is an obstacle, not an error.
#[utoipa::path(get, path = "/v1/gate", tag = "boundary",
    params(("environment" = Option<String>, Query,
        description = "The environment's name; the server's own unless given", example = "production")),
    responses((status = 200,
        description = "Result of the gate, with each reason against the environment", body = Gate)))]
pub async fn get_gate(api: Api, mut params: Params) -> JsonAnswer<Gate> {
    let right = "1 to 100 printable characters";
    let environment = params.parsed("environment", right, |text| {
        let fits = (1..=NAME_BYTES).contains(&text.len()) && !text.contains(char::is_control);
        fits.then(|| text.to_owned())
    });
    params.finish()?;
    let boundary = &api.flows.boundary;
    let rules = boundary.rules.load_full();
    let environment = environment.unwrap_or_else(|| rules.configured.environment.clone());
    Ok(Json(gate(&boundary.store, &rules, &environment, Some(&boundary.rows)).await))
}
