//! `/v1/webhooks`: endpoints of webhooks, and deliveries that were given up.

use axum::{Json, extract::Request, http::StatusCode};
use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    Api, JsonAnswer, Listing,
    params::{Params, reached_listing},
    problem::Problem,
};
use crate::api::path_ids::{Addressed, PathId};
use umbra_domain::DeliveryId;
use umbra_store::{dead_letters::DeadLetter, paging::Feed, webhooks::OutboxStatus};

const DEAD: char = 'x';

/// Endpoint of webhooks.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookStatus {
    /// Name of the endpoint.
    pub name: String,
    /// Host of the URL; the rest may be a secret.
    pub host: String,
    /// Kinds of messages that the endpoint receives.
    #[schema(value_type = Vec<String>)]
    pub events: Vec<&'static str>,
    /// `ok`; `failing` while a delivery waits after a failed attempt; or `gone` since the endpoint answered 410:
    /// sending a dead letter again tries it again.
    pub state: &'static str,
    /// Last failure of a waiting delivery, in words.
    pub last_error: Option<String>,
    /// Time of the next attempt, while it fails.
    pub next_try_at: Option<Timestamp>,
    /// Number of waiting deliveries.
    pub waiting: i64,
    /// Number of deliveries that were given up.
    pub dead: i64,
}

/// All endpoints in force.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookList {
    /// Endpoints in the order of the settings.
    pub items: Vec<WebhookStatus>,
}

/// Lists the endpoints in force, with their outboxes.
#[utoipa::path(get, path = "/v1/webhooks", tag = "admin",
    responses((status = 200, description = "The endpoints", body = WebhookList)))]
pub async fn list_webhooks(api: Api, params: Params) -> JsonAnswer<WebhookList> {
    params.finish()?;
    let flows = &api.flows;
    let (backlogs, gone) = (flows.store.webhooks().backlogs().await?, flows.store.webhooks().gone_endpoints().await?);
    let view = |endpoint: &std::sync::Arc<crate::webhooks::Endpoint>| {
        let backlog = backlogs.iter().find(|backlog| backlog.endpoint == endpoint.name());
        WebhookStatus {
            name: endpoint.name().to_owned(),
            host: endpoint.host().to_owned(),
            events: endpoint.events().iter().map(|topic| topic.as_str()).collect(),
            state: match backlog {
                _ if gone.contains(&endpoint.addressee()) => "gone",
                Some(OutboxStatus { failure: Some(_), .. }) => "failing",
                _ => "ok",
            },
            last_error: backlog.and_then(|backlog| backlog.failure.clone()),
            next_try_at: backlog.and_then(|backlog| backlog.next_try_at),
            waiting: backlog.map_or(0, |backlog| backlog.waiting),
            dead: backlog.map_or(0, |backlog| backlog.dead),
        }
    };
    Ok(Json(WebhookList { items: flows.webhooks.load().all().iter().map(view).collect() }))
}

/// Lists deliveries that were given up, in that order. They are kept for 30 days.
#[utoipa::path(get, path = "/v1/webhooks/dead", tag = "admin",
    params(("endpoint" = Option<String>, Query,
        description = "Only dead letters to this endpoint"), super::openapi::Pages, super::openapi::Times),
    responses((status = 200, description = "A page", body = Listing<DeadLetter>)))]
pub async fn list_dead(api: Api, mut params: Params) -> JsonAnswer<Listing<DeadLetter>> {
    let (endpoint, span) = (params.text("endpoint"), params.span());
    let seek = params.seek(DEAD)?;
    let page = api.flows.store.webhooks().dead_letters(endpoint.as_deref(), span, seek).await?;
    reached_listing(&api.flows.store, Feed::Dead, DEAD, seek, page).await.map(Json)
}

/// Delivery that is tried again.
#[derive(Debug, Serialize, ToSchema)]
pub struct Resent {
    /// Id of the delivery.
    #[schema(value_type = String)]
    pub id: DeliveryId,
    /// Name of the endpoint.
    pub endpoint: String,
}

/// Delivers a dead letter again, from the first attempt on and under its old `webhook-id`.
#[utoipa::path(post, path = "/v1/webhooks/dead/{id}/resend", tag = "admin",
    params(("id" = String, Path, description = "A dead letter's id")),
    responses((status = 202, description = "The message is queued again", body = Resent),
        (status = 409, description = "The message's endpoint is no longer declared")))]
pub async fn resend_dead(
    api: Api,
    PathId(id): PathId<DeliveryId>,
    request: Request,
) -> Result<(StatusCode, Json<Resent>), Problem> {
    api.bodies.read_nothing(request).await?;
    let endpoint = api.flows.store.webhooks().dead_letter_endpoint(id).await?.ok_or_else(DeliveryId::unknown)?;
    if api.flows.webhooks.load().named(&endpoint).is_none() {
        return Err(Problem::conflict(format!(
            "webhook {endpoint} is not declared or not enabled: declare and enable it in the settings, and reload"
        )));
    }
    if !api.flows.store.webhooks().resend(id).await? {
        return Err(DeliveryId::unknown());
    }
    api.flows.followers.outbox.notify_one();
    Ok((StatusCode::ACCEPTED, Json(Resent { id, endpoint })))
}
