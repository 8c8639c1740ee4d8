//! Reads the wait that a provider asks for.
//!
//! In: an answer's headers. Out: the time to wait from now. Known are `retry-after-ms`, and `retry-after` in
//! seconds or as an HTTP date (RFC 9110, section 10.2.3). This module itself never waits.

use std::time::Duration;

use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};

/// Longest wait that is accepted.
const LONGEST: Duration = Duration::from_hours(24);

/// Returns the wait that the headers ask for. A date is measured against the answer's own `Date`, so that neither
/// side's clock matters; a date in the past means now.
pub fn from_headers(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    if let Some(milliseconds) = text("retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return seconds(milliseconds / 1000.0);
    }
    let value = text(RETRY_AFTER.as_str())?;
    if let Ok(given) = value.parse::<f64>() {
        return seconds(given);
    }
    let then = rfc2822::parse(value).ok()?.timestamp();
    let now = rfc2822::parse(text(DATE.as_str())?).ok()?.timestamp();
    Some(Duration::try_from(then.duration_since(now)).unwrap_or(Duration::ZERO).min(LONGEST))
}

/// Converts seconds to a wait; `None` if they are negative or not a number.
pub(super) fn seconds(given: f64) -> Option<Duration> {
    (given >= 0.0).then(|| Duration::try_from_secs_f64(given).unwrap_or(LONGEST).min(LONGEST))
}
