//! The built-in checks and redaction: text in, hits out. Pure: no model, no network, no clock, no state.
//!
//! They work in two places.
//!
//! [`screen`] runs once, in `accept`, before anything is stored. It takes hidden characters out of every text
//! (`normalise`), replaces each credential by `[secret:<rule>]` or `[secret:<rule>:<tag>]` (`secrets`), and derives triggers (`triggers`). What it
//! took out it reports as marks, with offsets into the text as stored; later only marks are trusted, since an agent can
//! write `[secret:…]` itself. Clean text costs one pass (`needles`); expressions and parsers run only where a
//! literal was met.
//!
//! [`review`] runs in a worker on the stored event. It gives back the marks and adds what only a closer look shows:
//! commands, parsed as shell (`commands`); orders to an assistant or a reviewer (`injection`); output that breaks off
//! (`truncation`), says nothing (`emptiness`), repeats itself (`loops`) or is contradicted by its tool's result
//! (`contradictions`); personal data (`pii`); hosts that an agent should not reach (`outside_hosts`).
//!
//! [`Loops`] looks over the events of a whole task, one after the other.
//!
//! [`redact`] gives any other text that leaves the process (a model's reply, a provider's error) the same treatment.
//!
//! A rule knows a format, a grammar or a form, never a single case. Severities follow one principle: a live-looking
//! credential, a destructive command on a real target, download-and-run, and speaking to the reviewer are critical;
//! what may be legitimate is a warning; what is worth knowing is info. No description quotes a secret.
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
mod loops;
mod needles;
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

use std::{borrow::Cow, collections::BTreeSet};

use serde_json::Value;

use self::rules::in_force;
pub use self::{
    loops::Loops,
    rules::{Misjudged, Rules, example, faults, misjudged},
};
use umbra_domain::{CheckName, Event, Hit, Mark, Redacted, Shadow, StoredEvent, TriggerMark};

/// An event that is fit to be stored, and what was seen on the way.
#[derive(Debug, Clone)]
pub struct Screened {
    /// The event without hidden characters and credentials.
    pub event: Event,
    /// What was taken out, with offsets into the texts of `event`. Marks in texts that [`Event::for_each_text`] does
    /// not visit carry names such as `agent`, `tool.name`, `metadata.repo`, and `tool.args#keys` for the keys of an object.
    pub marks: Vec<Mark>,
    /// Declared triggers in the sender's order, then derived ones; each kind once.
    pub triggers: Vec<TriggerMark>,
}

/// Makes an event fit to be stored: normalises, redacts, derives triggers. Running it on its own result changes no
/// text.
pub fn screen(event: Event) -> Screened {
    screened(event, None)
}

/// Keyed digest of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecretDigest {
    /// Byte that its marker shows. It goes by the task: then it says that two secrets of a task are the same, and at most
    /// eight bits of which they are.
    pub tag: u8,
    /// Hash that its mark keeps, by which a repeat is told from another secret.
    pub value: u64,
}

/// The same, with markers of texts that tell secrets of one kind apart, as in `[secret:github_token:3f]`, and with the
/// values of marks. `digest` must be keyed: to readers without the key it says nothing. Names (agent, task, tool, keys of
/// objects) carry no tag.
pub fn screen_tagged(event: Event, digest: &dyn Fn(&str) -> SecretDigest) -> Screened {
    screened(event, Some(digest))
}

fn screened(mut event: Event, digester: screening::Digester<'_>) -> Screened {
    let marks = screening::screen(&mut event, digester);
    let triggers = triggers::of(&event, &marks);
    Screened { event, marks, triggers }
}

/// What the wanted checks see in a stored event: its marks, then the hits of the checks that run on stored text.
/// Any host may be reached.
pub fn review(event: &Event, marks: &[Mark], which: &BTreeSet<CheckName>) -> Vec<Hit> {
    look(event, marks, which, None)
}

/// What a shadow's checks see in a stored event.
pub fn by_shadow(stored: &StoredEvent, shadow: &Shadow) -> Vec<Hit> {
    look(&stored.event, &stored.marks, &shadow.checks, shadow.allowed_hosts.as_deref())
}

fn look(event: &Event, marks: &[Mark], which: &BTreeSet<CheckName>, allowed_hosts: Option<&[String]>) -> Vec<Hit> {
    let rules = in_force();
    let mut hits: Vec<Hit> = marks.iter().filter(|mark| which.contains(&mark.check)).cloned().collect();
    for check in which {
        let found: Vec<Hit> = match check {
            // They are marks.
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

/// Takes hidden characters and credentials out of any other text.
pub fn redact(text: &str) -> Redacted {
    Redacted::seal(screening::without(text).into_owned())
}

/// Takes hidden characters and credentials out of JSON, by what stands in it and by the names of its members: what can only
/// be a credential by its name (`password`, `x-api-key`) goes, however it looks. Texts that are JSON themselves are read
/// as such. For documents that are kept, and of which nobody counts what was found.
pub fn redact_json(value: &mut Value) {
    screening::redact_json(value);
}

/// Takes numbers that identify a person or an account (payment cards, IBAN, national numbers) out of JSON; a marker says
/// which kind stood there.
pub fn redact_identifiers(value: &mut Value) {
    pii::redact_identifiers(value, None);
}

/// True if something was taken out of a text: a marker stands in its place.
pub fn is_redacted(text: &str) -> bool {
    text.contains("[secret:") || text.contains(pii::MARKER)
}

/// A text without the characters that nobody sees.
pub fn visible(text: &str) -> Cow<'_, str> {
    normalise::clean(text).0
}
