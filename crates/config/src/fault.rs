//! Faults of configuration: place, message and help.
//!
//! The reader writes into a [`Faults`], which ends as a [`Report`] for people (`FILE:LINE:COLUMN: message`, then the
//! line with a caret) or for tools (JSON). A value that may be a secret is never repeated.

use std::{fmt, path::Path};

use serde::Serialize;
use utoipa::ToSchema;

use super::Loaded;

/// Longest part of a line that a snippet shows, in characters.
const SNIPPET_CHARS: usize = 120;
/// Longest value that a message repeats, in characters.
const QUOTED_CHARS: usize = 60;

/// Severity of a fault: it must be put right, or it is a warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = FaultLevel)]
pub enum Level {
    /// The configuration is refused.
    Fault,
    /// The configuration is accepted; the message is advice.
    Warning,
}

/// One fault or warning about a place in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = FileFault)]
pub struct Fault {
    /// A fault that must be put right, or a warning.
    pub level: Level,
    /// The file as it was given, or the environment variable.
    pub file: String,
    /// Line, from 1; 0 when the fault is the file's as a whole.
    pub line: usize,
    /// Column in characters, from 1; 0 when the fault is the file's as a whole.
    pub column: usize,
    /// The key's path, such as `shadow_agents[0].model`; empty at the top.
    pub key: String,
    /// The fault in words.
    pub message: String,
    /// Advice on how to put it right.
    pub help: String,
    /// The line, and a caret below the column; absent where it might show a secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snippet: Option<String>,
}

impl Fault {
    /// Returns `FILE:LINE:COLUMN`. A fault of a file as a whole is placed at 1:1.
    pub fn place(&self) -> String {
        format!("{}:{}:{}", clean(&self.file), self.line.max(1), self.column.max(1))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place())?;
        if self.level == Level::Warning {
            f.write_str("warning: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)?;
        let gutter = if self.line == 0 { String::new() } else { self.line.to_string() };
        for (index, line) in self.snippet.iter().flat_map(|snippet| snippet.lines()).enumerate() {
            let number = if index == 0 { gutter.as_str() } else { "" };
            write!(f, "\n{number:>5} | {line}")?;
        }
        if !self.help.is_empty() {
            write!(f, "\n      = {}", self.help)?;
        }
        Ok(())
    }
}

/// Every fault that was found, and the warnings beside them.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Faults that must be put right, in order of place; never empty.
    pub faults: Vec<Fault>,
    /// Warnings, in order of place.
    pub warnings: Vec<Fault>,
}

impl Report {
    /// Creates a report of one fault in a file that is not YAML and that a setting names.
    pub fn of_file(file: &Path, key: &str, message: impl Into<String>, help: impl Into<String>) -> Self {
        let fault = Fault {
            level: Level::Fault,
            file: file.display().to_string(),
            line: 0,
            column: 0,
            key: key.to_owned(),
            message: message.into(),
            help: help.into(),
            snippet: None,
        };
        Self { faults: vec![fault], warnings: Vec::new() }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.faults.iter().chain(&self.warnings).enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            fault.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

/// Position of a node: a source's number, a line and a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SourcePosition {
    /// Index into the sources of [`Faults`].
    pub source: usize,
    /// Line, from 1; 0 is the source as a whole.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// Part of the line that a fault may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ShownPart {
    /// The whole line.
    Line,
    /// So many characters from the column on: the value behind a mistaken key may be a secret.
    Upto(usize),
    /// No snippet.
    Nothing,
}

/// Collector of faults while sources are read.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Name and text of each source.
    sources: Vec<(String, String)>,
    /// The path of the key that is being read: `.name` and `[index]` parts.
    path: Vec<String>,
    found: Vec<(SourcePosition, Fault)>,
}

impl Faults {
    /// Adds a source and returns its number. An empty text is never shown in snippets.
    pub fn add_source(&mut self, name: &str, text: &str) -> usize {
        self.sources.push((name.to_owned(), text.to_owned()));
        self.sources.len() - 1
    }

    /// Adds an environment variable as a source, whose value is never shown, and returns the place of its value.
    pub fn add_variable(&mut self, name: &str) -> SourcePosition {
        SourcePosition { source: self.add_source(name, ""), line: 1, column: 1 }
    }

    /// Runs `read` with one more part in the path.
    pub fn within<T>(&mut self, part: String, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(part);
        let value = read(self);
        self.path.pop();
        value
    }

    /// Notes a fault.
    pub fn fault(&mut self, at: SourcePosition, message: impl Into<String>, help: impl Into<String>) {
        self.note(Level::Fault, at, ShownPart::Line, message.into(), help.into());
    }

    /// Notes a fault with a limited snippet.
    pub fn fault_showing(
        &mut self,
        at: SourcePosition,
        show: ShownPart,
        message: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.note(Level::Fault, at, show, message.into(), help.into());
    }

    /// Notes a warning.
    pub fn warn(&mut self, at: SourcePosition, message: impl Into<String>, help: impl Into<String>) {
        self.note(Level::Warning, at, ShownPart::Line, message.into(), help.into());
    }

    /// Ends the reading: returns the value, or the report of its faults. A `None` without a fault is reported too,
    /// though readers note a fault first.
    pub fn finish<T>(mut self, value: Option<T>) -> Result<Loaded<T>, Report> {
        self.found.sort_by_key(|(at, _)| (at.source, at.line, at.column));
        let (faults, warnings): (Vec<_>, Vec<_>) =
            self.found.into_iter().map(|(_, fault)| fault).partition(|fault| fault.level == Level::Fault);
        match value {
            Some(value) if faults.is_empty() => Ok(Loaded { value, warnings }),
            _ => Err(Report { faults, warnings }),
        }
    }

    fn note(&mut self, level: Level, at: SourcePosition, show: ShownPart, message: String, help: String) {
        let (file, text) = self.sources.get(at.source).map_or(("", ""), |(name, text)| (name.as_str(), text.as_str()));
        let key = clean(&self.path.concat());
        let fault = Fault {
            level,
            file: file.to_owned(),
            line: at.line,
            column: at.column,
            key: key.strip_prefix('.').unwrap_or(&key).to_owned(),
            message,
            help,
            snippet: snippet(text, at, show),
        };
        self.found.push((at, fault));
    }
}

/// Returns the line at `at` with a caret below its column, cut to a window around it.
fn snippet(text: &str, at: SourcePosition, show: ShownPart) -> Option<String> {
    let line = text.trim_start_matches('\u{feff}').lines().nth(at.line.checked_sub(1)?)?;
    let until = match show {
        ShownPart::Line => usize::MAX,
        ShownPart::Upto(chars) => at.column.saturating_sub(1).saturating_add(chars),
        ShownPart::Nothing => return None,
    };
    let start = at.column.saturating_sub(SNIPPET_CHARS * 2 / 3);
    let shown: String = line.chars().take(until).skip(start).take(SNIPPET_CHARS).collect();
    let caret = at.column.saturating_sub(start).saturating_sub(1);
    Some(format!("{}\n{:caret$}^", mask_passwords(&clean(&shown)), ""))
}

/// Replaces characters that could move a terminal's cursor or reorder its text, one for one.
pub(super) fn clean(text: &str) -> String {
    let shown = |c| match c {
        '\t' => ' ',
        c if is_printable(c) => c,
        _ => '\u{fffd}',
    };
    text.chars().map(shown).collect()
}

/// True if a character is visible as itself: no control, bidirectional or invisible character.
pub fn is_printable(c: char) -> bool {
    let invisible = matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e0fff}');
    !c.is_control() && !invisible
}

/// Returns a value for a message: cleaned, cut and in quotes.
pub(super) fn quoted(text: &str) -> String {
    let text = mask_passwords(&clean(text));
    match text.char_indices().nth(QUOTED_CHARS) {
        Some((end, _)) => format!("\"{}…\"", text.split_at(end).0),
        None => format!("\"{text}\""),
    }
}

/// Joins words for a message: `a, b or c`.
pub(super) fn listed(words: &[&str]) -> String {
    match words {
        [before @ .., last] if !before.is_empty() => format!("{} or {last}", before.join(", ")),
        _ => words.concat(),
    }
}

/// Replaces `user:password` by stars, one for one, in each text that looks like a URL.
fn mask_passwords(line: &str) -> String {
    let mut chars: Vec<char> = line.chars().collect();
    let mut from = 0;
    while let Some(found) = chars.get(from..).and_then(|rest| rest.windows(3).position(|w| w == [':', '/', '/'])) {
        let start = from + found + 3;
        let end = chars.iter().skip(start).position(|c| c.is_whitespace()).map_or(chars.len(), |n| start + n);
        let at = chars.get(start..end).and_then(|rest| rest.iter().rposition(|c| *c == '@'));
        for c in chars.iter_mut().skip(start).take(at.unwrap_or(0)) {
            *c = '*';
        }
        from = start;
    }
    chars.into_iter().collect()
}
