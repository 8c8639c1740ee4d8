//! Keys by which repeats of a hit collapse into one finding: keyed hashes, since the value of a hit may be a secret.

use jiff::Timestamp;

use umbra_domain::{Event, Hit};
use umbra_store::installation::Installation;

/// Seconds within which repeats of a finding collapse.
const HOUR: i64 = 3_600;

/// Returns the hash of shadow, agent, task, rule, field and value of a hit, and of the clock hour (UTC) of the event's
/// receipt if `received_at` is given.
pub(in crate::flows) fn collapse_key(
    installation: &Installation,
    shadow: &str,
    event: &Event,
    hit: &Hit,
    received_at: Option<Timestamp>,
) -> [u8; 32] {
    let text = || event.text(&hit.field).and_then(|text| text.get(hit.start..hit.end));
    let (kind, value) = match &hit.value {
        Some(value) => ("value", value.as_str()),
        None => ("text", text().unwrap_or(&hit.description)),
    };
    let hour = received_at.map_or(i64::MIN, |at| at.as_second().div_euclid(HOUR));
    installation.hash(
        "collapse",
        &[
            shadow.as_bytes(),
            event.agent.as_bytes(),
            event.task_id.as_deref().unwrap_or_default().as_bytes(),
            hit.check.as_str().as_bytes(),
            hit.rule.as_bytes(),
            hit.field.as_str().as_bytes(),
            kind.as_bytes(),
            value.as_bytes(),
            &hour.to_le_bytes(),
        ],
    )
}
