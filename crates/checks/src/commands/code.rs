//! Code in other languages that a command hands to an interpreter. In: the code. Out: what it destroys by its own means,
//! and the shell commands that it starts. It looks for the calls by which such code does either, and parses no language.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::Sight;
use umbra_analysis::{
    code::{Does, Language, Started, started},
    shell::targets::{Target, classify, is_credential_file},
};
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
        // What only a name stands for is judged like a directory of the project, as it is in a shell.
        let severity = match worst.unwrap_or(Target::Inside) {
            Target::Temporary | Target::Rebuilt | Target::Inside => Severity::Info,
            Target::Outside | Target::Here => Severity::Warning,
            Target::Home | Target::System => Severity::Critical,
        };
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

/// Calls of code in any language that start or delete something, each with its place, as commands of a shell.
pub(super) fn commands_of(code: &str, language: Option<Language>) -> impl Iterator<Item = (Range<usize>, String)> {
    started(code, language).into_iter().map(move |Started { does, text, span }| {
        let interpreter = match language {
            Some(Language::JavaScript) => "node -e",
            Some(Language::Ruby) => "ruby -e",
            Some(Language::Perl) => "perl -e",
            Some(Language::Php) => "php -r",
            _ => "python -c",
        };
        let command = match does {
            Does::Starts => text,
            Does::Itself => format!("{interpreter} '{}'", text.replace('\'', "\"")),
        };
        (span, command)
    })
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
