//! Durations and sizes in human notation: `500ms`, `2h`, `1h30m`; `4MiB`. Text in, numbers out, and back.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// Units of time with their milliseconds, largest first.
const TIME: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];
/// Units of size with their bytes, largest first.
const SIZE: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Reads `2h`, `30s`, `500ms`, `1d` or a sum such as `1h30m`. Returns `None` for any other text.
///
/// ```
/// use std::time::Duration;
/// use umbra::config::quantity::parse_duration;
/// assert_eq!(parse_duration("1h30m"), Some(Duration::from_secs(5_400)));
/// assert_eq!(parse_duration("30"), None);
/// ```
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut millis: u64 = 0;
    while !rest.is_empty() {
        let (count, tail) = leading_number(rest)?;
        let end = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, next) = tail.split_at_checked(end)?;
        let (_, factor) = TIME.into_iter().find(|(name, _)| *name == unit)?;
        millis = millis.checked_add(count.checked_mul(factor)?)?;
        rest = next;
    }
    (!text.is_empty()).then(|| Duration::from_millis(millis))
}

/// Reads a moment of the past: `24h` is that long before `now`, and an RFC 3339 time is itself. Returns `None` for any
/// other text, and for a time outside the range that the database holds.
///
/// ```
/// use umbra::config::quantity::parse_moment;
/// let now = "2026-02-28T14:30:00Z".parse().unwrap();
/// assert_eq!(parse_moment("24h", now), "2026-02-27T14:30:00Z".parse().ok());
/// assert_eq!(parse_moment("2026-02-01T00:00:00Z", now), "2026-02-01T00:00:00Z".parse().ok());
/// assert_eq!(parse_moment("yesterday", now), None);
/// ```
pub fn parse_moment(text: &str, now: Timestamp) -> Option<Timestamp> {
    let moment = match parse_duration(text) {
        Some(ago) => now.checked_sub(SignedDuration::try_from(ago).ok()?).ok()?,
        None => text.parse().ok()?,
    };
    // Ids of events begin with the time since 1970.
    (0..=253_402_207_200).contains(&moment.as_second()).then_some(moment)
}

/// Reads `4MiB`, `512 KiB` or `100B`. Returns `None` for any other text.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let (count, unit) = leading_number(text)?;
    let (_, factor) = SIZE.into_iter().find(|(name, _)| *name == unit.trim_start())?;
    count.checked_mul(factor)
}

/// Writes a duration of whole milliseconds in its shortest form: `2h`, `90s`.
pub fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), &TIME, "s")
}

/// Writes a size in its shortest form: `4MiB`, `1000B`.
pub fn show_bytes(bytes: u64) -> String {
    show(bytes, &SIZE, "B")
}

fn show(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    let (unit, factor) =
        units.iter().find(|(_, factor)| value != 0 && value.is_multiple_of(*factor)).copied().unwrap_or((zero, 1));
    format!("{}{unit}", value / factor)
}

fn leading_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}
