//! Search for the table's signs in an event. In: an event and its commands. Out: the reason of the first matching row.

use std::{borrow::Cow, sync::LazyLock};

use aho_corasick::AhoCorasick;
use memchr::memmem;

use super::{
    super::commands,
    Scripts,
    rows::{ROWS, Sign, SignRow},
};
use umbra_analysis::shell::{self, ProgramCall, Purpose, ScriptBudget};
use umbra_domain::{Event, ToolCall, Trigger};

/// Returns the reason why an event shows a trigger, by a row that needs no command.
pub(super) fn of_event(trigger: Trigger, event: &Event) -> Option<String> {
    let row = rows(trigger).find(|row| shows(event, &row.sign))?;
    Some(row.why.to_owned())
}

/// Returns the reason why the commands of an event show a trigger.
pub(super) fn of_commands(trigger: Trigger, scripts: Scripts<'_, '_>) -> Option<String> {
    let budget = ScriptBudget::of(scripts.iter().map(|script| script.text.len()).sum());
    let named = scripts.iter().filter(|script| names_program(&script.text));
    let purpose = named.flat_map(|script| shell::calls(&script.text, &budget)).find_map(|call| purpose(&call))?;
    let row = rows(trigger).find(|row| matches!(row.sign, Sign::Purpose(known) if known == purpose))?;
    Some(row.why.to_owned())
}

fn rows(trigger: Trigger) -> impl Iterator<Item = &'static SignRow> {
    ROWS.iter().filter(move |row| row.trigger == trigger)
}

/// Returns the purpose of a call, unless it is a rehearsal or only asks for help.
fn purpose(call: &ProgramCall) -> Option<Purpose> {
    shell::purpose(call).filter(|_| !commands::asks_help(call) && !commands::is_rehearsal(call))
}

/// True if a script contains the name of a program that has a purpose.
fn names_program(script: &str) -> bool {
    static NAMES: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| AhoCorasick::new(shell::programs()).ok());
    let letter = |at: Option<usize>| at.and_then(|at| script.as_bytes().get(at)).is_some_and(u8::is_ascii_alphanumeric);
    NAMES.as_ref().is_some_and(|names| {
        names.find_overlapping_iter(script).any(|hit| !letter(hit.start().checked_sub(1)) && !letter(Some(hit.end())))
    })
}

fn shows(event: &Event, sign: &Sign) -> bool {
    let last = |given: &Option<String>, word: &str| {
        let is = given.as_deref().is_some_and(|given| given.eq_ignore_ascii_case(word));
        is && event.tool.is_none() && event.output.is_some()
    };
    match sign {
        Sign::Purpose(_) => false,
        Sign::Tool { verbs, objects, service } => {
            event.tool.as_ref().is_some_and(|tool| is_named(&tool.name, verbs, objects, service))
        }
        Sign::LastStatus(word) => last(&event.status, word),
        Sign::LastStop(word) => last(&event.stop_reason, word),
        Sign::ExitCode => event.tool.as_ref().and_then(|tool| tool.exit_code).is_some_and(|code| code != 0),
        Sign::Traceback(begins) => {
            let printed = event.tool.as_ref().filter(|tool| runs_code(tool)).and_then(|tool| tool.result.as_deref());
            printed.is_some_and(|printed| line_begins(printed, begins).is_some())
                || event.output.as_deref().is_some_and(|output| ends_in(output, begins))
        }
    }
}

fn is_named(name: &str, verbs: &str, objects: &str, service: &str) -> bool {
    // `mcp__server__send_email`: the server's name is no evidence of the act.
    let own: Vec<Cow<'_, str>> = commands::words(name.rsplit("__").next().unwrap_or(name)).collect();
    let has = |list: &str, words: &[Cow<'_, str>]| words.iter().any(|word| list.split(' ').any(|known| known == word));
    has(verbs, &own)
        && has(objects, &own)
        && (service.is_empty() || has(service, &commands::words(name).collect::<Vec<_>>()))
}

/// True if a tool's result is the output of a program that it ran, not a text that it read.
fn runs_code(tool: &ToolCall) -> bool {
    commands::is_shell_tool(&tool.name) || commands::is_interpreter(&tool.name)
}

/// Returns the beginning of the last line that starts with a text.
fn line_begins(text: &str, begins: &str) -> Option<usize> {
    let starts_line = |at: &usize| *at == 0 || text.as_bytes().get(at - 1) == Some(&b'\n');
    memmem::find_iter(text.as_bytes(), begins).filter(starts_line).last()
}

/// True if an output ends in a traceback: only its lines follow, and it is in no fenced block.
fn ends_in(output: &str, begins: &str) -> bool {
    let Some(at) = line_begins(output, begins) else { return false };
    let rest = output.get(at..).unwrap_or_default().trim_end();
    !rest.contains("\n\n") && !rest.contains("```") && !rest.contains("~~~")
}
