//! Layer that gives each request an id, and logs faults under that id.
//!
//! `x-request-id` and `traceparent` are taken over if well formed. Both become extensions of the request; the id is
//! also on the answer and in its problem. The log has only the request's method, URL family and id; the answer does not
//! have the cause of an internal fault.

use std::{fmt, net::SocketAddr, sync::Arc};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use uuid::Uuid;

use crate::{
    api::{
        audit::{self, RefusedRequest},
        problem::Problem,
    },
    telemetry::traces::TraceParent,
};
use umbra_domain::clock::Clock;

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Id of a request: the client's own if it is 1 to 64 of `A-Z a-z 0-9 . _ -`, else a new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(Arc<str>);

impl RequestId {
    pub(super) fn of(headers: &HeaderMap, clock: &Clock) -> Self {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let given = headers.get(X_REQUEST_ID).map(HeaderValue::as_bytes);
        let given = given.filter(|bytes| (1..=64).contains(&bytes.len()) && bytes.iter().all(|byte| plain(*byte)));
        // The id is logged: one that looks like a credential is not taken over.
        let harmless = |id: &&str| umbra_checks::redact(id).as_str() == *id;
        match given.and_then(|bytes| std::str::from_utf8(bytes).ok()).filter(harmless) {
            Some(id) => Self(id.into()),
            None => Self((&*clock.new_id().simple().encode_lower(&mut Uuid::encode_buffer())).into()),
        }
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// Returns the first two segments of a path, such as `/v1/breakers`: later ones may name an agent.
fn family(path: &str) -> &str {
    path.match_indices('/').nth(2).and_then(|(end, _)| path.get(..end)).unwrap_or(path)
}

/// Layer that puts the id on request, answer and problem, and logs internal faults and refused requests.
pub(super) async fn assign_request_id(
    State(clock): State<Clock>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    mut request: Request,
    next: Next,
) -> Response {
    let id = RequestId::of(request.headers(), &clock);
    let parent = TraceParent::of(request.headers());
    let method = request.method().clone();
    let family = family(request.uri().path()).to_owned();
    let gave_key = request.headers().contains_key(header::AUTHORIZATION);
    let extensions = request.extensions_mut();
    extensions.insert(id.clone());
    if let Some(parent) = parent {
        extensions.insert(parent);
    }
    let mut response = next.run(request).await;
    if let Some(mut problem) = response.extensions_mut().remove::<Problem>() {
        if let Some(methods) = response.headers().get(header::ALLOW).and_then(|value| value.to_str().ok()) {
            problem.detail =
                format!("This resource does not support {method}; it supports {}.", methods.replace(',', ", ")).into();
        }
        audit::request(&problem, &RefusedRequest { id: &id, method: &method, family: &family, peer, gave_key });
        if let Some(cause) = &problem.cause {
            let trace_id = parent.map(|parent| format!("{:032x}", parent.trace_id));
            tracing::error!(
                request_id = %id, trace_id, %method, family, cause,
                "a request failed because of a fault in Umbra"
            );
        }
        *response.body_mut() = problem.to_json(Some(id.as_str())).into();
        response.headers_mut().remove(header::CONTENT_LENGTH);
    }
    if let Ok(value) = HeaderValue::from_str(id.as_str()) {
        response.headers_mut().insert(X_REQUEST_ID, value);
    }
    response
}
