//! Backoff of jobs before they run again.

use std::time::Duration;

/// First wait.
const BASE: Duration = Duration::from_secs(1);
/// Longest backoff of our own; a provider may ask for more.
const CEILING: Duration = Duration::from_mins(1);

/// Returns the wait before attempt `attempt` + 1: 1, 2, 4 … 60 s with full jitter above half, and never less than the
/// provider asked for. `jitter` lies in 0..=1.
pub fn backoff(attempt: u32, asked: Option<Duration>, jitter: f64) -> Duration {
    let exponential = BASE.saturating_mul(1_u32 << attempt.saturating_sub(1).min(6)).min(CEILING);
    let jittered = exponential.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0));
    jittered.max(asked.unwrap_or_default())
}
