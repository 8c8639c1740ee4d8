//! `/v1/breakers`: recommendation from an agent's reviews whether it should go on. An orchestrator reads it; people
//! acknowledge or reset it.

use axum::{Json, extract::Request};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api, JsonAnswer, Listing,
    auth::Caller,
    params::{NOTE_CHARS, Params, PathPart, reached_listing},
    problem::Problem,
};
use crate::flows::followers::breaker_item::BreakerItem;
use umbra_domain::{BreakerState, key::Scope};
use umbra_store::{
    breakers::{BreakerFilter, Signature},
    paging::Feed,
};

const FEED: char = 'b';
/// Most characters of a person's name.
const BY_CHARS: usize = 200;

/// Lists agents that have had a review, in the order of their first one. A key that may only ingest sees its own
/// agents; its pages may be shorter.
#[utoipa::path(get, path = "/v1/breakers", tag = "breakers",
    params(("agent" = Option<String>, Query, description = "Only the breaker of this agent"),
        ("recommendation" = Option<BreakerState>, Query, description = "Only breakers with this recommendation"),
        super::openapi::Pages),
    responses((status = 200, description = "A page", body = Listing<BreakerItem>)))]
pub async fn list_breakers(api: Api, caller: Caller, mut params: Params) -> JsonAnswer<Listing<BreakerItem>> {
    let filter = BreakerFilter {
        agent: params.text("agent"),
        recommendation: params.parsed("recommendation", "closed, half_open or open", BreakerState::parse),
    };
    let seek = params.seek(FEED)?;
    let page = api.flows.followers.breakers(&filter, seek).await?;
    // Breakers that the caller may not see move the cursor as well.
    let mut all = reached_listing(&api.flows.store, Feed::Result, FEED, seek, page).await?;
    all.items.retain(|item| caller.require(Scope::Read).or_else(|_| caller.speak_for(&item.agent)).is_ok());
    Ok(Json(all))
}

/// Returns the recommendation about an agent. An agent without reviews is closed.
#[utoipa::path(get, path = "/v1/breakers/{agent}", tag = "breakers",
    params(("agent" = String, Path, description = "An agent's name")),
    responses((status = 200, description = "The breaker and its recommendation", body = BreakerItem)))]
pub async fn get_breaker(api: Api, caller: Caller, PathPart(agent): PathPart) -> JsonAnswer<BreakerItem> {
    caller.require(Scope::Read).or_else(|_| caller.speak_for(&agent))?;
    Ok(Json(api.flows.followers.breaker(&named(&agent)?).await?))
}

/// Author of a change by hand, and a note. The body may be left out.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Acknowledgement {
    /// Person who acknowledges or resets the breaker; the id of the key unless set.
    #[schema(max_length = 200)]
    pub by: Option<String>,
    /// Note for other people.
    #[schema(max_length = 2000)]
    pub note: Option<String>,
}

/// A breaker that a person takes care of.
#[derive(Debug, Serialize, ToSchema)]
pub struct Acknowledged {
    #[serde(flatten)]
    #[schema(inline)]
    #[expect(missing_docs, reason = "its parts are explained there")]
    pub breaker: BreakerItem,
    /// True if the breaker was acknowledged before: the first acknowledgement stays, and this one changed nothing.
    pub already_acknowledged: bool,
}

/// Acknowledges an agent's open or half open breaker: a person takes care of it. The first acknowledgement is kept; it
/// is cleared when the breaker opens again.
#[utoipa::path(post, path = "/v1/breakers/{agent}/acknowledge", tag = "breakers", request_body = Acknowledgement,
    params(("agent" = String, Path, description = "An agent's name")),
    responses((status = 200, description = "The breaker, and whether it was acknowledged before", body = Acknowledged),
        (status = 409, description = "The breaker is closed")))]
pub async fn acknowledge_breaker(
    api: Api,
    caller: Caller,
    PathPart(agent): PathPart,
    request: Request,
) -> JsonAnswer<Acknowledged> {
    let signed = signature(&api, &caller, request).await?;
    let known = api.flows.followers.acknowledge_breaker(&named(&agent)?, &signed).await?;
    known
        .map(|(breaker, already_acknowledged)| Json(Acknowledged { breaker, already_acknowledged }))
        .ok_or_else(|| Problem::conflict("the breaker of this agent is closed: there is nothing to acknowledge"))
}

/// Closes an agent's breaker by hand. Events up to now no longer count, even those still under review.
#[utoipa::path(post, path = "/v1/breakers/{agent}/reset", tag = "breakers", request_body = Acknowledgement,
    params(("agent" = String, Path, description = "An agent's name")),
    responses((status = 200, description = "The breaker, closed", body = BreakerItem)))]
pub async fn reset_breaker(
    api: Api,
    caller: Caller,
    PathPart(agent): PathPart,
    request: Request,
) -> JsonAnswer<BreakerItem> {
    let signed = signature(&api, &caller, request).await?;
    Ok(Json(api.flows.followers.reset_breaker(&named(&agent)?, signed).await?))
}

/// Returns an agent's name as it is stored.
fn named(agent: &str) -> Result<String, Problem> {
    if agent.contains('\0') {
        return Err(Problem::bad_path("U+0000 is not allowed in an agent's name"));
    }
    Ok(umbra_checks::redact(agent).as_str().to_owned())
}

/// Reads name and note of a request that acknowledges or resets a breaker.
async fn signature(api: &Api, caller: &Caller, request: Request) -> Result<Signature, Problem> {
    let Acknowledgement { by, note } = api.bodies.read_or_nothing(request).await?;
    let bounded = [("/by", &by, BY_CHARS), ("/note", &note, NOTE_CHARS)].into_iter();
    let faults: Vec<_> = bounded
        .filter(|(_, text, most)| text.as_ref().is_some_and(|text| text.chars().count() > *most || text.contains('\0')))
        .map(|(pointer, _, most)| (pointer, "range", format!("at most {most} characters, without U+0000")))
        .collect();
    if !faults.is_empty() {
        return Err(Problem::invalid_event("by or note has an invalid value; errors lists them").with(faults));
    }
    let clean = |text: Option<String>| text.map(|text| umbra_checks::redact(&text).as_str().to_owned());
    let by = clean(by).or_else(|| caller.key().map(|key| key.to_string()));
    Ok(Signature { by, note: clean(note) })
}
