//! Says what kinds of action an event shows. In: the screened event and its marks. Out: the triggers that its sender
//! named, then those that the event itself gives away, each with a reason. It looks for forms, not for intent, and
//! names no trigger twice.

use std::{borrow::Cow, cell::LazyCell, sync::LazyLock};

use serde_json::Value;

use super::{commands, needles::Needles};
use crate::domain::{CheckName, Event, FieldName, Mark, Severity, Trigger, TriggerMark, TriggerSource};

/// The event's triggers: declared ones in the sender's order, then derived ones.
pub(super) fn of(event: &Event, marks: &[Mark]) -> Vec<TriggerMark> {
    let mut triggers: Vec<TriggerMark> = Vec::new();
    for name in &event.triggers {
        add(&mut triggers, *name, TriggerSource::Declared, || Some("named by the sender".to_owned()));
    }
    let arguments = LazyCell::new(|| arguments(event));
    let derived: [(Trigger, &dyn Fn() -> Option<String>); 3] = [
        (Trigger::Error, &|| failure(event)),
        (Trigger::CodeWritten, &|| code(event, &arguments)),
        (Trigger::SecurityRisk, &|| risk(event, marks, &arguments)),
    ];
    for (name, why) in derived {
        add(&mut triggers, name, TriggerSource::Derived, why);
    }
    triggers
}

/// A trigger that is there already is not looked for.
fn add(triggers: &mut Vec<TriggerMark>, name: Trigger, source: TriggerSource, why: impl Fn() -> Option<String>) {
    if !triggers.iter().any(|known| known.name == name)
        && let Some(why) = why()
    {
        triggers.push(TriggerMark { name, source, why });
    }
}

fn failure(event: &Event) -> Option<String> {
    let error = event.tool.as_ref().is_some_and(|tool| tool.error.is_some());
    let why = if error { "The tool call returned an error." } else { "The action's status says that it failed." };
    event.is_failed().then(|| why.to_owned())
}

/// The texts that the agent gave to a tool, with their fields.
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

fn code(event: &Event, arguments: &Arguments<'_>) -> Option<String> {
    if let Some(tool) = &event.tool {
        if writes_files(&tool.name, &tool.args) {
            return Some("The tool writes or edits files.".to_owned());
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
    /// A patch: unified, git's, or the form in which agents hand patches to a tool.
    diff: bool,
    /// A fence that begins a line.
    fence: bool,
}

fn forms(text: &str) -> Forms {
    static MARKS: LazyLock<Needles> = LazyLock::new(|| Needles::new(["```", "diff --git ", "*** Begin Patch", "@@ -"]));
    // Each mark holds one of these; whether a text does is told several times faster than where a mark stands.
    if !["```", " --", "*** ", "@@ -"].iter().any(|part| text.contains(part)) {
        return Forms::default();
    }
    let mut seen = Forms::default();
    MARKS.find(text, |mark, at| {
        let before = text.get(..at.start).unwrap_or_default();
        let begins_line = |skip: &[char]| before.trim_end_matches(skip).chars().next_back().is_none_or(|c| c == '\n');
        if mark == 0 {
            seen.fence |= begins_line(&[' ', '\t', '>', '-', '*']);
        } else {
            seen.diff |= begins_line(&[]);
        }
        !seen.diff
    });
    seen
}

/// Whether a tool's name says that it changes files: `write_file`, `Edit`, `apply_patch`, `str_replace_editor`.
fn writes_files(name: &str, args: &Value) -> bool {
    const VERBS: [&str; 14] = [
        "write",
        "edit",
        "create",
        "update",
        "save",
        "patch",
        "modify",
        "insert",
        "append",
        "replace",
        "apply",
        "overwrite",
        "put",
        "add",
    ];
    const OBJECTS: [&str; 11] =
        ["file", "files", "notebook", "code", "patch", "diff", "str", "string", "cell", "editor", "source"];
    const NAMES: [&str; 7] = ["write", "edit", "multiedit", "patch", "applypatch", "searchreplace", "fsedit"];
    // An editor tool whose command is `view` only reads.
    if args.get("command").and_then(Value::as_str).is_some_and(|command| command == "view") {
        return false;
    }
    // `mcp__server__write_file`: the server's name says nothing.
    let own = name.rsplit("__").next().unwrap_or(name);
    let words: Vec<Cow<'_, str>> = commands::words(own).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&&**word));
    NAMES.contains(&words.concat().as_str()) || has(&VERBS) && has(&OBJECTS)
}

fn risk(event: &Event, marks: &[Mark], arguments: &Arguments<'_>) -> Option<String> {
    if let Some(mark) = marks.iter().find(|mark| mark.check == CheckName::Secrets && mark.severity >= Severity::Warning)
    {
        return Some(format!("A credential stood in {} ({}).", mark.field, mark.rule));
    }
    let scripts = commands::of_event(event);
    if let Some(hit) = commands::hits(&scripts).find(|hit| hit.severity >= Severity::Warning) {
        return Some(format!(
            "A command in {} is destructive, privileged or otherwise risky ({}).",
            hit.field, hit.rule
        ));
    }
    let host =
        arguments.iter().filter(|(_, text)| is_url(text)).find_map(|(_, text)| hosts(text).next()).or_else(|| {
            // A command that connects to a host, or names it as a URL.
            scripts.iter().find_map(|script| hosts(&script.text).next().or_else(|| remote_login(&script.text)))
        })?;
    Some(format!("The tool call reaches the outside host {host}."))
}

fn is_url(text: &str) -> bool {
    let text = text.trim_start();
    ["http://", "https://", "ftp://", "ws://", "wss://", "ssh://", "sftp://"]
        .iter()
        .any(|scheme| text.starts_with(scheme))
}

/// The outside hosts of the URLs in a text.
fn hosts(text: &str) -> impl Iterator<Item = String> {
    text.match_indices("://").filter_map(move |(at, mark)| {
        let authority: String = text
            .get(at + mark.len()..)?
            .chars()
            .take(300)
            .take_while(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '@' | ':' | '%' | '[' | ']'))
            .collect();
        let host = authority.rsplit('@').next().unwrap_or(&authority);
        let host =
            if host.starts_with('[') { host.trim_matches(['[', ']']) } else { host.split(':').next().unwrap_or(host) };
        is_outside(host).then(|| host.to_ascii_lowercase())
    })
}

/// The host that `ssh`, `scp`, `sftp` or `rsync` logs in to.
fn remote_login(script: &str) -> Option<String> {
    let mut words = script
        .split(|c: char| c.is_whitespace() || matches!(c, ';' | '|' | '&' | '\'' | '"'))
        .filter(|word| !word.is_empty());
    words.by_ref().find(|word| matches!(word.rsplit('/').next(), Some("ssh" | "scp" | "sftp" | "rsync")))?;
    words.take(12).find_map(|word| {
        let (_, rest) = word.split_once('@')?;
        let host = rest.split(':').next().unwrap_or(rest);
        is_outside(host).then(|| host.to_ascii_lowercase())
    })
}

/// Whether a host lies beyond the machine, its network and the names that RFC 2606 and RFC 6761 reserve.
fn is_outside(host: &str) -> bool {
    const RESERVED: [&str; 11] = [
        "example.com",
        "example.org",
        "example.net",
        "example",
        "test",
        "invalid",
        "localhost",
        "local",
        "internal",
        "lan",
        "home.arpa",
    ];
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    if let Ok(address) = host.parse::<std::net::Ipv4Addr>() {
        return !(address.is_loopback()
            || address.is_private()
            || address.is_link_local()
            || address.is_unspecified()
            || address.is_documentation());
    }
    if let Ok(address) = host.parse::<std::net::Ipv6Addr>() {
        return !(address.is_loopback()
            || address.is_unspecified()
            || address.is_unique_local()
            || address.is_unicast_link_local());
    }
    host.contains('.')
        && !RESERVED.iter().any(|name| host == *name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.')))
}
