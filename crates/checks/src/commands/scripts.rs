//! Selection of the texts of an event that are commands. In: an event. Out: the texts, with their fields and places.
//! Arguments of shell tools are read whole, other texts only in their shell parts (`fences`).

use std::{borrow::Cow, ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;
use serde_json::Value;

use super::{
    Detection,
    arguments::{COMMAND_KEYS, argument_form, describes, is_document, is_key, key_of, path_of, source_of},
    code::commands_of,
    code_blocks,
    tools::{built_commands, cell_commands, command, is_script, patched, patched_files, within_json},
};
use crate::word_lists;
use umbra_analysis::code::{Content, Language, content, may_start};
use umbra_domain::{Event, FieldName, Severity, ToolCall};

/// A text that is a command or a script.
pub(crate) struct Script<'e> {
    /// Field that holds the script.
    pub(crate) field: FieldName,
    /// Text of the script.
    pub(crate) text: Cow<'e, str>,
    /// Byte range in the field; of a script made from a list of words, the range of its first word.
    at: Range<usize>,
    /// Party that would run the script.
    run: RunBy,
    /// True if the script runs where the agent works, and not in a container or on a build machine.
    on_host: bool,
}

/// Party that would run a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RunBy {
    /// The tool that received the script.
    Tool,
    /// The user who builds or installs the written file.
    Builder,
    /// A reader who follows the text.
    Reader,
    /// No one: the text documents the script, or warns of it.
    NoOne,
}

impl Script<'_> {
    /// True if a detection counts here: a build may delete and install freely within its own machine.
    pub(super) fn counts(&self, sight: &Detection) -> bool {
        self.run != RunBy::Builder
            || matches!(sight.rule, "download_and_run" | "decoded_and_run" | "reverse_shell" | "exfiltration")
            || self.on_host && sight.severity == Severity::Critical
    }

    /// Returns the severity of a detection here.
    pub(super) fn severity(&self, sight: &Detection, part: Range<usize>) -> Severity {
        let shown = self.text.get(part).unwrap_or(&self.text);
        let mild = match self.run {
            RunBy::Tool => false,
            RunBy::Builder | RunBy::NoOne => true,
            RunBy::Reader => {
                sight.rule == "download_and_run" && word_lists::words("installers").any(|from| shown.contains(from))
            }
        };
        if mild { sight.severity.min(Severity::Warning) } else { sight.severity }
    }

    /// Returns the range in the field of a part of the script.
    pub(crate) fn place(&self, part: Range<usize>) -> Range<usize> {
        match self.text {
            Cow::Borrowed(_) => self.at.start + part.start..self.at.start + part.end,
            Cow::Owned(_) => self.at.clone(),
        }
    }
}

/// Words in the names of tools that run commands.
const SHELL_TOOLS: [&str; 12] =
    ["bash", "shell", "exec", "execute", "run", "terminal", "cmd", "command", "powershell", "pwsh", "zsh", "sh"];

/// True if a tool's name means that it runs commands: `Bash`, `run_in_terminal`, `execute-command`, `runCommand`.
pub(crate) fn is_shell_tool(name: &str) -> bool {
    words(name).any(|word| SHELL_TOOLS.contains(&&*word)) || name.eq_ignore_ascii_case("runcommand")
}

/// Returns the words of a name in any spelling, in lower case.
pub(crate) fn words(name: &str) -> impl Iterator<Item = Cow<'_, str>> {
    name.split(|c: char| !c.is_alphanumeric()).flat_map(humps).map(|word| {
        if word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            Cow::Borrowed(word)
        } else {
            Cow::Owned(word.chars().flat_map(char::to_lowercase).collect())
        }
    })
}

/// Splits `runCommand` into `run` and `Command`.
fn humps(mut word: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        let mut after_lower = false;
        let begins = |(_, c): &(usize, char)| {
            let begins = c.is_uppercase() && after_lower;
            after_lower = c.is_lowercase() || c.is_ascii_digit();
            begins
        };
        let end = word.char_indices().find(begins).map_or(word.len(), |(at, _)| at);
        let (hump, rest) = word.split_at(end);
        word = rest;
        (!hump.is_empty()).then_some(hump)
    })
}

/// Returns every script of the event.
pub(crate) fn of_event(event: &Event) -> Vec<Script<'_>> {
    let mut scripts = Vec::new();
    let shell_tool = event.tool.as_ref().is_some_and(|tool| is_shell_tool(&tool.name));
    // A written document shows commands to its readers.
    let written = event.tool.as_ref().and_then(|tool| path_of(&tool.args));
    let documents = written.is_some_and(is_document);
    event.for_each_text(|field, text| {
        if let Some(tool) = event.tool.as_ref().filter(|_| field.is_tool_argument())
            && given(tool, &field, text, shell_tool, written, &mut scripts)
        {
            return;
        }
        if field.is_output() || field.is_tool_argument() {
            let of_document = documents && field.is_tool_argument();
            let form = if field.is_output() { event.output_form() } else { argument_form(event, &field, written) };
            let parts = code_blocks::parts(text, form);
            let warned = |start: usize| warns(text.get(..start).unwrap_or_default());
            let reader = |start: usize| if of_document || warned(start) { RunBy::NoOne } else { RunBy::Reader };
            let script = |at, text, run| Script { field: field.clone(), at, text, run, on_host: true };
            scripts.extend(
                parts
                    .shell
                    .into_iter()
                    .map(|(start, part)| script(start..start + part.len(), Cow::Borrowed(part), reader(start))),
            );
            scripts.extend(parts.built.into_iter().map(|(start, part)| {
                let run = if of_document { RunBy::NoOne } else { RunBy::Builder };
                script(start..start + part.len(), Cow::Borrowed(part), run)
            }));
            let source = field.is_tool_argument().then(|| source_of(&field, written)).flatten();
            let whole =
                source.filter(|language| *language != Language::Shell).map(|language| (0, text, Some(language)));
            for (start, code, language) in parts.code.into_iter().chain(whole) {
                scripts.extend(
                    commands_of(code, language).map(|(at, command)| {
                        script(start + at.start..start + at.end, Cow::Owned(command), reader(start))
                    }),
                );
            }
        }
    });
    if let Some(tool) = &event.tool {
        lists(tool, shell_tool, &mut scripts);
    }
    scripts
}

/// Bytes before a fence that are searched for a warning.
const NEAR: usize = 400;

/// True if the sentence before a fence tells not to do what the fence shows. "Do not worry" is no such warning.
fn warns(before: &str) -> bool {
    const NOT: [&str; 7] = ["do not ", "don't ", "never ", "must not ", "should not ", "avoid ", "not to "];
    const ALONE: [&str; 2] = ["is dangerous", "wrong:"];
    const DO: [&str; 10] = ["run", "do ", "use ", "using", "execute", "type", "paste", "try ", "copy", "ever "];
    static WORDS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(NOT.iter().chain(&ALONE)).ok());
    let before = before.get(before.floor_char_boundary(before.len().saturating_sub(NEAR))..).unwrap_or_default();
    // The last line with text, without the fence's own line.
    let line = before.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with(['`', '~']));
    let line = line.unwrap_or_default();
    if !WORDS.as_ref().is_some_and(|words| words.is_match(line)) {
        return false;
    }
    let lower = line.to_lowercase();
    let denied = |word: &&str| {
        lower.match_indices(*word).any(|(at, _)| {
            lower.get(at + word.len()..).is_some_and(|rest| DO.iter().any(|verb| rest.starts_with(verb)))
        })
    };
    ALONE.iter().any(|word| lower.contains(word)) || NOT.iter().any(denied)
}

/// Adds an argument's commands. Returns true if the rest of the argument is not to be read.
fn given<'e>(
    tool: &ToolCall,
    field: &FieldName,
    text: &'e str,
    shell_tool: bool,
    written: Option<&str>,
    scripts: &mut Vec<Script<'e>>,
) -> bool {
    let key = key_of(field);
    let is = |names: &[&str]| is_key(field, names);
    let mut push = |text: Cow<'e, str>, at: Range<usize>, run: RunBy, on_host: bool| {
        scripts.push(Script { field: field.clone(), text, at, run, on_host });
    };
    let amounts = command(tool, key, text);
    let done = amounts.is_some();
    if let Some(command) = amounts {
        push(Cow::Owned(command), 0..text.len(), RunBy::Tool, true);
    }
    if is(&["code", "cell", "source", "new_source"]) {
        for (at, command) in cell_commands(text) {
            push(Cow::Borrowed(command), at..at + command.len(), RunBy::Tool, true);
        }
    }
    for (place, command) in patched_files(text) {
        push(Cow::Owned(command), place, RunBy::Tool, true);
    }
    if is(&COMMAND_KEYS) || shell_tool && !describes(field) {
        push(Cow::Borrowed(text), 0..text.len(), RunBy::Tool, true);
        if may_start(text, None)
            && let Content::Code(language) = content(text)
            && language != Some(Language::Shell)
        {
            for (at, command) in commands_of(text, language) {
                push(Cow::Owned(command), at, RunBy::Tool, true);
            }
        }
        return true;
    }
    for command in within_json(text, &COMMAND_KEYS) {
        push(Cow::Owned(command), 0..text.len(), RunBy::Tool, true);
    }
    if let Some(path) = written.filter(|path| *path != text) {
        for (at, command) in built_commands(path, text) {
            push(Cow::Borrowed(command), at..at + command.len(), RunBy::Builder, builds_on_host(path));
        }
    }
    if is(&["patch", "diff", "input"]) {
        for (path, at, added) in patched(text) {
            let place = at..at + added.len().min(text.len() - at);
            if is_script(path) {
                push(Cow::Owned(added), place, RunBy::Reader, true);
            } else {
                for (_, command) in built_commands(path, &added) {
                    push(Cow::Owned(command.to_owned()), place.clone(), RunBy::Builder, builds_on_host(path));
                }
            }
        }
    }
    done
}

/// True if the commands of a file run on the host: a package's scripts and a makefile's rules, unlike those of an image
/// or a workflow.
fn builds_on_host(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name == "package.json" || name.to_ascii_lowercase().contains("makefile") || name == "justfile"
}

/// Adds commands given as a list of words, such as `["rm", "-rf", "/"]`, or as a program and a list of arguments,
/// joined as a shell would read them.
fn lists(tool: &ToolCall, shell_tool: bool, scripts: &mut Vec<Script<'_>>) {
    let Value::Object(map) = &tool.args else { return };
    for (key, value) in map {
        let Value::Array(items) = value else { continue };
        let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
        let Some(words) = words.filter(|words| !words.is_empty()) else { continue };
        let lower = key.to_ascii_lowercase();
        let program = ["command", "cmd", "program", "executable"].iter().find_map(|key| map.get(*key)?.as_str());
        let before = match &*lower {
            "argv" => None,
            "args" | "arguments" if program.is_some() => program,
            "args" | "arguments" if shell_tool => None,
            key if COMMAND_KEYS.contains(&key) && words.len() > 1 => None,
            _ => continue,
        };
        let first = words.first().map_or(0, |word| word.len());
        let quoted = words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''")));
        let joined = before.map(str::to_owned).into_iter().chain(quoted).collect::<Vec<_>>().join(" ");
        scripts.push(Script {
            field: FieldName(Cow::Owned(format!("tool.args.{key}.0"))),
            at: 0..first,
            text: Cow::Owned(joined),
            run: RunBy::Tool,
            on_host: true,
        });
    }
}
