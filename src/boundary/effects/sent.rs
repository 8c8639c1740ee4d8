//! What a call asks for by its arguments, whatever its tool is called. In: the arguments as they are sent. Out: the gravest
//! that one of them asks for beyond a read, where it stands, and what it says.
//!
//! Declared or not, nested or within a text of JSON, YAML, XML or a form, each argument is looked at. What is data asks for
//! nothing. What can be executed is no read unless it is understood as one: a statement of known functions (`statement`), a
//! command of known programs (`command`), an address of a known kind whose path, parameters and headers do nothing
//! (`request`), an expression of known calls (`expression`). A text to be searched for may look like any of these: where
//! that is plain it is taken for one.

use serde_json::{Map, Value};

use super::{
    command, expression,
    keys::{
        ADDRESSES, ASKED, BODIES, COMMANDS, EXPRESSIONS, LISTS, METHODS, NAMED, PARTS, PATHS, PATTERNS, PROGRAMS,
        QUERIES, STAGES, STATEMENTS, Tool, among, is,
    },
    name::{of_words, says_nothing, words},
    request,
    schema::{flag, is_written},
    statement::{Verdict, judge},
    texts,
};
use crate::{
    checks,
    domain::{Effect, ToolName},
};

/// Bytes of arguments that are looked at. What has more is no read.
const MAX_BYTES: usize = 128 * 1024;
/// Texts that hold arguments within such texts.
const MAX_UNFOLDED: usize = 3;
/// Characters of a pointer that are told.
const MAX_POINTER: usize = 200;

/// What one argument asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Asked {
    pub effect: Effect,
    /// JSON pointer of the argument, without secrets.
    pub pointer: String,
    /// What it does, in words of ours.
    pub what: String,
}

/// The gravest that is asked for beyond a read.
pub(super) fn gravest(arguments: &Map<String, Value>, tool: &ToolName) -> Option<Asked> {
    let mut look = Look {
        tool: Tool::of(tool),
        left: MAX_BYTES,
        pointer: String::new(),
        unfolded: 0,
        in_form: false,
        found: None,
    };
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

struct Look {
    tool: Tool,
    left: usize,
    pointer: String,
    unfolded: usize,
    /// It is a parameter of an address, or of a form.
    in_form: bool,
    found: Option<Asked>,
}

impl Look {
    /// Each answers whether all could be looked at.
    fn members(&mut self, members: &Map<String, Value>) -> bool {
        self.look_at_request(members);
        self.look_at_command_of(members);
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
            if STAGES.contains(&key.as_str()) {
                self.note(Effect::Write, "is a stage of a pipeline that stores its result, or runs a program");
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
                // A list that is a command was looked at as a whole.
                let whole = is(key, COMMANDS) || is(key, LISTS);
                for (index, item) in items.iter().enumerate() {
                    let Some(left) = self.left.checked_sub(8) else { return false };
                    self.left = left;
                    let length = self.pointer.len();
                    self.pointer.push('/');
                    self.pointer.push_str(&index.to_string());
                    if whole && texts_of(item).is_some_and(|words| !self.argv_looks(&words)) {
                        self.note(Effect::Destructive, NOT_A_LOOK);
                    }
                    if !self.value(if whole && item.is_string() { &[] } else { key }, item) {
                        return false;
                    }
                    self.pointer.truncate(length);
                }
            }
            Value::Object(inner) => {
                self.look_at_key(key, inner.is_empty());
                // `{"command": {"delete": "users"}}`
                if let Some(first) = inner.keys().next().filter(|_| is(key, METHODS) || is(key, COMMANDS)) {
                    self.look_at_method(first);
                }
                if is(key, "script scripts") && !inner.is_empty() {
                    self.note(Effect::Destructive, "is a program");
                }
                return self.members(inner);
            }
            Value::Number(number) if is(key, "flags oflag oflags") && self.tool.of_files() => {
                // Of `open`: to write, to create, to truncate, to append.
                if number.as_u64().is_none_or(|bits| bits & 0o3703 != 0) {
                    self.note(Effect::Write, "opens a file to write");
                }
            }
            Value::Number(number) if is(key, "chmod mode permissions") => {
                if number.as_u64().is_none_or(|bits| bits > 0o77) {
                    self.note(Effect::Write, "are rights to be given");
                }
            }
            Value::Null | Value::Number(_) => {}
        }
        true
    }

    /// A request with a body is hardly a look.
    fn look_at_request(&mut self, members: &Map<String, Value>) {
        if !members.keys().any(|key| is(&words(key), ADDRESSES)) {
            return self.look_at_headers(members);
        }
        for (key, value) in members {
            if !is_empty(value) && BODIES.contains(&key.as_str()) {
                self.at(key, |look| look.note(Effect::Write, "is the body of a request"));
            }
            if let Some(effect) = value.as_str().and_then(|text| http(text, true)) {
                self.at(key, |look| look.note(effect, "is the method of a request that writes"));
            }
        }
        self.look_at_headers(members);
    }

    /// Headers are said in several forms: by name, as lines, as pairs.
    fn look_at_headers(&mut self, members: &Map<String, Value>) {
        let Some((key, headers)) = members.iter().find(|(key, _)| is(&words(key), "header headers")) else {
            return;
        };
        let line = |text: &str| {
            let lines = text.split(['\n', '\r']).filter_map(|line| line.split_once(':'));
            lines.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect::<Vec<_>>()
        };
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let said: Vec<(String, String)> = match headers {
            Value::String(lines) => line(lines),
            Value::Object(named) => named.iter().map(|(name, value)| (name.clone(), text(Some(value)))).collect(),
            Value::Array(items) => items
                .iter()
                .flat_map(|item| match item {
                    Value::String(one) => line(one),
                    Value::Array(pair) => vec![(text(pair.first()), text(pair.get(1)))],
                    Value::Object(pair) => {
                        let name = ["name", "key", "header"].iter().find_map(|key| pair.get(*key));
                        vec![(text(name), text(pair.get("value")))]
                    }
                    _ => Vec::new(),
                })
                .collect(),
            _ => Vec::new(),
        };
        for (name, value) in said {
            if !request::header_is_plain(&name) {
                // `urn:users#DeleteUser`, `DynamoDB_20120810.DeleteItem`
                let order = value.rsplit(['#', '/', '.']).next().unwrap_or_default();
                self.at(key, |look| look.look_at_method(order.trim_matches('"')));
            }
        }
    }

    /// A command as a list: the program first, or beside it.
    fn look_at_command_of(&mut self, members: &Map<String, Value>) {
        let program = members.iter().find(|(key, value)| among(COMMANDS, key) && value.is_string());
        for (key, value) in members {
            let Some(words) = texts_of(value).filter(|_| among(COMMANDS, key) || among(LISTS, key)) else { continue };
            let understood = match program.and_then(|(_, program)| program.as_str()) {
                Some(program) if among(LISTS, key) => {
                    let mut whole: Vec<String> = program.split_whitespace().map(ToOwned::to_owned).collect();
                    whole.extend(words);
                    command::argv_looks(&whole)
                }
                _ => self.argv_looks(&words),
            };
            if !understood {
                self.at(key, |look| look.note(Effect::Destructive, NOT_A_LOOK));
            }
        }
    }

    /// Whether a list looks by itself, or behind the name of the tool: `git_log` with `--oneline`.
    fn argv_looks(&self, words: &[String]) -> bool {
        // `rg` goes by several names.
        let behind = |name: &[String]| command::named_looks(name, words);
        command::argv_looks(words)
            || behind(&self.tool.own)
            || behind(&self.tool.server)
            || self.tool.words().any(|word| among("ripgrep grep", word)) && behind(&["rg".to_owned()])
            || self.tool.of_redis() && command::redis_looks(words)
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
                self.note(verb.act.effect(), &format!("asks to `{}`", verb.word));
            }
        } else if is(key, "preview simulate rehearsal") || key.ends_with(&["dry".to_owned(), "run".to_owned()]) {
            self.note(Effect::Write, "asks for more than a rehearsal");
        }
    }

    fn look_at_text(&mut self, key: &[String], text: &str) -> bool {
        let shown = text.trim_matches(|c: char| c.is_whitespace() || c.is_control());
        if shown.eq_ignore_ascii_case("true") || shown.eq_ignore_ascii_case("false") {
            self.look_at_flag(key, shown.len() == 4);
            return true;
        }
        if is(key, METHODS) {
            self.look_at_method(shown);
        } else if is(key, COMMANDS)
            || (self.tool.of_shells() && shown.contains(char::is_whitespace) && is(key, QUERIES))
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
        if is_written(key) {
            self.note(Effect::Write, "is where something is to be written");
        }
        if let Some(option) = shown.strip_prefix("--")
            && !option.contains(char::is_whitespace)
            && let Some(verb) = flag(&words(option.split('=').next().unwrap_or_default()))
        {
            self.note(verb.act.effect(), &format!("is the option to `{}`", verb.word));
        }
        if !self.look_at_address(key, shown) {
            return false;
        }
        self.look_at_statement(key, shown);
        self.look_at_expression(key, shown);
        self.look_at_signs(key, shown);
        self.unfold(key, shown)
    }

    /// `{"update": {"name": "x"}}`
    fn look_at_key(&mut self, key: &[String], empty: bool) {
        let whole = key.concat();
        let found = ASKED.into_iter().find(|(word, _)| *word == whole);
        if let Some((word, effect)) = found.filter(|_| !empty) {
            self.note(effect, &format!("asks to `{word}`"));
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
        if words.is_empty() || looked || reading.looks || quiet {
            return;
        }
        match reading.verb.filter(|_| reading.most > Effect::Read) {
            Some(verb) => self.note(reading.most, &format!("asks to `{}`", verb.word)),
            None => self.note(Effect::Destructive, "asks for what is not known to be a look"),
        }
    }

    fn look_at_command(&mut self, text: &str) {
        let list: Vec<String> = text.split(' ').filter(|word| !word.is_empty()).map(ToOwned::to_owned).collect();
        let of_redis = self.tool.of_redis();
        if text.is_empty() || command::looks(text) || (of_redis && command::redis_looks(&list)) {
            return;
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_ascii_punctuation() && c != '_' && c != '-') || of_redis {
            self.note(Effect::Destructive, NOT_A_LOOK);
        } else {
            self.look_at_method(text);
        }
    }

    /// A mode is often a manner (`open`, `clean`), so that only plain verbs count, how files are opened, and rights.
    fn look_at_mode(&mut self, key: &[String], text: &str) {
        if texts::opens_to_write(text) {
            return self.note(Effect::Write, "opens a file to write");
        }
        if texts::is_right(text) {
            return self.note(Effect::Write, "are rights to be given");
        }
        let reading = of_words(&words(text));
        if let Some(verb) = reading.verb.filter(|_| reading.least > Effect::Read && !is(key, "permissions")) {
            self.note(reading.least, &format!("asks to `{}`", verb.word));
        }
    }

    /// Where a request goes, and the parameters that it has there.
    fn look_at_address(&mut self, key: &[String], text: &str) -> bool {
        let kind = request::scheme(text).filter(|_| !text.contains(' '));
        let is_address = kind.is_some() || is(key, ADDRESSES);
        let is_part =
            is(key, PARTS) && !self.tool.of_files() && text.contains('/') || is(key, "index") && text.starts_with('_');
        if !is_address && !is_part {
            return true;
        }
        let hidden = |text: &str| text.chars().any(char::is_control);
        if is_address && (hidden(text) || hidden(&request::decoded(text))) {
            self.note(Effect::Destructive, "is an address with lines hidden in it");
        }
        let own: Vec<String> = self.tool.words().cloned().collect();
        let address = request::address(text);
        if kind.is_some_and(|kind| !request::is_fetched(kind, &own)) {
            self.note(Effect::Destructive, "is an address of a kind that is not known to be fetched alone");
        }
        let asks = if is_address && address.scheme != Some("file") { address.asks() } else { address.asks_as_path() };
        if let Some((effect, word)) = asks {
            self.note(effect, &format!("is an address that asks to `{word}`"));
        }
        self.look_at_pairs(address.parameters)
    }

    /// What a form, or an address, carries.
    fn look_at_pairs(&mut self, pairs: Vec<(String, String)>) -> bool {
        if self.unfolded >= MAX_UNFOLDED {
            self.note(Effect::Destructive, "lies deeper than anybody looked");
            return true;
        }
        self.unfolded += 1;
        let outer = std::mem::replace(&mut self.in_form, true);
        let whole = pairs.into_iter().all(|(name, value)| {
            if let Some(effect) = http(&value, false).filter(|_| name.contains("method")) {
                self.note(effect, "is the method of a request that writes");
            }
            let asked = ASKED.iter().any(|(word, _)| name == *word) && ["1", "yes", "on"].contains(&value.as_str());
            let value = if asked { "true".to_owned() } else { value };
            self.value(&words(&name), &Value::String(value))
        });
        self.unfolded -= 1;
        self.in_form = outer;
        whole
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
        let stated = is(key, STATEMENTS);
        // `?q=delete+old+files` asks a site.
        let may_be = (is(key, QUERIES) && !self.tool.searches && !self.in_form)
            || (self.tool.speaks && text.contains(char::is_whitespace) && !is(key, PATTERNS) && !is(key, EXPRESSIONS));
        let of_redis = self.tool.of_redis();
        let verdict = if is(key, PATTERNS) { Verdict::Prose } else { judge(text) };
        match verdict {
            Verdict::Writes(effect, word) => self.note(effect, &format!("is a statement that writes (`{word}`)")),
            Verdict::Unknown => self.note(Effect::Destructive, UNKNOWN),
            Verdict::Odd if stated || may_be => self.note(Effect::Destructive, UNKNOWN),
            Verdict::Prose if stated && !is(key, "kql kusto") => self.note(Effect::Destructive, UNKNOWN),
            Verdict::Prose if is(key, QUERIES) && of_redis => self.look_at_command(text),
            Verdict::Prose if is(key, QUERIES) && self.tool.speaks && self.tool.queries => self.look_at_query(text),
            Verdict::Prose if may_be && is(key, QUERIES) && expression::is_script(text) => {
                self.note(Effect::Destructive, UNKNOWN);
            }
            Verdict::Odd | Verdict::Prose | Verdict::Reads => {}
        }
        if texts::asks_by_http(text) {
            self.note(Effect::Destructive, "is a request that writes");
        }
    }

    /// What is given to a tool of a database as its query, and is no statement that is known: a pipe of Kusto, a query of
    /// GraphQL or of Gremlin.
    fn look_at_query(&mut self, text: &str) {
        let piped = text.contains('|') && expression::computes(text);
        let asked = text.starts_with('[') || expression::is_graphql(text);
        if !piped && !asked {
            self.note(Effect::Destructive, UNKNOWN);
        }
    }

    /// Programs and expressions: what they call must be known to compute.
    fn look_at_expression(&mut self, key: &[String], text: &str) {
        if is(key, PATTERNS) {
            return;
        }
        let programmed = |c: char| matches!(c, '(' | ';' | '=' | '\n');
        if is(key, PROGRAMS) && !self.tool.searches {
            let plain = !text.contains(programmed) && (is(key, "code snippet") || !text.contains(char::is_whitespace));
            if !plain {
                self.note(Effect::Destructive, "is a program");
            }
        }
        let chained = expression::is_chain(text);
        let calls = !chained && (expression::is_call(text) || is(key, EXPRESSIONS)) && !expression::computes(text);
        let runs = is(key, EXPRESSIONS) && (text.contains('`') || text.contains(';') && text.contains('('));
        if calls || runs || expression::is_template(text) {
            self.note(Effect::Destructive, "calls what is not known to compute and nothing else");
        }
    }

    /// Signs of a shell in what names a thing, and commands behind such signs.
    fn look_at_signs(&mut self, key: &[String], text: &str) {
        if is(key, COMMANDS) || is(key, PATTERNS) {
            return;
        }
        let names = is(key, PATHS) || is(key, NAMED);
        let signs = [";", "|", "`", "$(", "&&", "\n", "<", ">"];
        if names && signs.iter().any(|sign| text.contains(sign)) {
            self.note(Effect::Destructive, "has signs of a shell where a name should be");
        } else if texts::hides_a_command(text) {
            self.note(Effect::Destructive, "holds a command behind a sign of a shell");
        } else if !self.tool.searches && texts::is_command(text) && !command::looks(text) {
            self.note(Effect::Destructive, NOT_A_LOOK);
        }
    }

    /// A text that holds arguments is what they say: JSON, lines of `key: value`, a form, a message of SOAP.
    fn unfold(&mut self, key: &[String], text: &str) -> bool {
        if let Some(order) = texts::order_of_xml(text) {
            self.look_at_method(order);
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
            if STAGES.into_iter().any(stores) {
                self.note(Effect::Write, "holds a stage of a pipeline that stores its result");
            }
            return true;
        };
        self.unfolded += 1;
        let whole = documents.iter().all(|document| self.value(key, document));
        self.unfolded -= 1;
        whole
    }

    /// Notes what asks for more than a read.
    fn note(&mut self, effect: Effect, what: &str) {
        if self.found.as_ref().is_none_or(|known| known.effect < effect) {
            self.found = Some(Asked { effect, pointer: self.pointer.clone(), what: what.to_owned() });
        }
    }
}

const NOT_A_LOOK: &str = "is a command that does more than look, as far as anybody can tell";
const UNKNOWN: &str = "is a statement that is not known to read";

/// The texts of a list that holds nothing else.
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

/// What a method of HTTP does that writes; in capitals alone, where the argument may be anything.
fn http(text: &str, exact: bool) -> Option<Effect> {
    let method = if exact { text.to_owned() } else { text.to_ascii_uppercase() };
    match method.as_str() {
        "POST" | "PUT" | "PATCH" => Some(Effect::Write),
        "DELETE" => Some(Effect::Destructive),
        _ => None,
    }
}
