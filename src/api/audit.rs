//! Log line and counter for each request that is refused for its sender.
//!
//! A line names key and code by their public names. Neither the key itself nor text that the sender chose is logged. A
//! 401 of a request without a key is left out.

use std::net::SocketAddr;

use axum::http::Method;

use super::{front::RequestId, problem::Problem};
use crate::telemetry::metric;

/// Description of a refused request.
#[derive(Debug)]
pub(super) struct RefusedRequest<'a> {
    pub id: &'a RequestId,
    pub method: &'a Method,
    /// First two segments of the path.
    pub family: &'a str,
    /// Address of the client, or of the proxy before it.
    pub peer: SocketAddr,
    /// True if the request came with a key.
    pub gave_key: bool,
}

/// Records a request that was refused for its sender: a 403, or a 401 of a request with a key.
pub(super) fn request(problem: &Problem, asked: &RefusedRequest<'_>) {
    let status = problem.status().as_u16();
    if status != 403 && !(status == 401 && asked.gave_key) {
        return;
    }
    metrics::counter!(metric::REFUSALS, "code" => problem.code()).increment(1);
    let RefusedRequest { id, method, family, peer, .. } = asked;
    let known = [Method::GET, Method::POST, Method::PATCH, Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD];
    let method = if known.contains(method) { method.as_str() } else { "other" };
    let plain =
        family.len() <= 32 && family.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.'));
    let family = if plain { family } else { "other" };
    tracing::warn!(request_id = %id, method, family, code = problem.code(),
        key_id = problem.key().map(tracing::field::display), %peer,
        "a request was refused");
}

/// Records events of a batch that were refused for their sender, while others were accepted.
pub(super) fn events<'a>(problems: impl Iterator<Item = &'a Problem>, id: Option<&RequestId>) {
    let refused: Vec<&Problem> = problems.filter(|problem| problem.status() == 403).collect();
    if let Some(first) = refused.first() {
        metrics::counter!(metric::REFUSALS, "code" => first.code()).increment(refused.len() as u64);
        tracing::warn!(
            request_id = id.map(tracing::field::display),
            code = first.code(),
            events = refused.len(),
            key_id = first.key().map(tracing::field::display),
            "events of a batch were refused"
        );
    }
}
