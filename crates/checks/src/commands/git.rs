//! Commands of git that discard work, rewrite history or delete what others rely on. In: one call. Out: what it does.
//! It reads options as git does, those before the subcommand included.

use super::Sight;
use umbra_analysis::shell::Call;
use umbra_domain::Severity::Warning;

/// What the call discards.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    if call.program != "git" {
        return;
    }
    let mut args = call.args.iter().map(|arg| arg.text.as_str());
    let mut verb = "";
    while let Some(arg) = args.next() {
        match arg {
            "-C" | "-c" | "--git-dir" | "--work-tree" | "--namespace" => drop(args.next()),
            _ if arg.starts_with('-') => {}
            _ => {
                verb = arg;
                break;
            }
        }
    }
    let first = args.next().unwrap_or_default();
    let says = |words: &[&str]| call.args.iter().any(|arg| words.contains(&arg.text.as_str()));
    let dry = call.has('n', "dry-run") && verb == "clean";
    let (rule, what) = match verb {
        "push"
            if call.has('f', "force")
                || call.args.iter().any(|arg| arg.text.len() > 1 && arg.text.starts_with('+'))
                || says(&["--mirror"]) =>
        {
            ("git_force_push", "overwrites history on the remote")
        }
        "push" if call.operands().any(is_elsewhere) => {
            ("git_foreign_push", "sends the repository to an address that it has not been set up with")
        }
        "push"
            if says(&["--delete", "-d", "--prune"])
                || call.operands().any(|word| word.len() > 1 && word.starts_with(':')) =>
        {
            ("git_remote_delete", "deletes branches on the remote")
        }
        "reset" if says(&["--hard", "--merge", "--keep"]) => ("git_discard", "discards uncommitted work"),
        // What git ignores is made again.
        "clean" if call.has('X', "") && !call.has('x', "") => return,
        "clean" if call.has('f', "force") && !dry => ("git_discard", "deletes untracked files"),
        "checkout" if says(&["--", "-f", "--force"]) || first == "." => ("git_discard", "discards uncommitted work"),
        "switch" if says(&["--discard-changes", "-f", "--force"]) => ("git_discard", "discards uncommitted work"),
        "restore" if !says(&["--staged", "-S"]) || says(&["--worktree", "-W"]) => {
            ("git_discard", "discards uncommitted work")
        }
        "stash" if matches!(first, "drop" | "clear") => ("git_discard", "throws stashed work away"),
        "branch" if says(&["-D"]) || says(&["-d", "--delete"]) && says(&["-f", "--force"]) => {
            ("git_branch_delete", "deletes a branch that may not be merged")
        }
        "reflog" if matches!(first, "expire" | "delete") => {
            ("git_discard", "removes the last way back to lost commits")
        }
        "gc" if call.args.iter().any(|arg| arg.text == "--prune=now" || arg.text == "--prune=all") => {
            ("git_discard", "removes unreachable commits")
        }
        "filter-branch" | "filter-repo" => ("git_rewrite", "rewrites the whole history"),
        "prune" if !says(&["-n"]) => ("git_discard", "removes unreachable commits"),
        "branch" if says(&["-f", "--force", "-M"]) => ("git_branch_delete", "moves a branch away from its commits"),
        "update-ref" if says(&["-d"]) => ("git_branch_delete", "deletes a reference"),
        "worktree" if first == "remove" && says(&["-f", "--force"]) => {
            ("git_discard", "removes a working tree with its changes")
        }
        "tag" if says(&["-d", "--delete"]) => ("git_branch_delete", "deletes a tag"),
        _ => return,
    };
    sights.push(Sight::new(rule, Warning, format!("`{}` {what}.", call.shown())));
}

/// Whether a remote is an address and no name: `https://…`, `user@host:path`.
fn is_elsewhere(remote: &str) -> bool {
    remote.contains("://") && !remote.starts_with("file://")
        || remote.split_once('@').is_some_and(|(_, rest)| rest.contains(':') && !rest.starts_with('{'))
}
