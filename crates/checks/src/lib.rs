//! The built-in checks and redaction: text in, hits out. Pure: no model, no network, no clock, no state.
//!
//! There are four entry points.
//!
//! [`screen`] runs once, in `accept`, before anything is stored. It removes hidden characters from every text
//! (`normalise`), replaces each credential by `[secret:<rule>]` or `[secret:<rule>:<tag>]` (`secrets`), and derives
//! triggers (`triggers`). It reports removals as marks, with offsets into the text as stored; later only marks are
//! trusted, since an agent can write `[secret:…]` itself. Clean text costs one pass (`needles`); expressions and
//! parsers run only where a literal was met.
//!
//! [`review`] runs in a worker on the stored event. It returns the marks and adds what only a closer look shows:
//! commands, parsed as shell (`commands`); orders to an assistant or a reviewer (`injection`); output that breaks off
//! (`truncation`), says nothing (`emptiness`), repeats itself (`loops`) or is contradicted by its tool's result
//! (`contradictions`); personal data (`pii`); hosts that an agent should not reach (`outside_hosts`).
//!
//! [`Loops`] reads the events of a whole task, one after the other.
//!
//! [`redact`] treats any other text that leaves the process (a model's reply, a provider's error) in the same way.
//!
//! A rule knows a format, a grammar or a form, never a single case. Severities follow one principle: a live-looking
//! credential, a destructive command on a real target, download-and-run, and addressing the reviewer are critical;
//! acts that may be legitimate are warnings; other remarks are info. No description quotes a secret.
//!
//! # Usage
//! `cargo run -p umbra-checks --example redact_and_check` runs this:
//!
//! ```
#![doc = include_str!("../examples/redact_and_check.rs")]
//! ```

mod commands;
mod contradictions;
mod emptiness;
mod hosts;
mod injection;
mod literal_scanner;
mod loops;
mod normalise;
mod outside_hosts;
mod pii;
mod refusals;
mod rules;
mod screening;
mod secrets;
#[cfg(test)]
mod tests;
mod triggers;
mod truncation;
mod word_lists;

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::Value;

use self::rules::in_force;
pub use self::{
    loops::Loops,
    rules::{MisjudgedExample, Rules, example, faults, misjudged},
};
use umbra_domain::{CheckName, Event, Hit, Mark, Redacted, Shadow, StoredEvent, TriggerMark};

/// An event that is fit to be stored, with its marks and triggers.
#[derive(Debug, Clone)]
pub struct ScreenedEvent {
    /// The event without hidden characters and credentials.
    pub event: Event,
    /// Removals, with offsets into the texts of `event`. Marks in texts that [`Event::for_each_text`] does not visit
    /// carry names such as `agent`, `tool.name`, `metadata.repo`, and `tool.args#keys` for the keys of an object.
    pub marks: Vec<Mark>,
    /// Declared triggers in the sender's order, then derived ones; each kind once.
    pub triggers: Vec<TriggerMark>,
}

/// Makes an event fit to be stored: normalizes, redacts, derives triggers. A second run changes no text.
pub fn screen(event: Event) -> ScreenedEvent {
    screened(event, None)
}

/// Keyed digest of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretDigest {
    /// Byte that the marker shows. Keyed by the task: it says that two secrets of a task are the same, and reveals at
    /// most eight bits of the secret.
    pub tag: u8,
    /// Hash that the mark keeps, which tells a repeat from another secret.
    pub value: u64,
}

/// Screens an event with markers that tell secrets of one kind apart, as in `[secret:github_token:3f]`, and with values
/// in the marks. `digest` must be keyed: without the key it reveals nothing. Names (agent, task, tool, keys of objects)
/// carry no tag.
pub fn screen_tagged(event: Event, digest: &dyn Fn(&str) -> SecretDigest) -> ScreenedEvent {
    screened(event, Some(digest))
}

fn screened(mut event: Event, digester: screening::Digester<'_>) -> ScreenedEvent {
    let marks = screening::screen(&mut event, digester);
    let triggers = triggers::derive_triggers(&event, &marks);
    ScreenedEvent { event, marks, triggers }
}

/// Returns the triggers of a screened event, with the marks that its screening left.
pub fn triggers_of(event: &Event, marks: &[Mark]) -> Vec<TriggerMark> {
    triggers::derive_triggers(event, marks)
}

/// Returns the hits of the selected checks in a stored event: its marks, then hits in the stored text. Any host is
/// allowed.
pub fn review(event: &Event, marks: &[Mark], which: &BTreeSet<CheckName>) -> Vec<Hit> {
    run_checks(event, marks, which, None)
}

/// Returns the hits of a shadow's checks in a stored event.
pub fn by_shadow(stored: &StoredEvent, shadow: &Shadow) -> Vec<Hit> {
    run_checks(&stored.event, &stored.marks, &shadow.checks, shadow.allowed_hosts.as_deref())
}

fn run_checks(
    event: &Event,
    marks: &[Mark],
    which: &BTreeSet<CheckName>,
    allowed_hosts: Option<&[String]>,
) -> Vec<Hit> {
    let rules = in_force();
    let mut hits: Vec<Hit> = marks.iter().filter(|mark| which.contains(&mark.check)).cloned().collect();
    for check in which {
        let found: Vec<Hit> = match check {
            // These checks leave marks.
            CheckName::Secrets | CheckName::Hidden => continue,
            CheckName::Loops => loops::repetition(event).into_iter().collect(),
            CheckName::Commands => commands::hits(&commands::of_event(event)).collect(),
            CheckName::Injection => injection::hits(event),
            CheckName::Truncation => truncation::hit(event).into_iter().collect(),
            CheckName::Emptiness => emptiness::hits(event),
            CheckName::Pii => pii::hits(event),
            CheckName::Contradictions => contradictions::hits(event),
            CheckName::OutsideHosts => outside_hosts::hits(event, allowed_hosts),
        };
        hits.extend(rules.judged(*check, found, event));
    }
    hits
}

/// Removes hidden characters and credentials from any other text.
pub fn redact(text: &str) -> Redacted {
    Redacted::seal(screening::without(text).into_owned())
}

/// Removes hidden characters and credentials from JSON, by content and by the names of members: a value named as a
/// credential (`password`, `x-api-key`) is removed, whatever its form. Texts that are JSON themselves are read as such.
/// For stored documents whose removals are not reported.
pub fn redact_json(value: &mut Value) {
    screening::redact_json(value);
}

/// Removes numbers that identify a person or an account (payment cards, IBAN, national numbers) from JSON. A marker
/// names the kind of the removed number.
pub fn redact_identifiers(value: &mut Value) {
    pii::redact_identifiers(value, None);
}

/// True if a text was redacted: it contains a marker.
pub fn is_redacted(text: &str) -> bool {
    text.contains("[secret:") || text.contains(pii::MARKER)
}

/// Returns a text without invisible characters.
pub fn visible(text: &str) -> Cow<'_, str> {
    normalise::clean(text).0
}
