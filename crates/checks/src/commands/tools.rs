//! Tool calls that amount to a command: SQL for a database's tool, code for an interpreter's, a path for a tool that
//! deletes, reads or writes. In: an event's tool call. Out: equivalent commands, so one set of rules judges both.

use std::{borrow::Cow, cell::LazyCell, ops::Range};

use serde_json::Value;

use super::scripts::words;
use crate::word_lists;
use umbra_analysis::shell::targets::is_credential_file;
use umbra_domain::ToolCall;

/// Longest argument that is read, in bytes.
const LONGEST: usize = 64 * 1024;

/// Words of a tool's name.
struct ToolWords<'n>(Vec<Cow<'n, str>>);

impl ToolWords<'_> {
    fn has(&self, list: &[&str]) -> bool {
        self.0.iter().any(|word| list.contains(&&**word))
    }

    fn has_any(&self, list: &str) -> bool {
        self.0.iter().any(|word| word_lists::lists(list, word))
    }
}

/// Interpreters, each with the words in the names of tools that run code in it.
const INTERPRETERS: [(&str, &[&str]); 5] = [
    ("python", &["python", "python3", "ipython", "py", "jupyter", "notebook", "interpreter", "repl", "code"]),
    ("node", &["node", "nodejs", "javascript", "js"]),
    ("ruby", &["ruby"]),
    ("perl", &["perl"]),
    ("php", &["php"]),
];

/// True if a tool's name means that it runs the code in its arguments.
pub(crate) fn is_interpreter(name: &str) -> bool {
    let name = ToolWords(words(name.rsplit("__").next().unwrap_or(name)).collect());
    INTERPRETERS.iter().any(|(_, words)| name.has(words)) && !name.has(&HANDLES)
}

/// Words in the names of tools that handle code without running it.
const HANDLES: [&str; 9] = ["write", "edit", "create", "save", "search", "review", "format", "lint", "read"];

/// Hosts that serve the credentials of a machine.
const METADATA: [&str; 5] =
    ["169.254.169.254", "metadata.google.internal", "fd00:ec2::254", "169.254.170.2", "100.100.100.200"];

/// Returns the command that an argument amounts to. `key` is the argument's own name.
pub(super) fn command(tool: &ToolCall, key: &str, text: &str) -> Option<String> {
    if text.len() > LONGEST {
        return None;
    }
    let name = LazyCell::new(|| ToolWords(words(tool.name.rsplit("__").next().unwrap_or(&tool.name)).collect()));
    let is = |keys: &[&str]| keys.iter().any(|known| known.eq_ignore_ascii_case(key));
    if (is(&["sql"])
        || is(&["query", "statement", "statements", "command", "cmd", "input", "q"])
            && ToolWords(words(&tool.name).collect()).has_any("database_tools"))
        && is_statement(text)
    {
        return Some(format!("sql -c {}", quoted(text)));
    }
    if is(&["code", "source", "script", "cell", "snippet", "input", "content", "new_source"])
        && !name.has(&HANDLES)
        && let Some((program, _)) = INTERPRETERS.iter().find(|(_, words)| name.has(words))
    {
        let option = if *program == "python" {
            "-c"
        } else if *program == "php" {
            "-r"
        } else {
            "-e"
        };
        return Some(format!("{program} {option} {}", quoted(text)));
    }
    let method = ["method", "verb", "http_method"].iter().find_map(|key| tool.args.get(*key)?.as_str());
    if is(&["url", "uri", "endpoint"])
        && text.contains("://")
        && method.is_some_and(|method| method.eq_ignore_ascii_case("delete"))
    {
        return Some(format!("curl -X DELETE {}", quoted(text)));
    }
    if !text.contains(char::is_whitespace) && text.contains("://") && METADATA.iter().any(|host| text.contains(host)) {
        return Some(format!("curl {}", quoted(text)));
    }
    let path = word_lists::lists("path_arguments", &key.to_ascii_lowercase());
    if !path || text.len() > 4096 || text.contains('\n') {
        return None;
    }
    let path = text.strip_prefix("file://").unwrap_or(text);
    let deletes = ["delete", "remove", "rm", "rmdir", "unlink", "rmtree", "erase", "destroy"];
    if name.has(&deletes) {
        let tree = tool.args.get("recursive") == Some(&Value::Bool(true))
            || name.has(&["directory", "dir", "folder", "tree", "rmtree", "rmdir"])
                && tool.args.get("recursive").is_none();
        return Some(format!("rm {} {}", if tree { "-rf" } else { "-f" }, quoted_path(path)));
    }
    // An editor tool whose command is `view` only reads.
    let views = tool.args.get("command").and_then(Value::as_str) == Some("view");
    if name.has_any("writing_tools") && !views {
        return Some(format!("tee {}", quoted_path(path)));
    }
    let reads = ["read", "cat", "view", "open", "get", "load", "show", "download", "fetch"];
    ((views || name.has(&reads)) && is_credential_file(path)).then(|| format!("cat {}", quoted_path(path)))
}

/// Quotes a word for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Quotes a path for a shell, except a leading `~`.
fn quoted_path(path: &str) -> String {
    match path.strip_prefix('~') {
        Some(rest) => format!("~{}", quoted(rest)),
        None => quoted(path),
    }
}

/// True if a text begins like a statement, and is not a search text.
fn is_statement(text: &str) -> bool {
    const VERBS: [&str; 19] = [
        "DROP", "TRUNCATE", "DELETE", "UPDATE", "ALTER", "BEGIN", "START", "WITH", "SELECT", "INSERT", "CREATE", "SET",
        "USE", "GRANT", "FLUSHALL", "FLUSHDB", "COMMIT", "EXPLAIN", "DO",
    ];
    let text = text.trim_start();
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
    text.starts_with("--") || text.starts_with("/*") || VERBS.iter().any(|verb| first.eq_ignore_ascii_case(verb))
}

/// Returns the commands of a notebook's cell, each with the byte where it begins: lines after `!`, and the whole of a
/// cell that begins with `%%bash` or `%%sh`.
pub(super) fn cell_commands(code: &str) -> Vec<(usize, &str)> {
    if let Some(line) = code.lines().next().filter(|line| line.starts_with("%%bash") || line.starts_with("%%sh")) {
        return vec![(line.len(), code.get(line.len()..).unwrap_or_default())];
    }
    if !code.contains('!') {
        return Vec::new();
    }
    let mut at = 0;
    let mut found = Vec::new();
    for line in code.split_inclusive('\n') {
        let bare = line.trim_start();
        if let Some(command) = bare.strip_prefix('!').filter(|rest| !rest.starts_with('=')) {
            found.push((at + line.len() - command.len(), command));
        }
        at += line.len();
    }
    found
}

/// Returns the commands within a text that is JSON: the values of members with one of these names.
pub(super) fn within_json(text: &str, keys: &[&str]) -> Vec<String> {
    let bare = text.trim_start();
    if text.len() > LONGEST || !bare.starts_with(['{', '[']) || !keys.iter().any(|key| text.contains(key)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    if let Ok(value) = serde_json::from_str::<Value>(bare) {
        members(&value, keys, 0, &mut found);
    }
    found
}

fn members(value: &Value, keys: &[&str], depth: usize, found: &mut Vec<String>) {
    /// Most commands of one text that are followed.
    const MOST: usize = 16;
    if depth > 8 || found.len() >= MOST {
        return;
    }
    match value {
        Value::Array(items) => items.iter().for_each(|item| members(item, keys, depth + 1, found)),
        Value::Object(map) => {
            for (key, value) in map {
                let named = keys.iter().any(|known| known.eq_ignore_ascii_case(key));
                match value {
                    Value::String(text) if named => found.push(text.clone()),
                    Value::Array(items) if named && items.iter().all(Value::is_string) => {
                        found.push(items.iter().filter_map(Value::as_str).map(quoted).collect::<Vec<_>>().join(" "));
                    }
                    _ => members(value, keys, depth + 1, found),
                }
            }
        }
        _ => {}
    }
}

/// Returns the lines of a file that a build or an installation runs as commands; none for other files.
pub(super) fn built_commands<'t>(path: &str, text: &'t str) -> Vec<(usize, &'t str)> {
    let name = path.rsplit('/').next().unwrap_or_default();
    let workflow = (path.contains(".github/workflows/") || name == ".gitlab-ci.yml" || path.contains(".circleci/"))
        && name.rsplit_once('.').is_some_and(|(_, ending)| matches!(ending, "yml" | "yaml"));
    let docker = name.starts_with("Dockerfile")
        || name.rsplit_once('.').is_some_and(|(_, ending)| ending == "dockerfile")
        || name == "Containerfile";
    let make = matches!(name, "Makefile" | "makefile" | "GNUmakefile" | "justfile")
        || name.rsplit_once('.').is_some_and(|(_, ending)| ending == "mk");
    if text.len() > LONGEST {
        return Vec::new();
    }
    match () {
        () if name == "package.json" => package_scripts(text),
        () if workflow => workflow_steps(text),
        () if docker => docker_steps(text),
        () if make => recipes(text),
        () => Vec::new(),
    }
}

/// Returns the scripts of a package's manifest, unless they contain escapes.
pub(super) fn package_scripts(text: &str) -> Vec<(usize, &str)> {
    let manifest = serde_json::from_str::<Value>(text).unwrap_or_default();
    // The written text may be a part of a manifest.
    let Some(scripts) = manifest.get("scripts").and_then(Value::as_object) else { return members_by_line(text) };
    let commands = scripts.values().filter_map(Value::as_str);
    commands
        .filter_map(|command| text.find(command).map(|at| (at, text.get(at..at + command.len()).unwrap_or_default())))
        .collect()
}

/// Returns the values of members that stand on one line each: `"postinstall": "…",`.
fn members_by_line(text: &str) -> Vec<(usize, &str)> {
    let value = |(at, line): (usize, &'_ str)| {
        let rest = line.trim_start().strip_prefix('"')?;
        let (_, value) = rest.split_once("\": \"").or_else(|| rest.split_once("\":\""))?;
        let start = at + line.len() - value.len();
        let length = value.trim_end().trim_end_matches(',').trim_end_matches('"').len();
        Some((start, length)).filter(|_| length > 0)
    };
    lines(text).filter_map(value).map(|(at, length)| (at, text.get(at..at + length).unwrap_or_default())).collect()
}

/// Returns the commands of a workflow's steps: `run: make`, and the lines of `run: |`.
pub(super) fn workflow_steps(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    // Indentation of the step's key whose block continues.
    let mut block: Option<usize> = None;
    for (at, line) in lines(text) {
        let bare = line.trim_start_matches([' ', '\t', '-']);
        let indent = line.len() - bare.len();
        if block.is_some_and(|block| indent > block) && !bare.is_empty() {
            found.push((at + indent, bare));
            continue;
        }
        block = block.filter(|_| bare.is_empty());
        let step = ["run:", "script:", "before_script:", "command:"].iter().find_map(|key| bare.strip_prefix(key));
        let Some(command) = step.map(str::trim) else { continue };
        if command.is_empty() || command.starts_with(['|', '>']) {
            block = Some(indent);
        } else {
            found.push((at + line.len() - step.unwrap_or_default().trim_start().len(), command));
        }
    }
    found
}

/// Returns the commands of the steps in an image's recipe.
pub(super) fn docker_steps(text: &str) -> Vec<(usize, &str)> {
    let mut goes_on = false;
    let mut found = Vec::new();
    for (at, line) in lines(text) {
        let bare = line.trim_start();
        let step = ["RUN ", "CMD ", "ENTRYPOINT "].iter().find_map(|verb| bare.strip_prefix(verb));
        let command = step.or(goes_on.then_some(bare)).map(|command| command.trim_end_matches('\\').trim());
        goes_on = command.is_some() && bare.ends_with('\\');
        if let Some(command) = command.filter(|command| !command.is_empty()) {
            found.push((at + line.find(command).unwrap_or(0), command));
        }
    }
    found
}

/// Returns the commands of the rules in a makefile.
pub(super) fn recipes(text: &str) -> Vec<(usize, &str)> {
    let command = |(at, line): (usize, &'_ str)| {
        let bare = line.strip_prefix('\t').or_else(|| line.strip_prefix("    "))?;
        let bare = bare.trim_start_matches([' ', '\t', '@', '-', '+']);
        Some((at + line.len() - bare.len(), bare.len())).filter(|_| !bare.is_empty())
    };
    lines(text).filter_map(command).map(|(at, length)| (at, text.get(at..at + length).unwrap_or_default())).collect()
}

/// Returns the lines of a text, each with the byte where it begins.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        let start = at;
        at += line.len();
        (start, line.trim_end_matches(['\n', '\r']))
    })
}

/// Returns commands that write or remove the files of a patch, each with the place of its name.
pub(super) fn patched_files(patch: &str) -> impl Iterator<Item = (Range<usize>, String)> {
    const MOST: usize = 64;
    let heads = [
        ("*** Add File: ", "tee"),
        ("*** Update File: ", "tee"),
        ("*** Move to: ", "tee"),
        ("*** Delete File: ", "rm -f"),
        ("+++ b/", "tee"),
    ];
    let is_patch = patch.len() <= LONGEST && (patch.contains("*** ") || patch.contains("+++ b/"));
    let lines = lines(patch).take_while(move |_| is_patch).filter_map(move |(at, line)| {
        let (file, by) = heads.iter().find_map(|(head, by)| Some((line.strip_prefix(head)?.trim(), *by)))?;
        Some((at..at + line.len(), format!("{by} {}", quoted_path(file))))
    });
    lines.take(MOST)
}

/// Returns the lines that a patch adds to each file, with the place of the first.
pub(super) fn patched(patch: &str) -> Vec<(&str, usize, String)> {
    const MOST: usize = 16;
    let mut files: Vec<(&str, usize, String)> = Vec::new();
    if patch.len() > LONGEST {
        return files;
    }
    for (at, line) in lines(patch) {
        let heads = ["+++ b/", "+++ ", "*** Add File: ", "*** Update File: "];
        if let Some(path) = heads.iter().find_map(|head| line.strip_prefix(head)) {
            if files.len() == MOST {
                break;
            }
            files.push((path.trim(), at, String::new()));
        } else if let (Some(added), Some((_, start, text))) = (line.strip_prefix('+'), files.last_mut()) {
            if text.is_empty() {
                *start = at;
            }
            text.push_str(added);
            text.push('\n');
        }
    }
    files.retain(|(_, _, text)| !text.is_empty());
    files
}

/// True if a file is a shell script by its name.
pub(super) fn is_script(path: &str) -> bool {
    [".sh", ".bash", ".zsh", ".ksh"].iter().any(|ending| path.ends_with(ending))
}
