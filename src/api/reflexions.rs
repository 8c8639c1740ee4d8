//! `/v1/reflexions`: recurring faults, as lessons for agents.

use axum::extract::State;

use super::{
    Api, JsonAnswer, Listing,
    auth::Caller,
    params::{Params, expect_reached, listing},
};
use crate::flows::followers::reflexions::ReflexionItem;
use umbra_domain::key::Scope;
use umbra_store::{paging::Feed, reflexions::ReflexionFilter};

const FEED: char = 'x';

/// Lists reflexions in the order in which they opened. A fault that recurs after its reflexion was closed opens a new
/// one.
#[utoipa::path(get, path = "/v1/reflexions", tag = "findings",
    params(("agent" = Option<String>, Query, description = "Only those of this agent"),
        ("task_type" = Option<String>, Query, description = "Only those of this type of task"),
        ("status" = Option<String>, Query, description = "open or closed"),
        super::openapi::Pages, super::openapi::Times),
    responses((status = 200, description = "A page", body = Listing<ReflexionItem>)))]
pub async fn list_reflexions(
    State(api): State<Api>,
    caller: Caller,
    mut params: Params,
) -> JsonAnswer<Listing<ReflexionItem>> {
    caller.require(Scope::Read)?;
    let filter = ReflexionFilter {
        agent: params.text("agent"),
        task_type: params.text("task_type"),
        status: params
            .parsed("status", "open or closed", |word| ["open", "closed"].contains(&word).then(|| word.to_owned())),
        span: params.span(),
    };
    let seek = params.seek(FEED);
    params.finish()?;
    let page = api.flows.followers.reflexions(&filter, seek).await?;
    expect_reached(&api.flows.store, Feed::Result, seek, &page).await?;
    Ok(listing(FEED, seek, page, |item| item).json())
}
