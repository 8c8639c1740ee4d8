//! Allow lists: matches of a rule that are not reported. In: a place in a text. Out: true if the list covers it.

use std::sync::LazyLock;

use regex::{Captures, Regex, RegexBuilder};

use super::MatchContext;
use umbra_domain::{AllowList, AllowTarget};

/// A compiled allow-list.
#[derive(Debug)]
pub(crate) struct Allow {
    regexes: Vec<Regex>,
    stopwords: Vec<String>,
    target: AllowTarget,
    all: bool,
}

impl Allow {
    pub(crate) fn new(list: &AllowList) -> Self {
        Self {
            regexes: list.regexes.iter().filter_map(|regex| compiled(regex).ok()).collect(),
            stopwords: list.stopwords.iter().map(|word| word.to_lowercase()).collect(),
            target: list.regex_target.unwrap_or(AllowTarget::Secret),
            all: list.all,
        }
    }

    /// True if the list covers the place.
    pub(crate) fn covers(&self, place: MatchContext<'_>) -> bool {
        let target = match self.target {
            AllowTarget::Secret => place.value,
            AllowTarget::Match => place.whole,
            AllowTarget::Line => place.line,
        };
        let by_regex = || self.regexes.iter().any(|regex| regex.is_match(target));
        let by_word = || {
            let value = place.value.to_lowercase();
            self.stopwords.iter().any(|word| value.contains(word))
        };
        match (self.all, self.regexes.is_empty(), self.stopwords.is_empty()) {
            (true, false, false) => by_regex() && by_word(),
            _ => by_regex() || by_word(),
        }
    }
}

/// Compiles an expression of a row, within a bound of memory. As in Go's RE2, a brace that repeats nothing is literal.
pub(crate) fn compiled(regex: &str) -> Result<Regex, regex::Error> {
    let compile = |regex: &str| RegexBuilder::new(regex).size_limit(LARGEST).build();
    compile(regex).or_else(|error| compile(&rewritten(regex, &[("{", r"\{")])).map_err(|_| error))
}

/// Rewrites `\w`, `\d`, `\s` and `\b` to ASCII, as in Go's RE2: credentials have no other letters, counted repetitions
/// of Unicode classes take megabytes and seconds, and Unicode word boundaries have no fast matcher.
pub(crate) fn of_ascii(regex: &str) -> String {
    let classes = [(r"\w", "[0-9A-Za-z_]"), (r"\d", "[0-9]"), (r"\s", r"[\t\n\f\r\x20]"), (r"\b", r"(?-u:\b)")];
    rewritten(regex, &classes)
}

/// Largest compiled expression, in bytes.
const LARGEST: usize = 64 << 20;

/// Replaces parts of an expression: escapes anywhere, and outside of classes braces that open no repetition, `${` or
/// `{{`.
fn rewritten(regex: &str, parts: &[(&str, &str)]) -> String {
    static PARTS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\\[pPxuU]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}|\{").ok());
    let escapes: Vec<_> = parts.iter().filter(|(part, _)| part.starts_with('\\')).copied().collect();
    let replace = |found: &Captures<'_>| {
        let found = found.get(0).map_or("", |found| found.as_str());
        if found.starts_with('[') && !escapes.is_empty() {
            let inner = found.get(1..).unwrap_or_default();
            return format!("[{}", rewritten(inner, &escapes));
        }
        parts.iter().find(|(part, _)| *part == found).map_or(found, |(_, instead)| *instead).to_owned()
    };
    PARTS.as_ref().map_or_else(|| regex.to_owned(), |parts| parts.replace_all(regex, replace).into_owned())
}
