//! Log lines of requests that are answered with 4xx: those refused for their sender, which are counted as well, and
//! those that would have changed something.
//!
//! A line names key and code by their public names. Neither the key itself nor text that the sender chose is logged. A
//! 401 of a request without a key is left out, and so is a 429: a flood of requests would be one of lines.

use std::net::SocketAddr;

use axum::http::Method;

use super::{front::RequestId, problem::Problem};
use crate::telemetry::metric;

/// Description of a request that a problem answers.
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

/// Records a request that was refused for its sender (a 403, or a 401 of a request with a key), and one that would have
/// changed something and was answered with another 4xx.
pub(super) fn request(problem: &Problem, asked: &RefusedRequest<'_>) {
    let RefusedRequest { id, method, family, peer, gave_key } = asked;
    let is_refusal = match problem.status().as_u16() {
        403 => true,
        401 if *gave_key => true,
        401 | 429 => return,
        400..500 if !method.is_safe() => false,
        _ => return,
    };
    let known = [Method::GET, Method::POST, Method::PATCH, Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD];
    let method = if known.contains(method) { method.as_str() } else { "other" };
    let plain =
        family.len() <= 32 && family.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.'));
    let family = if plain { family } else { "other" };
    if !is_refusal {
        tracing::info!(request_id = %id, method, family, code = problem.code(), %peer, "a request was not carried out");
        return;
    }
    metrics::counter!(metric::REFUSALS, "code" => problem.code()).increment(1);
    tracing::warn!(request_id = %id, method, family, code = problem.code(),
        key_id = problem.key.map(tracing::field::display), %peer,
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
            key_id = first.key.map(tracing::field::display),
            "events of a batch were refused"
        );
    }
}
