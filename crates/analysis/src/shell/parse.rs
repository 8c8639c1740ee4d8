//! Parser of shell text into pipelines of commands. In: a script. Out: its commands in order, with quotes, backslashes
//! and the script's own variables resolved, and the places kept. Nothing is run; text that is not shell is parsed as
//! far as possible. `reader` walks the syntax tree, `words` evaluates words.

use std::{
    cell::{Cell, RefCell},
    ops::{ControlFlow, Range},
};

use tree_sitter::{ParseOptions, Parser, Tree};

use super::{
    budget::{STEP, ScriptBudget},
    reader::Reader,
};

/// Longest script that is parsed, in bytes; the rest is left unread.
pub const LONGEST_SCRIPT: usize = 64 * 1024;

/// Deepest nesting that is followed.
pub(super) const DEEPEST: usize = 60;

/// Length of a script's beginning below which no shorter one is tried, in bytes.
const SHORTEST: usize = 16;

/// Bytes that the parser receives at a time.
const PORTION: usize = 256;

/// Cost of reading a portion. An ordinary script is read twice; the grammar's scanner reads a script like `)))…` to its
/// end again from every bracket.
const PORTION_COST: usize = 32;

/// Most pipe signs of a script; the parser's recovery from an unfinished pipeline grows with the square of its stages.
const MOST_BARS: usize = 1_000;

/// One word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// Text without quotes. Variables that the script does not set stand as `$NAME`; substitutions whose output is not
    /// known are left out.
    pub text: String,
    /// Text as written.
    pub raw: String,
    /// Programs that substitutions within the word run.
    pub runs: Vec<String>,
}

impl Word {
    /// Creates a word that was written without quotes.
    pub fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), raw: text.to_owned(), runs: Vec::new() }
    }
}

/// One command of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellCommand {
    /// Program and arguments.
    pub words: Vec<Word>,
    /// Files that receive the output, with `>` or `>>`.
    pub writes: Vec<Word>,
    /// Files that are redirected to the input, with `<`.
    pub reads: Vec<Word>,
    /// Text of the input, from a here-document or a here-string.
    pub given: Option<String>,
    /// Byte range in the script.
    pub span: Range<usize>,
}

/// Commands joined by `|`.
pub type Pipeline = Vec<ShellCommand>;

/// Content of a script, as far as it was read.
#[derive(Debug, Default)]
pub struct Parsed {
    /// Pipelines in order, those within substitutions, subshells and functions included.
    pub pipelines: Vec<Pipeline>,
    /// Functions that the script defines: name and body.
    pub functions: Vec<(String, String)>,
    /// Byte ranges of comments.
    pub comments: Vec<Range<usize>>,
    /// True if the script is nested more deeply than the parser follows.
    pub deep: bool,
    /// Byte from which on the script is unread: its length if all of it was read, 0 if nothing was.
    pub unread_from: usize,
}

/// Parses a script as far as the budget goes. Of a script that is too expensive, a beginning is read; the caller
/// decides whether the rest matters, and notes it with [`ScriptBudget::cut`].
pub fn parse(script: &str, budget: &ScriptBudget) -> Parsed {
    let bars = script.match_indices('|').nth(MOST_BARS).map_or(script.len(), |(at, _)| at);
    let mut read = script.get(..script.floor_char_boundary(bars.min(LONGEST_SCRIPT))).unwrap_or_default();
    let tree = loop {
        match tree(read, budget) {
            Some(tree) => break Some(tree),
            None if read.len() < SHORTEST => break None,
            // Of a script that is too expensive, the beginning is read.
            None => read = read.get(..read.floor_char_boundary(read.len() / 4)).unwrap_or_default(),
        }
    };
    tree.map_or_else(Parsed::default, |tree| Parsed { unread_from: read.len(), ..Reader::read(read, tree.root_node()) })
}

thread_local! {
    /// A parser is expensive to create, and cheap to keep.
    static PARSER: RefCell<Option<Parser>> = RefCell::new(parser());
}

fn parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}

/// Returns the length in bytes of the prompt that a line begins with: `$ `, `% `, `user@host:~$ `, `root@host:/# `,
/// `[user@host dir]$ `, without the blank; 0 if there is none.
pub fn prompt_len(line: &[u8]) -> usize {
    let end = match line {
        [b'[', ..] => line.iter().position(|byte| *byte == b']').map(|at| at + 1),
        _ => line.iter().position(|byte| *byte == b' ').and_then(|at| at.checked_sub(1)),
    };
    let Some(end) = end.filter(|end| line.get(end + 1) == Some(&b' ')) else { return 0 };
    let host = line.get(..end).is_some_and(|before| before.contains(&b'@'));
    match line.get(end) {
        Some(b'$' | b'%') if end == 0 || host => end + 1,
        Some(b'#') if host => end + 1,
        _ => 0,
    }
}

/// Parses the syntax tree. Returns `None` if that takes more than half of the budget: the other half is for its
/// beginning.
fn tree(script: &str, budget: &ScriptBudget) -> Option<Tree> {
    let (most, spent) = (budget.left() / 2, Cell::new(script.len()));
    // Where the text breaks the grammar, each step searches for continuations and costs as much as four.
    let mut watch = |state: &tree_sitter::ParseState| {
        spent.set(spent.get() + if state.has_error() { 4 * STEP } else { STEP });
        if spent.get() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // The grammar's scanner passes characters to C's `isalpha`, which reads outside of its table for those beyond
    // Latin-1 and crashes the process (tree-sitter-bash 0.25). One letter for each byte keeps every place.
    let mut bytes: Vec<u8> = script.bytes().map(|byte| if byte.is_ascii() { byte } else { b'x' }).collect();
    // A prompt that was copied with its command is not part of it.
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        let prompt = prompt_len(line);
        line.iter_mut().take(prompt).for_each(|byte| *byte = b' ');
    }
    part_braces(&mut bytes);
    // The grammar takes a line that begins with `\rm`, which goes around an alias, for more words of the line before.
    for at in memchr::memmem::find_iter(script.as_bytes(), b"\n\\") {
        if bytes.get(at + 2).is_some_and(u8::is_ascii_alphanumeric) {
            bytes.get_mut(at + 1..at + 2).unwrap_or_default().fill(b' ');
        }
    }
    // A path of Windows that ends in a backslash does not escape the quote after it.
    if script.contains(":\\") {
        for at in 1..bytes.len() {
            let ends = bytes.get(at + 1).is_none_or(|next| next.is_ascii_whitespace() || *next == b'&');
            if bytes.get(at - 1..=at) == Some(b"\\\"") && ends {
                bytes.get_mut(at - 1..at).unwrap_or_default().fill(b'x');
            }
        }
    }
    let tree = PARSER.with_borrow_mut(|parser| {
        let parser = parser.as_mut()?;
        // Otherwise the parser would continue with the previous script, if that one was aborted.
        parser.reset();
        parser.parse_with_options(
            &mut |at, _| {
                spent.set(spent.get() + PORTION_COST);
                let rest = if spent.get() > most { None } else { bytes.get(at..) };
                rest.map_or(&[][..], |rest| rest.get(..PORTION).unwrap_or(rest))
            },
            None,
            Some(ParseOptions::new().progress_callback(&mut watch)),
        )
    });
    budget.spend(spent.get());
    // A tree that was cut off by the limit is not the tree of the script.
    tree.filter(|_| spent.get() <= most)
}

/// Blanks the signs of words like `{rm,-rf,/}`, which a shell reads as `rm -rf /` and the grammar as a group.
fn part_braces(bytes: &mut [u8]) {
    let ends_word = |byte: Option<&u8>| byte.is_none_or(|byte| byte.is_ascii_whitespace() || b";|&()".contains(byte));
    let mut at = 0;
    while let Some(open) = bytes.get(at..).and_then(|rest| memchr::memchr(b'{', rest)).map(|found| at + found) {
        at = open + 1;
        let inside = bytes.get(at..).unwrap_or_default();
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b",-_./~*+".contains(byte);
        let length = inside.iter().take_while(|byte| plain(byte)).count();
        let list = inside.get(..length).unwrap_or_default().contains(&b',') && inside.get(length) == Some(&b'}');
        if list && ends_word(inside.get(length + 1)) && (open == 0 || ends_word(bytes.get(open - 1))) {
            let word = bytes.get_mut(open..=at + length).unwrap_or_default();
            word.iter_mut().filter(|byte| b"{,}".contains(byte)).for_each(|byte| *byte = b' ');
        }
        at += length;
    }
}
