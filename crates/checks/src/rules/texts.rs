//! Rows with an expression, for all checks but that of credentials. In: an event. Out: a hit for each match, in the
//! texts that the check reads.

use std::{collections::BTreeMap, sync::OnceLock};

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::{allow::compiled, intern, looks_at};
use umbra_domain::{CheckName, CheckRule, Event, Hit, Severity};

/// Most hits of one rule in one text.
const MOST_HITS: usize = 20;

/// Bytes at the end of a text in which an expression that is anchored there (`\z`) is searched.
const END: usize = 1024;

/// Rows by check.
#[derive(Debug, Default)]
pub(super) struct TextRules(BTreeMap<CheckName, Vec<TextRule>>);

/// One row with an expression.
#[derive(Debug)]
pub(crate) struct TextRule {
    pub(crate) id: &'static str,
    pub(crate) description: String,
    pub(crate) severity: Severity,
    /// Scanner of the keywords; `None` where every text is searched.
    keywords: Option<AhoCorasick>,
    regex: String,
    /// Expression, which is compiled for the first text with a keyword: most never are.
    compiled: OnceLock<Option<Regex>>,
    /// True if every match ends with the text.
    at_end: bool,
}

impl TextRules {
    pub(super) fn new<'r>(rows: impl Iterator<Item = &'r &'r CheckRule>) -> Self {
        let mut rules: BTreeMap<CheckName, Vec<TextRule>> = BTreeMap::new();
        for row in rows {
            if let Some(rule) = TextRule::new(row) {
                rules.entry(row.check()).or_default().push(rule);
            }
        }
        Self(rules)
    }

    pub(super) fn hits(&self, check: CheckName, event: &Event) -> Vec<Hit> {
        let Some(rules) = self.0.get(&check) else { return Vec::new() };
        let mut hits = Vec::new();
        event.for_each_text(|field, text| {
            if looks_at(check, &field) {
                let found = rules.iter().flat_map(|rule| rule.find(text));
                hits.extend(found.map(|(rule, at)| {
                    Hit::new(check, rule.id, rule.severity, field.clone(), at, rule.description.as_str())
                }));
            }
        });
        hits
    }
}

impl TextRule {
    pub(crate) fn new(row: &CheckRule) -> Option<Self> {
        let regex = row.regex.clone()?;
        let keywords = AhoCorasick::builder().ascii_case_insensitive(true).build(&row.keywords);
        Some(Self {
            id: intern(&row.id),
            description: row.description.clone().unwrap_or_else(|| format!("The rule {} matches here.", row.id)),
            severity: row.severity.unwrap_or(Severity::Warning),
            keywords: keywords.ok().filter(|_| !row.keywords.is_empty()),
            at_end: regex.ends_with(r"\z"),
            compiled: OnceLock::new(),
            regex,
        })
    }

    /// Returns the first matches in a text.
    pub(crate) fn find<'t>(&'t self, text: &'t str) -> impl Iterator<Item = (&'t Self, std::ops::Range<usize>)> {
        let end = if self.at_end { text.trim_end().len() } else { text.len() };
        let from = if self.at_end { text.floor_char_boundary(end.saturating_sub(END)) } else { 0 };
        let part = text.get(from..end).unwrap_or_default();
        let awake = self.keywords.as_ref().is_none_or(|keywords| keywords.is_match(part));
        let compiled = || self.compiled.get_or_init(|| compiled(&self.regex).ok()).as_ref();
        let regex = awake.then(compiled).flatten();
        let found = regex.into_iter().flat_map(move |regex| regex.find_iter(part));
        found.map(move |found| (self, from + found.start()..from + found.end())).take(MOST_HITS)
    }
}
