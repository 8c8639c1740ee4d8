//! Refusals that somebody may want to look into: one line in the log and one count each.
//!
//! In: a problem and what is known of the request. Out: who was refused what, by the public names of key and code.
//! Never: the key itself, nor text that the sender chose; of a request without a key a 401 is no news.

use std::net::SocketAddr;

use axum::http::Method;

use super::{front::RequestId, problem::Problem};
use crate::telemetry::metric;

/// What is known of a refused request.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    /// Its name.
    pub id: &'a RequestId,
    /// Its method.
    pub method: &'a Method,
    /// The first two segments of its path.
    pub family: &'a str,
    /// The client, or the proxy before it.
    pub peer: SocketAddr,
    /// Whether it came with a key.
    pub gave_key: bool,
}

/// Takes note of a request that was refused for who sent it.
pub(super) fn request(problem: &Problem, asked: &Asked<'_>) {
    let status = problem.status().as_u16();
    if status != 403 && !(status == 401 && asked.gave_key) {
        return;
    }
    metrics::counter!(metric::REFUSALS, "code" => problem.code()).increment(1);
    let Asked { id, method, family, peer, .. } = asked;
    let known = [Method::GET, Method::POST, Method::PATCH, Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD];
    let method = if known.contains(method) { method.as_str() } else { "other" };
    let plain =
        family.len() <= 32 && family.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.'));
    let family = if plain { family } else { "other" };
    tracing::warn!(request_id = %id, method, family, code = problem.code(),
        key_id = problem.key().map(tracing::field::display), %peer,
        "a request was refused");
}

/// Takes note of events of a batch that were refused for who sent them, while the others were accepted.
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
