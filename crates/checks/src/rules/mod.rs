//! The rules in force: those of `rules/*.toml`, extended and changed by a user's files. In: rows. Out: the compiled
//! rules of each check, and for each finding whether it counts. The whole process has one set, since every path must
//! redact a text by the same rules.

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
    trial::{MisjudgedExample, example, misjudged},
};
use crate::{commands, injection, secrets};
use umbra_domain::{AllowList, CheckName, CheckRule, Event, FieldName, Hit, RuleFile, Severity};

/// Compiled rules of every check.
#[derive(Debug)]
pub struct Rules {
    rows: Vec<CheckRule>,
    /// Changes by rows to findings, by check and rule id.
    words: HashMap<(CheckName, &'static str), RowOverride>,
    /// Allow lists for the values of all credential rules.
    allowed: Vec<Allow>,
    pub(crate) secrets: secrets::SecretRules,
    pub(crate) commands: commands::Rows,
    pub(crate) injection: injection::OrderForms,
    texts: TextRules,
}

/// Changes by rows to the findings of one rule.
#[derive(Debug, Default)]
struct RowOverride {
    off: bool,
    severity: Option<Severity>,
    allow: Vec<Allow>,
}

static IN_FORCE: LazyLock<ArcSwap<Rules>> = LazyLock::new(|| ArcSwap::from_pointee(Rules::of(&[])));

/// Returns the rules in force: the built-in ones until others are installed.
pub(crate) fn in_force() -> Guard<Arc<Rules>> {
    IN_FORCE.load()
}

/// Built-in rows of every check.
pub(crate) static BUILT_IN: LazyLock<Vec<CheckRule>> = LazyLock::new(|| {
    const FILES: [(CheckName, &str); 6] = [
        (CheckName::Secrets, include_str!("../../rules/secrets.toml")),
        (CheckName::Commands, include_str!("../../rules/commands.toml")),
        (CheckName::Injection, include_str!("../../rules/injection.toml")),
        (CheckName::Pii, include_str!("../../rules/pii.toml")),
        (CheckName::Truncation, include_str!("../../rules/truncation.toml")),
        // Each row of this file names its check.
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
    /// Builds rules from the built-in rows and these files, where later files override earlier ones. Rows with
    /// [`mod@faults`] find nothing.
    pub fn of(files: &[RuleFile]) -> Self {
        let mut rows = BUILT_IN.clone();
        let mut words: HashMap<_, RowOverride> = HashMap::new();
        for row in files.iter().flat_map(|file| &file.rules) {
            let laid = lay(&mut rows, row);
            if !row.has_patterns() {
                let word = words.entry((laid.check(), intern(&row.id))).or_default();
                word.off = row.enabled.map_or(word.off, |on| !on);
                word.severity = row.severity.or(word.severity);
            }
        }
        // Rows about credentials apply their own lists, where the whole match is known.
        for row in rows
            .iter()
            .filter(|row| !row.allowlists.is_empty() && (row.check() != CheckName::Secrets || !row.has_patterns()))
        {
            let word = words.entry((row.check(), intern(&row.id))).or_default();
            word.allow.extend(row.allowlists.iter().map(Allow::new));
        }
        let on: Vec<&CheckRule> = rows.iter().filter(|row| row.enabled != Some(false)).collect();
        let allowed: Vec<&AllowList> = files.iter().flat_map(|file| &file.allowlists).collect();
        Self {
            words,
            allowed: allowed.into_iter().map(Allow::new).collect(),
            secrets: secrets::SecretRules::new(on.iter().filter(|row| row.check() == CheckName::Secrets)),
            commands: commands::Rows::new(on.iter().filter(|row| row.check() == CheckName::Commands)),
            injection: injection::OrderForms::new(on.iter().filter(|row| row.check() == CheckName::Injection)),
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

    /// Returns every row in its present form: the built-in ones first, then those that files add.
    pub fn rows(&self) -> &[CheckRule] {
        &self.rows
    }

    /// Returns the severity of a finding; `None` where its rule is switched off, or an allow list covers the value.
    pub(crate) fn severity_in_force(
        &self,
        check: CheckName,
        rule: &str,
        severity: Severity,
        place: MatchContext<'_>,
    ) -> Option<Severity> {
        debug_assert!(self.rows.iter().any(|row| row.id == rule), "{rule} stands in no file of rules");
        let allowed = check == CheckName::Secrets && self.allowed.iter().any(|allow| allow.covers(place));
        let Some(word) = self.words.get(&(check, rule)).filter(|_| !allowed) else {
            return (!allowed).then_some(severity);
        };
        let dropped = word.off || word.allow.iter().any(|allow| allow.covers(place));
        // An info finding, such as an example of a credential, keeps its severity.
        (!dropped).then(|| word.severity.filter(|_| severity > Severity::Info).unwrap_or(severity))
    }

    /// Filters a check's hits by the rules, and adds the hits of rows with an expression.
    pub(crate) fn judged(&self, check: CheckName, mut hits: Vec<Hit>, event: &Event) -> Vec<Hit> {
        hits.extend(self.texts.hits(check, event));
        hits.retain_mut(|hit| {
            let text = event.text(&hit.field).unwrap_or_default();
            let weight =
                self.severity_in_force(check, &hit.rule, hit.severity, MatchContext::new(text, hit.start..hit.end));
            hit.severity = weight.unwrap_or(hit.severity);
            weight.is_some()
        });
        hits
    }
}

/// Adds a row, or lays it over the rows of its id, and returns the result. A row that finds something replaces them and
/// inherits the members that it leaves out; any other row changes each of them.
fn lay(rows: &mut Vec<CheckRule>, row: &CheckRule) -> CheckRule {
    let mut laid = row.clone();
    if let Some(first) = rows.iter().position(|known| known.id == row.id) {
        let known = rows.get(first).cloned().unwrap_or_default();
        laid.check = row.check.or(known.check);
        laid.description = row.description.clone().or(known.description);
        laid.severity = row.severity.or(known.severity);
        if row.has_patterns() {
            rows.retain(|known| known.id != row.id);
            rows.insert(first, laid.clone());
        }
    } else {
        rows.push(laid.clone());
    }
    for known in rows.iter_mut().filter(|known| known.id == row.id && !row.has_patterns()) {
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

/// A match in a text, with its surroundings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MatchContext<'t> {
    /// The credential, or the text that a rule found.
    pub(crate) value: &'t str,
    /// The whole match.
    pub(crate) whole: &'t str,
    /// Line of the match.
    pub(crate) line: &'t str,
}

impl<'t> MatchContext<'t> {
    pub(crate) fn new(text: &'t str, at: std::ops::Range<usize>) -> Self {
        Self::within(text, at.clone(), at)
    }

    /// Creates the place of a value within a larger match.
    pub(crate) fn within(text: &'t str, value: std::ops::Range<usize>, whole: std::ops::Range<usize>) -> Self {
        let start = text.get(..whole.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
        let end = text.get(whole.end..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| whole.end + at);
        let part = |at: std::ops::Range<usize>| text.get(at).unwrap_or_default();
        Self { value: part(value), whole: part(whole), line: part(start..end) }
    }
}

/// Interns a text for the lifetime of the process. Rule names are few, and the same ones return on reload.
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

/// True if a check reads the field.
fn looks_at(check: CheckName, field: &FieldName) -> bool {
    match check {
        CheckName::Pii => field.is_output() || field.is_tool_argument(),
        _ => field.is_output(),
    }
}
