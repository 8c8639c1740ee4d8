//! `/v1/reflexions`: recurring faults, as lessons for agents.

use axum::Json;

use super::{
    Api, JsonAnswer, Listing,
    params::{Params, reached_listing},
};
use crate::flows::followers::reflexions::ReflexionItem;
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
pub async fn list_reflexions(api: Api, mut params: Params) -> JsonAnswer<Listing<ReflexionItem>> {
    let filter = ReflexionFilter {
        agent: params.text("agent"),
        task_type: params.text("task_type"),
        status: params
            .parsed("status", "open or closed", |word| ["open", "closed"].contains(&word).then(|| word.to_owned())),
        span: params.span(),
    };
    let seek = params.seek(FEED)?;
    let page = api.flows.followers.reflexions(&filter, seek).await?;
    reached_listing(&api.flows.store, Feed::Result, FEED, seek, page).await.map(Json)
}
