//! Rows of the rules about commands: patterns of calls. In: one call. Out: detections of the rows that describe it.
//! [`CallPattern`] documents the grammar.

#[cfg(test)]
mod tests;

use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use globset::{Glob, GlobBuilder, GlobMatcher};

use super::{Detection, persistence::writes_operand};
use crate::{
    rules::{TextRule, intern},
    word_lists,
};
use umbra_analysis::shell::ProgramCall;
use umbra_domain::{CheckRule, Severity};

/// Rows of this check, and the words that make a script worth parsing.
#[derive(Debug)]
pub(crate) struct Rows {
    calls: Vec<CommandRow>,
    /// Expressions over whole scripts.
    texts: Vec<TextRule>,
    waking: Option<AhoCorasick>,
    /// Position that each waking word must have.
    stands: Vec<WordPosition>,
}

/// Position of a waking word in a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WordPosition {
    /// At the beginning of a word.
    Begins,
    /// As a word of its own.
    Alone,
    /// Anywhere.
    Within,
}

#[derive(Debug)]
struct CommandRow {
    id: &'static str,
    severity: Severity,
    description: String,
    patterns: Vec<CallPattern>,
}

/// Pattern of a call: words, separated by blanks, as in `kubectl|oc delete ns|namespace` or `git push -f|--force`.
///
/// The first word is the program: its name, or the name of the script that an interpreter runs. The other words are
/// - an operand: operands follow each other from the first on; `...` skips any number of them;
/// - an option, which begins with `-` and may stand anywhere; `-f` also within a cluster such as `-rf`; `--env=prod`
///   also where the value is the next argument;
/// - `%word`, an argument that may stand anywhere;
/// - `!word`, an option or argument that must be absent;
/// - `>path`, a file that the call writes.
///
/// `a|b` matches either word, `*` any characters.
#[derive(Debug)]
pub(crate) struct CallPattern {
    program: OneOf,
    /// Operands; `None` stands for any number of them.
    operands: Vec<Option<OneOf>>,
    parts: Vec<ArgumentPattern>,
}

#[derive(Debug)]
enum ArgumentPattern {
    Option { names: OneOf, value: Option<OneOf> },
    Argument(OneOf),
    Not(OneOf),
    Writes(OneOf),
}

/// One of several words.
#[derive(Debug)]
struct OneOf(Vec<PatternWord>);

/// Word or glob. A glob is compiled when it is first needed: most never are.
#[derive(Debug)]
struct PatternWord {
    glob: Glob,
    /// True if the word has no sign of a glob.
    is_plain: bool,
    matcher: OnceLock<GlobMatcher>,
}

impl PatternWord {
    fn parse(word: &str) -> Result<Self, globset::Error> {
        // Windows does not tell cases apart. Options of one letter do, everywhere.
        let glob = GlobBuilder::new(word).backslash_escape(false).case_insensitive(ignores_case(word)).build()?;
        let is_plain = word.is_ascii() && !word.contains(['*', '?', '[', ']', '{', '}']);
        Ok(Self { glob, is_plain, matcher: OnceLock::new() })
    }

    fn matches(&self, text: &str) -> bool {
        let word = self.glob.glob();
        match (self.is_plain, ignores_case(word)) {
            (true, true) => word.eq_ignore_ascii_case(text),
            (true, false) => word == text,
            (false, _) => self.matcher.get_or_init(|| self.glob.compile_matcher()).is_match(text),
        }
    }
}

fn ignores_case(word: &str) -> bool {
    word.len() > 2
}

impl OneOf {
    fn parse(text: &str) -> Result<Self, String> {
        let one = |word: &str| match word {
            "" => Err(format!("`{text}` names nothing on one side of a sign")),
            word => PatternWord::parse(word).map_err(|error| format!("`{word}`: {}", error.kind())),
        };
        text.split('|').map(one).collect::<Result<_, _>>().map(Self)
    }

    fn matches(&self, text: &str) -> bool {
        self.0.iter().any(|word| word.matches(text))
    }

    /// Returns the globs as written.
    fn written(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|word| word.glob.glob())
    }
}

impl CallPattern {
    /// Parses a pattern. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut words = text.split_whitespace();
        let program = words.next().ok_or("a pattern has no word")?;
        if program.starts_with(['-', '!', '>', '%']) || program == "..." {
            return Err(format!("`{program}` is no program; write `*` before it for any"));
        }
        let mut pattern = Self { program: OneOf::parse(program)?, operands: Vec::new(), parts: Vec::new() };
        for word in words {
            let rest = word.get(1..).unwrap_or_default();
            match (word.as_bytes().first(), word.split_once('=')) {
                (Some(b'-'), Some((names, value))) => {
                    let value = Some(OneOf::parse(value)?);
                    pattern.parts.push(ArgumentPattern::Option { names: OneOf::parse(names)?, value });
                }
                (Some(b'-'), None) => {
                    pattern.parts.push(ArgumentPattern::Option { names: OneOf::parse(word)?, value: None });
                }
                (Some(b'%'), _) => pattern.parts.push(ArgumentPattern::Argument(OneOf::parse(rest)?)),
                (Some(b'!'), _) => pattern.parts.push(ArgumentPattern::Not(OneOf::parse(rest)?)),
                (Some(b'>'), _) => pattern.parts.push(ArgumentPattern::Writes(OneOf::parse(rest)?)),
                _ if word == "..." => pattern.operands.push(None),
                _ => pattern.operands.push(Some(OneOf::parse(word)?)),
            }
        }
        Ok(pattern)
    }

    /// Returns words of which every script that the pattern describes contains one: its programs, or, where the program
    /// may be any, the words of another part.
    fn wakes(&self) -> Vec<(String, WordPosition)> {
        let parts = self.parts.iter().filter_map(|part| match part {
            ArgumentPattern::Option { names: words, .. }
            | ArgumentPattern::Argument(words)
            | ArgumentPattern::Writes(words) => Some(words),
            ArgumentPattern::Not(_) => None,
        });
        let wake = |glob: &str| {
            let literal = glob.split(['*', '?', '[', ']', '{', '}']).max_by_key(|part| part.len()).unwrap_or_default();
            (literal.to_lowercase(), if literal == glob { WordPosition::Alone } else { WordPosition::Within })
        };
        let sure = |words: &OneOf| {
            let wakes: Vec<(String, WordPosition)> = words.written().map(wake).collect();
            wakes.iter().all(|(literal, _)| !literal.is_empty()).then_some(wakes)
        };
        let all = std::iter::once(&self.program).chain(self.operands.iter().flatten()).chain(parts);
        // An empty word is in every script.
        all.into_iter().find_map(sure).unwrap_or_else(|| vec![(String::new(), WordPosition::Within)])
    }

    pub(super) fn describes(&self, call: &CalledWords<'_>) -> bool {
        let named = call
            .names
            .iter()
            .any(|(program, operands)| self.program.matches(program) && in_order(&self.operands, operands));
        named
            && self.parts.iter().all(|part| match part {
                ArgumentPattern::Option { names, value: None } => has_option(call.call, names),
                ArgumentPattern::Option { names, value: Some(value) } => has_value(call.call, names, value),
                ArgumentPattern::Argument(word) => {
                    call.call.args.iter().any(|arg| matches_here(call.call, word, &arg.text))
                }
                ArgumentPattern::Not(word) => !has_option(call.call, word),
                ArgumentPattern::Writes(path) => {
                    let written = call.call.writes.iter().map(|word| word.text.as_str());
                    written.chain(writes_operand(call.call)).any(|written| matches_here(call.call, path, written))
                }
            })
    }
}

/// True if a word matches as it is, or as a path seen from the directory of an earlier `cd`.
fn matches_here(call: &ProgramCall, pattern: &OneOf, word: &str) -> bool {
    let is_relative = !word.starts_with(['/', '~', '$', '-', '\\']);
    let from_dir = || {
        let (dir, _) = call.dir.as_ref().filter(|_| is_relative)?;
        Some(format!("{}/{word}", dir.trim_end_matches('/')))
    };
    pattern.matches(word) || from_dir().is_some_and(|path| pattern.matches(&path))
}

/// A call as patterns see it: its program with operands, and the script that an interpreter runs with the script's own.
pub(super) struct CalledWords<'c> {
    call: &'c ProgramCall,
    names: Vec<(&'c str, Vec<&'c str>)>,
}

impl<'c> CalledWords<'c> {
    pub(super) fn of(call: &'c ProgramCall) -> Self {
        let operands = operands(call);
        let bare = call.program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        let runs = matches!(bare, "python" | "php" | "ruby" | "node" | "perl" | "sh" | "bash" | "java");
        let script = operands.first().filter(|_| runs).map(|script| {
            let name = script.rsplit('/').next().unwrap_or_default();
            (name, operands.get(1..).unwrap_or_default().to_vec())
        });
        Self { call, names: std::iter::once((call.program.as_str(), operands)).chain(script).collect() }
    }
}

/// Returns the operands of a call, without the values of options before a subcommand: `git -C dir push`.
fn operands(call: &ProgramCall) -> Vec<&str> {
    let mut args = call.args.iter().map(|arg| arg.text.as_str()).peekable();
    let mut words = Vec::new();
    let mut all = false;
    while let Some(arg) = args.next() {
        match arg {
            "--" if !all => all = true,
            // The options of a subcommand are not all known: their values stay operands.
            _ if !all && words.is_empty() && word_lists::lists("with_value", arg) => drop(args.next()),
            _ if !all && arg.len() > 1 && arg.starts_with('-') => {}
            _ => words.push(arg),
        }
    }
    words
}

/// True if operands follow each other as in the pattern.
fn in_order(pattern: &[Option<OneOf>], operands: &[&str]) -> bool {
    match (pattern.split_first(), operands.split_first()) {
        (None, _) => true,
        (Some((None, rest)), _) => {
            (0..=operands.len()).any(|from| in_order(rest, operands.get(from..).unwrap_or_default()))
        }
        (Some((Some(word), rest)), Some((operand, others))) => word.matches(operand) && in_order(rest, others),
        (Some(_), None) => false,
    }
}

/// True if one of the options or words is given.
fn has_option(call: &ProgramCall, names: &OneOf) -> bool {
    let whole = |arg: &str| names.matches(arg) || arg.split_once('=').is_some_and(|(name, _)| names.matches(name));
    let mut letters = names.written().filter_map(|name| match name.as_bytes() {
        [b'-', letter] if letter.is_ascii_alphanumeric() => Some(char::from(*letter)),
        _ => None,
    });
    call.args.iter().any(|arg| whole(&arg.text)) || letters.any(|letter| call.has(letter, ""))
}

/// True if an option has one of these values, behind `=` or as the next argument.
fn has_value(call: &ProgramCall, names: &OneOf, value: &OneOf) -> bool {
    let joined =
        |arg: &str| arg.split_once('=').is_some_and(|(name, given)| names.matches(name) && value.matches(given));
    call.args.iter().any(|arg| joined(&arg.text))
        || call.args.windows(2).any(|pair| match pair {
            [name, given] => names.matches(&name.text) && value.matches(&given.text),
            _ => false,
        })
}

impl Rows {
    pub(crate) fn new<'r>(rows: impl Iterator<Item = &'r &'r CheckRule>) -> Self {
        let all: Vec<&CheckRule> = rows.copied().collect();
        let with_patterns = all.iter().filter(|row| !row.commands.is_empty());
        let calls: Vec<CommandRow> = with_patterns
            .map(|row| CommandRow {
                id: intern(&row.id),
                severity: row.severity.unwrap_or(Severity::Warning),
                description: row.description.clone().unwrap_or_else(|| format!("`{{command}}`: {}.", row.id)),
                patterns: row.commands.iter().filter_map(|text| CallPattern::parse(text).ok()).collect(),
            })
            .collect();
        let known = word_lists::words("waking").map(|word| (word.to_owned(), WordPosition::Begins));
        let whole = word_lists::words("waking_whole").map(|word| (word.to_owned(), WordPosition::Alone));
        let of_rows = calls.iter().flat_map(|row| &row.patterns).flat_map(CallPattern::wakes);
        let texts = all.iter().filter(|row| row.regex.is_some()).flat_map(|row| match &*row.keywords {
            // An empty word is in every script.
            [] => vec![String::new()],
            keywords => keywords.to_vec(),
        });
        let texts = texts.map(|word| (word, WordPosition::Within));
        let (words, stands): (Vec<String>, Vec<WordPosition>) = known.chain(whole).chain(of_rows).chain(texts).unzip();
        let waking = AhoCorasick::builder().ascii_case_insensitive(true).build(words).ok();
        Self { calls, texts: all.into_iter().filter_map(TextRule::new).collect(), waking, stands }
    }

    /// True if a script contains a word that some rule knows.
    pub(super) fn wakes(&self, script: &str) -> bool {
        let letter =
            |at: Option<usize>| at.and_then(|at| script.as_bytes().get(at)).is_some_and(u8::is_ascii_alphabetic);
        self.waking.as_ref().is_some_and(|words| {
            words.find_overlapping_iter(script).any(|hit| {
                let within = letter(Some(hit.start())) && letter(hit.start().checked_sub(1));
                match self.stands.get(hit.pattern().as_usize()) {
                    Some(WordPosition::Within) => true,
                    Some(WordPosition::Alone) => !within && !letter(Some(hit.end())),
                    _ => !within,
                }
            })
        })
    }

    /// Adds the detections of the rows in a call.
    pub(super) fn detect_by_rows(&self, call: &ProgramCall, sights: &mut Vec<Detection>) {
        let words = CalledWords::of(call);
        for row in &self.calls {
            if row.patterns.iter().any(|pattern| pattern.describes(&words)) {
                let what = row.description.replace("{command}", &call.shown());
                sights.push(Detection::new(row.id, row.severity, what));
            }
        }
    }

    /// Adds the detections of the rows' expressions in a script.
    pub(super) fn look_at_text(&self, script: &str, sights: &mut Vec<Detection>) {
        for rule in &self.texts {
            if rule.find(script).next().is_some() {
                sights.push(Detection::new(rule.id, rule.severity, rule.description.clone()));
            }
        }
    }
}
