//! Commands that write to what a person's shell reads when it starts. In: one call. Out: where, and whether it only eases
//! work.

use super::Sight;
use umbra_analysis::shell::Call;
use umbra_domain::Severity::{Info, Warning};

/// Files that a call writes by name: `tee`, `cp`, `mv`, `install`, `ln`.
pub(super) fn writes_operand(call: &Call) -> impl Iterator<Item = &str> {
    let all = matches!(call.program.as_str(), "tee" | "sponge" | "add-content" | "set-content" | "out-file");
    let last = matches!(call.program.as_str(), "cp" | "mv" | "install" | "ln" | "rsync");
    let edits = matches!(call.program.as_str(), "sed" | "perl") && call.has('i', "in-place");
    let count = call.operands().count();
    call.operands()
        .enumerate()
        .filter(move |(at, _)| all || last && count > 1 && at + 1 == count || edits && at + 1 == count)
        .map(|(_, path)| path)
}

/// Adds writes to a file that a person's shell reads when it starts.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    let mut written = call.writes.iter().map(|to| to.text.as_str()).chain(writes_operand(call));
    if let Some(place) = written.find(|path| names_rc(path)) {
        let severity = if only_eases(call) { Info } else { Warning };
        let what = format!("`{} → {place}` makes something run again later, or lets someone in.", call.program);
        sights.push(Sight::new("persistence", severity, what));
    }
}

/// Whether a path is what a person's shell reads when it starts.
fn names_rc(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    matches!(name, ".bashrc" | ".zshrc" | ".bash_profile" | ".zprofile" | ".profile" | "config.fish" | ".bash_aliases")
}

/// Whether all that is written are aliases and settings that start no program: `alias ll='ls -l'`, `export EDITOR=vim`.
fn only_eases(call: &Call) -> bool {
    const STARTS: [&str; 16] = [
        "curl",
        "wget",
        "nc ",
        "/dev/tcp",
        "base64",
        "eval",
        "LD_PRELOAD",
        "LD_LIBRARY",
        "PROMPT_COMMAND",
        "BASH_ENV",
        "python",
        "perl",
        "|",
        "`",
        "sudo=",
        "/tmp",
    ];
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
            && !STARTS.iter().any(|part| line.contains(part))
            && (!line.contains("$(") || line.starts_with("export PATH"))
    };
    let mut lines = said.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some() && lines.all(eases)
}
