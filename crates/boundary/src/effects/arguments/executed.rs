//! Scans executable arguments of a call: commands, statements, pipelines, programs, expressions, and orders to other
//! tools. Each of them is a read only if it is understood as one.

use serde_json::{Map, Value};

use super::{
    super::{
        argument_names::{NAMES, TOOLS, is},
        code, command, expression, graphql,
        lexicon::compound,
        lists::among,
        name::{of_words, words},
        pipe,
        statement::{StatementVerdict, judge},
        texts,
    },
    ArgumentScan, NOT_A_LOOK, UNKNOWN, texts_of,
};
use umbra_domain::Effect;

impl ArgumentScan {
    /// Scans a command that is given as a list: the program first, or beside it.
    pub(super) fn look_at_command_of(&mut self, members: &Map<String, Value>) {
        let program = members.iter().find(|(key, value)| among(&NAMES.commands, key) && value.is_string());
        for (key, value) in members {
            let Some(words) = texts_of(value).filter(|_| among(&NAMES.commands, key) || among(&NAMES.argv, key)) else {
                continue;
            };
            let understood = match program.and_then(|(_, program)| program.as_str()) {
                Some(program) if among(&NAMES.argv, key) => {
                    let mut whole: Vec<String> = program.split_whitespace().map(ToOwned::to_owned).collect();
                    whole.extend(words);
                    command::is_read_only_argv(&whole)
                }
                _ => self.argv_looks(&words),
            };
            self.understood |= understood;
            if !understood {
                self.at(key, |look| look.note(Effect::Destructive, NOT_A_LOOK));
            }
        }
    }

    /// True if a list is a read-only command by itself, or behind the tool's name: `git_log` with `--oneline`.
    pub(super) fn argv_looks(&self, words: &[String]) -> bool {
        // `rg` goes by several names.
        let behind = |name: &[String]| command::is_read_only_behind_name(name, words);
        command::is_read_only_argv(words)
            || behind(&self.tool.own)
            || behind(&self.tool.server)
            || self.tool.words().any(|word| among("ripgrep grep", word)) && behind(&["rg".to_owned()])
            || self.tool.is_of(&TOOLS.redis) && command::is_read_only_redis(words)
    }

    pub(super) fn look_at_command(&mut self, text: &str) {
        let list: Vec<String> = text.split(' ').filter(|word| !word.is_empty()).map(ToOwned::to_owned).collect();
        let of_redis = self.tool.is_of(&TOOLS.redis);
        if command::is_redis_order(text) {
            self.note(Effect::Destructive, NOT_A_LOOK);
        }
        if text.is_empty() || command::is_read_only(text) || (of_redis && command::is_read_only_redis(&list)) {
            self.understood |= !text.is_empty();
            return;
        }
        if text.contains(|c: char| c.is_whitespace() || c.is_ascii_punctuation() && c != '_' && c != '-') || of_redis {
            self.note(Effect::Destructive, NOT_A_LOOK);
        } else {
            self.look_at_method(text);
        }
    }

    /// Scans a mode. It is often a manner (`open`, `clean`), so that only plain verbs, file modes and permissions
    /// count.
    pub(super) fn look_at_mode(&mut self, key: &[String], text: &str) {
        if texts::opens_to_write(text) {
            return self.note(Effect::Write, "opens a file to write");
        }
        if texts::is_right(text) {
            return self.note(Effect::Write, "grants permissions");
        }
        let reading = of_words(&words(text));
        if let Some(verb) = reading.verb.filter(|_| reading.least > Effect::Read && !is(key, "permissions")) {
            self.note(reading.least, &format!("asks to `{}`", verb.word));
        }
    }

    pub(super) fn look_at_statement(&mut self, key: &[String], text: &str) {
        // Characters that an engine skips, or that are invisible, do not split a word.
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
        let stated = is(key, &NAMES.statements);
        // `?q=delete+old+files` searches a site.
        let may_be = (is(key, &NAMES.queries) && !self.tool.searches && !self.in_form)
            || (self.tool.speaks
                && text.contains(char::is_whitespace)
                && !is(key, &NAMES.patterns)
                && !is(key, &NAMES.expressions));
        let of_redis = self.tool.is_of(&TOOLS.redis);
        let verdict = if is(key, &NAMES.patterns) { StatementVerdict::Prose } else { judge(text) };
        match verdict {
            StatementVerdict::Writes(effect, word) => {
                self.note(effect, &format!("is a statement that writes (`{word}`)"));
            }
            StatementVerdict::Unknown => self.note(Effect::Destructive, UNKNOWN),
            StatementVerdict::Ambiguous if stated || may_be => self.note(Effect::Destructive, UNKNOWN),
            StatementVerdict::Prose if stated && !is(key, &NAMES.piped) => self.note(Effect::Destructive, UNKNOWN),
            StatementVerdict::Prose if is(key, &NAMES.queries) && of_redis => self.look_at_command(text),
            StatementVerdict::Prose if is(key, &NAMES.queries) && self.tool.speaks && self.tool.queries => {
                self.look_at_query(text);
            }
            StatementVerdict::Prose if may_be && is(key, &NAMES.queries) && expression::is_script(text) => {
                self.note(Effect::Destructive, UNKNOWN);
            }
            StatementVerdict::Reads => self.understood |= stated || may_be,
            StatementVerdict::Ambiguous | StatementVerdict::Prose => {}
        }
        if matches!(verdict, StatementVerdict::Prose | StatementVerdict::Ambiguous) {
            self.look_at_pipeline(key, text);
            let asked = is(key, &NAMES.queries) || stated;
            if asked && !self.tool.searches && command::is_redis_order(text) {
                self.note(Effect::Destructive, NOT_A_LOOK);
            }
        }
        if texts::asks_by_http(text) {
            self.note(Effect::Destructive, "is a request that writes");
        }
    }

    /// Scans a database tool's query that is no known statement: a pipeline of Kusto or a GraphQL query may pass.
    fn look_at_query(&mut self, text: &str) {
        let piped = text.contains('|') && expression::computes(text) && pipe::is_read_only(text);
        let asked = text.starts_with('[') || graphql::is_graphql(text);
        if !piped && !asked {
            self.note(Effect::Destructive, UNKNOWN);
        }
    }

    /// Scans a pipeline of logs and metrics: each stage must be known to be read-only. Prose may hold a pipe sign as
    /// well.
    fn look_at_pipeline(&mut self, key: &[String], text: &str) {
        let piped = is(key, &NAMES.piped);
        let asked = piped || is(key, &NAMES.queries) || is(key, &NAMES.statements) || is(key, "search");
        if !asked || !text.contains('|') {
            return;
        }
        let understood = if piped || self.tool.is_of(&TOOLS.logs) || pipe::is_pipeline(text) {
            pipe::is_read_only(text)
        } else {
            !pipe::orders(text)
        };
        if !understood {
            self.note(Effect::Destructive, UNKNOWN);
        }
    }

    /// Scans programs and expressions: all of their calls must be known to compute.
    pub(super) fn look_at_expression(&mut self, key: &[String], text: &str) {
        if is(key, &NAMES.patterns) {
            return;
        }
        if is(key, &NAMES.programs) && !self.tool.searches && !is_understood(text) {
            self.note(Effect::Destructive, "is a program");
        }
        // `() => document.title`; a function that is named was scanned as an order.
        let named = text.chars().all(|c| c.is_alphanumeric() || "_-.:".contains(c));
        if is(key, "function") && !named && !code::reads(text) {
            self.note(Effect::Destructive, "is a program");
        }
        let of_other =
            key.len() > 1 && key.iter().any(|word| among("condition cron filter key projection regex schedule", word));
        if is(key, "eval expr expression") && !of_other && !self.tool.is_of(&TOOLS.logs) && !code::reads(text) {
            self.note(Effect::Destructive, "is an expression that is not known to only compute");
        }
        let chained = expression::is_chain(text);
        let computes = || expression::computes(text) || code::reads(text);
        let calls = !chained && (expression::is_call(text) || is(key, &NAMES.expressions)) && !computes();
        let runs = is(key, &NAMES.expressions) && (text.contains('`') || text.contains(';') && text.contains('('));
        if calls || runs || expression::is_template(text) {
            self.note(Effect::Destructive, "calls a function that is not known to only compute");
        }
    }

    /// Scans names for signs of a shell, and other texts for commands behind such signs.
    pub(super) fn look_at_signs(&mut self, key: &[String], text: &str) {
        if is(key, &NAMES.commands) || is(key, &NAMES.patterns) {
            return;
        }
        let names = is(key, &NAMES.paths) || is(key, &NAMES.named);
        let signs = [";", "|", "`", "$(", "&&", "\n", "<", ">"];
        if names && signs.iter().any(|sign| text.contains(sign)) {
            self.note(Effect::Destructive, "has shell characters in place of a name");
        } else if texts::hides_a_command(text) {
            self.note(Effect::Destructive, "has a command behind a shell character");
        } else if !self.tool.searches && texts::is_command(text) && !command::is_read_only(text) {
            self.note(Effect::Destructive, NOT_A_LOOK);
        }
    }

    /// Scans orders to other tools: `{"tool": "delete_user", "args": {}}`, `{"then": "delete"}`.
    pub(super) fn look_at_order_of(&mut self, members: &Map<String, Value>) {
        let object = |value: &Value| value.is_object() || value.as_str().is_some_and(|text| text.starts_with('{'));
        let holds = |names: &str| members.iter().any(|(key, value)| among(names, key) && object(value));
        let (given, put) = (holds("args arguments kwargs"), holds("input"));
        for (key, value) in members {
            let Some(text) = value.as_str() else { continue };
            let key_words = words(key);
            // `code_review` is the name of a prompt.
            let thing = matches!(words(text).as_slice(), [first, second] if compound(first, second));
            if given && among("tool function name tool_name function_name", key) && !thing {
                self.at(key, |look| look.look_at_method(text));
            } else if is(&key_words, "batch callback function next then tool") || put && key == "name" {
                let first = text.split_whitespace().next().unwrap_or_default();
                if of_words(&words(first)).least > Effect::Read {
                    self.at(key, |look| look.note(Effect::Destructive, "is an instruction that does more than read"));
                }
            }
        }
    }

    /// Scans for a reference to a stored query, whose effect is not known here.
    pub(super) fn look_at_reference(&mut self, key: &[String], value: &Value) {
        if self.worded || matches!(value, Value::Null) {
            return;
        }
        let of_graph = self.tool.words().any(|word| word == "graphql");
        let named = key.join(" ");
        if named == "persisted query"
            || of_graph
                && among("doc document query operation", key.first().map_or("", String::as_str))
                && is(key, "hash id")
        {
            self.note(Effect::Destructive, "names a stored query whose text is unknown");
        }
    }
}

/// Characters by which a shell changes the meaning of a word, if a tool joins words without quotes.
const SIGNS: [char; 12] = [';', '|', '&', '$', '`', '<', '>', '(', ')', '\n', '\r', '\\'];

/// True if the arguments are a command or a statement, with nothing that could change its meaning: words of a list and
/// companions without signs of a shell, and no unknown argument.
pub(super) fn is_alone(arguments: &Map<String, Value>) -> bool {
    let plain = |text: &str| !text.contains(SIGNS);
    let listed = arguments.keys().any(|key| is(&words(key), &NAMES.argv));
    arguments.iter().all(|(key, value)| {
        let key = words(key);
        match value {
            Value::Null => true,
            Value::String(text) if is(&key, &NAMES.commands) => !listed || plain(text),
            Value::String(_) if is(&key, &NAMES.statements) || is(&key, &NAMES.asking) => true,
            Value::Array(_) if is(&key, &NAMES.commands) || is(&key, &NAMES.argv) => {
                texts_of(value).is_some_and(|words| words.iter().all(|word| plain(word)))
            }
            Value::String(text) => {
                let whole = key.concat();
                among(&NAMES.notes, &whole) || among(&NAMES.companions, &whole) && plain(text)
            }
            Value::Number(_) | Value::Bool(_) => among(&NAMES.companions, &key.concat()),
            Value::Array(_) | Value::Object(_) => false,
        }
    })
}

/// True if a text given as a program is only data, or read-only in one of its languages.
fn is_understood(text: &str) -> bool {
    let text = text.trim();
    let first = text.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default().to_ascii_lowercase();
    let selects = ["select", "explain"].contains(&first.as_str()) && judge(text) == StatementVerdict::Reads;
    if text.is_empty() || texts::is_data(text) || selects {
        return true;
    }
    let words = text.contains(char::is_whitespace) || text.contains(|c: char| c.is_ascii_punctuation());
    command::prints(text) || words && code::reads(text) || pipe::is_pipeline(text) && pipe::is_read_only(text)
}
