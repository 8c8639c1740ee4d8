//! The rules in force: those of `rules/*.toml`, with what a user's files add and change. In: rows. Out: for each check
//! its rules, compiled, and for each finding whether it counts. There is one set for the whole process, since a text is
//! redacted on every path by the same rules, or by none.

mod allow;
mod faults;
mod texts;
mod trial;

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use arc_swap::{ArcSwap, Guard};

pub(crate) use self::allow::{Allow, compiled, of_ascii};
pub(crate) use self::texts::TextRule;
use self::texts::TextRules;
pub use self::{
    faults::faults,
    trial::{Misjudged, example, misjudged},
};
use crate::{commands, injection, secrets};
use umbra_domain::{AllowList, CheckName, CheckRule, Event, FieldName, Hit, RuleFile, Severity};

/// Rules of every check.
#[derive(Debug)]
pub struct Rules {
    rows: Vec<CheckRule>,
    /// Word of rows on findings, by check and id, whoever makes them.
    words: HashMap<(CheckName, &'static str), Word>,
    /// Values that no rule about credentials takes for one.
    allowed: Vec<Allow>,
    pub(crate) secrets: secrets::Index,
    pub(crate) commands: commands::Rows,
    pub(crate) injection: injection::Index,
    texts: TextRules,
}

/// Word of rows on a rule's findings.
#[derive(Debug, Default)]
struct Word {
    off: bool,
    severity: Option<Severity>,
    allow: Vec<Allow>,
}

static IN_FORCE: LazyLock<ArcSwap<Rules>> = LazyLock::new(|| ArcSwap::from_pointee(Rules::of(&[])));

/// The rules in force: the built-in ones until others are installed.
pub(crate) fn in_force() -> Guard<Arc<Rules>> {
    IN_FORCE.load()
}

/// Rows that are built in, of every check.
pub(crate) static BUILT_IN: LazyLock<Vec<CheckRule>> = LazyLock::new(|| {
    const FILES: [(CheckName, &str); 6] = [
        (CheckName::Secrets, include_str!("../../rules/secrets.toml")),
        (CheckName::Commands, include_str!("../../rules/commands.toml")),
        (CheckName::Injection, include_str!("../../rules/injection.toml")),
        (CheckName::Pii, include_str!("../../rules/pii.toml")),
        (CheckName::Truncation, include_str!("../../rules/truncation.toml")),
        // Each row of it names its check.
        (CheckName::Emptiness, include_str!("../../rules/others.toml")),
    ];
    let rows = FILES.into_iter().flat_map(|(check, text)| {
        let RuleFile { rules, terms, .. } = toml::from_str(text).unwrap_or_default();
        rules.into_iter().map(move |mut rule| {
            rule.expand(&terms);
            CheckRule { check: rule.check.or(Some(check)), ..rule }
        })
    });
    rows.collect()
});

impl Rules {
    /// The built-in rules, with what these files say, the later over the earlier. Rows that [`faults`] finds fault with
    /// find nothing.
    pub fn of(files: &[RuleFile]) -> Self {
        let mut rows = BUILT_IN.clone();
        let mut words: HashMap<_, Word> = HashMap::new();
        for row in files.iter().flat_map(|file| &file.rules) {
            let laid = lay(&mut rows, row);
            if !row.finds() {
                let word = words.entry((laid.check(), intern(&row.id))).or_default();
                word.off = row.enabled.map_or(word.off, |on| !on);
                word.severity = row.severity.or(word.severity);
            }
        }
        // Rows about credentials look at their own lists, where the whole match is known.
        for row in
            rows.iter().filter(|row| !row.allowlists.is_empty() && (row.check() != CheckName::Secrets || !row.finds()))
        {
            let word = words.entry((row.check(), intern(&row.id))).or_default();
            word.allow.extend(row.allowlists.iter().map(Allow::new));
        }
        let on: Vec<&CheckRule> = rows.iter().filter(|row| row.enabled != Some(false)).collect();
        let allowed: Vec<&AllowList> = files.iter().flat_map(|file| &file.allowlists).collect();
        Self {
            words,
            allowed: allowed.into_iter().map(Allow::new).collect(),
            secrets: secrets::Index::new(on.iter().filter(|row| row.check() == CheckName::Secrets)),
            commands: commands::Rows::new(on.iter().filter(|row| row.check() == CheckName::Commands)),
            injection: injection::Index::new(on.iter().filter(|row| row.check() == CheckName::Injection)),
            texts: TextRules::new(
                on.iter().filter(|row| {
                    !matches!(row.check(), CheckName::Secrets | CheckName::Commands | CheckName::Injection)
                }),
            ),
            rows,
        }
    }

    /// Puts these rules in force for the whole process.
    pub fn install(self) {
        IN_FORCE.store(Arc::new(self));
    }

    /// Every rule, as it stands: the built-in ones first, then those that files add.
    pub fn rows(&self) -> &[CheckRule] {
        &self.rows
    }

    /// Severity of a finding, `None` where it does not count: its rule is switched off, or leaves the value alone.
    pub(crate) fn weigh(&self, check: CheckName, rule: &str, severity: Severity, place: Place<'_>) -> Option<Severity> {
        debug_assert!(self.rows.iter().any(|row| row.id == rule), "{rule} stands in no file of rules");
        let allowed = check == CheckName::Secrets && self.allowed.iter().any(|allow| allow.covers(place));
        let Some(word) = self.words.get(&(check, rule)).filter(|_| !allowed) else {
            return (!allowed).then_some(severity);
        };
        let dropped = word.off || word.allow.iter().any(|allow| allow.covers(place));
        // An example stays what it is.
        (!dropped).then(|| word.severity.filter(|_| severity > Severity::Info).unwrap_or(severity))
    }

    /// Hits of a check that count, and those of rows that are expressions.
    pub(crate) fn judged(&self, check: CheckName, mut hits: Vec<Hit>, event: &Event) -> Vec<Hit> {
        hits.extend(self.texts.hits(check, event));
        hits.retain_mut(|hit| {
            let text = event.text(&hit.field).unwrap_or_default();
            let weight = self.weigh(check, &hit.rule, hit.severity, Place::new(text, hit.start..hit.end));
            hit.severity = weight.unwrap_or(hit.severity);
            weight.is_some()
        });
        hits
    }
}

/// Puts a row beside or over those of its id, and gives it as it stands then. One that finds something takes their place
/// but for what it leaves unsaid; one that does not changes what it names in each.
fn lay(rows: &mut Vec<CheckRule>, row: &CheckRule) -> CheckRule {
    let mut laid = row.clone();
    if let Some(first) = rows.iter().position(|known| known.id == row.id) {
        let known = rows.get(first).cloned().unwrap_or_default();
        laid.check = row.check.or(known.check);
        laid.description = row.description.clone().or(known.description);
        laid.severity = row.severity.or(known.severity);
        if row.finds() {
            rows.retain(|known| known.id != row.id);
            rows.insert(first, laid.clone());
        }
    } else {
        rows.push(laid.clone());
    }
    for known in rows.iter_mut().filter(|known| known.id == row.id && !row.finds()) {
        known.description = row.description.clone().or(known.description.take());
        known.severity = row.severity.or(known.severity);
        known.enabled = row.enabled.or(known.enabled);
        known.allowlists.extend(row.allowlists.iter().cloned());
        known.hits.extend(row.hits.iter().cloned());
        known.misses.extend(row.misses.iter().cloned());
        known.place.clone_from(&row.place);
    }
    laid
}

/// Part of a text that was found, with its surroundings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'t> {
    /// The credential, or what a rule found.
    pub(crate) value: &'t str,
    /// The whole match.
    pub(crate) whole: &'t str,
    /// Its line.
    pub(crate) line: &'t str,
}

impl<'t> Place<'t> {
    pub(crate) fn new(text: &'t str, at: std::ops::Range<usize>) -> Self {
        Self::within(text, at.clone(), at)
    }

    /// The same of a value within a match.
    pub(crate) fn within(text: &'t str, value: std::ops::Range<usize>, whole: std::ops::Range<usize>) -> Self {
        let start = text.get(..whole.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let end = text.get(whole.end..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| whole.end + at);
        let part = |at: std::ops::Range<usize>| text.get(at).unwrap_or_default();
        Self { value: part(value), whole: part(whole), line: part(start..end) }
    }
}

/// A text that lives as long as the process. Names of rules are few, and the same ones come back on reload.
pub(crate) fn intern(text: &str) -> &'static str {
    static KNOWN: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(text) {
        return known;
    }
    let text: &'static str = Box::leak(text.into());
    known.insert(text);
    text
}

/// True if a field is one that a check looks at.
fn looks_at(check: CheckName, field: &FieldName) -> bool {
    match check {
        CheckName::Pii => field.is_output() || field.is_tool_argument(),
        _ => field.is_output(),
    }
}
