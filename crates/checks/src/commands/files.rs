//! Commands that delete, move, overwrite files, or open them to everyone. In: one call. Out: the loss, with its
//! severity.

use super::Detection;
use crate::word_lists;
use umbra_analysis::shell::{
    FOUND, PipedArguments, ProgramCall, Word, is_denied, is_shell,
    targets::{PathKind, is_data, is_guarded, is_history},
};
use umbra_domain::Severity::{self, Critical, Info, Warning};

/// Adds the files that the call destroys.
pub(super) fn detect_destroyed_files(call: &ProgramCall, sights: &mut Vec<Detection>) {
    match call.program.as_str() {
        "rm" | "rmdir" | "unlink" | "srm" | "del" | "rd" | "erase" | "remove-item" | "ri" | "rimraf" | "trash" => {
            removed(call, sights);
        }
        "find" if call.has_argument("-delete") => found(call, sights),
        "chmod" | "chown" | "chgrp" | "setfacl" | "icacls" | "takeown" => permissions(call, sights),
        "mv" | "move-item" | "move" | "ren" => moved(call, sights),
        "cp" | "copy" | "install" | "ln" | "copy-item" => replaced(call, sights),
        _ => {}
    }
    written(call, sights);
    emptied(call, sights);
}

/// Adds database files that the call empties.
fn emptied(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let operands: Vec<&str> = call.operands().collect();
    let reads_nothing = || call.reads.iter().any(|from| from.text == "/dev/null");
    let prints_nothing = match call.program.as_str() {
        "" | ":" | "true" | "false" => true,
        "cat" => operands == ["/dev/null"] || operands.is_empty() && reads_nothing(),
        "echo" => call.has('n', "") && operands.is_empty(),
        "printf" => operands.iter().all(|text| text.is_empty()),
        _ => false,
    };
    let last = || operands.last().copied();
    let named = match call.program.as_str() {
        "cp" | "install" | "copy" if operands.first() == Some(&"/dev/null") => last(),
        "tee" if reads_nothing() => last(),
        "truncate" if call.args.iter().any(|arg| matches!(arg.text.as_str(), "0" | "-s0" | "--size=0")) => last(),
        "dd" if call.has_argument("if=/dev/null") => call.args.iter().find_map(|arg| arg.text.strip_prefix("of=")),
        _ => None,
    };
    let written = call.writes.iter().map(|to| to.text.as_str()).filter(|_| prints_nothing);
    if let Some(path) = written.chain(named).find(|path| is_data(path) && call.target(path) > PathKind::Rebuilt) {
        sights.push(Detection::new("emptied", Warning, format!("`{}` empties `{path}`.", call.shown())));
    }
}

fn found(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let root = call.operands().next().unwrap_or(".");
    let filters = ["-name", "-iname", "-path", "-regex", "-empty"];
    let narrows = |(at, arg): (usize, &Word)| filters.contains(&arg.text.as_str()) && !is_denied(&call.args, at);
    let filtered = call.args.iter().enumerate().any(narrows);
    let worst = call.target(root);
    if worst >= PathKind::Home {
        let what = format!("`{}` deletes the files that it finds under `{root}`.", call.shown());
        sights.push(Detection::new("find_delete", Critical, what));
    } else if !filtered && worst >= PathKind::Outside {
        sights.push(Detection::of(call, "find_delete", Warning, "deletes everything it finds."));
    }
}

fn moved(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let mut operands: Vec<&str> = call.operands().collect();
    let to = operands.pop().unwrap_or_default();
    let lost = |from: &&str| call.target(from) >= PathKind::Home && !from.trim_start_matches("./").contains('.');
    if to == "/dev/null" || operands.iter().any(lost) {
        sights.push(Detection::of(call, "moved_away", Warning, "moves away files that the system or a user needs."));
    } else {
        replaced(call, sights);
    }
}

/// Adds a system file that another file replaces.
fn replaced(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let operands: Vec<&str> = call.operands().collect();
    let Some((to, from)) = operands.split_last().filter(|(_, from)| !from.is_empty()) else { return };
    if is_guarded(to) && !to.ends_with('/') {
        let what = format!("`{}` replaces a system file with `{}`.", call.shown(), from.join(", "));
        let severity = if *from == ["/dev/null"] { Critical } else { Warning };
        sights.push(Detection::new("overwrite", severity, what));
    }
}

/// Adds system files that output is written over or appended to.
fn written(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let tees = matches!(call.program.as_str(), "tee" | "sponge" | "set-content" | "out-file");
    let edits = matches!(call.program.as_str(), "sed" | "gsed" | "perl") && call.has('i', "in-place");
    let named = call.operands().skip(usize::from(edits)).filter(|_| tees || edits);
    for to in call.writes.iter().map(|to| to.text.as_str()).chain(named) {
        if is_guarded(to) {
            let what = format!("`{}` writes to the system file `{to}`.", call.shown());
            sights.push(Detection::new("overwrite", Warning, what));
        } else if ["/var/log/", "/var/mail/", "/var/spool/mail/"].iter().any(|at| to.starts_with(at)) || is_history(to)
        {
            let what = format!("`{}` overwrites `{to}`, which records activity.", call.shown());
            sights.push(Detection::new("trace_removal", Warning, what));
        }
    }
}

fn removed(call: &ProgramCall, sights: &mut Vec<Detection>) {
    if call.has_argument("--no-preserve-root") {
        let does = "disables the protection against deleting the root directory.";
        sights.push(Detection::of(call, "recursive_delete", Critical, does));
        return;
    }
    let recursive = is_recursive(call);
    if let Some((severity, what)) = call.fed.as_ref().and_then(|fed| removed_from(call, fed, recursive)) {
        sights.push(Detection::new("recursive_delete", severity, what));
    }
    let own = call.args.iter().filter(|arg| call.fed.is_none() || arg.raw != FOUND).map(|arg| arg.text.as_str());
    let slashed = |arg: &str| arg.starts_with('/') && (2..=3).contains(&arg.len()) && is_windows(call);
    let paths = own.filter(|arg| !arg.starts_with('-') && !slashed(arg));
    let Some((path, worst)) = paths.map(|path| (path, call.target(path))).max_by_key(|(_, target)| *target) else {
        return;
    };
    let (severity, what) = match (recursive, worst) {
        (true, PathKind::System) => (Critical, "a system directory"),
        (true, PathKind::Home) => (Critical, "a home directory"),
        (true, PathKind::Here) => (Critical, "everything in the working directory"),
        (true, PathKind::Outside) => (Warning, "data outside the working directory or of the repository itself"),
        (true, PathKind::Inside) => (Info, "a project directory"),
        (false, PathKind::System) if is_guarded(path) || path.ends_with('*') => (Warning, "a system file"),
        (false, PathKind::Home) if path.ends_with('*') => (Warning, "every file in a home directory"),
        (false, PathKind::Here) => (Warning, "every file in the working directory"),
        _ => return,
    };
    sights.push(Detection::new("recursive_delete", severity, format!("`{}` deletes {what} (`{path}`).", call.shown())));
}

/// Returns the severity of deleting the paths that another command names.
fn removed_from(call: &ProgramCall, fed: &PipedArguments, recursive: bool) -> Option<(Severity, String)> {
    let does = if call.via.is_some() { "finds" } else { "prints" };
    let what = format!("`{}` deletes every path that `{}` {does}.", call.shown(), fed.shown);
    let worst = fed.root.as_deref().map(|root| call.target(root));
    let severity = match worst {
        Some(PathKind::System | PathKind::Home) => Critical,
        Some(PathKind::Here | PathKind::Outside) if !fed.filtered => Warning,
        Some(PathKind::Here | PathKind::Outside | PathKind::Inside) if recursive => Info,
        // The paths are unknown.
        None if recursive => Warning,
        _ => return None,
    };
    Some((severity, what))
}

fn is_windows(call: &ProgramCall) -> bool {
    matches!(call.program.as_str(), "del" | "rd" | "erase" | "remove-item" | "ri")
        || call.program == "rmdir" && call.says_any(&["/s", "/q"])
}

fn is_recursive(call: &ProgramCall) -> bool {
    if call.program == "rimraf" {
        return true;
    }
    if is_windows(call) {
        let says = |arg: &str| arg.len() > 1 && "-recurse".starts_with(arg);
        return call.args.iter().any(|arg| {
            let text = arg.text.to_ascii_lowercase();
            text == "/s" || says(&text) || text == "-rf" || text == "-fr"
        });
    }
    call.has('r', "recursive") || call.has('R', "")
}

/// True if a program lets its user start any other program.
fn gives_shell(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    is_shell(name)
        || ["python", "perl", "ruby", "node", "php"].iter().any(|program| name.starts_with(program))
        || word_lists::lists("shell_givers", name)
}

fn permissions(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let recursive = call.has('R', "recursive") || call.says_any(&["/t", "/r"]);
    let is_option =
        |arg: &str| arg.starts_with('-') && !arg.starts_with("-x") || arg.len() == 2 && arg.starts_with('/');
    let mut operands = call.args.iter().map(|arg| arg.text.as_str()).filter(|arg| !is_option(arg));
    // `takeown` and `icacls` take the path first.
    let mode =
        if matches!(call.program.as_str(), "takeown" | "icacls") { "" } else { operands.next().unwrap_or_default() };
    let worst = operands.map(|path| call.target(path)).max().unwrap_or(PathKind::Inside);
    let everyone = call.args.iter().any(|arg| arg.text.to_ascii_lowercase().starts_with("everyone:"));
    let open = match call.program.as_str() {
        "chmod" => {
            let others = mode.split(',').any(|part| {
                part.split_once(['+', '=']).is_some_and(|(who, what)| {
                    what.contains('w') && (who.is_empty() && what.len() == 3 || who.contains(['o', 'a']))
                })
            });
            others
                || mode.len() >= 3 && mode.bytes().all(|b| b.is_ascii_digit()) && mode.ends_with(['2', '3', '6', '7'])
        }
        _ => everyone,
    };
    let setuid = call.program == "chmod"
        && (mode.contains("+s")
            || mode.len() == 4 && mode.starts_with(['4', '2', '6']) && mode.bytes().all(|b| b.is_ascii_digit()));
    if setuid {
        // A setuid program of root's that starts a shell makes its user root.
        let severity = if call.operands().any(gives_shell) { Critical } else { Warning };
        sights.push(Detection::of(call, "setuid", severity, "makes a program run with its owner's rights."));
    }
    if recursive && worst >= PathKind::Home {
        let severity = if open || worst == PathKind::System { Critical } else { Warning };
        sights.push(Detection::of(call, "permissions", severity, "changes who can access system or user files."));
    } else if open && (recursive || worst >= PathKind::Outside) {
        sights.push(Detection::of(call, "permissions", Warning, "opens files to everyone."));
    }
}
