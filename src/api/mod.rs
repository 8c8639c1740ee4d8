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

use std::{convert::Infallible, pin::Pin, sync::Arc, time::Duration};

use axum::{Json, Router, extract::FromRequestParts, http::request::Parts, middleware};
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
use umbra_domain::{
    PricePerMtok,
    key::Scope::{Admin, Decide, Ingest, Read},
};
use umbra_store::StoreError;

/// State of the handlers.
#[derive(Clone)]
pub struct Api(Arc<ApiParts>);

/// Makes the state an argument of handlers.
impl FromRequestParts<Self> for Api {
    type Rejection = Infallible;
    async fn from_request_parts(_: &mut Parts, api: &Self) -> Result<Self, Infallible> {
        Ok(api.clone())
    }
}

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

/// Makes a router of handlers, each group after the scopes of which its callers need one; handlers of one path and group
/// are in one pair of brackets.
macro_rules! served {
    ($($scopes:expr => $([$($handler:tt)+])+;)+) => {
        OpenApiRouter::new()$($(.routes(entrance::scoped($scopes, routes!($($handler)+))))+)+
    };
}

/// Returns all routes by their class.
fn routes() -> [(Class, OpenApiRouter<Api>); 8] {
    let ingest = served! { &[Ingest] => [events::post_event] [events::post_batch]; };
    let waits = served! {
        &[Ingest] => [reviews::post_review];
        &[Read, Ingest] => [verdicts::get_verdict];
        &[Admin] => [backtests::post_backtest];
    };
    let decides = served! {
        &[Decide] => [boundary::decide::post_decide] [boundary::decide::post_outcome];
        &[Ingest] => [hooks::post_hook] [gateways::post_litellm] [gateways::post_agentgateway]
            [sidecar::guard::post_guard] [sidecar::guard::post_select] [sidecar::sessions::post_session]
            [sidecar::steps::post_turn] [sidecar::steps::post_message] [sidecar::sessions::post_close]
            [sidecar::documents::put_document, sidecar::documents::patch_document] [sidecar::patterns::post_pattern];
        &[Ingest, Read] => [sidecar::patterns::search_patterns];
        &[Admin] => [sidecar::sessions::post_note];
    };
    let streams = served! {
        &[Read] => [stream::stream_findings] [boundary::audit::get_audit];
        &[Ingest, Read] => [sidecar::steps::get_messages];
    };
    let mcp = served! { &[Decide] => [mcp::post_mcp, mcp::get_mcp, mcp::delete_mcp]; };
    let reads = served! {
        &[Read] => [events::list_events] [events::get_event] [reviews::list_reviews] [reviews::get_review]
            [findings::list_findings] [findings::list_findings_sarif] [findings::get_finding]
            [findings::list_observations] [reflexions::list_reflexions] [trajectories::list_trajectories]
            [trajectories::get_trajectory] [status::get_status] [status::list_shadows] [status::get_shadow]
            [status::list_skips] [briefings::get_briefing] [briefings::get_report] [hooks::list_hooks]
            [boundary::runs::diff_runs];
        &[Read, Ingest] => [breakers::list_breakers] [breakers::get_breaker];
        &[Ingest, Read] => [sidecar::sessions::list_sessions] [sidecar::sessions::get_session]
            [sidecar::sessions::get_policies] [sidecar::documents::get_document] [sidecar::documents::get_history]
            [sidecar::patterns::list_patterns];
        &[Read, Decide] => [boundary::execution::get_effective];
        &[Read, Admin] => [boundary::execution::get_execution] [boundary::approvals::list_approvals]
            [boundary::approvals::get_approval] [boundary::contracts::list_contracts] [boundary::contracts::post_lint]
            [boundary::contracts::post_infer] [boundary::drift::get_drift] [boundary::gate::get_gate];
        &[Admin] => [reviews::batch::post_batch] [backtests::list_backtests]
            [backtests::get_backtest, backtests::delete_backtest] [backtests::list_items] [backtests::post_resume]
            [findings::patch_finding] [breakers::acknowledge_breaker] [breakers::reset_breaker]
            [boundary::execution::put_execution] [boundary::approvals::post_approval]
            [boundary::contracts::post_confirm] [boundary::runs::end_run] [webhooks::list_webhooks]
            [webhooks::list_dead] [webhooks::resend_dead] [admin::post_reload] [admin::list_keys, admin::post_key]
            [admin::delete_key];
        &[] => [boundary::runs::list_runs];
    };
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
    openapi::with_documentation(router.with_state(api), document)
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

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        if error.is_transient() {
            return Problem::database_unavailable("the database does not answer: send the request again later");
        }
        Problem::internal(error)
    }
}
