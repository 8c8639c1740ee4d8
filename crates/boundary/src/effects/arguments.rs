//! Scans the arguments of a call, whatever the name of its tool. In: the arguments as they are sent. Out: the most
//! severe action that one of them asks for beyond a read, with its place and a description.
//!
//! Each argument is scanned, declared or not, nested or within a text of JSON, YAML, XML or a form. Data asks for
//! nothing. Executable text is no read unless it is understood as one: a statement of known functions (`statement`), a
//! command of known programs (`command`), an address of a known scheme whose path, parameters and headers do nothing
//! (`request`), an expression of known calls (`expression`, `code`), a pipeline of known stages (`pipe`). Words to be
//! found may look like any of these: where they plainly are such words, they count as such. This file walks the
//! arguments; `executed` scans executable ones, and `address` scans requests.

mod address;
mod executed;

use serde_json::{Map, Value};

use super::{
    argument_names::{NAMES, TOOLS, ToolNameWords, asked, is},
    lists::among,
    name::{of_words, says_nothing, words},
    request,
    schema::{flag, is_written, names_target},
    texts,
};
use umbra_domain::{Effect, ToolName};

/// Most bytes of arguments that are scanned. A call with more is no read.
const MAX_BYTES: usize = 128 * 1024;
/// Deepest nesting of texts that hold arguments.
const MAX_UNFOLDED: usize = 3;
/// Longest pointer that is reported, in characters.
const MAX_POINTER: usize = 200;

/// An action that one argument asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestedAction {
    pub effect: Effect,
    /// JSON pointer of the argument, without secrets.
    pub pointer: String,
    /// Description of the action, in Umbra's own words.
    pub what: String,
}

/// Result of scanning the arguments of a call.
#[derive(Debug, Default)]
pub(super) struct ArgumentScanResult {
    /// Most severe action beyond a read.
    pub gravest: Option<RequestedAction>,
    /// True if the arguments hold a command or a statement, all of those are understood as read-only, and no other
    /// argument could change their meaning.
    pub looks: bool,
}

/// Scans the arguments of a call.
pub(super) fn scan_arguments(arguments: &Map<String, Value>, tool: &ToolName) -> ArgumentScanResult {
    let text = |key: &&str| arguments.get(*key).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty());
    let mut look = ArgumentScan {
        tool: ToolNameWords::of(tool),
        worded: ["query", "document", "body"].iter().any(text),
        left: MAX_BYTES,
        pointer: String::new(),
        unfolded: 0,
        in_form: false,
        found: None,
        understood: false,
    };
    if !look.members(arguments) {
        let what = format!("is beyond the first {} KiB, which alone are examined", MAX_BYTES / 1024);
        look.found = Some(RequestedAction { effect: Effect::Destructive, pointer: look.pointer.clone(), what });
    }
    let looks = look.understood && look.found.is_none() && executed::is_alone(arguments);
    let Some(mut asked) = look.found else { return ArgumentScanResult { gravest: None, looks } };
    // A key may hold anything that an agent wrote.
    let shown = umbra_checks::redact(&asked.pointer);
    let end = shown.as_str().char_indices().nth(MAX_POINTER).map_or(shown.as_str().len(), |(end, _)| end);
    shown.as_str().get(..end).unwrap_or_default().clone_into(&mut asked.pointer);
    ArgumentScanResult { gravest: Some(asked), looks }
}

struct ArgumentScan {
    tool: ToolNameWords,
    /// True if the text of a query is among the arguments.
    worded: bool,
    left: usize,
    pointer: String,
    unfolded: usize,
    /// True if the value is a parameter of an address, or of a form.
    in_form: bool,
    found: Option<RequestedAction>,
    /// True if a command or a statement was understood as read-only.
    understood: bool,
}

impl ArgumentScan {
    /// Scans the members of an object. Returns false if there is more than can be scanned, as do the functions below.
    fn members(&mut self, members: &Map<String, Value>) -> bool {
        self.look_at_request(members);
        self.look_at_command_of(members);
        self.look_at_order_of(members);
        for (key, value) in members {
            let whole = self.spend(key.len() + 8)
                && self.within(key, |scan| {
                    if among(&NAMES.stages, key) {
                        scan.note(Effect::Write, "is a stage of a pipeline that stores its result, or runs a program");
                    }
                    let words = words(key);
                    scan.look_at_reference(&words, value);
                    scan.value(&words, value)
                });
            if !whole {
                return false;
            }
        }
        true
    }

    /// Counts scanned bytes.
    fn spend(&mut self, bytes: usize) -> bool {
        self.left.checked_sub(bytes).map(|left| self.left = left).is_some()
    }

    /// Scans at a member or index of the current place. The pointer stays where the scan ends early.
    fn within(&mut self, step: &str, scan: impl FnOnce(&mut Self) -> bool) -> bool {
        let length = self.pointer.len();
        self.pointer.push('/');
        self.pointer.push_str(&step.replace('~', "~0").replace('/', "~1"));
        let whole = scan(self);
        if whole {
            self.pointer.truncate(length);
        }
        whole
    }

    fn value(&mut self, key: &[String], value: &Value) -> bool {
        match value {
            Value::Bool(set) => self.look_at_flag(key, *set),
            Value::String(text) => {
                return self.spend(text.len()) && self.look_at_text(key, text);
            }
            Value::Array(items) => {
                self.look_at_key(key, items.is_empty());
                // A list that is a command was scanned as a whole.
                let whole = is(key, &NAMES.commands) || is(key, &NAMES.argv);
                if is(key, &NAMES.paired) && !self.look_at_pairs(address::pairs_of(items)) {
                    return false;
                }
                for (index, item) in items.iter().enumerate() {
                    let scanned = self.spend(8)
                        && self.within(&index.to_string(), |scan| {
                            if whole && texts_of(item).is_some_and(|words| !scan.argv_looks(&words)) {
                                scan.note(Effect::Destructive, NOT_A_LOOK);
                            }
                            scan.value(if whole && item.is_string() { &[] } else { key }, item)
                        });
                    if !scanned {
                        return false;
                    }
                }
            }
            Value::Object(inner) => {
                self.look_at_key(key, inner.is_empty());
                // `{"command": {"delete": "users"}}`
                if let Some(first) = inner.keys().next().filter(|_| is(key, &NAMES.methods) || is(key, &NAMES.commands))
                {
                    self.look_at_method(first);
                }
                if is(key, "script scripts") && !inner.is_empty() {
                    self.note(Effect::Destructive, "is a program");
                }
                return self.members(inner);
            }
            Value::Number(number) if is(key, "flags oflag oflags") && self.tool.is_of(&TOOLS.of_files) => {
                // Flags of `open`: to write, to create, to truncate, to append.
                if number.as_u64().is_none_or(|bits| bits & 0o3703 != 0) {
                    self.note(Effect::Write, "opens a file to write");
                }
            }
            Value::Number(number) if is(key, "chmod mode permissions") => {
                if number.as_u64().is_none_or(|bits| bits > 0o77) {
                    self.note(Effect::Write, "grants permissions");
                }
            }
            Value::Number(number) if number.as_u64() == Some(1) => self.look_at_settled(key),
            Value::Null | Value::Number(_) => {}
        }
        true
    }

    /// Scans a flag that makes changes permanent: `{"commit": 1}`.
    fn look_at_settled(&mut self, key: &[String]) {
        if let [own] = key
            && among(&NAMES.settled, own)
        {
            self.note(Effect::Write, "asks to keep the changes");
        }
    }

    fn at(&mut self, key: &str, note: impl FnOnce(&mut Self)) {
        self.within(key, |scan| {
            note(scan);
            true
        });
    }

    fn look_at_flag(&mut self, key: &[String], set: bool) {
        if set {
            self.look_at_settled(key);
            if let Some(verb) = flag(key) {
                self.note(verb.act.effect(), &format!("asks to `{}`", verb.word));
            }
        } else if is(key, "preview simulate rehearsal") || key.ends_with(&["dry".to_owned(), "run".to_owned()]) {
            self.note(Effect::Write, "asks for more than a dry run");
        }
    }

    fn look_at_text(&mut self, key: &[String], text: &str) -> bool {
        let shown = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        if shown.eq_ignore_ascii_case("true") || shown.eq_ignore_ascii_case("false") {
            self.look_at_flag(key, shown.len() == 4);
            return true;
        }
        if is(key, &NAMES.methods) {
            self.look_at_method(shown);
        } else if is(key, &NAMES.commands)
            || (self.tool.of_shells() && shown.contains(char::is_whitespace) && is(key, &NAMES.queries))
            || (self.tool.of_shells() && is(key, "line text"))
        {
            self.look_at_command(shown);
        } else if is(key, "mode access permissions chmod flags oflag") {
            self.look_at_mode(key, shown);
        }
        if shown.is_empty() {
            return true;
        }
        self.look_at_key(key, false);
        if is_written(key) || self.tool.makes() && (is(key, &NAMES.paths) || names_target(key)) {
            self.note(Effect::Write, "names a target to write to");
        }
        if let Some(option) = shown.strip_prefix("--")
            && !option.contains(char::is_whitespace)
            && let Some(verb) = flag(&words(option.split('=').next().unwrap_or_default()))
        {
            self.note(verb.act.effect(), &format!("is an option to `{}`", verb.word));
        }
        if !self.look_at_address(key, shown) {
            return false;
        }
        self.look_at_statement(key, shown);
        self.look_at_expression(key, shown);
        self.look_at_signs(key, shown);
        self.unfold(key, shown)
    }

    /// Scans a key that names an action: `{"update": {"name": "x"}}`.
    fn look_at_key(&mut self, key: &[String], empty: bool) {
        let whole = key.concat();
        if let Some(effect) = asked(&whole).filter(|_| !empty) {
            self.note(effect, &format!("asks to `{whole}`"));
        }
    }

    fn look_at_method(&mut self, text: &str) {
        if let Some(effect) = http(text, false) {
            return self.note(effect, "is the method of a request that writes");
        }
        let words = words(text);
        let reading = of_words(&words);
        let looked = ["head", "options", "trace", "connect"].contains(&text.to_lowercase().as_str());
        let quiet = says_nothing(&words) && !text.starts_with('_');
        if words.is_empty() || looked || reading.is_read_only || quiet {
            return;
        }
        match reading.verb.filter(|_| reading.most > Effect::Read) {
            Some(verb) => self.note(reading.most, &format!("asks to `{}`", verb.word)),
            None => self.note(Effect::Destructive, "asks for an action that is not known to be a read"),
        }
    }

    /// Scans a text that holds arguments: JSON, lines of `key: value`, a form, a message of SOAP.
    fn unfold(&mut self, key: &[String], text: &str) -> bool {
        for (name, value) in texts::elements(text) {
            let name = words(name);
            // Most names of elements tell little; one that holds an action, command or statement counts.
            if is(&name, &NAMES.methods) || is(&name, &NAMES.commands) || is(&name, &NAMES.statements) {
                self.look_at_text(&name, value);
            }
        }
        if self.unfolded >= MAX_UNFOLDED {
            return true;
        }
        if let Some(form) = texts::form(text) {
            return self.look_at_pairs(request::pairs(form));
        }
        let ends = (text.starts_with('{') && text.ends_with('}')) || (text.starts_with('[') && text.ends_with(']'));
        if !ends {
            let Some(lines) = texts::lines(text) else { return true };
            self.unfolded += 1;
            let whole = lines.into_iter().all(|(name, value)| self.look_at_text(&words(name), value));
            self.unfolded -= 1;
            return whole;
        }
        // Several documents may follow each other.
        let documents: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        let Ok(documents) = documents else {
            // The shell of a database takes names without quotes: `[{$out: "x"}]`.
            let stores = |stage: &str| {
                text.split(stage).skip(1).any(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
            };
            if NAMES.stages.split_whitespace().any(stores) {
                self.note(Effect::Write, "has a stage of a pipeline that stores its result");
            }
            return true;
        };
        self.unfolded += 1;
        let whole = documents.iter().all(|document| self.value(key, document));
        self.unfolded -= 1;
        whole
    }

    /// Records an action beyond a read, if it is the most severe so far.
    fn note(&mut self, effect: Effect, what: &str) {
        if self.found.as_ref().is_none_or(|known| known.effect < effect) {
            self.found = Some(RequestedAction { effect, pointer: self.pointer.clone(), what: what.to_owned() });
        }
    }
}

const NOT_A_LOOK: &str = "is a command that is not known to only read";
const UNKNOWN: &str = "is a statement that is not known to only read";

/// Texts of a list that holds nothing else.
fn texts_of(value: &Value) -> Option<Vec<String>> {
    let texts = value.as_array()?.iter().map(|item| item.as_str().map(ToOwned::to_owned));
    texts.collect::<Option<Vec<String>>>().filter(|texts| !texts.is_empty())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(inner) => inner.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
    }
}

/// Effect of an HTTP method that writes. If `exact`, only capitals count, since the argument may be anything.
fn http(text: &str, exact: bool) -> Option<Effect> {
    let method = if exact { text.to_owned() } else { text.to_ascii_uppercase() };
    match method.as_str() {
        "POST" | "PUT" | "PATCH" => Some(Effect::Write),
        "DELETE" => Some(Effect::Destructive),
        _ => None,
    }
}
