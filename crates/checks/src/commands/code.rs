//! Code in other languages that a command hands to an interpreter. In: the code. Out: what it destroys by its own means,
//! and the shell commands that it starts. It looks for the calls by which such code does either, and parses no language.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::Sight;
use umbra_analysis::shell::targets::{Target, classify, is_credential_file};
use umbra_domain::Severity;

/// Literals of one piece of code that are looked at.
const MOST_LITERALS: usize = 16;

/// What code in another language does by its own means.
pub(super) fn look(code: &str) -> Option<Sight> {
    let lower = code.to_ascii_lowercase();
    let says = |calls: &[&str]| calls.iter().any(|call| lower.contains(call));
    if says(&[
        "urlopen(",
        "requests.get(",
        "http.get(",
        "fetch(",
        "open-uri",
        "file_get_contents(\"http",
        "file_get_contents('http",
        "net/http",
        "lwp::simple",
    ]) && says(&["exec(", "eval(", "eval ", "then(eval", "compile(", "vm.run", "instance_eval", "loads("])
    {
        let what = "Code given to an interpreter downloads more code and runs it unseen.".to_owned();
        return Some(Sight::new("download_and_run", Severity::Critical, what));
    }
    if says(&["b64decode(", "frombase64", "atob(", "base64_decode(", "decode64", "unhexlify(", "fromhex("])
        && says(&["exec(", "eval(", "eval ", "compile(", "system("])
    {
        let what = "Code given to an interpreter decodes more code and runs it unseen.".to_owned();
        return Some(Sight::new("decoded_and_run", Severity::Critical, what));
    }
    let tree = says(&[
        "rmtree(",
        "rmsync(",
        "rm_rf",
        "rm_r(",
        "remove_tree",
        "rimraf",
        "removeall(",
        "remove_dir_all",
        "remove_entry_secure",
    ]) || says(&["fs.rm(", "promises.rm(", "rmdir("]) && lower.contains("recursive");
    if tree {
        let worst = literals(code).iter().map(|path| classify(path)).max();
        let severity = if worst >= Some(Target::Home) { Severity::Critical } else { Severity::Warning };
        let harmless = worst.is_some_and(|worst| worst <= Target::Rebuilt);
        let what = "Code given to an interpreter deletes a directory with all that is in it.".to_owned();
        return (!harmless).then(|| Sight::new("recursive_delete", severity, what));
    }
    if says(&[
        "unlink(",
        "unlink ",
        "\"unlink\"",
        "'unlink'",
        "unlinksync(",
        "os.remove(",
        "file.delete",
        "removefile(",
    ]) && let Some(path) =
        literals(code).into_iter().find(|path| path.contains('/') && classify(path) >= Target::Home)
    {
        let what = format!("Code given to an interpreter deletes files of the system or of a user ({path}).");
        return Some(Sight::new("recursive_delete", Severity::Warning, what));
    }
    let reads = says(&["open(", "readfile", "file.read", "file_get_contents(", "path("]);
    let secret = literals(code).into_iter().find(|literal| is_credential_file(literal)).filter(|_| reads)?;
    let (rule, severity, does) = if says(&["requests.post", "urlopen(", "http.post", "fetch(", "socket", "axios"]) {
        ("exfiltration", Severity::Critical, "reads and sends")
    } else {
        ("reads_credentials", Severity::Warning, "reads")
    };
    Some(Sight::new(rule, severity, format!("Code given to an interpreter {does} {secret}, which holds credentials.")))
}

/// What code in any language starts or deletes: the calls that do, each with its place, as commands of a shell. It goes
/// by the literals within a call alone, so that what the code only prints is none.
pub(super) fn started(code: &str) -> Vec<(usize, String)> {
    /// Calls of one piece of code that are looked at, and bytes of one.
    const MOST: usize = 64;
    const LONGEST: usize = 1_000;
    static CALLS: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"(?:\b(?:os\.system|(?:os\.)?popen|subprocess\.\w+|exec(?:Sync|File|FileSync|a)?|spawn(?:Sync)?|system|shell_exec|passthru|proc_open|Command::new|exec\.Command|ProcessBuilder|check_call|check_output)|(?P<own>\b(?:rmtree|rmSync|rmdirSync|rm_rf|remove_tree|removeAll|RemoveAll|remove_dir_all)))\s*\(").ok()
    });
    let Some(calls) = CALLS.as_ref() else { return Vec::new() };
    let started = calls.captures_iter(code).take(MOST).filter_map(|call| {
        let head = call.get(0)?;
        let rest = code.get(head.start()..code.floor_char_boundary((head.start() + LONGEST).min(code.len())))?;
        // A statement; arguments may be chained to it on its own line.
        let mut depth = 0_usize;
        let end = rest.char_indices().find(|(_, c)| {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0 && matches!(c, ';' | '\n')
        });
        let statement = rest.get(..end.map_or(rest.len(), |(at, _)| at))?;
        if call.name("own").is_some() {
            return Some((head.start(), format!("python -c '{}'", statement.replace('\'', "\""))));
        }
        let words = literals(statement);
        let command = match words.split_first() {
            Some((first, _)) if first.contains(' ') => first.clone(),
            Some(_) => {
                words.iter().map(|word| format!("'{}'", word.replace('\'', "'\\''"))).collect::<Vec<_>>().join(" ")
            }
            None => return None,
        };
        Some((head.start(), command))
    });
    started.collect()
}

/// The string literals of code, the first few.
fn literals(code: &str) -> Vec<String> {
    static LITERALS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)'|`([^`]+)`"#).ok());
    let Some(literals) = LITERALS.as_ref() else { return Vec::new() };
    let found = literals
        .captures_iter(code)
        .filter_map(|captures| captures.iter().skip(1).flatten().next().map(|one| one.as_str().to_owned()));
    found.take(MOST_LITERALS).collect()
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
            "do shell script",
            " | \"",
        ])
        .ok()
    });
    if !CALLS.as_ref().is_some_and(|calls| calls.is_match(code)) {
        return Vec::new();
    }
    // subprocess.run(["rm", "-rf", "/"]): the words of a list make one command.
    let all = literals(code);
    let joined = all.iter().filter(|word| !word.contains(' ')).cloned().collect::<Vec<_>>().join(" ");
    all.into_iter().filter(|literal| literal.contains(' ')).chain((!joined.is_empty()).then_some(joined)).collect()
}
