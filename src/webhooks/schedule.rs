//! Schedule of retries of a failed delivery: for about a day, with growing delays. Pure.

use std::time::Duration;

/// Seconds to wait after the n-th failure.
const DELAYS: [u64; 10] = [5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800];

/// Most attempts of one delivery.
pub const ATTEMPTS: i32 = 11;

/// Longest time that a delivery is tried, counted from its first attempt: an endpoint's `Retry-After` cannot extend it.
const LONGEST: Duration = Duration::from_hours(28);

/// Returns the wait after a failed attempt; `None` where it was the last. `jitter` lies in 0..1 and spreads deliveries
/// that failed together over a tenth either way; an endpoint that asks for more time gets it.
pub fn next_delay(attempt: i32, tried_for: Duration, retry_after: Option<Duration>, jitter: f64) -> Option<Duration> {
    let index = usize::try_from(attempt.checked_sub(1)?).ok()?;
    let delay = Duration::from_secs(*DELAYS.get(index)?).mul_f64(0.9 + 0.2 * jitter.clamp(0.0, 1.0));
    let delay = delay.max(retry_after.unwrap_or_default());
    (tried_for.saturating_add(delay) <= LONGEST).then_some(delay)
}
