//! Forms that injected orders take: the rows of `rules/injection.toml` and of users' files that have an expression. In: a
//! row. Out: words to look for, the expression, and what a finding says.

use std::{ops::Range, sync::OnceLock};

use regex::bytes::Regex;

use crate::rules::{intern, of_ascii};
use umbra_domain::{CheckRule, Severity, TextScope};

/// Rule about what speaks to the judge of an agent's work.
pub(super) const TO_REVIEWER: &str = "addresses_reviewer";

/// One form.
#[derive(Debug)]
pub(super) struct Form {
    /// Name of the rule; several rows may share one.
    pub(super) rule: &'static str,
    /// Texts one of which every match has in it, or near it; none where every text is searched.
    pub(super) words: Vec<String>,
    pattern: String,
    regex: OnceLock<Option<Regex>>,
    severity: Severity,
    /// Texts in which the form counts.
    pub(super) scope: TextScope,
    /// Words of the same sentence that make it a rule for people, or a text about such orders: then it is milder.
    softened_by: Vec<String>,
    /// Sentence of a finding.
    pub(super) description: &'static str,
}

impl Form {
    pub(super) fn new(row: &CheckRule) -> Option<Self> {
        let description = row.description.clone().unwrap_or_else(|| format!("The rule {} matches here.", row.id));
        Some(Self {
            rule: intern(&row.id),
            words: row.keywords.clone(),
            pattern: row.regex.clone()?,
            regex: OnceLock::new(),
            severity: row.severity.unwrap_or(Severity::Warning),
            scope: row.scope.unwrap_or(TextScope::All),
            softened_by: row.softened_by.iter().map(|word| word.to_ascii_lowercase()).collect(),
            description: intern(&description),
        })
    }

    /// Severity where the form stands: a condition or a denial in the same sentence makes it one degree milder.
    pub(super) fn severity_at(&self, text: &str, at: &Range<usize>) -> Severity {
        /// Bytes of a sentence before and behind the form that are looked at.
        const AROUND: usize = 100;
        let before = text.get(text.ceil_char_boundary(at.start.saturating_sub(AROUND))..at.start).unwrap_or_default();
        let before = before.rsplit(['\n', '.', '!', '?']).next().unwrap_or_default();
        let behind = text.get(at.end..text.floor_char_boundary((at.end + AROUND).min(text.len()))).unwrap_or_default();
        let behind = behind.split_inclusive(['\n', '.', '!', '?']).next().unwrap_or_default();
        let form = text.get(at.clone()).unwrap_or_default();
        let sentence = [before, form, behind].concat().to_ascii_lowercase();
        match self.severity {
            severity if !self.softened_by.iter().any(|word| sentence.contains(word.as_str())) => severity,
            Severity::Critical => Severity::Warning,
            _ => Severity::Info,
        }
    }

    /// Expression, compiled when it is first needed. Its classes are of ASCII, since one with a word boundary of Unicode
    /// has no fast matcher for other texts; one that is written in ASCII goes by bytes, whose automaton is a tenth.
    pub(super) fn regex(&self) -> Option<&Regex> {
        let compile = || {
            let full = of_ascii(&self.pattern);
            let by_bytes = (full.is_ascii() && !full.contains(r"\p")).then(|| Regex::new(&format!("(?-u){full}")).ok());
            by_bytes.flatten().or_else(|| Regex::new(&full).ok())
        };
        self.regex.get_or_init(compile).as_ref()
    }
}
