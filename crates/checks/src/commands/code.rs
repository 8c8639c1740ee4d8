//! Code in other languages that a command gives to an interpreter. In: the code. Out: what it destroys by itself, and
//! the shell commands that it starts. The code is searched for the calls that do so; no language is parsed.

use std::{ops::Range, sync::LazyLock};

use aho_corasick::AhoCorasick;
use regex::Regex;

use super::{Detection, word_lists};
use umbra_analysis::{
    code::{CallMeaning, Language, Started, started},
    shell::targets::{PathKind, classify, is_credential_file},
};
use umbra_domain::Severity;

/// Most literals of one piece of code that are read.
const MOST_LITERALS: usize = 16;

/// Returns the worst that code in another language does by itself.
pub(super) fn detect_in_code(code: &str) -> Option<Detection> {
    let lower = code.to_ascii_lowercase();
    let says = |calls: &[&str]| calls.iter().any(|call| lower.contains(call));
    let calls = |list: &str| word_lists::words(list).any(|call| lower.contains(call));
    if calls("downloading_calls")
        && says(&["exec(", "eval(", "eval ", "then(eval", "compile(", "vm.run", "instance_eval", "loads("])
    {
        let what = "Runs code that downloads more code and executes it without inspection.".to_owned();
        return Some(Detection::new("download_and_run", Severity::Critical, what));
    }
    if says(&["b64decode(", "frombase64", "atob(", "base64_decode(", "decode64", "unhexlify(", "fromhex("])
        && says(&["exec(", "eval(", "eval ", "compile(", "system("])
    {
        let what = "Runs code that decodes more code and executes it without inspection.".to_owned();
        return Some(Detection::new("decoded_and_run", Severity::Critical, what));
    }
    let tree =
        calls("tree_removing_calls") || says(&["fs.rm(", "promises.rm(", "rmdir("]) && lower.contains("recursive");
    if tree {
        let worst = literals(code).iter().map(|path| classify(path)).max();
        // A path known by a variable alone is judged like a directory of the project, as in a shell.
        let severity = match worst.unwrap_or(PathKind::Inside) {
            PathKind::Temporary | PathKind::Rebuilt | PathKind::Inside => Severity::Info,
            PathKind::Outside | PathKind::Here => Severity::Warning,
            PathKind::Home | PathKind::System => Severity::Critical,
        };
        let harmless = worst.is_some_and(|worst| worst <= PathKind::Rebuilt);
        let what = "Runs code that deletes a directory with everything in it.".to_owned();
        return (!harmless).then(|| Detection::new("recursive_delete", severity, what));
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
        literals(code).into_iter().find(|path| path.contains('/') && classify(path) >= PathKind::Home)
    {
        let what = format!("Runs code that deletes a system or user file (`{path}`).");
        return Some(Detection::new("recursive_delete", Severity::Warning, what));
    }
    let reads = says(&["open(", "readfile", "file.read", "file_get_contents(", "path("]);
    let secret = literals(code).into_iter().find(|literal| is_credential_file(literal)).filter(|_| reads)?;
    let (rule, severity, does) = if says(&["requests.post", "urlopen(", "http.post", "fetch(", "socket", "axios"]) {
        ("exfiltration", Severity::Critical, "reads and sends")
    } else {
        ("reads_credentials", Severity::Warning, "reads")
    };
    Some(Detection::new(rule, severity, format!("Runs code that {does} `{secret}`, which holds credentials.")))
}

/// Returns the calls of code that start commands or delete something, each with its place, as shell commands.
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
            CallMeaning::Starts => text,
            CallMeaning::Itself => format!("{interpreter} '{}'", text.replace('\'', "\"")),
        };
        (span, command)
    })
}

/// Returns the first string literals of code.
fn literals(code: &str) -> Vec<String> {
    static LITERALS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#""((?:[^"\\]|\\.)+)"|'((?:[^'\\]|\\.)+)'|`([^`]+)`"#).ok());
    let Some(literals) = LITERALS.as_ref() else { return Vec::new() };
    let found = literals
        .captures_iter(code)
        .filter_map(|captures| captures.iter().skip(1).flatten().next().map(|one| one.as_str().to_owned()));
    found.take(MOST_LITERALS).collect()
}

/// Returns the shell commands that code gives to a shell: the string literals of a text that calls one.
pub(super) fn commands_in(code: &str) -> Vec<String> {
    static CALLS: LazyLock<Option<AhoCorasick>> =
        LazyLock::new(|| AhoCorasick::new(word_lists::lines("calls_shell")).ok());
    if !CALLS.as_ref().is_some_and(|calls| calls.is_match(code)) {
        return Vec::new();
    }
    // subprocess.run(["rm", "-rf", "/"]): the words of a list make one command.
    let all = literals(code);
    let joined = all.iter().filter(|word| !word.contains(' ')).cloned().collect::<Vec<_>>().join(" ");
    all.into_iter().filter(|literal| literal.contains(' ')).chain((!joined.is_empty()).then_some(joined)).collect()
}
