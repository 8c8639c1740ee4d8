//! The layers around the routes, as tower has them: every answer has an id and the security headers, and a panic ends its own
//! request alone.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderName, HeaderValue, header},
    middleware::from_fn_with_state,
    response::IntoResponse,
};
use tower::ServiceBuilder;
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer};

use super::{
    guard::{self, HostGuard},
    trace,
};
use crate::api::problem::{Problem, method_not_allowed, not_found};
use umbra_domain::clock::Clock;

/// Nothing from elsewhere and no frames. The one style in a page, by its hash, is that of the logo of Swagger UI;
/// `tests/it/operate.rs` has its text.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; style-src 'self' 'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='; img-src 'self' data:; \
     object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The routes behind the layers, outermost first; unknown paths and methods are answered by problems.
pub(super) fn around(routes: Router, guard: HostGuard, clock: Clock) -> Router {
    let layers = ServiceBuilder::new()
        .layer(from_fn_with_state(clock, trace::name))
        .layer(unless_set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .layer(unless_set(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(unless_set(header::X_FRAME_OPTIONS, "DENY"))
        .layer(unless_set(header::REFERRER_POLICY, "no-referrer"))
        // The payload is withheld: it may quote what an agent wrote.
        .layer(CatchPanicLayer::custom(|_| Problem::internal("panicked").into_response()))
        .layer(from_fn_with_state(Arc::new(guard), guard::check));
    let routes = routes.fallback(not_found).method_not_allowed_fallback(method_not_allowed);
    // A router within a router: the header `Allow` comes last, and the problem of a wrong method names what it says.
    Router::new().fallback_service(routes).layer(layers)
}

/// Adds a header to answers that do not have it.
fn unless_set(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}
