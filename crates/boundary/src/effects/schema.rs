//! Reads a tool's input schema. In: the schema. Out: effects that one of its arguments can bring about, with the
//! reason.
//!
//! One tool may stand for several: an argument `method` or `action` names the action. The tool has the most severe
//! effect that can be asked for, since the call is not known yet.

use serde_json::{Map, Value};

use super::{
    lexicon::{Verb, verb},
    lists::{LISTS, among},
    name::{of_words, words},
};
use umbra_domain::Effect;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 12;
/// Most properties that are read.
const MAX_PROPERTIES: usize = 2_000;
/// Most choices of one argument that are read.
const MAX_CHOICES: usize = 500;

/// Effects that a tool's arguments allow.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    /// Most severe method that may be asked for: its effect and verb.
    pub method: Option<(Effect, Verb)>,
    /// True if a method with an unknown verb may be asked for.
    pub odd_method: bool,
    /// Effect and verb of an argument by which even a tool that reads leaves something behind.
    pub leaves: Option<(Effect, &'static str)>,
    /// Argument that holds a program.
    pub program: Option<&'static str>,
    /// True if that program is hardly given but to be run.
    pub is_run: bool,
    /// True if the HTTP method of the request is free to choose.
    pub any_request: bool,
}

impl Arguments {
    pub fn of(schema: &Value) -> Self {
        let mut found = Self::default();
        let mut left = MAX_PROPERTIES;
        found.walk(schema, 0, &mut left);
        found
    }

    fn walk(&mut self, schema: &Value, depth: usize, left: &mut usize) {
        if depth > MAX_DEPTH {
            return;
        }
        for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let Some(fewer) = left.checked_sub(1) else { return };
            *left = fewer;
            self.look(name, property);
            self.walk(property, depth + 1, left);
        }
        let places = ["items", "additionalProperties", "then", "else", "anyOf", "oneOf", "allOf", "prefixItems"];
        for inner in places.iter().filter_map(|key| schema.get(*key)) {
            match inner {
                Value::Array(all) => all.iter().take(MAX_CHOICES).for_each(|one| self.walk(one, depth + 1, left)),
                inner => self.walk(inner, depth + 1, left),
            }
        }
        for key in ["$defs", "definitions"] {
            for inner in schema.get(key).and_then(Value::as_object).into_iter().flat_map(Map::values) {
                self.walk(inner, depth + 1, left);
            }
        }
    }

    /// Takes one argument into account.
    fn look(&mut self, name: &str, property: &Value) {
        let words = words(name);
        let last = words.last().map_or("", String::as_str);
        let about = property.get("description").and_then(Value::as_str).unwrap_or_default();
        if among(&LISTS.schemas.methods, last) && !about.to_lowercase().contains("filter") {
            self.look_at_method(
                last == "mode",
                property,
                about,
                words.iter().any(|word| among(&LISTS.schemas.http, word)),
            );
        }
        let is_flag = property.get("type").and_then(Value::as_str) == Some("boolean");
        if is_flag {
            self.look_at_flag(&words);
        } else if let Some(program) = LISTS.schemas.programs.split_whitespace().find(|program| *program == last) {
            let has_choices = choices(property).next().is_some();
            if !has_choices {
                self.is_run |= among(&LISTS.schemas.run_always, program);
                self.program = self.program.filter(|known| among(&LISTS.schemas.run_always, known)).or(Some(program));
            }
        }
        if is_written(&words) {
            self.leave(Effect::Write, "write");
        }
    }

    /// Takes a method argument into account. A mode is often a manner (`open`, `clean`), so that only plain verbs count
    /// there.
    fn look_at_method(&mut self, is_mode: bool, property: &Value, about: &str, http: bool) {
        let mut named = false;
        for choice in choices(property).take(MAX_CHOICES) {
            named = true;
            let reading = of_words(&words(choice));
            match reading.verb {
                Some(verb) => self.may(if is_mode { reading.least } else { reading.most }, verb),
                None => self.odd_method = true,
            }
        }
        if named {
            return;
        }
        let speaks_http = ["GET", "POST", "HTTP"].iter().any(|word| about.contains(word));
        self.any_request |= http || speaks_http;
        for verb in told_choices(about) {
            self.may(verb.act.effect(), verb);
        }
    }

    fn look_at_flag(&mut self, words: &[String]) {
        if let Some(verb) = flag(words) {
            self.leave(verb.act.effect(), verb.word);
        }
    }

    fn may(&mut self, effect: Effect, verb: Verb) {
        if self.method.is_none_or(|(known, _)| known < effect) {
            self.method = Some((effect, verb));
        }
    }

    fn leave(&mut self, effect: Effect, word: &'static str) {
        if self.leaves.is_none_or(|(known, _)| known < effect) {
            self.leaves = Some((effect, word));
        }
    }
}

/// Verb of a flag that makes a tool change something: `mark_as_read`, `delete_after`, `auto_create`.
pub(super) fn flag(words: &[String]) -> Option<Verb> {
    let own = words.iter().find(|word| !["auto", "also", "should", "then"].contains(&word.as_str()))?;
    // These tell how the answer is made: `allow_redirects`, `merge_pages`.
    let manners = [
        "allow", "append", "apply", "become", "ensure", "extend", "fill", "generate", "hide", "include", "make",
        "merge", "resolve", "retry",
    ];
    verb(own).filter(|verb| !verb.noun && verb.act.effect() > Effect::Read && !manners.contains(&verb.word))
}

/// True if an argument is a path to write to: `output_path`, `save_as`.
pub(super) fn is_written(words: &[String]) -> bool {
    words.len() > 1 && names_target(words) && words.last().is_some_and(|end| among(&LISTS.schemas.paths, end))
}

/// True if an argument's name tells where something is put: `save_to`, `output`.
pub(super) fn names_target(words: &[String]) -> bool {
    words.first().is_some_and(|first| among(&LISTS.schemas.written, first))
}

/// Values that an argument can be chosen from.
fn choices(property: &Value) -> impl Iterator<Item = &str> {
    let own = property.get("enum").and_then(Value::as_array).into_iter().flatten().chain(property.get("const"));
    let inner = ["anyOf", "oneOf"].into_iter().filter_map(|key| property.get(key).and_then(Value::as_array)).flatten();
    let inner =
        inner.flat_map(|one| one.get("enum").and_then(Value::as_array).into_iter().flatten().chain(one.get("const")));
    let items =
        property.get("items").and_then(|items| items.get("enum")).and_then(Value::as_array).into_iter().flatten();
    own.chain(inner).chain(items).filter_map(Value::as_str)
}

/// Verbs that a description lists as choices: in quotes, or after a mark.
fn told_choices(about: &str) -> impl Iterator<Item = Verb> {
    let about = about.get(..about.floor_char_boundary(4_096)).unwrap_or_default();
    let marks = ['"', '\'', '`', '(', ',', ':', '/', '|', '*'];
    about
        .match_indices(move |c: char| marks.contains(&c))
        .filter_map(|(at, mark)| {
            let rest = about.get(at + mark.len()..)?.trim_start();
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            words(rest.get(..end)?).first().and_then(|word| verb(word))
        })
        .filter(|verb| !verb.noun && verb.act.effect() > Effect::Read)
}
