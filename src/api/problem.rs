//! Error answers: RFC 9457 `application/problem+json` with a stable `code`.
//!
//! A problem has one of the listed codes, a sentence for the reader, and perhaps pointers into the input. The response
//! has `type`, `title`, `status`, `detail`, `code`, `errors` and (where the request is known) `instance`. The cause of
//! an internal fault is not in it: it is logged under the same request id. Every 429 and 503 has `Retry-After`.

use std::{borrow::Cow, fmt::Display, time::Duration};

use axum::{
    body::Body,
    extract::rejection::{PathRejection, QueryRejection},
    http::{HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse, Redirect, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

use umbra_domain::KeyId;

/// Kind of problem: one entry of [`KINDS`].
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// Stable, machine-readable code.
    pub code: &'static str,
    /// HTTP status.
    pub status: u16,
    /// Meaning of the code, the same for every occurrence.
    pub title: &'static str,
    /// `type` of RFC 9457: a name, not an address, so it does not depend on where Umbra is served.
    pub urn: &'static str,
}

/// Error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    kind: &'static Kind,
    /// Sentence for the reader.
    pub detail: Cow<'static, str>,
    /// Faults that have a place.
    pub errors: Vec<FieldError>,
    retry_after: Option<Duration>,
    /// Cause of an internal problem: for the log, never for the answer.
    pub cause: Option<String>,
    /// Key that was refused.
    pub key: Option<KeyId>,
}

/// Fault at one place of the input.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    /// JSON pointer (RFC 6901) into the body; a parameter's name after `?` for the query.
    #[schema(example = "/events/3/output")]
    pub pointer: String,
    /// Stable, machine-readable code.
    pub code: Cow<'static, str>,
    /// Description of the fault and its remedy.
    pub detail: String,
}

/// Problem details by RFC 9457, with a `code` and the faults by place.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemDocument<'a> {
    /// `urn:umbra:problem:` and the code.
    #[serde(rename = "type")]
    #[schema(example = "urn:umbra:problem:bad_json")]
    kind: &'a str,
    /// Meaning of the code.
    title: &'a str,
    /// HTTP status.
    status: u16,
    /// Description of this occurrence and its remedy.
    detail: &'a str,
    /// Stable, machine-readable code: branch on this.
    code: &'a str,
    /// Faults that have a place in the input.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    errors: &'a [FieldError],
    /// `urn:umbra:request:` and the request's id, as in `x-request-id` and in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
}

macro_rules! problems {
    ($($code:ident $status:literal $title:literal;)*; apart: $($apart:ident $apart_status:literal $apart_title:literal;)*) => {
        mod kind {
            #![expect(non_upper_case_globals, reason = "a kind is named by its code")]
            use super::Kind;
            $(pub(super) static $code: Kind = Kind { code: stringify!($code), status: $status, title: $title,
                urn: concat!("urn:umbra:problem:", stringify!($code)) };)*
            $(pub(super) static $apart: Kind = Kind { code: stringify!($apart), status: $apart_status, title: $apart_title,
                urn: concat!("urn:umbra:problem:", stringify!($apart)) };)*
        }

        /// All problems, for the documentation and the tests.
        pub static KINDS: &[&Kind] = &[$(&kind::$code,)* $(&kind::$apart,)*];

        impl Problem {
            $(#[doc = concat!("`", stringify!($status), "` ", $title, ". `detail` says what is wrong and what to do.")]
            pub fn $code(detail: impl Into<Cow<'static, str>>) -> Self {
                Self::new(&kind::$code, detail.into())
            })*
        }
    };
}

problems! {
    bad_request 400 "The request cannot be read";
    bad_json 400 "The body is not what this request takes";
    invalid_event 400 "The event breaks a rule";
    invalid_request 400 "The request breaks a rule";
    bad_query 400 "The query has an invalid parameter";
    bad_path 400 "The path has an invalid part";
    bad_cursor 400 "The cursor does not belong to this list";
    bad_encoding 400 "The body cannot be decoded";
    body_incomplete 400 "The body is incomplete";
    missing_host 400 "The request names no host";
    unauthorized 401 "A valid key is required";
    forbidden 403 "The key does not permit this";
    forbidden_agent 403 "The key is limited to other agents";
    bad_host 403 "The host is not one of this server's";
    bad_origin 403 "Web pages of another origin may not use this server";
    not_found 404 "Not found";
    duplicate_of_spooled 404 "The event repeats another event, which is stored";
    unknown_shadow 404 "Shadow not found";
    no_session 404 "Session not found";
    method_not_allowed 405 "The resource does not support this method";
    request_timeout 408 "The request took too long to arrive";
    session_closed 409 "The session is closed";
    conflict 409 "The state of the resource does not permit this";
    precondition_failed 412 "The resource is not in the state that the request requires";
    body_too_large 413 "The body is too large";
    uri_too_long 414 "The address is too long";
    unsupported_media_type 415 "The type of the body is not supported";
    unsupported_encoding 415 "The encoding of the body is not supported";
    idempotency_mismatch 422 "This id was used before with a different body";
    headers_too_large 431 "The headers are too large";
    rate_limited 429 "The limit is reached for now";
    overloaded 503 "The server is overloaded";
    provider_unavailable 503 "The model cannot be reached";
    database_unavailable 503 "The database cannot be reached";
    still_spooled 503 "The event waits to be stored";
    draining 503 "The server is stopping";
    ; apart:
    internal 500 "A fault in Umbra";
}

impl Problem {
    /// `500` A fault in Umbra. Only the log has the cause; the answer has the request's id.
    pub fn internal(cause: impl Display) -> Self {
        let detail = "The server's log has the cause under this request's id.";
        Self { cause: Some(cause.to_string()), ..Self::new(&kind::internal, Cow::Borrowed(detail)) }
    }

    fn new(kind: &'static Kind, detail: Cow<'static, str>) -> Self {
        let retry_after = matches!(kind.status, 429 | 503).then(retry_soon);
        Self { kind, detail, errors: Vec::new(), retry_after, cause: None, key: None }
    }

    /// Adds a fault and its place.
    #[must_use]
    pub fn at(
        mut self,
        pointer: impl Into<String>,
        code: impl Into<Cow<'static, str>>,
        detail: impl Into<String>,
    ) -> Self {
        self.errors.push(FieldError { pointer: pointer.into(), code: code.into(), detail: detail.into() });
        self
    }

    /// Adds faults, each as its place, code and text.
    #[must_use]
    pub fn with<P: Into<String>, C: Into<Cow<'static, str>>, D: Into<String>>(
        self,
        faults: impl IntoIterator<Item = (P, C, D)>,
    ) -> Self {
        faults.into_iter().fold(self, |problem, (pointer, code, detail)| problem.at(pointer, code, detail))
    }

    /// Returns the problem of a request with faults, each as its place, code and text.
    pub fn invalid_values<P: Into<String>, C: Into<Cow<'static, str>>, D: Into<String>>(
        faults: impl IntoIterator<Item = (P, C, D)>,
    ) -> Self {
        Self::invalid_request("the request has invalid values; errors lists them").with(faults)
    }

    /// Sets the time to wait before the next attempt, where it is known; otherwise 429 and 503 say 1 to 5 s at random.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// Adds the key that was refused, for the log.
    #[must_use]
    pub fn of_key(mut self, key: KeyId) -> Self {
        self.key = Some(key);
        self
    }

    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        self.kind.code
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.kind.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// Renders the JSON to send; `request_id` names the request where it is known.
    pub fn to_json(&self, request_id: Option<&str>) -> String {
        let document = ProblemDocument {
            kind: self.kind.urn,
            title: self.kind.title,
            status: self.kind.status,
            detail: &self.detail,
            code: self.kind.code,
            errors: &self.errors,
            instance: request_id.map(|id| format!("urn:umbra:request:{id}")),
        };
        // Strings and numbers always serialise.
        serde_json::to_string(&document).unwrap_or_default()
    }

    /// Returns the problem's headers, except the content type.
    pub fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let mut headers = Vec::new();
        if let Some(wait) = self.retry_after {
            // Rounded up: a client that comes back a moment too early is refused again.
            let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
            headers.push((header::RETRY_AFTER, HeaderValue::from(seconds)));
        }
        match self.kind.code {
            "unauthorized" => headers.push((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
            "unsupported_encoding" => {
                headers.push((header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, zstd, identity")));
            }
            // The rest of the body stays unread, so nothing can follow it on this connection.
            "request_timeout" | "body_too_large" => {
                headers.push((header::CONNECTION, HeaderValue::from_static("close")));
            }
            _ => {}
        }
        headers
    }
}

/// Returns a random wait of 1 to 5 s: clients that were refused together do not return together.
fn retry_soon() -> Duration {
    Duration::from_secs(rand::random_range(1..=5))
}

impl IntoResponse for Problem {
    /// The problem also travels as an extension: the layer that knows the request's id adds it.
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::from(self.to_json(None)));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.extend(self.headers());
        response.extensions_mut().insert(self);
        response
    }
}

impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        Self::bad_query(rejection.body_text())
    }
}

impl From<PathRejection> for Problem {
    fn from(rejection: PathRejection) -> Self {
        if rejection.status().is_server_error() {
            return Self::internal(rejection.body_text());
        }
        Self::bad_path(rejection.body_text())
    }
}

/// Answers an unknown path: a redirect to the path without slashes at its end, else a 404.
pub async fn not_found(uri: Uri) -> Response {
    let path = uri.path();
    let bare = path.trim_end_matches('/');
    // One slash at the start: two would name a host.
    if bare.len() < path.len() && bare.starts_with('/') && !bare.starts_with("//") {
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        return Redirect::permanent(&format!("{bare}{query}")).into_response();
    }
    Problem::not_found(format!("No resource is at {path}; /docs lists the resources.")).into_response()
}

/// Answers an unknown method; the router adds `Allow`, and the front names those methods.
pub async fn method_not_allowed() -> Problem {
    Problem::method_not_allowed("This resource does not support this method.")
}
