//! Shell text as pipelines of commands. In: a script. Out: what it would run, in order, with quotes and backslashes
//! resolved and the places kept. It expands nothing and runs nothing; text that is no shell gives what can be made of it.

use std::{
    cell::{Cell, RefCell},
    ops::{ControlFlow, Range},
};

use tree_sitter::{Node, ParseOptions, Parser, Tree};

/// Longest script that is parsed, in bytes; what follows is left out.
pub(super) const LONGEST_SCRIPT: usize = 64 * 1024;

/// Deepest nesting that is followed.
const DEEPEST: usize = 60;

/// Most steps of the parser, in its own units of a hundred operations: its error recovery must not cost a worker.
const MOST_STEPS: usize = 40_000;

/// Bytes that the parser is given at a time.
const PORTION: usize = 256;

/// Most bytes that the parser is given for one script. An ordinary one is read twice; the grammar's scanner reads one
/// like `)))…` to its end again from every bracket.
const MOST_READ: usize = 2 * 1024 * 1024;

/// Most bars of a script; the parser's recovery from an unfinished pipeline grows with the square of its stages.
const MOST_BARS: usize = 1_000;

/// One word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// Its text without quotes; variables stand as `$NAME`, substitutions are left out.
    pub(super) text: String,
    /// As written.
    pub(super) raw: String,
    /// The programs that substitutions within it run.
    pub(super) runs: Vec<String>,
}

impl Word {
    /// A word that was written without quotes.
    pub(super) fn plain(text: &str) -> Self {
        Self { text: text.to_owned(), raw: text.to_owned(), runs: Vec::new() }
    }
}

/// One command of a pipeline.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Command {
    /// The program and its arguments.
    pub(super) words: Vec<Word>,
    /// Files that its output is sent to, with `>` or `>>`.
    pub(super) writes: Vec<Word>,
    /// What a here-document or here-string gives it.
    pub(super) given: Option<String>,
    /// Where it stands.
    pub(super) span: Range<usize>,
}

/// Commands joined by `|`.
pub(super) type Pipeline = Vec<Command>;

/// The pipelines of a script, those within substitutions, subshells and functions included.
pub(super) fn parse(script: &str) -> Vec<Pipeline> {
    let bars = script.match_indices('|').nth(MOST_BARS).map_or(script.len(), |(at, _)| at);
    let mut script = script.get(..script.floor_char_boundary(bars.min(LONGEST_SCRIPT))).unwrap_or_default();
    let tree = loop {
        match tree(script) {
            Some(tree) => break tree,
            None if script.len() < PORTION => return Vec::new(),
            // Of a script that takes too much, the beginning is read.
            None => script = script.get(..script.floor_char_boundary(script.len() / 2)).unwrap_or_default(),
        }
    };
    let mut reader = Reader { script, pipelines: Vec::new() };
    reader.statements(tree.root_node(), 0);
    reader.pipelines
}

thread_local! {
    /// A parser is dear to make, and costs little to keep.
    static PARSER: RefCell<Option<Parser>> = RefCell::new(parser());
}

fn parser() -> Option<Parser> {
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_bash::LANGUAGE.into()).ok()?;
    Some(parser)
}

/// Bytes of the prompt that a line begins with: `$ `, `% `, `user@host:~$ `, `root@host:/# `, `[user@host dir]$ `.
pub(super) fn prompt_len(line: &[u8]) -> usize {
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

/// The syntax tree; `None` where it takes too much.
fn tree(script: &str) -> Option<Tree> {
    let (mut steps, read) = (0, Cell::new(0));
    let mut watch = |_: &tree_sitter::ParseState| {
        steps += 1;
        if steps > MOST_STEPS || read.get() > MOST_READ { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    // The grammar's scanner hands characters to C's `isalpha`, which reads outside of its table for those beyond Latin-1
    // and takes the process down (tree-sitter-bash 0.25). A letter for each byte keeps every place.
    let mut bytes: Vec<u8> = script.bytes().map(|byte| if byte.is_ascii() { byte } else { b'x' }).collect();
    // A prompt that was copied with its command is no part of it.
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        let prompt = prompt_len(line);
        line.iter_mut().take(prompt).for_each(|byte| *byte = b' ');
    }
    PARSER.with_borrow_mut(|parser| {
        let parser = parser.as_mut()?;
        // Else it would go on with the last script, where that one was given up.
        parser.reset();
        parser.parse_with_options(
            &mut |at, _| {
                read.set(read.get() + PORTION);
                let rest = if read.get() > MOST_READ { None } else { bytes.get(at..) };
                rest.map_or(&[][..], |rest| rest.get(..PORTION).unwrap_or(rest))
            },
            None,
            Some(ParseOptions::new().progress_callback(&mut watch)),
        )
    })
}

struct Reader<'s> {
    script: &'s str,
    pipelines: Vec<Pipeline>,
}

impl Reader<'_> {
    fn source(&self, node: Node<'_>) -> &str {
        self.script.get(node.byte_range()).unwrap_or_default()
    }

    /// Collects the pipelines under a node that is not itself part of one.
    fn statements(&mut self, node: Node<'_>, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        match node.kind() {
            "pipeline" | "command" | "redirected_statement" => {
                let pipeline = self.stages(node, depth + 1);
                if !pipeline.is_empty() {
                    self.pipelines.push(pipeline);
                }
            }
            "declaration_command" | "variable_assignment" | "unset_command" => {
                let words = self.source(node).split_whitespace().map(Word::plain).collect();
                self.pipelines.push(vec![Command { words, span: node.byte_range(), ..Command::default() }]);
                self.inside(node, depth);
            }
            _ => self.inside(node, depth),
        }
    }

    fn inside(&mut self, node: Node<'_>, depth: usize) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.statements(child, depth + 1);
        }
    }

    /// The commands that a node contributes to the pipeline it stands in.
    fn stages(&mut self, node: Node<'_>, depth: usize) -> Pipeline {
        if depth > DEEPEST {
            return Vec::new();
        }
        match node.kind() {
            "command" => vec![self.command(node, depth)],
            "pipeline" => {
                let mut cursor = node.walk();
                node.named_children(&mut cursor).flat_map(|child| self.stages(child, depth + 1)).collect()
            }
            "redirected_statement" => {
                let mut stages = Vec::new();
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    if child.kind().ends_with("_redirect") {
                        if stages.is_empty() {
                            stages.push(Command { span: node.byte_range(), ..Command::default() });
                        }
                        let after = self.redirect(child, stages.last_mut(), depth + 1);
                        stages.extend(after);
                    } else {
                        stages.extend(self.stages(child, depth + 1));
                    }
                }
                stages
            }
            // A group: its pipelines stand for themselves, and their first commands read what is piped in.
            _ => {
                let first = self.pipelines.len();
                self.inside(node, depth);
                self.pipelines.get(first..).unwrap_or_default().iter().filter_map(|p| p.first().cloned()).collect()
            }
        }
    }

    fn command(&mut self, node: Node<'_>, depth: usize) -> Command {
        let mut command = Command { span: node.byte_range(), ..Command::default() };
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "variable_assignment" => self.inside(child, depth + 1),
                kind if kind.ends_with("_redirect") => {
                    let _ = self.redirect(child, Some(&mut command), depth + 1);
                }
                _ => {
                    let word = self.word(child, depth + 1);
                    command.words.push(word);
                }
            }
        }
        command
    }

    /// Notes a redirection in the command; a here-document's line may go on with a pipeline, which is returned.
    fn redirect(&mut self, node: Node<'_>, command: Option<&mut Command>, depth: usize) -> Pipeline {
        let mut after = Vec::new();
        let Some(command) = command else { return after };
        let text = self.source(node).to_owned();
        let mut cursor = node.walk();
        match node.kind() {
            "file_redirect" => {
                let target = node.child_by_field_name("destination").map(|to| self.word(to, depth + 1));
                let operator = text.trim_start_matches(|c: char| c.is_ascii_digit());
                if operator.starts_with('>') || operator.starts_with("&>") {
                    command.writes.extend(target);
                }
            }
            "herestring_redirect" => {
                let words: Vec<Word> =
                    node.named_children(&mut cursor).map(|child| self.word(child, depth + 1)).collect();
                command.given = words.into_iter().map(|word| word.text).next_back();
            }
            _ => {
                for child in node.named_children(&mut cursor) {
                    match child.kind() {
                        "heredoc_body" => {
                            command.given = Some(self.source(child).to_owned());
                            self.inside(child, depth + 1);
                        }
                        "heredoc_start" | "heredoc_end" | "file_descriptor" => {}
                        kind if kind.ends_with("_redirect") => {
                            after.extend(self.redirect(child, Some(&mut *command), depth + 1));
                        }
                        "pipeline" | "command" | "redirected_statement" | "subshell" => {
                            after.extend(self.stages(child, depth + 1));
                        }
                        "word" | "string" | "raw_string" | "concatenation" => {
                            let word = self.word(child, depth + 1);
                            command.words.push(word);
                        }
                        _ => self.statements(child, depth + 1),
                    }
                }
            }
        }
        after
    }

    fn word(&mut self, node: Node<'_>, depth: usize) -> Word {
        let mut word = Word { raw: self.source(node).to_owned(), ..Word::default() };
        self.evaluate(node, &mut word, depth);
        word
    }

    fn evaluate(&mut self, node: Node<'_>, word: &mut Word, depth: usize) {
        if depth > DEEPEST {
            return;
        }
        match node.kind() {
            "raw_string" => word.text.push_str(self.source(node).trim_matches('\'')),
            "ansi_c_string" => {
                let inner = self.source(node).trim_start_matches('$').trim_matches('\'').to_owned();
                word.text.push_str(&ansi_unescape(&inner));
            }
            "command_substitution" | "process_substitution" => {
                let first = self.pipelines.len();
                self.inside(node, depth + 1);
                let programs = self.pipelines.get(first..).unwrap_or_default().iter().flatten();
                word.runs
                    .extend(programs.filter_map(|command| command.words.first()).map(|program| program.text.clone()));
            }
            "expansion" | "simple_expansion" => {
                let name: String = self.source(node).chars().filter(|c| !matches!(c, '{' | '}')).collect();
                word.text.push_str(&name);
                self.inside(node, depth + 1);
            }
            "string" | "translated_string" | "concatenation" | "command_name" => {
                // What stands between the children is text too.
                let quoted = node.kind().ends_with("string");
                let mut cursor = node.walk();
                let mut at = node.start_byte();
                for child in node.children(&mut cursor) {
                    self.literal(at..child.start_byte(), word, quoted);
                    if child.is_named() {
                        self.evaluate(child, word, depth + 1);
                    } else if !matches!(child.kind(), "\"" | "$") {
                        self.literal(child.byte_range(), word, quoted);
                    }
                    at = child.end_byte();
                }
                self.literal(at..node.end_byte(), word, quoted);
            }
            "string_content" => self.literal(node.byte_range(), word, true),
            _ => self.literal(node.byte_range(), word, false),
        }
    }

    /// Appends source text with its backslashes resolved.
    fn literal(&self, range: Range<usize>, word: &mut Word, quoted: bool) {
        let mut rest = self.script.get(range).unwrap_or_default();
        while let Some(at) = rest.find('\\') {
            let (before, escape) = rest.split_at(at);
            word.text.push_str(before);
            let next = escape.chars().nth(1);
            let escapes = next.filter(|next| !quoted || matches!(next, '"' | '\\' | '$' | '`' | '\n'));
            match escapes {
                Some('\n') => {}
                Some(next) => word.text.push(next),
                None => word.text.push('\\'),
            }
            rest = escape.get(1 + escapes.map_or(0, char::len_utf8)..).unwrap_or_default();
        }
        word.text.push_str(rest);
    }
}

/// Resolves `\n`, `\t`, `\xHH` and single escaped characters of `$'…'`.
fn ansi_unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('x') => {
                let digits: String = chars.clone().take(2).take_while(char::is_ascii_hexdigit).collect();
                for _ in 0..digits.len() {
                    chars.next();
                }
                out.extend(u8::from_str_radix(&digits, 16).ok().map(char::from));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    out
}
