//! `/livez`, `/readyz` and `/metrics`, read by machines without a key.

use std::borrow::Cow;

use axum::{
    Json,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::Api;

/// State of the process.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`, `degraded` or `failing`.
    pub status: &'static str,
    /// Reason, in words.
    pub detail: Cow<'static, str>,
}

/// Returns the routes of health and metrics.
pub fn routes() -> OpenApiRouter<Api> {
    OpenApiRouter::new().routes(routes!(livez)).routes(routes!(readyz)).routes(routes!(metrics))
}

fn answer(fault: Option<&'static str>) -> (StatusCode, Json<Health>) {
    match fault {
        None => (StatusCode::OK, Json(Health { status: "ok", detail: Cow::Borrowed("") })),
        Some(detail) => (StatusCode::SERVICE_UNAVAILABLE, Json(Health { status: "failing", detail: detail.into() })),
    }
}

fn degraded(detail: impl Into<Cow<'static, str>>) -> (StatusCode, Json<Health>) {
    (StatusCode::OK, Json(Health { status: "degraded", detail: detail.into() }))
}

/// Reports whether the process makes progress. It fails when reviews are due and nothing has moved for a minute. A
/// database that is away does not make it fail, since a restart would not help.
#[utoipa::path(get, path = "/livez", tag = "health",
    responses((status = 200, description = "The process is running", body = Health),
        (status = 503, description = "The process is stuck: restart it", body = Health)))]
pub async fn livez(api: Api) -> (StatusCode, Json<Health>) {
    let stuck = api.flows.pulse.reaches_database() && api.flows.pulse.is_stuck();
    answer(stuck.then_some("reviews are due, and the queue has not moved for a minute"))
}

/// Reports whether the process takes work. It is ready if the database answers, no stop was asked for, and calls of
/// tools meet the settings under `boundary.gate`. `degraded` means that it takes work but needs attention: the database
/// is away, and events wait in the spool; a model in use refuses its key, its name or its address; a folder cannot be
/// written; or a row or file was not written by an Umbra server, and is ignored.
#[utoipa::path(get, path = "/readyz", tag = "health",
    responses((status = 200,
        description = "The server takes requests; `degraded` if something needs attention", body = Health),
        (status = 503, description = "The server takes no requests now: send them elsewhere", body = Health)))]
pub async fn readyz(api: Api) -> (StatusCode, Json<Health>) {
    if api.draining.is_cancelled() {
        return answer(Some("stopping"));
    }
    let boundary = &api.flows.boundary;
    if let Some(complaint) = boundary.lately.complaint(&boundary.rules.load().gate, boundary.clock.now()) {
        return answer(Some(complaint));
    }
    let spool = &api.flows.events.spool;
    if api.flows.store.now().await.is_err() {
        if !spool.accepts() {
            return answer(Some("the database does not answer"));
        }
        let status = spool.status();
        return degraded(format!(
            "the database does not answer: {} events wait in the spool ({} of {} bytes), and all other requests are \
             refused",
            status.events, status.bytes, status.max_bytes
        ));
    }
    match (boundary.complaint(), spool.complaint()) {
        (Some(detail), _) => degraded(detail),
        (None, Some(detail)) => degraded(detail),
        (None, None) => api.flows.maintenance.model_fault().map_or_else(|| answer(None), degraded),
    }
}

/// Returns metrics in Prometheus' text format.
#[utoipa::path(get, path = "/metrics", tag = "health",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain")))]
pub async fn metrics(api: Api) -> Response {
    let text = api.metrics.as_ref().map(metrics_exporter_prometheus::PrometheusHandle::render).unwrap_or_default();
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
