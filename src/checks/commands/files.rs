//! Commands that delete files, take them away, open them to everyone, or remove traces. In: one call. Out: what it would destroy, and how bad that is.

use super::{
    Sight,
    resolve::Call,
    targets::{Target, classify},
};
use crate::domain::Severity::{Critical, Info, Warning};

/// What the call destroys.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    match call.program.as_str() {
        "rm" | "rmdir" | "unlink" | "srm" | "del" | "rd" | "erase" | "remove-item" | "ri" => removed(call, sights),
        "find" if call.says("-delete") => found(call, sights),
        "chmod" | "chown" | "chgrp" => permissions(call, sights),
        "mv" => moved(call, sights),
        _ => {}
    }
    if removes_traces(call) {
        let what = format!("`{}` removes the record of what was done.", call.shown());
        sights.push(Sight::new("trace_removal", Warning, what));
    }
    for to in call.writes.iter().map(|to| &to.text).filter(|to| to.starts_with("/var/log/") || to.contains("_history"))
    {
        let what = format!("{to} is overwritten, and with it the record of what was done.");
        sights.push(Sight::new("trace_removal", Warning, what));
    }
}

fn found(call: &Call, sights: &mut Vec<Sight>) {
    let root = call.operands().next().unwrap_or(".");
    let filters = ["-name", "-iname", "-path", "-regex"];
    let filtered = call.args.iter().any(|arg| filters.contains(&arg.text.as_str()));
    let worst = classify(root);
    if worst >= Target::Home {
        let what = format!("`{}` deletes what it finds under {root}.", call.shown());
        sights.push(Sight::new("find_delete", Critical, what));
    } else if !filtered && worst >= Target::Outside {
        sights.push(Sight::new("find_delete", Warning, format!("`{}` deletes everything it finds.", call.shown())));
    }
}

fn moved(call: &Call, sights: &mut Vec<Sight>) {
    let mut operands: Vec<&str> = call.operands().collect();
    let to = operands.pop().unwrap_or_default();
    if to == "/dev/null" || operands.iter().any(|from| classify(from) >= Target::Home && !from.contains('.')) {
        let what = format!("`{}` moves what the system or a user needs.", call.shown());
        sights.push(Sight::new("moved_away", Warning, what));
    }
}

/// Whether the call empties or stops a record: a shell's history, a journal, an audit log.
fn removes_traces(call: &Call) -> bool {
    let begins = |starts: &[&str]| call.args.iter().any(|arg| starts.iter().any(|start| arg.text.starts_with(start)));
    match call.program.as_str() {
        "history" => call.has('c', ""),
        "unset" | "export" => begins(&["HISTFILE", "HISTSIZE=0"]),
        "journalctl" => begins(&["--vacuum", "--rotate"]),
        "wevtutil" => call.operands().any(|word| word == "cl" || word == "clear-log"),
        "auditctl" => call.has('D', ""),
        "rm" | "shred" | "unlink" => call.operands().any(|path| path.contains("_history")),
        _ => false,
    }
}

fn removed(call: &Call, sights: &mut Vec<Sight>) {
    let windows = matches!(call.program.as_str(), "del" | "rd" | "erase" | "remove-item" | "ri");
    let recursive = call.has('r', "recursive")
        || call.has('R', "")
        || windows && call.args.iter().any(|arg| matches!(arg.text.to_ascii_lowercase().as_str(), "/s" | "-recurse"));
    if call.says("--no-preserve-root") {
        sights.push(Sight::new("recursive_delete", Critical, format!("`{}` asks to delete the root.", call.shown())));
        return;
    }
    let Some((path, worst)) = call.operands().map(|path| (path, classify(path))).max_by_key(|(_, target)| *target)
    else {
        return;
    };
    let (severity, what) = match (recursive, worst) {
        (true, Target::System) => (Critical, "a directory of the system"),
        (true, Target::Home) => (Critical, "a home directory"),
        (true, Target::Here) => (Critical, "everything in the working directory"),
        (true, Target::Outside) => (Warning, "data outside the working directory or of the repository"),
        (true, Target::Inside) => (Info, "a directory of the project"),
        (false, Target::System)
            if path.starts_with("/etc/") || path.starts_with("/boot/") || path.starts_with("/dev/") =>
        {
            (Warning, "a file of the system")
        }
        (false, Target::Here) => (Warning, "every file in the working directory"),
        _ => return,
    };
    sights.push(Sight::new("recursive_delete", severity, format!("`{}` deletes {what} ({path}).", call.shown())));
}

fn permissions(call: &Call, sights: &mut Vec<Sight>) {
    let recursive = call.has('R', "recursive");
    let mut operands =
        call.args.iter().map(|arg| arg.text.as_str()).filter(|arg| !arg.starts_with('-') || arg.starts_with("-x"));
    let mode = operands.next().unwrap_or_default();
    let worst = operands.map(classify).max().unwrap_or(Target::Inside);
    let open = call.program == "chmod"
        && (mode.ends_with("777")
            || mode.ends_with("666")
            || matches!(mode, "a+rwx" | "ugo+rwx" | "o+w" | "a+w" | "+rwx"));
    let setuid = call.program == "chmod"
        && (mode.contains("+s")
            || mode.len() == 4 && mode.starts_with(['4', '2', '6']) && mode.bytes().all(|b| b.is_ascii_digit()));
    if setuid {
        sights.push(Sight::new(
            "setuid",
            Warning,
            format!("`{}` lets a program run with its owner's rights.", call.shown()),
        ));
    }
    if recursive && worst >= Target::Home {
        let severity = if open || worst == Target::System { Critical } else { Warning };
        sights.push(Sight::new(
            "permissions",
            severity,
            format!("`{}` changes who may touch the system's or a user's files.", call.shown()),
        ));
    } else if open && (recursive || worst >= Target::Outside) {
        sights.push(Sight::new("permissions", Warning, format!("`{}` opens files to everyone.", call.shown())));
    }
}
