//! What a call asks for by its arguments, whatever its tool is called. In: the arguments as they are sent. Out: the gravest
//! that one of them asks for beyond a read, where it stands, and what it says.
//!
//! Declared or not, nested or within a text of JSON, each argument is looked at: statements of SQL and its kin, methods of
//! HTTP, names of actions, commands of a shell, stages of a pipeline that store, flags. Some say plainly that they write;
//! of others nobody can tell, which counts where only a classifier called the tool a read. A text to be searched for or
//! translated may be a statement, too: it is taken for one.

use serde_json::{Map, Value};

use super::{
    LANGUAGES, command,
    lexicon::verb,
    name::{of_words, says_nothing, words},
    schema::{flag, is_written},
    statement::{Verdict, judge},
};
use crate::{
    checks,
    domain::{Effect, ToolName},
};

/// Bytes of arguments that are looked at. What has more is no read.
const MAX_BYTES: usize = 128 * 1024;
/// Texts of JSON within texts of JSON.
const MAX_UNFOLDED: usize = 3;
/// Characters of a pointer that are told.
const MAX_POINTER: usize = 200;

/// Arguments that name what is to be done.
const METHODS: [&str; 12] = [
    "action",
    "actions",
    "method",
    "methods",
    "mutation",
    "op",
    "operation",
    "operations",
    "ops",
    "subcommand",
    "verb",
    "verbs",
];
/// Arguments that hold a command.
const COMMANDS: [&str; 9] = ["bash", "cmd", "cmdline", "command", "commands", "exec", "powershell", "sh", "shell"];
/// Arguments that hold a program.
const PROGRAMS: [&str; 6] = ["javascript", "js", "program", "python", "script", "scripts"];
/// Arguments that hold a statement and nothing else.
const STATEMENTS: [&str; 9] = ["cql", "cypher", "ddl", "dml", "hql", "sparql", "sql", "stmt", "tsql"];
/// Arguments that may hold a statement, where the tool speaks a language that has such.
const QUERIES: [&str; 6] = ["expression", "q", "queries", "query", "statement", "statements"];
/// Arguments that name a place on a disk.
const PATHS: [&str; 5] = ["file", "filename", "filepath", "path", "paths"];
/// Arguments whose name alone says what is to be done with them.
const ASKED: [(&str, Effect); 11] = [
    ("create", Effect::Write),
    ("delete", Effect::Destructive),
    ("drop", Effect::Destructive),
    ("insert", Effect::Write),
    ("overwrite", Effect::Destructive),
    ("purge", Effect::Destructive),
    ("remove", Effect::Destructive),
    ("save", Effect::Write),
    ("update", Effect::Write),
    ("upsert", Effect::Write),
    ("write", Effect::Write),
];
/// Where a request goes, and what makes it more than a look.
const ADDRESSES: [&str; 4] = ["endpoint", "href", "uri", "url"];
const BODIES: [&str; 6] = ["body", "data", "form", "json", "payload", "post_data"];
/// How a file is opened to be written.
const OPENED: [&str; 14] = ["a", "a+", "ab", "r+", "r+b", "rb+", "rw", "w", "w+", "wb", "wb+", "wt", "x", "xb"];

/// What one argument asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub effect: Effect,
    /// JSON pointer of the argument, without secrets.
    pub pointer: String,
    /// What it does, in words of ours.
    pub what: String,
}

/// The gravest that is asked for beyond a read. Where somebody vouches for the tool, only what an argument says plainly.
pub(super) fn gravest(arguments: &Map<String, Value>, tool: &ToolName, vouched: bool) -> Option<Asked> {
    let mut look = Look { tool, vouched, left: MAX_BYTES, pointer: String::new(), unfolded: 0, found: None };
    if !look.members(arguments) {
        let what = format!("lies behind the first {} KiB, and nobody looked at it", MAX_BYTES / 1024);
        look.found = Some(Asked { effect: Effect::Destructive, pointer: look.pointer.clone(), what });
    }
    let mut asked = look.found?;
    // A key may hold anything that an agent wrote.
    let shown = checks::redact(&asked.pointer);
    let end = shown.as_str().char_indices().nth(MAX_POINTER).map_or(shown.as_str().len(), |(end, _)| end);
    shown.as_str().get(..end).unwrap_or_default().clone_into(&mut asked.pointer);
    Some(asked)
}

struct Look<'a> {
    tool: &'a ToolName,
    vouched: bool,
    left: usize,
    pointer: String,
    unfolded: usize,
    found: Option<Asked>,
}

impl Look<'_> {
    /// Each answers whether all could be looked at.
    fn members(&mut self, members: &Map<String, Value>) -> bool {
        self.look_at_request(members);
        for (key, value) in members {
            let Some(left) = self.left.checked_sub(key.len() + 8) else { return false };
            self.left = left;
            let length = self.pointer.len();
            self.pointer.push('/');
            if key.contains(['~', '/']) {
                self.pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
            } else {
                self.pointer.push_str(key);
            }
            if key == "$out" || key == "$merge" {
                self.plainly(Effect::Write, "is a stage of a pipeline that stores its result");
            }
            if !self.value(&words(key), value) {
                return false;
            }
            self.pointer.truncate(length);
        }
        true
    }

    fn value(&mut self, key: &[String], value: &Value) -> bool {
        match value {
            Value::Bool(set) => self.look_at_flag(key, *set),
            Value::String(text) => {
                let Some(left) = self.left.checked_sub(text.len()) else { return false };
                self.left = left;
                return self.look_at_text(key, text);
            }
            Value::Array(items) => {
                self.look_at_key(key, items.is_empty());
                for (index, item) in items.iter().enumerate() {
                    let Some(left) = self.left.checked_sub(8) else { return false };
                    self.left = left;
                    let length = self.pointer.len();
                    self.pointer.push('/');
                    self.pointer.push_str(&index.to_string());
                    if !self.value(key, item) {
                        return false;
                    }
                    self.pointer.truncate(length);
                }
            }
            Value::Object(inner) => {
                self.look_at_key(key, inner.is_empty());
                // `{"command": {"delete": "users"}}`
                if let Some(first) = inner.keys().next().filter(|_| is(key, &METHODS) || is(key, &COMMANDS)) {
                    self.look_at_method(first);
                }
                return self.members(inner);
            }
            Value::Null | Value::Number(_) => {}
        }
        true
    }

    /// A request with a body is hardly a look.
    fn look_at_request(&mut self, members: &Map<String, Value>) {
        if !ADDRESSES.iter().any(|address| members.contains_key(*address)) {
            return;
        }
        for (key, value) in members {
            let empty = match value {
                Value::String(text) => text.is_empty(),
                Value::Array(items) => items.is_empty(),
                Value::Object(inner) => inner.is_empty(),
                Value::Null | Value::Bool(_) | Value::Number(_) => true,
            };
            if !empty && BODIES.contains(&key.as_str()) {
                self.at(key, |look| look.perhaps(Effect::Write, "is the body of a request"));
            }
            if let Some(effect) = value.as_str().and_then(|text| http(text, true)) {
                self.at(key, |look| look.plainly(effect, "is the method of a request that writes"));
            }
        }
    }

    fn at(&mut self, key: &str, note: impl FnOnce(&mut Self)) {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(key);
        note(self);
        self.pointer.truncate(length);
    }

    fn look_at_flag(&mut self, key: &[String], set: bool) {
        if set {
            if let Some(verb) = flag(key) {
                self.plainly(verb.act.effect(), &format!("asks to `{}`", verb.word));
            }
        } else if is(key, &["preview", "simulate", "rehearsal"]) || key.ends_with(&["dry".to_owned(), "run".to_owned()])
        {
            self.perhaps(Effect::Write, "asks for more than a rehearsal");
        }
    }

    fn look_at_text(&mut self, key: &[String], text: &str) -> bool {
        let shown = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        if shown.eq_ignore_ascii_case("true") || shown.eq_ignore_ascii_case("false") {
            self.look_at_flag(key, shown.len() == 4);
            return true;
        }
        if is(key, &METHODS) {
            self.look_at_method(shown);
        } else if is(key, &COMMANDS) {
            self.look_at_command(shown);
        } else if is(key, &["mode"]) {
            self.look_at_mode(shown);
        } else if is(key, &PROGRAMS) && shown.contains(|c: char| c.is_whitespace() || matches!(c, '(' | ';')) {
            self.perhaps(Effect::Destructive, "is a program");
        } else if is(key, &PATHS) && (shown.starts_with('|') || shown.ends_with('|')) {
            self.perhaps(Effect::Destructive, "is a pipe where a path should be");
        }
        if shown.is_empty() {
            return true;
        }
        self.look_at_key(key, false);
        if is_written(key) {
            self.perhaps(Effect::Write, "is where something is to be written");
        }
        if let Some(option) = shown.strip_prefix("--")
            && !option.contains(char::is_whitespace)
            && let Some(verb) = flag(&words(option.split('=').next().unwrap_or_default()))
        {
            self.plainly(verb.act.effect(), &format!("is the option to `{}`", verb.word));
        }
        self.look_at_statement(key, shown);
        self.unfold(key, shown)
    }

    /// `{"update": {"name": "x"}}`
    fn look_at_key(&mut self, key: &[String], empty: bool) {
        let asked = |[one]: &[String; 1]| ASKED.into_iter().find(|(word, _)| word == one);
        if let Some((word, effect)) = <&[String; 1]>::try_from(key).ok().and_then(asked).filter(|_| !empty) {
            self.perhaps(effect, &format!("asks to `{word}`"));
        }
    }

    fn look_at_method(&mut self, text: &str) {
        if let Some(effect) = http(text, false) {
            return self.plainly(effect, "is the method of a request that writes");
        }
        let words = words(text);
        let reading = of_words(&words);
        let looked = ["head", "options", "trace", "connect"].contains(&text.to_lowercase().as_str());
        if words.is_empty() || looked || reading.looks || says_nothing(&words) {
            return;
        }
        match reading.verb.filter(|_| reading.most > Effect::Read) {
            Some(verb) => {
                let what = format!("asks to `{}`", verb.word);
                if reading.least > Effect::Read && !text.contains(char::is_whitespace) {
                    self.plainly(reading.most, &what);
                } else {
                    self.perhaps(reading.most, &what);
                }
            }
            None => self.perhaps(Effect::Destructive, "asks for what is not known to be a look"),
        }
    }

    fn look_at_command(&mut self, text: &str) {
        if text.is_empty() || command::looks(text) {
            return;
        }
        let words = words(text);
        if !text.contains(|c: char| c.is_whitespace() || c.is_ascii_punctuation() && c != '_' && c != '-') {
            return self.look_at_method(text);
        }
        let first = words.first().and_then(|word| verb(word));
        let what = "is a command that does more than look, as far as anybody can tell";
        match first.filter(|verb| !verb.noun && verb.act.effect() > Effect::Read) {
            Some(_) => self.plainly(Effect::Destructive, what),
            None => self.perhaps(Effect::Destructive, what),
        }
    }

    /// A mode is often a manner (`open`, `clean`), so that only plain verbs count, and how files are opened.
    fn look_at_mode(&mut self, text: &str) {
        if OPENED.contains(&text) {
            return self.perhaps(Effect::Write, "opens a file to write");
        }
        let reading = of_words(&words(text));
        if let Some(verb) = reading.verb.filter(|_| reading.least > Effect::Read) {
            self.plainly(reading.least, &format!("asks to `{}`", verb.word));
        }
    }

    fn look_at_statement(&mut self, key: &[String], text: &str) {
        // What an engine skips, or what nobody sees, does not part a word.
        let hidden = |c: char| {
            (c.is_control() && !c.is_whitespace()) || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
        };
        let cleaned: String;
        let text = if text.contains(hidden) {
            cleaned = text.replace(hidden, "");
            &cleaned
        } else {
            text
        };
        let stated = is(key, &STATEMENTS);
        match judge(text) {
            Verdict::Writes(effect, word) => self.plainly(effect, &format!("is a statement that writes (`{word}`)")),
            Verdict::Odd if stated || (is(key, &QUERIES) && self.speaks()) => {
                self.perhaps(Effect::Destructive, "is a statement that is not known to read");
            }
            Verdict::Prose if stated => self.perhaps(Effect::Destructive, "is a statement that is not known to read"),
            Verdict::Odd | Verdict::Prose | Verdict::Reads => {}
        }
        let request = ["POST ", "PUT ", "PATCH ", "DELETE "].into_iter().find_map(|method| text.strip_prefix(method));
        if request.is_some_and(|target| target.starts_with('/') || target.starts_with("http")) {
            self.plainly(Effect::Destructive, "is a request that writes");
        }
    }

    /// Whether the tool speaks a language that changes things as well.
    fn speaks(&self) -> bool {
        let server = self.tool.server.as_deref().unwrap_or_default();
        words(server).iter().chain(&words(&self.tool.name)).any(|word| LANGUAGES.contains(&word.as_str()))
    }

    /// A text that is JSON is what it says.
    fn unfold(&mut self, key: &[String], text: &str) -> bool {
        let ends = (text.starts_with('{') && text.ends_with('}')) || (text.starts_with('[') && text.ends_with(']'));
        if !ends || self.unfolded >= MAX_UNFOLDED {
            return true;
        }
        let Ok(value) = serde_json::from_str::<Value>(text) else {
            // The shell of a database takes names without quotes: `[{$out: "x"}]`.
            let stores = |stage: &str| {
                text.split(stage).skip(1).any(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
            };
            if stores("$out") || stores("$merge") {
                self.plainly(Effect::Write, "holds a stage of a pipeline that stores its result");
            }
            return true;
        };
        self.unfolded += 1;
        let whole = self.value(key, &value);
        self.unfolded -= 1;
        whole
    }

    /// Notes what says plainly that it writes.
    fn plainly(&mut self, effect: Effect, what: &str) {
        if self.found.as_ref().is_none_or(|known| known.effect < effect) {
            self.found = Some(Asked { effect, pointer: self.pointer.clone(), what: what.to_owned() });
        }
    }

    /// Notes what may write, for all that anybody can tell.
    fn perhaps(&mut self, effect: Effect, what: &str) {
        if !self.vouched {
            self.plainly(effect, what);
        }
    }
}

/// Whether an argument is called so, or ends so: `http_method`.
fn is(key: &[String], names: &[&str]) -> bool {
    key.last().is_some_and(|last| names.contains(&last.as_str()))
}

/// What a method of HTTP does that writes; in capitals alone, where the argument may be anything.
fn http(text: &str, exact: bool) -> Option<Effect> {
    let method = if exact { text.to_owned() } else { text.to_ascii_uppercase() };
    match method.as_str() {
        "POST" | "PUT" | "PATCH" => Some(Effect::Write),
        "DELETE" => Some(Effect::Destructive),
        _ => None,
    }
}
