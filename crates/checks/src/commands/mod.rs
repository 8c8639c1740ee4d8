//! Check for commands that destroy, raise rights, bring code in, send credentials out or stay behind. In: an event.
//! Out: hits, each with its place and a sentence that says which part does what. Nothing is run.
//!
//! Commands are parsed as shell, never searched as text: `grep 'rm -rf'` and `echo "rm -rf /"` delete nothing, while
//! `sudo sh -c "rm -rf $HOME"` does. `walk` takes these steps, within a [`ScriptBudget`]; a script is parsed only where
//! it names a program that a rule knows.
//!
//! 1. `scripts` finds the texts of an event that are commands, by the names of `arguments` and the parts of `fences`;
//!    `tools` finds tool calls that amount to a command.
//! 2. [`umbra_analysis::shell`] parses a script into pipelines, with the values of its own variables, removes wrappers
//!    and returns the scripts within (`bash -c`, here-documents, `ssh host …`), which are read in turn.
//! 3. `rows` judges single calls by the patterns of `rules/commands.toml`; `files`, `disks`, `databases`, `services`,
//!    `rights`, `persistence` and `windows` judge them by their targets.
//! 4. `incoming` and `outgoing` judge whole pipelines, `code` the input of interpreters.

mod arguments;
mod code;
mod code_blocks;
mod databases;
mod disks;
mod files;
mod incoming;
mod outgoing;
mod persistence;
mod rights;
mod rows;
mod scripts;
mod services;
mod tools;
mod walk;
mod windows;

use std::sync::LazyLock;

pub(super) use self::{
    rows::{CallPattern, Rows},
    scripts::{Script, is_shell_tool, of_event, words},
    tools::is_interpreter,
};

use super::{rules::in_force, word_lists};
use umbra_analysis::shell::{ProgramCall, ScriptBudget};
use umbra_domain::{CheckName, Hit, Severity};

/// Detection of a rule in a command, before it has a place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Detection {
    rule: &'static str,
    severity: Severity,
    description: String,
}

impl Detection {
    fn new(rule: &'static str, severity: Severity, description: String) -> Self {
        Self { rule, severity, description }
    }

    /// Returns a detection that says of a call what it does.
    fn of(call: &ProgramCall, rule: &'static str, severity: Severity, does: &str) -> Self {
        Self::new(rule, severity, format!("`{}` {does}", call.shown()))
    }

    /// Appends a sentence to the description.
    fn with(mut self, sentence: &str) -> Self {
        self.description.push(' ');
        self.description.push_str(sentence);
        self
    }
}

/// Returns the hits in the scripts of an event. The iterator is lazy: each script is read when its hits are asked for.
pub(super) fn hits<'s>(scripts: &'s [Script<'_>]) -> impl Iterator<Item = Hit> + 's {
    let budget = ScriptBudget::of(scripts.iter().map(|script| script.text.len()).sum());
    scripts.iter().flat_map(move |script| {
        walk::detect_in_script(&script.text, &budget).into_iter().filter(|(sight, _)| script.counts(sight)).map(
            |(sight, at)| {
                let (field, place) = (script.field.clone(), script.place(at.clone()));
                let severity = script.severity(&sight, at);
                Hit::new(CheckName::Commands, sight.rule, severity, field, place, sight.description)
            },
        )
    })
}

/// Adds the detections of one call alone.
fn detect_in_call(call: &ProgramCall, sights: &mut Vec<Detection>) {
    if asks_help(call) {
        return;
    }
    rights::detect_raised_rights(call, sights);
    persistence::detect_startup_writes(call, sights);
    if !is_rehearsal(call) {
        in_force().commands.detect_by_rows(call, sights);
        files::detect_destroyed_files(call, sights);
        disks::detect_overwritten_disks(call, sights);
        databases::detect_destroyed_data(call, sights);
        services::detect_destroyed_services(call, sights);
        windows::detect_misused_programs(call, sights);
    }
}

/// True if a tool of many commands is only asked for help: `terraform destroy -help`, `aws s3 rm help`.
pub(super) fn asks_help(call: &ProgramCall) -> bool {
    let last = call.args.last().map_or("", |arg| arg.text.as_str());
    let knows = word_lists::lists("administrative", &call.program);
    matches!(last, "--help" | "-help" | "--usage") || knows && matches!(last, "help" | "-h")
}

/// True if the call only shows what it would do.
pub(super) fn is_rehearsal(call: &ProgramCall) -> bool {
    let mut args = call.args.iter().map(|arg| arg.text.as_str()).take_while(|arg| *arg != "--");
    args.any(|arg| word_lists::lists("rehearsing_options", arg))
}

/// Returns detections that need the whole text of a script.
fn text_sights(script: &str) -> Vec<Detection> {
    static FORK_BOMB: LazyLock<Option<regex::Regex>> =
        LazyLock::new(|| regex::Regex::new(r"([\w:.]{1,20})\s*\(\)\s*\{[^}]{0,80}\|[^}]{0,80}&[^}]{0,20}\}\s*;").ok());
    let mut sights = Vec::new();
    if incoming::connects_shell(script) {
        sights.push(Detection::new(
            "reverse_shell",
            Severity::Critical,
            "Connects a shell to a network socket, so that another host can control it.".to_owned(),
        ));
    }
    // Without the literal the expression cannot match, and it is slow.
    if script.contains("()")
        && let Some(captures) = FORK_BOMB.as_ref().and_then(|bomb| bomb.captures(script))
        && let (Some(whole), Some(name)) = (captures.get(0), captures.get(1))
        && whole.as_str().matches(name.as_str()).count() >= 3
    {
        sights.push(Detection::new(
            "fork_bomb",
            Severity::Critical,
            "Starts a fork bomb, a function that calls itself without end and starves the machine.".to_owned(),
        ));
    }
    in_force().commands.look_at_text(script, &mut sights);
    sights
}

/// True if a script names anything that a rule could detect. Only whole words count: `perform` names no `rm`.
pub(super) fn may_matter(script: &str) -> bool {
    in_force().commands.wakes(script) || hides_words(script.as_bytes()) || windows::names_proxy(script)
}

/// True if a word is assembled in a way that hides it: `r\m`, `r''m`, `r$@m`, `/bin/r?`, `{r,m}`, `$'\x72'`.
fn hides_words(script: &[u8]) -> bool {
    script.windows(3).any(|bytes| match bytes {
        [b'/' | b'?', b'?' | b'[', _] | [b'$', b'\'', b'\\'] | [b'\'' | b'"', b'\'' | b'"', _] => true,
        [before, b'\\', after] => before.is_ascii_lowercase() && (after.is_ascii_lowercase() || *after == b'\n'),
        [before, b'\'' | b'"', after] => before.is_ascii_lowercase() && after.is_ascii_alphabetic(),
        [before, b'$' | b'`', after] => before.is_ascii_lowercase() && !after.is_ascii_whitespace(),
        [before, b'?' | b'*' | b'[', _] => before.is_ascii_lowercase(),
        _ => false,
    }) || script.starts_with(b"$")
}
