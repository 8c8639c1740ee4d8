//! Code in other languages that a command hands to an interpreter. In: the code. Out: what it destroys by its own means,
//! and the shell commands that it starts. It looks for the calls by which such code does either, and parses no language.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::Sight;
use crate::domain::Severity;

/// What code in another language destroys by its own means.
pub(super) fn destroys(code: &str) -> Option<Sight> {
    let lower = code.to_ascii_lowercase();
    let tree = ["rmtree(", "rmsync(", "rm_rf", "rm_r(", "remove_tree", "rimraf", "removeall("]
        .iter()
        .any(|call| lower.contains(call));
    tree.then(|| {
        Sight::new(
            "recursive_delete",
            Severity::Warning,
            "Code given to an interpreter deletes a directory with all that is in it.".to_owned(),
        )
    })
}

/// Shell commands that code hands to a shell: the string literals of a text that calls one.
pub(super) fn commands_in(code: &str) -> Vec<String> {
    static CALLS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        AhoCorasick::new([
            "system",
            "popen",
            "subprocess",
            "exec",
            "spawn",
            "`",
            "shell_exec",
            "passthru",
            "qx",
            "%x",
            "Runtime",
        ])
        .ok()
    });
    static LITERALS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)'|`([^`]+)`"#).ok());
    if !CALLS.as_ref().is_some_and(|calls| calls.is_match(code)) {
        return Vec::new();
    }
    let Some(literals) = LITERALS.as_ref() else { return Vec::new() };
    let found = literals
        .captures_iter(code)
        .filter_map(|captures| captures.iter().skip(1).flatten().next().map(|one| one.as_str().to_owned()));
    // subprocess.run(["rm", "-rf", "/"]): the words of a list make one command.
    let all: Vec<String> = found.take(16).collect();
    let joined = all.iter().filter(|word| !word.contains(' ')).cloned().collect::<Vec<_>>().join(" ");
    all.into_iter().filter(|literal| literal.contains(' ')).chain((!joined.is_empty()).then_some(joined)).collect()
}
