//! Says what kinds of action an event shows. In: the screened event and its marks. Out: the triggers that its sender
//! named, then those that the event itself gives away, each with a reason. It looks for forms, not for intent, and
//! names no trigger twice.

use std::sync::LazyLock;

use serde_json::Value;

use super::{commands, needles::Needles};
use crate::domain::{CheckName, Event, Mark, Severity, Trigger, TriggerMark, TriggerSource};

/// The event's triggers: declared ones in the sender's order, then derived ones.
pub(super) fn of(event: &Event, marks: &[Mark]) -> Vec<TriggerMark> {
    let mut triggers: Vec<TriggerMark> = Vec::new();
    for name in &event.triggers {
        add(&mut triggers, *name, TriggerSource::Declared, || Some("named by the sender".to_owned()));
    }
    let derived: [(Trigger, &dyn Fn() -> Option<String>); 3] = [
        (Trigger::Error, &|| failure(event)),
        (Trigger::CodeWritten, &|| code(event)),
        (Trigger::SecurityRisk, &|| risk(event, marks)),
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

fn code(event: &Event) -> Option<String> {
    if let Some(tool) = &event.tool {
        if writes_files(&tool.name, &tool.args) {
            return Some("The tool writes or edits files.".to_owned());
        }
        let mut diff = None;
        event.for_each_text(|field, text| {
            if diff.is_none() && field.is_tool_argument() && forms(text).diff {
                diff = Some(format!("{field} holds a diff."));
            }
        });
        if diff.is_some() {
            return diff;
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
    let words: Vec<String> = commands::words(own).collect();
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    NAMES.contains(&words.concat().as_str()) || has(&VERBS) && has(&OBJECTS)
}

fn risk(event: &Event, marks: &[Mark]) -> Option<String> {
    if let Some(mark) = marks.iter().find(|mark| mark.check == CheckName::Secrets && mark.severity >= Severity::Warning)
    {
        return Some(format!("A credential stood in {} ({}).", mark.field, mark.rule));
    }
    if let Some(hit) = commands::hits(event).into_iter().find(|hit| hit.severity >= Severity::Warning) {
        return Some(format!(
            "A command in {} is destructive, privileged or otherwise risky ({}).",
            hit.field, hit.rule
        ));
    }
    outside_host(event).map(|host| format!("The tool call reaches the outside host {host}."))
}

/// An outside host that a tool's argument names as a URL, or that a command connects to.
fn outside_host(event: &Event) -> Option<String> {
    let mut host = None;
    event.for_each_text(|field, text| {
        if host.is_none() && field.is_tool_argument() && is_url(text) {
            host = hosts(text).next();
        }
    });
    host.or_else(|| {
        commands::of_event(event)
            .iter()
            .find_map(|script| hosts(&script.text).next().or_else(|| remote_login(&script.text)))
    })
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
