//! HTTP API: one file per URL family, with its request types, handlers, OpenAPI texts and errors.
//!
//! A request passes, in order: the front (deadlines, sizes, host and origin), the entrance (`auth`: authentication,
//! `admission`: how many at once), and its handler. The answer is JSON or a [`problem::Problem`]. Reads go straight to
//! the store; writes go through the flows.

pub mod admin;
pub mod admission;
mod audit;
pub mod auth;
pub mod backtests;
pub mod body;
pub mod boundary;
pub mod breakers;
pub mod briefings;
pub mod entrance;
pub mod events;
pub mod findings;
pub mod front;
pub mod gateways;
pub mod health;
pub mod hooks;
pub mod mcp;
pub mod openapi;
pub mod otel;
pub mod params;
mod path_ids;
pub mod problem;
pub mod reflexions;
pub mod reviews;
pub mod sarif;
pub mod sidecar;
pub mod status;
pub mod stream;
pub mod trajectories;
pub mod verdicts;
pub mod webhooks;

use std::{pin::Pin, sync::Arc, time::Duration};

use axum::{Json, Router, middleware};
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    admission::{Admission, Class},
    auth::KeyRing,
    body::BodyReader,
    entrance::Entrance,
    problem::Problem,
};
use crate::{flows::Flows, ingest, mcp::Profiles};
use umbra_domain::PricePerMtok;
use umbra_store::StoreError;

/// State of the handlers.
#[derive(Clone)]
pub struct Api(Arc<ApiParts>);

impl std::ops::Deref for Api {
    type Target = ApiParts;
    fn deref(&self) -> &ApiParts {
        &self.0
    }
}

/// Reads the configuration again and puts it in force. Returns the new configuration, or its faults as pointers and
/// texts.
pub type Reload = Box<dyn Fn() -> Pin<Box<dyn Future<Output = Result<Reloaded, ReloadFault>> + Send>> + Send + Sync>;

/// A configuration that came into force.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub struct Reloaded {
    /// Number of shadows in force.
    pub shadows: usize,
    /// Warnings about the files, each with its place.
    pub warnings: Vec<String>,
}

/// Reason why the running configuration stays.
#[derive(Debug)]
pub enum ReloadFault {
    /// Faults of the files, each as `(pointer, text)`.
    Faults(Vec<(String, String)>),
    /// Error of the database.
    Store(StoreError),
}

/// Parts of an [`Api`].
pub struct ApiParts {
    /// Flows of events, reviews and decisions.
    pub flows: Flows,
    /// Keys that are accepted.
    pub keys: KeyRing,
    /// Reader of bodies.
    pub bodies: BodyReader,
    /// Limits of events.
    pub limits: ingest::Limits,
    /// Longest wait of a caller for a review.
    pub max_wait: Duration,
    /// Highest output price that needs no `allow_costly_model`.
    pub cheap_ceiling: PricePerMtok,
    /// Interval of keep-alive messages on an idle stream.
    pub stream_keep_alive: Duration,
    /// Renderer of metrics; `None` where the process has another recorder.
    pub metrics: Option<PrometheusHandle>,
    /// Reads the configuration again.
    pub reload: Reload,
    /// Profiles of the MCP proxy; `None` where it is not served.
    pub mcp: Option<Arc<Profiles>>,
    /// Cancelled when the process takes no new work.
    pub draining: CancellationToken,
}

impl Api {
    /// Returns an API of these parts.
    pub fn new(parts: ApiParts) -> Self {
        Self(Arc::new(parts))
    }
}

/// Returns all routes by their class.
fn routes() -> [(Class, OpenApiRouter<Api>); 8] {
    let ingest = OpenApiRouter::new().routes(routes!(events::post_event)).routes(routes!(events::post_batch));
    let waits = OpenApiRouter::new()
        .routes(routes!(reviews::post_review))
        .routes(routes!(verdicts::get_verdict))
        .routes(routes!(backtests::post_backtest));
    let decides = OpenApiRouter::new()
        .routes(routes!(boundary::decide::post_decide))
        .routes(routes!(boundary::decide::post_outcome))
        .routes(routes!(hooks::post_hook))
        .routes(routes!(gateways::post_litellm))
        .routes(routes!(gateways::post_agentgateway))
        .routes(routes!(sidecar::guard::post_guard))
        .routes(routes!(sidecar::guard::post_select))
        .routes(routes!(sidecar::sessions::post_session))
        .routes(routes!(sidecar::steps::post_turn))
        .routes(routes!(sidecar::steps::post_message))
        .routes(routes!(sidecar::sessions::post_close))
        .routes(routes!(sidecar::sessions::post_note))
        .routes(routes!(sidecar::documents::put_document, sidecar::documents::patch_document))
        .routes(routes!(sidecar::patterns::post_pattern))
        .routes(routes!(sidecar::patterns::search_patterns));
    let streams = OpenApiRouter::new()
        .routes(routes!(stream::stream_findings))
        .routes(routes!(boundary::audit::get_audit))
        .routes(routes!(sidecar::steps::get_messages));
    let mcp = OpenApiRouter::new().routes(routes!(mcp::post_mcp, mcp::get_mcp, mcp::delete_mcp));
    let reads = OpenApiRouter::new()
        .routes(routes!(events::list_events))
        .routes(routes!(events::get_event))
        .routes(routes!(reviews::list_reviews))
        .routes(routes!(reviews::get_review))
        .routes(routes!(reviews::batch::post_batch))
        .routes(routes!(backtests::list_backtests))
        .routes(routes!(backtests::get_backtest, backtests::delete_backtest))
        .routes(routes!(backtests::list_items))
        .routes(routes!(backtests::post_resume))
        .routes(routes!(findings::list_findings))
        .routes(routes!(findings::list_findings_sarif))
        .routes(routes!(findings::get_finding, findings::patch_finding))
        .routes(routes!(findings::list_observations))
        .routes(routes!(breakers::list_breakers))
        .routes(routes!(breakers::get_breaker))
        .routes(routes!(breakers::acknowledge_breaker))
        .routes(routes!(breakers::reset_breaker))
        .routes(routes!(reflexions::list_reflexions))
        .routes(routes!(trajectories::list_trajectories))
        .routes(routes!(trajectories::get_trajectory))
        .routes(routes!(status::get_status))
        .routes(routes!(status::list_shadows))
        .routes(routes!(status::get_shadow))
        .routes(routes!(status::list_skips))
        .routes(routes!(briefings::get_briefing))
        .routes(routes!(briefings::get_report))
        .routes(routes!(boundary::execution::get_execution, boundary::execution::put_execution))
        .routes(routes!(boundary::execution::get_effective))
        .routes(routes!(boundary::approvals::list_approvals))
        .routes(routes!(boundary::approvals::get_approval, boundary::approvals::post_approval))
        .routes(routes!(boundary::contracts::list_contracts))
        .routes(routes!(boundary::contracts::post_lint))
        .routes(routes!(boundary::contracts::post_infer))
        .routes(routes!(boundary::contracts::post_confirm))
        .routes(routes!(boundary::drift::get_drift))
        .routes(routes!(boundary::gate::get_gate))
        .routes(routes!(boundary::runs::list_runs))
        .routes(routes!(hooks::list_hooks))
        .routes(routes!(boundary::runs::end_run))
        .routes(routes!(boundary::runs::diff_runs))
        .routes(routes!(sidecar::sessions::list_sessions))
        .routes(routes!(sidecar::sessions::get_session))
        .routes(routes!(sidecar::sessions::get_policies))
        .routes(routes!(sidecar::documents::get_document))
        .routes(routes!(sidecar::documents::get_history))
        .routes(routes!(sidecar::patterns::list_patterns))
        .routes(routes!(webhooks::list_webhooks))
        .routes(routes!(webhooks::list_dead))
        .routes(routes!(webhooks::resend_dead))
        .routes(routes!(admin::post_reload))
        .routes(routes!(admin::list_keys, admin::post_key))
        .routes(routes!(admin::delete_key));
    [
        (Class::Ingest, ingest),
        (Class::Telemetry, otel::routes()),
        (Class::Decide, decides),
        (Class::Mcp, mcp),
        (Class::Wait, waits),
        (Class::Stream, streams),
        (Class::Read, reads),
        (Class::Health, health::routes()),
    ]
}

/// Returns the OpenAPI document.
pub fn openapi_document() -> utoipa::openapi::OpenApi {
    let whole = OpenApiRouter::with_openapi(openapi::document());
    openapi::complete(routes().into_iter().fold(whole, |whole, (_, routes)| whole.merge(routes)).into_openapi())
}

/// Returns the router of the API, its documentation, health and metrics.
pub fn router(api: Api, admission: &Admission) -> Router {
    let whole = OpenApiRouter::with_openapi(openapi::document());
    let guarded = routes().into_iter().fold(whole, |whole, (class, routes)| {
        let entrance = Entrance::new(api.clone(), admission.clone(), class);
        whole.merge(routes.route_layer(middleware::from_fn_with_state(entrance, entrance::enter)))
    });
    let (router, document) = guarded.split_for_parts();
    openapi::with_documentation(router.with_state(api), &openapi::complete(document))
}

/// JSON that a handler answers, or the problem in its place.
type JsonAnswer<T> = Result<Json<T>, Problem>;

/// Page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub struct Listing<T> {
    /// Items, oldest first unless `order=desc`.
    pub items: Vec<T>,
    /// Cursor of the next page; null when there is nothing more now.
    pub next_cursor: Option<String>,
    /// Cursor to poll with: no item is skipped or repeated.
    pub resume_cursor: String,
}

impl<T> Listing<T> {
    /// Wraps the page as JSON.
    fn json(self) -> Json<Self> {
        Json(self)
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error.is_transient() {
            return Problem::database_unavailable("the database does not answer: send the request again later");
        }
        Problem::internal(error)
    }
}
