//! Allow-lists: what a rule finds and leaves alone. In: a place in a text. Out: that the list covers it.

use std::sync::LazyLock;

use regex::{Captures, Regex, RegexBuilder};

use super::Place;
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

    /// True if what stands there is left alone.
    pub(crate) fn covers(&self, place: Place<'_>) -> bool {
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

/// An expression of a user's, within bounds of memory. As in Go's RE2 a brace that repeats nothing is a brace.
pub(crate) fn compiled(regex: &str) -> Result<Regex, regex::Error> {
    let compile = |regex: &str| RegexBuilder::new(regex).size_limit(LARGEST).build();
    compile(regex).or_else(|error| compile(&with_plain_braces(regex)).map_err(|_| error))
}

/// Largest compiled expression, in bytes: counted repetitions of classes of Unicode take megabytes.
const LARGEST: usize = 64 << 20;

/// The expression with a backslash before each brace that opens no repetition, `${` or `{{`, and none of a class.
fn with_plain_braces(regex: &str) -> String {
    static BRACES: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\\[pPxuU]\{[^}]*\}|\\.|\[[^\]]*\]|\{\d+(?:,\d*)?\}|\{").ok());
    let plain = |found: &Captures<'_>| match found.get(0).map_or("", |found| found.as_str()) {
        "{" => "\\{".to_owned(),
        other => other.to_owned(),
    };
    BRACES.as_ref().map_or_else(|| regex.to_owned(), |braces| braces.replace_all(regex, plain).into_owned())
}
