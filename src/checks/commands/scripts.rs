//! Which texts of an event are commands. In: an event. Out: the texts, with their fields and where they begin there.
//! Arguments of shell-like tools count whole, other texts only in their shell parts (`fences`).

use std::{borrow::Cow, ops::Range};

use serde_json::Value;

use super::fences::shell_parts;
use crate::domain::{Event, FieldName};

/// A text that is a command or a script.
pub(in crate::checks) struct Script<'e> {
    /// The field that it stands in.
    pub(in crate::checks) field: FieldName,
    /// The script.
    pub(in crate::checks) text: Cow<'e, str>,
    /// Where it stands in the field; a script made of a list of words stands at its first word.
    at: Range<usize>,
}

impl Script<'_> {
    /// Where a part of the script stands in the field.
    pub(in crate::checks) fn place(&self, part: Range<usize>) -> Range<usize> {
        match self.text {
            Cow::Borrowed(_) => self.at.start + part.start..self.at.start + part.end,
            Cow::Owned(_) => self.at.clone(),
        }
    }
}

/// Words in the names of tools that run commands.
const SHELL_TOOLS: [&str; 12] =
    ["bash", "shell", "exec", "execute", "run", "terminal", "cmd", "command", "powershell", "pwsh", "zsh", "sh"];

/// Arguments that hold a command whatever the tool is called.
const COMMAND_KEYS: [&str; 8] =
    ["command", "cmd", "script", "commands", "shell_command", "bash", "cmdline", "command_line"];

/// Arguments that hold no command even where the tool runs them.
const DESCRIBING_KEYS: [&str; 10] = [
    "description",
    "explanation",
    "cwd",
    "workdir",
    "path",
    "reason",
    "justification",
    "content",
    "new_string",
    "old_string",
];

/// Whether a tool's name says that it runs commands: `Bash`, `run_in_terminal`, `execute-command`, `runCommand`.
pub(in crate::checks) fn is_shell_tool(name: &str) -> bool {
    words(name).any(|word| SHELL_TOOLS.contains(&&*word)) || name.eq_ignore_ascii_case("runcommand")
}

/// The words of a name in any spelling, in lower case.
pub(in crate::checks) fn words(name: &str) -> impl Iterator<Item = Cow<'_, str>> {
    name.split(|c: char| !c.is_alphanumeric()).flat_map(humps).map(|word| {
        if word.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            Cow::Borrowed(word)
        } else {
            Cow::Owned(word.chars().flat_map(char::to_lowercase).collect())
        }
    })
}

/// `runCommand` as `run` and `Command`.
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

/// Every script of the event.
pub(in crate::checks) fn of_event(event: &Event) -> Vec<Script<'_>> {
    let mut scripts = Vec::new();
    let shell_tool = event.tool.as_ref().is_some_and(|tool| is_shell_tool(&tool.name));
    event.for_each_text(|field, text| {
        if field.is_tool_argument() {
            let key = field.as_str().rsplit('.').find(|part| part.parse::<usize>().is_err()).unwrap_or_default();
            let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(key));
            if is(&COMMAND_KEYS) || shell_tool && !is(&DESCRIBING_KEYS) {
                scripts.push(Script { field, at: 0..text.len(), text: Cow::Borrowed(text) });
                return;
            }
        }
        if field.is_output() || field.is_tool_argument() {
            let parts = shell_parts(text).into_iter().map(|(start, part)| Script {
                field: field.clone(),
                at: start..start + part.len(),
                text: Cow::Borrowed(part),
            });
            scripts.extend(parts);
        }
    });
    if let Some(tool) = &event.tool {
        lists(&tool.args, "tool.args", &mut scripts);
    }
    scripts
}

/// Commands given as a list of words, such as `["rm", "-rf", "/"]`, joined as a shell would read them.
fn lists(args: &Value, path: &str, scripts: &mut Vec<Script<'_>>) {
    let Value::Object(map) = args else { return };
    for (key, value) in map {
        let Value::Array(items) = value else { continue };
        let words: Option<Vec<&str>> = items.iter().map(Value::as_str).collect();
        let Some(words) = words.filter(|words| words.len() > 1 && COMMAND_KEYS.contains(&&*key.to_ascii_lowercase()))
        else {
            continue;
        };
        let first = words.first().map_or(0, |word| word.len());
        let joined =
            words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ");
        scripts.push(Script {
            field: FieldName(Cow::Owned(format!("{path}.{key}.0"))),
            at: 0..first,
            text: Cow::Owned(joined),
        });
    }
}
