//! YAML: read within budgets, and written one value at a time, so that comments and order around it stay.

use serde_json::{Map, Value};
use serde_saphyr::Error;

/// Deepest nesting that is read.
const MOST_DEPTH: usize = 32;
/// Most values that are read, and that aliases may stand for.
const MOST_NODES: usize = 20_000;
const MOST_REPLAYED: usize = 4_096;
/// Most aliases.
const MOST_ALIASES: usize = 200;

/// Reason why YAML cannot be read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The parser refuses the text.
    #[error("the YAML is invalid at line {line} (counted from its start), column {column}")]
    Syntax {
        /// Line, counted from 1; 0 if unknown.
        line: u64,
        /// Column, counted from 1; 0 if unknown.
        column: u64,
    },
    /// The YAML is too large or too deep.
    #[error(
        "the YAML is too large: it may have {MOST_NODES} values, {MOST_DEPTH} levels, and {MOST_ALIASES} aliases for \
         {MOST_REPLAYED} values"
    )]
    Involved,
    /// The YAML is a list or a single value.
    #[error("the YAML is not a mapping of keys to values")]
    NoMapping,
    /// The key or value would not read back as it was written.
    #[error("the key or its value cannot be written as YAML")]
    NotKept,
}

/// Parses the keys and values of a text.
pub(super) fn read(text: &str) -> Result<Map<String, Value>, YamlError> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Map::new());
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: MOST_ALIASES,
            max_anchors: MOST_ALIASES,
            max_depth: MOST_DEPTH,
            flow_nesting_limit: MOST_DEPTH,
            max_nodes: MOST_NODES,
            max_events: 4 * MOST_NODES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MOST_REPLAYED,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Value>(text, options) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(YamlError::NoMapping),
        Err(error) => {
            let mut cause = &error;
            while let Error::AliasError { error, .. } | Error::WithSnippet { error, .. } = cause {
                cause = error;
            }
            if is_bound(cause) {
                return Err(YamlError::Involved);
            }
            let at = error.location();
            Err(YamlError::Syntax { line: at.map_or(0, |at| at.line()), column: at.map_or(0, |at| at.column()) })
        }
    }
}

/// True if an error is a budget that was exceeded.
fn is_bound(error: &Error) -> bool {
    use Error as E;
    matches!(
        error,
        E::Budget { .. }
            | E::AliasReplayLimitExceeded { .. }
            | E::AliasExpansionLimitExceeded { .. }
            | E::AliasReplayStackDepthExceeded { .. }
    )
}

/// Formats a text as a scalar: bare if it can only be read as that text, else in quotes.
pub(super) fn plain(text: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || " -_./,()+'".contains(c);
    let bare = text.starts_with(char::is_alphabetic) && text.chars().all(is_word) && !text.ends_with(' ');
    let small = text.to_ascii_lowercase();
    let other = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&small.as_str());
    if bare && !other { text.to_owned() } else { Value::from(text).to_string() }
}

/// Formats a value on one line. JSON is YAML.
pub(super) fn flow(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

/// Returns the comment at the end of an entry's first line, with the blanks before it.
pub(super) fn comment(own: &str) -> &str {
    let line = own.lines().next().unwrap_or_default();
    let (mut quote, mut before, mut blanks) = (None, b' ', 0);
    for (at, c) in line.bytes().enumerate() {
        match quote {
            Some(open) => quote = Some(open).filter(|open| *open != c),
            None if matches!(c, b'"' | b'\'') && b" \t[{,:".contains(&before) => quote = Some(c),
            None if c == b'#' && matches!(before, b' ' | b'\t') => return &line[blanks..],
            None => {}
        }
        if !matches!(c, b' ' | b'\t') {
            blanks = at + 1;
        }
        before = c;
    }
    ""
}
