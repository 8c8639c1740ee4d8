//! Forms of injected orders: the rows with an expression of `rules/injection.toml` and of users' files. In: a row. Out:
//! the words to search for, the expression, and the sentence of a finding.

use std::{ops::Range, sync::OnceLock};

use regex::bytes::Regex;

use crate::rules::{intern, of_ascii};
use umbra_domain::{CheckRule, Severity, TextScope};

/// Rule for text that addresses the reviewer of an agent's work.
pub(super) const TO_REVIEWER: &str = "addresses_reviewer";

/// Form of an injected order.
#[derive(Debug)]
pub(super) struct Form {
    /// Name of the rule; several rows may share one.
    pub(super) rule: &'static str,
    /// Words of which every match contains one, or has one near it; empty where every text is searched.
    pub(super) words: Vec<String>,
    pattern: String,
    regex: OnceLock<Option<Regex>>,
    severity: Severity,
    /// Kinds of text in which the form counts.
    pub(super) scope: TextScope,
    /// Words that make a finding in their sentence milder: a rule for people, or a text about such orders.
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

    /// Returns the severity at a place: one of `softened_by` in the same sentence makes it one degree milder.
    pub(super) fn severity_at(&self, text: &str, at: &Range<usize>) -> Severity {
        /// Bytes of the sentence that are read before and behind the match.
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

    /// Returns the expression, compiled on first use. Its classes are ASCII, since a Unicode word boundary has no fast
    /// matcher for other texts; an expression written in ASCII matches bytes, whose automaton has a tenth of the size.
    pub(super) fn regex(&self) -> Option<&Regex> {
        let compile = || {
            let full = of_ascii(&self.pattern);
            let by_bytes = (full.is_ascii() && !full.contains(r"\p")).then(|| Regex::new(&format!("(?-u){full}")).ok());
            by_bytes.flatten().or_else(|| Regex::new(&full).ok())
        };
        self.regex.get_or_init(compile).as_ref()
    }
}
