//! Composes texts after recorded ones: arguments and ids stand among words that stay.

use std::sync::LazyLock;

use regex::Regex;

use super::response::{Sample, literal_of, minted_text};
use crate::stub::template::literal;

/// Longest text that is taken apart, in bytes.
const MAX_TEXT: usize = 4_096;
/// Most arguments that are looked for in a text.
const MOST_MARKS: u32 = 64;
/// First of the characters that stand for arguments while a text is taken apart; no text should contain them.
const FIRST_MARK: u32 = 0xE000;
/// Shortest argument that is looked for although it never varies, in bytes.
const TELLING: usize = 6;

/// Token: a mark, a word with its inner joints, or one other character.
static TOKEN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[\x{E000}-\x{E03F}]|[[:alnum:]]+(?:[-_.:]+[[:alnum:]]+)*|(?s:.)").ok());

/// Builds a template of texts that contain an argument or an id; none if there is neither, or if the texts have no
/// common form and none of them may be repeated.
pub(super) fn composed(samples: &[Sample<'_>], paths: &[String]) -> Option<String> {
    let mut texts: Vec<String> =
        samples.iter().map(|sample| sample.value.as_str().map(ToOwned::to_owned)).collect::<Option<_>>()?;
    if texts.iter().any(|text| text.len() > MAX_TEXT || text.contains(|c| ('\u{E000}'..='\u{E03F}').contains(&c))) {
        return None;
    }
    let marks = mark_arguments(samples, &mut texts, paths);
    let tokens: Vec<Vec<&str>> = texts.iter().map(|text| tokens(text)).collect();
    let length = tokens.first()?.len();
    let mut template = TemplateBuilder::default();
    if tokens.iter().all(|tokens| tokens.len() == length) {
        for index in 0..length {
            let column: Vec<&str> = tokens.iter().filter_map(|tokens| tokens.get(index).copied()).collect();
            template.push(&column, samples, &marks)?;
        }
    } else {
        // Only a text of the same agent may be repeated as it stands.
        let own = samples.iter().rposition(|sample| sample.call.agent == 0)?;
        for token in tokens.get(own)? {
            template.push_token(token, &marks);
        }
    }
    template.finish()
}

/// Replaces arguments that occur in every text by marks; returns their paths.
fn mark_arguments<'a>(samples: &[Sample<'_>], texts: &mut Vec<String>, paths: &'a [String]) -> Vec<&'a str> {
    let mut found: Vec<(&str, Vec<String>)> = Vec::new();
    for path in paths {
        let pointer = path.replace('.', "/");
        let values: Option<Vec<String>> =
            samples.iter().map(|sample| as_text(sample.call.args.pointer(&pointer)?)).collect();
        if let Some(values) = values.filter(|values| is_telling(values)) {
            found.push((path, values));
        }
    }
    // A longer argument may hold a shorter one.
    found.sort_by_key(|(_, values)| std::cmp::Reverse(values.last().map_or(0, String::len)));
    let mut marks = Vec::new();
    for (path, values) in found {
        let next = FIRST_MARK + u32::try_from(marks.len()).unwrap_or(MOST_MARKS);
        let Some(mark) = char::from_u32(next).filter(|_| next < FIRST_MARK + MOST_MARKS) else { break };
        let marked: Option<Vec<String>> =
            texts.iter().zip(&values).map(|(text, value)| replace_word(text, value, mark)).collect();
        if let Some(marked) = marked {
            *texts = marked;
            marks.push(path);
        }
    }
    marks
}

/// True if values differ, or are too long to occur in a text by chance.
fn is_telling(values: &[String]) -> bool {
    values.iter().all(|value| !value.is_empty() && value.len() <= MAX_TEXT)
        && (values.windows(2).any(|pair| pair.first() != pair.last())
            || values.first().is_some_and(|value| value.len() >= TELLING))
}

fn as_text(value: &serde_json::Value) -> Option<String> {
    match value {
        serde_json::Value::String(text) => Some(text.clone()),
        serde_json::Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Replaces a word by a mark where it is no part of a longer word; none if it does not occur.
fn replace_word(text: &str, word: &str, mark: char) -> Option<String> {
    let joins =
        |a: Option<char>, b: Option<char>| a.zip(b).is_some_and(|(a, b)| a.is_alphanumeric() && b.is_alphanumeric());
    let (mut marked, mut from) = (String::new(), 0);
    for (at, found) in text.match_indices(word) {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + found.len()..).and_then(|text| text.chars().next());
        if !joins(before, word.chars().next()) && !joins(word.chars().next_back(), after) {
            marked.push_str(text.get(from..at)?);
            marked.push(mark);
            from = at + found.len();
        }
    }
    marked.push_str(text.get(from..)?);
    (from > 0).then_some(marked)
}

fn tokens(text: &str) -> Vec<&str> {
    TOKEN.as_ref().map_or_else(Vec::new, |token| token.find_iter(text).map(|found| found.as_str()).collect())
}

/// Template under construction.
#[derive(Debug, Default)]
struct TemplateBuilder {
    template: String,
    /// Literal text that is not written yet.
    words: String,
    has_expression: bool,
}

impl TemplateBuilder {
    /// Adds a token, given its counterparts in all texts; none if those may not be repeated.
    fn push(&mut self, column: &[&str], samples: &[Sample<'_>], marks: &[&str]) -> Option<()> {
        let first = column.first()?;
        let differ = column.iter().any(|token| token != first);
        if differ && let Some(minted) = distinct(column).then(|| minted_text(column, false, true)).flatten() {
            self.push_expression(&minted);
            return Some(());
        }
        let values: Vec<serde_json::Value> = column.iter().map(|token| (*token).into()).collect();
        let column: Vec<Sample<'_>> =
            samples.iter().zip(&values).map(|(sample, value)| Sample { call: sample.call, value }).collect();
        self.push_token(literal_of(&column)?.as_str()?, marks);
        Some(())
    }

    fn push_token(&mut self, token: &str, marks: &[&str]) {
        let mark = token.chars().next().and_then(|c| u32::from(c).checked_sub(FIRST_MARK));
        match mark.and_then(|mark| marks.get(usize::try_from(mark).ok()?)) {
            Some(path) => self.push_expression(&format!("{{{{ args{path} }}}}")),
            None => self.words.push_str(token),
        }
    }

    fn push_expression(&mut self, expression: &str) {
        self.write_words();
        self.template.push_str(expression);
        self.has_expression = true;
    }

    /// Writes the literal text, so that none of its braces joins those of an expression behind it.
    fn write_words(&mut self) {
        let words = literal(&std::mem::take(&mut self.words));
        match words.strip_suffix('{') {
            Some(before) if !before.ends_with('{') => {
                self.template.push_str(before);
                self.template.push_str("{{ '{' }}");
            }
            _ => self.template.push_str(&words),
        }
    }

    fn finish(mut self) -> Option<String> {
        self.write_words();
        self.has_expression.then_some(self.template)
    }
}

fn distinct(column: &[&str]) -> bool {
    let mut sorted = column.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.len() == column.len()
}
