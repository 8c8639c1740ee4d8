//! Tower layers around the routes: every answer has an id and the security headers, and a panic ends only its own
//! request.

use std::sync::Arc;

use axum::{
    Router,
    http::{HeaderName, HeaderValue, header},
    middleware::from_fn_with_state,
    response::IntoResponse,
};
use tower::ServiceBuilder;
use tower_http::{
    catch_panic::CatchPanicLayer,
    compression::{
        CompressionLayer,
        predicate::{NotForContentType, Predicate, SizeAbove},
    },
    set_header::SetResponseHeaderLayer,
};

use super::{
    origin_check::{self, HostGuard},
    trace,
};
use crate::api::problem::{Problem, method_not_allowed, not_found};
use umbra_domain::clock::Clock;

/// Content security policy: no foreign sources, and no frames.
const CONTENT_SECURITY_POLICY: &str = "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Least bytes of a body that is compressed, for clients that accept it.
const COMPRESSED_ABOVE: u16 = 1_024;

/// Puts the layers around the routes, outermost first; unknown paths and methods are answered by problems.
pub(super) fn around(routes: Router, guard: HostGuard, clock: Clock) -> Router {
    let layers = ServiceBuilder::new()
        // Compression is outside of the layer that writes a request's id into a problem.
        .layer(compression())
        .layer(from_fn_with_state(clock, trace::assign_request_id))
        .layer(unless_set(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY))
        .layer(unless_set(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(unless_set(header::X_FRAME_OPTIONS, "DENY"))
        .layer(unless_set(header::REFERRER_POLICY, "no-referrer"))
        // The panic's payload is withheld: it may quote what an agent wrote.
        .layer(CatchPanicLayer::custom(|_| Problem::internal("panicked").into_response()))
        .layer(from_fn_with_state(Arc::new(guard), origin_check::check));
    let routes = routes.fallback(not_found).method_not_allowed_fallback(method_not_allowed);
    // A router within a router: the header `Allow` is set last, and the problem of a wrong method names its value.
    Router::new().fallback_service(routes).layer(layers)
}

/// Compresses complete bodies, not streams of events or of lines, which it would delay.
fn compression() -> CompressionLayer<impl Predicate> {
    let whole = NotForContentType::SSE.and(NotForContentType::const_new("application/x-ndjson"));
    CompressionLayer::new().compress_when(SizeAbove::new(COMPRESSED_ABOVE).and(whole))
}

/// Adds a header to answers that do not have it.
fn unless_set(name: HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}
