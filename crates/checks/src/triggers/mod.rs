//! Derivation of triggers: the kinds of action that an event shows. In: the screened event and its marks. Out: the
//! triggers that the sender declared, then derived ones, each with a reason and none twice. Forms count, not intent.
//! `rows` is the table of signs, and `signs` searches for them.

mod rows;
mod signs;

use std::{borrow::Cow, cell::LazyCell, sync::LazyLock};

use aho_corasick::{AhoCorasick, MatchKind};
use serde_json::Value;

use super::{
    commands, contradictions,
    hosts::{hosts, is_url, named_host, reached},
};
use crate::word_lists;
use umbra_domain::{CheckName, Event, FieldName, Hit, Mark, Severity, Trigger, TriggerMark, TriggerSource};

/// Returns the event's triggers: declared ones in the sender's order, then derived ones.
pub(super) fn derive_triggers(event: &Event, marks: &[Mark]) -> Vec<TriggerMark> {
    let mut triggers: Vec<TriggerMark> = Vec::new();
    for name in &event.triggers {
        add(&mut triggers, *name, TriggerSource::Declared, || Some("named by the sender".to_owned()));
    }
    let arguments = LazyCell::new(|| arguments(event));
    let scripts = LazyCell::new(|| commands::of_event(event));
    let derived: [(Trigger, &dyn Fn() -> Option<String>); 4] = [
        (Trigger::Error, &|| failure(event)),
        (Trigger::CodeWritten, &|| code(event, &arguments, || &scripts)),
        (Trigger::SecurityRisk, &|| risk(event, marks, &arguments, || &scripts)),
        (Trigger::TaskComplete, &|| signs::of_event(Trigger::TaskComplete, event).filter(|_| !event.is_failed())),
    ];
    for (name, why) in derived {
        add(&mut triggers, name, TriggerSource::Derived, why);
    }
    triggers
}

/// Adds a trigger unless it is present; then its reason is not computed.
fn add(triggers: &mut Vec<TriggerMark>, name: Trigger, source: TriggerSource, why: impl Fn() -> Option<String>) {
    if !triggers.iter().any(|known| known.name == name)
        && let Some(why) = why()
    {
        triggers.push(TriggerMark { name, source, why });
    }
}

fn failure(event: &Event) -> Option<String> {
    if let Some(tool) = &event.tool {
        if tool.error.is_some() {
            return Some("The tool call returned an error.".to_owned());
        }
        let result = tool.result.as_deref().unwrap_or_default();
        let start = result.trim_start();
        if ["error:", "error executing", "exception:", "toolexception"].iter().any(|word| begins(start, word)) {
            return Some("The tool's result is an error.".to_owned());
        }
        // The result of a reader may be about any failure; a command's output is about its own.
        if let Some(how) = contradictions::of_result(result, commands::is_shell_tool(&tool.name)) {
            let mut how = how.replacen("the ", "The ", 1);
            how.push('.');
            return Some(how);
        }
    }
    signs::of_event(Trigger::Error, event)
        .or_else(|| event.is_failed().then(|| "The action's status says that it failed.".to_owned()))
}

fn begins(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// Texts that the agent gave to a tool, with their fields.
type Arguments<'e> = [(FieldName, &'e str)];

fn arguments(event: &Event) -> Vec<(FieldName, &str)> {
    let mut arguments = Vec::new();
    if event.tool.is_some() {
        event.for_each_text(|field, text| {
            if field.is_tool_argument() {
                arguments.push((field, text));
            }
        });
    }
    arguments
}

/// Commands of the event, computed once.
type Scripts<'s, 'e> = &'s [commands::Script<'e>];

fn code<'s, 'e: 's>(event: &Event, arguments: &Arguments<'_>, scripts: impl Fn() -> Scripts<'s, 'e>) -> Option<String> {
    if let Some(tool) = &event.tool {
        if writes_files(&tool.name, &tool.args) {
            return Some("The tool writes or edits files.".to_owned());
        }
        let writes = |script: &&commands::Script<'_>| script.field.is_tool_argument() && script_writes(&script.text);
        if let Some(script) = scripts().iter().find(writes) {
            return Some(format!("The command in {} writes or edits a file of code.", script.field));
        }
        if let Some((field, _)) = arguments.iter().find(|(_, text)| forms(text).diff) {
            return Some(format!("{field} holds a diff."));
        }
    }
    let seen = forms(event.output.as_deref()?);
    if seen.diff {
        return Some("The output holds a diff.".to_owned());
    }
    seen.fence.then(|| "The output holds a fenced block of code.".to_owned())
}

/// Forms of code in a text.
#[derive(Debug, Default, Clone, Copy)]
struct Forms {
    /// A patch: unified, git's, or in the form in which agents give patches to a tool.
    diff: bool,
    /// A fence that begins a line.
    fence: bool,
}

fn forms(text: &str) -> Forms {
    static MARKS: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| {
        let marks = ["```", "diff --git ", "*** Begin Patch", "@@ -"];
        AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(marks).ok()
    });
    let mut seen = Forms::default();
    let mut open = false;
    for mark in MARKS.iter().flat_map(|marks| marks.find_iter(text)) {
        let before = text.get(..mark.start()).unwrap_or_default();
        let begins_line = |skip: &[char]| before.trim_end_matches(skip).chars().next_back().is_none_or(|c| c == '\n');
        if mark.pattern().as_usize() == 0 {
            if begins_line(&[' ', '\t', '>', '-', '*']) {
                // Every second fence closes.
                open = !open;
                seen.fence |= open && !is_plain(text.get(mark.end()..).unwrap_or_default());
            }
        } else {
            seen.diff |= begins_line(&[]);
        }
        if seen.diff {
            break;
        }
    }
    seen
}

/// True if a fence's label says that its content is no code: `text`, `console`, `log`.
fn is_plain(rest: &str) -> bool {
    const PLAIN: [&str; 8] = ["text", "txt", "plaintext", "plain", "console", "output", "log", "none"];
    let word = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    PLAIN.iter().any(|plain| word.eq_ignore_ascii_case(plain))
}

/// True if a command writes a file of code: by redirection, in place, or from a patch.
fn script_writes(script: &str) -> bool {
    if ![">", "sed", "tee", "patch", "apply", "perl"].iter().any(|part| script.contains(part)) {
        return false;
    }
    script.split(['\n', ';', '|', '&']).any(|part| {
        let mut words = part.split_whitespace().skip_while(|word| *word == "sudo" || word.contains('='));
        let program = words.next().unwrap_or_default();
        let rest: Vec<&str> = words.collect();
        let files = || rest.iter().any(|word| is_code_file(word));
        match program.rsplit('/').next().unwrap_or(program) {
            "sed" => rest.iter().any(|word| word.starts_with("-i") || *word == "--in-place") && files(),
            "perl" => rest.iter().any(|word| word.starts_with("-pi") || word.starts_with("-i")) && files(),
            "tee" => files(),
            "patch" | "apply_patch" => true,
            "git" if rest.first() == Some(&"apply") || rest.first() == Some(&"am") => !rest.contains(&"--check"),
            _ => redirected(part).any(is_code_file),
        }
    })
}

/// Returns the files that receive a command's output.
fn redirected(part: &str) -> impl Iterator<Item = &str> {
    part.match_indices('>').filter_map(|(at, _)| {
        let rest = part.get(at + 1..)?.trim_start_matches('>').trim_start();
        rest.split(|c: char| c.is_whitespace() || matches!(c, '<' | ')' | '>')).next()
    })
}

/// True if a path names a file of source code or of a build.
fn is_code_file(path: &str) -> bool {
    const ENDINGS: [&str; 52] = [
        "rs", "py", "js", "jsx", "ts", "tsx", "mjs", "cjs", "go", "java", "kt", "kts", "c", "h", "cc", "cpp", "hpp",
        "cs", "rb", "php", "swift", "scala", "sh", "bash", "zsh", "ps1", "sql", "html", "css", "scss", "vue", "svelte",
        "lua", "r", "jl", "ex", "exs", "erl", "hs", "ml", "clj", "dart", "tf", "proto", "toml", "yaml", "yml", "ipynb",
        "gradle", "nix", "zig", "graphql",
    ];
    let name = path.trim_matches(['"', '\'', '`']).rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map(|(_, ending)| ending);
    ending.is_some_and(|ending| ENDINGS.contains(&ending)) || ["Dockerfile", "Makefile", "Jenkinsfile"].contains(&name)
}

/// True if a tool's name means that it changes files: `write_file`, `Edit`, `apply_patch`, `str_replace_editor`.
fn writes_files(name: &str, args: &Value) -> bool {
    const OBJECTS: [&str; 11] =
        ["file", "files", "notebook", "code", "patch", "diff", "str", "string", "cell", "editor", "source"];
    const AMBIGUOUS: [&str; 4] = ["code", "source", "string", "str"];
    const NAMES: [&str; 8] =
        ["write", "edit", "multiedit", "patch", "applypatch", "searchreplace", "fsedit", "fswrite"];
    // An editor tool whose command is `view` only reads.
    if args.get("command").and_then(Value::as_str).is_some_and(|command| command == "view") {
        return false;
    }
    // `mcp__server__write_file`: the server's name is no evidence.
    let own = name.rsplit("__").next().unwrap_or(name);
    let words: Vec<Cow<'_, str>> = commands::words(own).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&&**word));
    // Another kind of code: `create_qr_code`, `update_zip_code`; a source or a string of data.
    let other = words.windows(2).any(
        |pair| matches!(pair, [kind, thing] if word_lists::lists("other_codes", kind) && AMBIGUOUS.contains(&&**thing)),
    );
    NAMES.contains(&words.concat().as_str())
        || !other && words.iter().any(|word| word_lists::lists("changing_verbs", word)) && has(&OBJECTS)
}

fn risk<'s, 'e: 's>(
    event: &Event,
    marks: &[Mark],
    arguments: &Arguments<'_>,
    scripts: impl Fn() -> Scripts<'s, 'e>,
) -> Option<String> {
    if let Some(mark) = marks.iter().find(|mark| mark.check == CheckName::Secrets && mark.severity >= Severity::Warning)
    {
        return Some(format!("A credential stood in {} ({}).", mark.field, mark.rule));
    }
    let scripts = scripts();
    // A command with another user's rights is a risk, everyday work or not.
    let is_risk = |hit: &Hit| hit.severity >= Severity::Warning || hit.rule == "privilege";
    if let Some(hit) = commands::hits(scripts).find(is_risk) {
        return Some(format!(
            "A command in {} is destructive, privileged or otherwise risky ({}).",
            hit.field, hit.rule
        ));
    }
    let sign =
        signs::of_event(Trigger::SecurityRisk, event).or_else(|| signs::of_commands(Trigger::SecurityRisk, scripts));
    if sign.is_some() {
        return sign;
    }
    let host = arguments
        .iter()
        .find_map(|(field, text)| if is_url(text) { hosts(text).next() } else { named_host(field, text) })
        .or_else(|| scripts.iter().find_map(|script| reached(&script.text)))?;
    Some(format!("The tool call reaches the outside host {host}."))
}
