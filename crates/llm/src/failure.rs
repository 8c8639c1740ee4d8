//! Failures of calls to a model: the kind, whether a retry can help, and whether the call may have been charged.
//!
//! In: a transport's or provider's error. Out: a [`Failure`]. At most 200 characters of a provider's error message are
//! kept, with everything that looks like a key cut out; never a prompt or a body.

use std::time::Duration;

use memchr::memmem;
use reqwest::StatusCode;
use serde_json::Value;

use super::{breaker::ProviderCallOutcome, retry_after};

/// A call that brought no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Kind of failure.
    pub kind: FailureKind,
    /// Description fit for logs and people.
    pub message: String,
    /// Wait that the provider, or our own breaker, asks for.
    pub retry_after: Option<Duration>,
    /// Possible cost of the call.
    pub charge: Charge,
}

umbra_domain::words! {
    /// Kind of failure of a call.
    pub enum FailureKind {
        /// No connection was made, or it broke before the whole answer was read.
        Connect = "connect",
        /// The deadline passed, or the provider said that it did (408).
        Timeout = "timeout",
        /// Too many requests (429).
        RateLimited = "rate_limited",
        /// The provider has no capacity (503, 529).
        Overloaded = "overloaded",
        /// Any other fault of the provider (5xx).
        ServerError = "server_error",
        /// The account's money or quota is used up; waiting does not help (402, some 429).
        SpendLimit = "spend_limit",
        /// The key is missing, wrong or not permitted (401, 403).
        Auth = "auth",
        /// The provider did not accept the request (400, 413, 422 and other 4xx).
        BadRequest = "bad_request",
        /// There is no such model or address (404), or no such alias.
        NotFound = "not_found",
        /// The answer is not of the protocol, or is too long.
        BadReply = "bad_reply",
        /// Our breaker is open: nothing was sent.
        BreakerOpen = "breaker_open",
        /// The outbound policy forbids the address, or a redirect led elsewhere.
        Refused = "refused",
    }
}

impl FailureKind {
    /// True if the same call may succeed later.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Connect
                | Self::Timeout
                | Self::RateLimited
                | Self::Overloaded
                | Self::ServerError
                | Self::BreakerOpen
        )
    }
}

/// Possible cost of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Charge {
    /// No cost: nothing was sent, the provider answered with an error, or no model answered.
    None,
    /// Unknown cost: the request was sent and no answer was understood. Charge the worst case.
    Unknown,
}

impl Failure {
    /// Builds a failure that cost nothing.
    pub(super) fn free(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), retry_after: None, charge: Charge::None }
    }

    /// Builds a failure after the request was sent.
    pub(super) fn after_sending(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { charge: Charge::Unknown, ..Self::free(kind, message) }
    }

    /// Builds the failure of an HTTP status other than 2xx. `wait` is the wait that the headers ask for. `secret`, our
    /// key, is never repeated, even if the provider repeats it.
    pub(super) fn of_status(status: StatusCode, wait: Option<Duration>, body: &[u8], secret: Option<&str>) -> Self {
        let fault = ProviderErrorBody::read(body);
        let wait = wait.or(fault.wait);
        let kind = match status.as_u16() {
            300..=399 => FailureKind::Refused,
            402 => FailureKind::SpendLimit,
            400 | 429 if wait.is_none() && fault.names_spending() => FailureKind::SpendLimit,
            401 | 403 => FailureKind::Auth,
            400 if fault.has_code("API_KEY_INVALID") => FailureKind::Auth,
            404 | 405 | 410 => FailureKind::NotFound,
            408 => FailureKind::Timeout,
            429 if fault.has_code("overloaded_error") => FailureKind::Overloaded,
            429 => FailureKind::RateLimited,
            503 | 529 => FailureKind::Overloaded,
            500..=599 => FailureKind::ServerError,
            _ => FailureKind::BadRequest,
        };
        let said = match kind {
            FailureKind::Refused => "redirects are not followed: correct base_url".to_owned(),
            _ => presentable(&fault.message, secret),
        };
        let separator = if said.is_empty() { "" } else { ": " };
        let message = format!("the provider answered {}{separator}{said}", status.as_u16());
        Self { kind, message, retry_after: wait, charge: Charge::None }
    }

    /// Replaces a message that repeats the prompt: some gateways echo a request that they refuse, and an error goes to
    /// the log and to all readers of the status.
    pub(super) fn without_quotes_of(mut self, prompt: &str) -> Self {
        let plain = |c: char| if c.is_control() || c.is_whitespace() { ' ' } else { c };
        let prompt: String = prompt.chars().map(plain).collect();
        // Every common run of three steps holds a window that begins at a whole step.
        let windows = self.message.as_bytes().windows(2 * STEP).step_by(STEP);
        if windows.into_iter().any(|window| memmem::find(prompt.as_bytes(), window).is_some()) {
            let head = self.message.split_once(": ").map_or("the provider failed", |(head, _)| head);
            self.message = format!("{head}; the message repeats the prompt and is left out");
        }
        self
    }

    /// Returns the outcome for the provider's health. A 429 that names its own end does not count: the provider is
    /// well, and the job comes back when told.
    pub(super) fn outcome(&self) -> ProviderCallOutcome {
        let why = self.message.clone();
        match self.kind {
            FailureKind::Auth | FailureKind::SpendLimit => ProviderCallOutcome::AccessRefused { why },
            FailureKind::BadRequest | FailureKind::NotFound | FailureKind::Refused | FailureKind::BreakerOpen => {
                ProviderCallOutcome::CallerFault { why }
            }
            FailureKind::RateLimited if self.retry_after.is_some() => ProviderCallOutcome::CallerFault { why },
            _ => ProviderCallOutcome::Failed { why, not_before: self.retry_after },
        }
    }
}

/// Error body of a provider, in any of the known shapes.
#[derive(Debug, Default)]
struct ProviderErrorBody {
    message: String,
    /// Machine-readable words: `type`, `code`, `status`, `reason`.
    codes: Vec<String>,
    /// Wait by Google's `RetryInfo`.
    wait: Option<Duration>,
}

impl ProviderErrorBody {
    fn read(body: &[u8]) -> Self {
        let mut fault = Self::default();
        let Ok(body) = serde_json::from_slice::<Value>(body) else { return fault };
        // Gemini may wrap the object into a list; Ollama gives the message as the error itself.
        let body = body.get(0).unwrap_or(&body);
        let error = body.get("error").unwrap_or(body);
        let message =
            error.as_str().or_else(|| error.get("message")?.as_str()).or_else(|| body.get("detail")?.as_str());
        message.unwrap_or_default().clone_into(&mut fault.message);
        let details = error.get("details").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for source in std::iter::once(error).chain(details) {
            for name in ["type", "code", "status", "reason"] {
                fault.codes.extend(source.get(name).and_then(Value::as_str).map(str::to_owned));
            }
            if let Some(delay) = source.get("retryDelay").and_then(Value::as_str) {
                fault.wait = delay.strip_suffix('s').and_then(|n| n.parse().ok()).and_then(retry_after::seconds);
            }
        }
        fault
    }

    fn has_code(&self, code: &str) -> bool {
        self.codes.iter().any(|have| have == code)
    }

    /// True if the error is about money that is used up (`insufficient_quota`, `enforced_spend_limit_reached`, a
    /// credit balance that is too low), not about the rate of requests.
    fn names_spending(&self) -> bool {
        let code = |word: &str| self.codes.iter().any(|code| code.to_ascii_lowercase().contains(word));
        let message = self.message.to_ascii_lowercase();
        let says = |word: &str| message.contains(word);
        ["quota", "spend", "billing", "credit"].into_iter().any(code)
            || ["spend limit", "spending limit", "billing", "credit balance", "exceeded your current quota"]
                .into_iter()
                .any(says)
            || ["insufficient_quota", "enforced_spend_limit_reached"].into_iter().any(says)
    }
}

/// Bytes of a step in the search for the prompt in a message. Two steps in common are more than chance.
const STEP: usize = 8;
/// Longest part of a provider's message that is kept, in characters.
const LONGEST_MESSAGE: usize = 200;
/// Longest word that is shown, in bytes: longer ones may be keys.
const LONGEST_WORD: usize = 20;

/// Returns a provider's message as it may be shown: on one line, short, without anything like a key.
pub(super) fn presentable(message: &str, secret: Option<&str>) -> String {
    let message = match secret {
        Some(secret) if !secret.is_empty() => message.replace(secret, "[cut]"),
        _ => message.to_owned(),
    };
    let mut shown = String::new();
    let mut word = String::new();
    let flush = |word: &mut String, shown: &mut String| {
        let keylike = word.len() > LONGEST_WORD || word.starts_with("sk-") || word.starts_with("AIza");
        shown.push_str(if keylike { "[cut]" } else { word });
        word.clear();
    };
    for c in message.chars() {
        if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') {
            word.push(c);
        } else {
            flush(&mut word, &mut shown);
            shown.push(if c.is_control() || c.is_whitespace() { ' ' } else { c });
        }
    }
    flush(&mut word, &mut shown);
    shown.trim().chars().take(LONGEST_MESSAGE).collect()
}
