//! Commands that write to the startup files of a person's shell. In: one call. Out: the file, and a lower severity for
//! plain aliases and settings.

use super::Detection;
use crate::word_lists;
use umbra_analysis::shell::ProgramCall;
use umbra_domain::Severity::{Info, Warning};

/// Returns files that a call writes by name: `tee`, `cp`, `mv`, `install`, `ln`.
pub(super) fn writes_operand(call: &ProgramCall) -> impl Iterator<Item = &str> {
    let all = matches!(call.program.as_str(), "tee" | "sponge" | "add-content" | "set-content" | "out-file");
    let last = matches!(call.program.as_str(), "cp" | "mv" | "install" | "ln" | "rsync");
    let edits = matches!(call.program.as_str(), "sed" | "perl") && call.has('i', "in-place");
    let count = call.operands().count();
    call.operands()
        .enumerate()
        .filter(move |(at, _)| all || last && count > 1 && at + 1 == count || edits && at + 1 == count)
        .map(|(_, path)| path)
}

/// Adds writes to a startup file of a person's shell.
pub(super) fn detect_startup_writes(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let mut written = call.writes.iter().map(|to| to.text.as_str()).chain(writes_operand(call));
    if let Some(place) = written.find(|path| names_rc(path)) {
        let severity = if only_eases(call) { Info } else { Warning };
        let what = format!("`{} → {place}` writes to a startup file that new shells run.", call.program);
        sights.push(Detection::new("persistence", severity, what));
    }
}

/// True if a path is a startup file of a person's shell.
fn names_rc(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    matches!(name, ".bashrc" | ".zshrc" | ".bash_profile" | ".zprofile" | ".profile" | "config.fish" | ".bash_aliases")
}

/// True if only aliases and settings are written that start no program: `alias ll='ls -l'`, `export EDITOR=vim`.
fn only_eases(call: &ProgramCall) -> bool {
    let said: Vec<&str> = match call.program.as_str() {
        "echo" | "printf" => {
            call.args.iter().map(|arg| arg.text.as_str()).filter(|arg| !arg.starts_with('-')).collect()
        }
        "cat" | "tee" => call.given.iter().map(String::as_str).collect(),
        _ => return false,
    };
    let said = said.join(" ");
    let eases = |line: &str| {
        let taken = ["alias sudo", "alias ssh", "alias su="].iter().any(|start| line.starts_with(start));
        (line.starts_with("alias ") || line.starts_with("export ") || line.starts_with('#'))
            && !taken
            && !word_lists::lines("starts_program").any(|part| line.contains(part))
            && (!line.contains("$(") || line.starts_with("export PATH"))
    };
    let mut lines = said.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(eases)
}
