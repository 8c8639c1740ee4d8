//! Security headers: what a browser may do with our answers.
//!
//! In: any answer. Out: the same with headers, none of which replaces one that the endpoint has set. Never: a
//! source from elsewhere: pages bring their scripts and styles with them.

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// Nothing from elsewhere, no frames, no address of ours told to others. The one style that stands in a page, by its
/// hash, is that of the logo of Swagger UI; `tests/it/operate.rs` has its text.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'self'; style-src 'self' 'sha256-RL3ie0nH+Lzz2YNqQN83mnU0J1ot4QL7b99vMdIX99w='; \
             img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        ),
    ),
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
];

/// Puts the headers on an answer.
pub(super) fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(value);
    }
}
