//! Commands in a text: fenced blocks, scripts that begin with their interpreter, and, in a text declared to be code,
//! the parts outside of blocks. In: a text. Out: its parts and where they begin. A block that names another language is
//! no shell. A block without a name is shell where it looks like shell: leaving the name out would hide a command, and
//! prose stands in such blocks as well.

use std::{ops::Range, sync::LazyLock};

use memchr::{
    memchr, memchr2, memchr3,
    memmem::{self, Finder},
};

use super::tools::{docker_steps, package_scripts, recipes, workflow_steps};
use umbra_analysis::{
    code::{Content, Language, content, shows_shell},
    shell::{self, has_interpreter, is_command, looks_like_shell, names_program},
};
use umbra_domain::OutputForm;

/// Longest prompt of a shell, in bytes.
const LONGEST_PROMPT: usize = 120;

/// Parts of a text that may be commands, each with the byte where it begins.
#[derive(Debug, Default)]
pub(super) struct CommandParts<'t> {
    /// Shell scripts and commands.
    pub(super) shell: Vec<(usize, &'t str)>,
    /// Commands of build descriptions: image recipes, makefiles, workflows.
    pub(super) built: Vec<(usize, &'t str)>,
    /// Code in other languages, which may start commands.
    pub(super) code: Vec<(usize, &'t str, Option<Language>)>,
}

/// Splits a text into the parts that may be commands.
pub(super) fn parts(text: &str, form: OutputForm) -> CommandParts<'_> {
    let mut parts = CommandParts::default();
    let start = text.len() - text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).len();
    let script = text.get(start..).filter(|script| form == OutputForm::Shell || has_interpreter(script));
    let declared = script.is_none() && form == OutputForm::Code;
    // In code, a fence within a line is part of the code.
    let is_block = |block: &FencedBlock<'_>| !declared || block.begins_line;
    let mut gaps = Vec::new();
    let mut end = 0;
    for block in fenced(text).filter(is_block) {
        let language = block.language().or_else(|| block.is_nameless_shell().then_some(Language::Shell));
        if script.is_none() && language == Some(Language::Shell) {
            parts.shell.push((block.start, block.text));
        }
        parts.built.extend(block.built());
        if let Some(language) = language.filter(|language| *language != Language::Shell) {
            parts.code.push((block.start, block.text, Some(language)));
        }
        gaps.push(end..block.start);
        end = block.start + if declared && language.is_none() { 0 } else { block.text.len() };
    }
    if let Some(script) = script {
        parts.shell.push((start, script));
        return parts;
    }
    if declared {
        gaps.push(end..text.len());
        parts.add_gaps(text, gaps);
    }
    parts.shell.extend(prompted(text, &parts.shell));
    parts
}

impl<'t> CommandParts<'t> {
    /// Adds the parts outside of the blocks of a text that is declared to be code.
    fn add_gaps(&mut self, text: &'t str, gaps: Vec<Range<usize>>) {
        let content = content(text);
        if gaps.len() == 1 && content == Content::Code(Some(Language::Shell)) {
            self.shell.push((0, text));
            return;
        }
        for gap in gaps {
            let part = text.get(gap.clone()).unwrap_or_default();
            match content {
                Content::Code(language) if language != Some(Language::Shell) => {
                    self.code.push((gap.start, part, language));
                    self.built.extend(steps(part).into_iter().map(|(at, command)| (gap.start + at, command)));
                }
                _ => self.add_paragraphs(gap.start, part),
            }
            self.add_shell(gap.start, part);
        }
    }

    /// Adds the paragraphs that are code in another language than shell.
    fn add_paragraphs(&mut self, start: usize, text: &'t str) {
        for (at, paragraph) in paragraphs(text).filter(|(_, paragraph)| super::may_matter(paragraph)) {
            match content(paragraph) {
                Content::Code(Some(Language::Shell)) | Content::Prose => {}
                Content::Code(language) => self.code.push((start + at, paragraph, language)),
            }
        }
    }

    /// Adds the paragraphs that look like shell, and of other paragraphs the lines that name a program.
    fn add_shell(&mut self, start: usize, text: &'t str) {
        for (at, paragraph) in paragraphs(text).filter(|(_, paragraph)| super::may_matter(paragraph)) {
            if shows_shell(paragraph) {
                self.shell.push((start + at, paragraph));
                continue;
            }
            let mut place = start + at;
            for line in paragraph.split_inclusive('\n') {
                let bare = line.trim();
                if names_program(bare) {
                    self.shell.push((place + line.len() - line.trim_start().len(), bare));
                }
                place += line.len();
            }
        }
    }
}

/// Returns the commands of a text whose first lines show an image recipe, a workflow or a package manifest.
fn steps(text: &str) -> Vec<(usize, &str)> {
    let has = |begins: &str| text.lines().take(40).any(|line| line.trim_start().starts_with(begins));
    match () {
        () if has("FROM ") && has("RUN ") => docker_steps(text),
        () if has("jobs:") || has("steps:") || has("script:") => workflow_steps(text),
        () if text.trim_start().starts_with('{') && text.contains("\"scripts\"") => package_scripts(text),
        () => Vec::new(),
    }
}

/// Splits a text into paragraphs, each with the byte where it begins.
fn paragraphs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split("\n\n").filter_map(move |paragraph| {
        let start = at;
        at += paragraph.len() + 2;
        (!paragraph.trim().is_empty()).then_some((start, paragraph))
    })
}

/// Returns commands outside of blocks: lines behind a shell's prompt (`$ rm -rf /srv`, `root@host:/# reboot`), indented
/// lines, and inline code that the text says to run.
fn prompted<'t>(text: &'t str, blocks: &[(usize, &str)]) -> Vec<(usize, &'t str)> {
    const MOST: usize = 64;
    static SIGNS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [Finder::new("$ "), Finder::new("# ")]);
    static SET_IN: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [Finder::new("\n\n    "), Finder::new("\n\n\t")]);
    let bytes = text.as_bytes();
    // Most prose has no sign of a prompt or of code, and no blank line.
    if memchr3(b'$', b'#', b'`', bytes).is_none() && memmem::find(bytes, b"\n\n").is_none() {
        return Vec::new();
    }
    let prompt = |at: usize| {
        let near = at.saturating_sub(LONGEST_PROMPT);
        let end = bytes.get(near..at)?.iter().rposition(|byte| *byte == b'\n').map(|end| near + end + 1);
        let start = end.or_else(|| (near == 0).then_some(0))?;
        let line = text.get(start..)?;
        let blank = line.len() - line.trim_start_matches([' ', '\t']).len();
        let length = shell::prompt_len(line.as_bytes().get(blank..line.len().min(LONGEST_PROMPT))?);
        (length > 0 && start + blank + length == at + 1).then_some(at + 2)
    };
    // A heading's sign is no prompt.
    let may = |at: &usize| at.checked_sub(1).and_then(|at| bytes.get(at)).is_none_or(|byte| *byte != b'#');
    let behind = SIGNS.iter().flat_map(|sign| sign.find_iter(bytes).filter(may).filter_map(prompt).take(MOST));
    let set_in = SET_IN.iter().flat_map(|sign| sign.find_iter(bytes).map(|at| at + sign.needle().len()).take(MOST));
    let line = |at: usize| Some((at, text.get(at..)?.lines().next()?));
    let mut found: Vec<_> = behind.chain(set_in).filter_map(line).filter(|(_, line)| is_command(line)).collect();
    found.extend(inline_commands(text));
    found.sort_unstable_by_key(|(at, _)| *at);
    found.dedup();
    found.retain(|(at, _)| !blocks.iter().any(|(start, block)| (*start..start + block.len()).contains(at)));
    found
}

/// Returns inline code behind a verb such as "run" or "execute".
fn inline_commands(text: &str) -> Vec<(usize, &str)> {
    const MOST: usize = 64;
    /// Longest command, in bytes.
    const LONGEST: usize = 400;
    const VERBS: [&str; 8] = ["run", "execute", "type", "paste", "enter", "issue", "invoke", "launch"];
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(open) = text.get(at..).and_then(|rest| memchr(b'`', rest.as_bytes())).map(|open| at + open + 1) {
        at = open;
        let before = text.get(text.floor_char_boundary(open.saturating_sub(24))..open - 1).unwrap_or_default();
        let verb =
            before.strip_suffix(' ').and_then(|before| before.rsplit([' ', '\n', '(']).next()).unwrap_or_default();
        let denied = before.to_ascii_lowercase();
        let denied = ["never ", "not ", "n't ", "avoid "].iter().any(|word| denied.contains(word));
        if denied || !VERBS.iter().any(|known| known.eq_ignore_ascii_case(verb)) {
            continue;
        }
        let code = text
            .get(open..text.floor_char_boundary((open + LONGEST).min(text.len())))
            .and_then(|rest| rest.lines().next())
            .and_then(|line| line.split_once('`'));
        if let Some((code, _)) = code {
            found.push((open, code));
            at = open + code.len() + 1;
        }
        if found.len() == MOST {
            break;
        }
    }
    found
}

/// A fenced block.
struct FencedBlock<'t> {
    label: &'t str,
    start: usize,
    text: &'t str,
    /// True if only blanks, quotation marks and list signs stand before the block on its line.
    begins_line: bool,
}

impl<'t> FencedBlock<'t> {
    /// Returns the language that the block's label names.
    fn language(&self) -> Option<Language> {
        // The name within ```{.bash}, ```bash:deploy.sh and ```sh,ignore.
        let sign = |c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_' | '+' | '#'));
        let name = self.label.split(sign).find(|part| !part.is_empty()).unwrap_or_default();
        Language::named(name).or_else(|| Language::named(self.name()).filter(|language| *language != Language::Shell))
    }

    /// True if the block has no label, and looks like shell.
    fn is_nameless_shell(&self) -> bool {
        self.label.is_empty() && looks_like_shell(self.text)
    }

    /// Returns the block's commands, where it is a build description.
    fn built(&self) -> impl Iterator<Item = (usize, &'t str)> {
        let commands = match self.name().to_ascii_lowercase().as_str() {
            "dockerfile" | "docker" | "containerfile" => docker_steps(self.text),
            "makefile" | "make" => recipes(self.text),
            "yaml" | "yml" => workflow_steps(self.text),
            "json" if self.text.contains("\"scripts\"") => package_scripts(self.text),
            _ => Vec::new(),
        };
        let start = self.start;
        commands.into_iter().map(move |(at, command)| (start + at, command))
    }

    /// Returns the first word of the block's label.
    fn name(&self) -> &'t str {
        self.label.split(|c: char| !c.is_alphanumeric()).find(|part| !part.is_empty()).unwrap_or_default()
    }
}

/// Returns the fenced blocks of a text; an unclosed block extends to the end.
fn fenced(text: &str) -> impl Iterator<Item = FencedBlock<'_>> {
    static MARKS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| [Finder::new("```"), Finder::new("~~~")]);
    // A search for any fence is much faster than a search for its place.
    let bytes = text.as_bytes();
    let any = memchr2(b'`', b'~', bytes).is_some() && MARKS.iter().any(|mark| mark.find(bytes).is_some());
    let mut at = if any { 0 } else { text.len() };
    std::iter::from_fn(move || {
        loop {
            let (open, mark) = next_fence(text, at)?;
            let length = text.get(open..)?.bytes().take_while(|byte| *byte == mark).count();
            let label_end = text.get(open..)?.find('\n').map(|end| open + end)?;
            let label = text.get(open + length..label_end)?.trim();
            let start = label_end + 1;
            // Inline code, closed on its own line.
            if label.contains('`') {
                at = label_end;
                continue;
            }
            let (end, after) = closing(text, start, mark, length);
            at = after;
            let before = text.get(..open)?.rsplit('\n').next().unwrap_or_default();
            let begins_line = before.chars().all(|c| matches!(c, ' ' | '\t' | '>' | '-' | '*'));
            return Some(FencedBlock { label, start, text: text.get(start..end)?, begins_line });
        }
    })
}

/// Returns the place and the character of the next run of three or more backquotes or tildes.
fn next_fence(text: &str, from: usize) -> Option<(usize, u8)> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        at += memchr2(b'`', b'~', bytes.get(at..)?)?;
        let mark = *bytes.get(at)?;
        let run = bytes.get(at..)?.iter().take_while(|byte| **byte == mark).count();
        if run >= 3 {
            return Some((at, mark));
        }
        at += run;
    }
}

/// Returns the end of a block whose fence has `length` marks, and the place where reading continues.
fn closing(text: &str, start: usize, mark: u8, length: usize) -> (usize, usize) {
    let mut from = start;
    while let Some(rest) = text.get(from..) {
        let Some(found) = memchr(mark, rest.as_bytes()) else { break };
        let run = rest.bytes().skip(found).take_while(|byte| *byte == mark).count();
        if run >= length {
            return (from + found, from + found + run);
        }
        from += found + run;
    }
    (text.len(), text.len())
}
