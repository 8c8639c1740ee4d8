//! What a tool's name says. In: a name. Out: the mildest and the gravest effect that it can mean, and the verb by which
//! it goes.
//!
//! A name is a verb and its objects (`get_issue`), or a thing and its verb (`issue_write`); many words are both
//! (`release`, `order`). Where a name can be read in two ways, the description decides between them, and where that
//! says nothing, the graver one holds.

use super::lexicon::{Act, Verb, compound, phrase, verb, with_objects};
use crate::domain::{Effect, ToolName};

/// Most characters of a name that are looked at.
const MAX_CHARS: usize = 256;
/// Words that every tool may carry.
const BOILERPLATE: [&str; 7] = ["mcp", "tool", "tools", "api", "v1", "v2", "v3"];
/// Words that put a second verb beside the first.
const JOINTS: [&str; 5] = ["and", "or", "then", "plus", "n"];
/// Verbs that say nothing by themselves: what is run or performed says it.
const LIGHT: [&str; 5] = ["conduct", "execute", "make", "perform", "run"];
/// What is looked for by running it.
const LOOKS: [&str; 18] = [
    "analysis",
    "audit",
    "calculation",
    "check",
    "checks",
    "comparison",
    "diagnostics",
    "inspection",
    "lint",
    "lookup",
    "lookups",
    "query",
    "queries",
    "scan",
    "scanning",
    "scans",
    "search",
    "validation",
];

/// How a name can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// The mildest effect that it can mean.
    pub least: Effect,
    /// The gravest one.
    pub most: Effect,
    /// The verb by which it goes; absent where none is known.
    pub verb: Option<Verb>,
    /// The name holds letters that are not ours, so that what looks like a known word may be none.
    pub foreign: bool,
}

impl Reading {
    /// Whether there is nothing to decide.
    pub fn is_firm(self) -> bool {
        self.least == self.most
    }
}

/// Reads a tool's name. A server's name that it repeats is left out.
pub(super) fn read(tool: &ToolName) -> Reading {
    let words = words(&tool.name);
    let server = tool.server.as_deref().map(self::words).unwrap_or_default();
    let own = words.strip_prefix(server.as_slice()).filter(|own| !own.is_empty()).unwrap_or(&words);
    let start = own.iter().take_while(|word| BOILERPLATE.contains(&word.as_str())).count();
    let own = own.get(start..).unwrap_or_default();
    Reading { foreign: !tool.name.is_ascii(), ..of_words(own) }
}

/// Reads words in the order in which they stand.
pub(super) fn of_words(words: &[String]) -> Reading {
    let found = verbs(words);
    let Some((first, head)) = found.first().copied() else {
        return Reading { least: Effect::Read, most: Effect::Destructive, verb: None, foreign: false };
    };
    let looks = matches!(head.act, Act::Look | Act::Compute | Act::Query);
    // `list` opens a name as a verb, and ends it as a noun: `todo_list`.
    let is_verb = !head.noun || (first == 0 && looks);
    let own = head.act.effect();
    let mut reading = Reading {
        least: if is_verb { own } else { Effect::Read },
        most: if !is_verb && looks { Effect::Destructive } else { own },
        verb: Some(head),
        foreign: false,
    };
    if LIGHT.contains(&head.word) && words.iter().any(|word| LOOKS.contains(&word.as_str())) {
        reading.least = Effect::Read;
    }
    for (at, other) in found.iter().skip(1).copied() {
        let effect = other.act.effect();
        let joined =
            at.checked_sub(1).and_then(|before| words.get(before)).is_some_and(|word| JOINTS.contains(&word.as_str()));
        if joined && !other.noun {
            reading.least = reading.least.max(effect);
        } else if !is_verb && !other.noun {
            // Either of the two is the verb.
            reading.least = own.min(effect).max(reading.least);
            reading.most = if looks { effect } else { reading.most };
        }
        if joined || !other.noun || !is_verb {
            reading.most = reading.most.max(effect);
        }
    }
    reading.most = reading.most.max(reading.least);
    reading
}

/// The verbs of a name with their places.
fn verbs(words: &[String]) -> Vec<(usize, Verb)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let next = words.get(at + 1).map_or("", String::as_str);
        if let Some(both) = phrase(word, next) {
            found.push((at, both));
            at += 2;
        } else if compound(word, next) {
            at += 2;
        } else {
            found.extend(verb(word).map(|verb| (at, with_objects(verb, words.iter().map(String::as_str)))));
            at += 1;
        }
    }
    found
}

/// What a light verb is about, where that is a look: `run a scan`.
pub(super) fn light<'a>(verb: Verb, following: impl Iterator<Item = &'a str>) -> Verb {
    if !LIGHT.contains(&verb.word) {
        return verb;
    }
    match following.take(4).find(|word| LOOKS.contains(word)) {
        Some("query" | "queries") => Verb { act: Act::Query, ..verb },
        Some(_) => Verb { act: Act::Look, ..verb },
        None => verb,
    }
}

/// The words of an identifier in lower case: `getHTTPStatus_v2` is get, http, status, v2.
pub(super) fn words(identifier: &str) -> Vec<String> {
    let chars: Vec<char> = identifier.chars().take(MAX_CHARS).collect();
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    for (at, c) in chars.iter().copied().enumerate() {
        let before = at.checked_sub(1).and_then(|at| chars.get(at)).copied().unwrap_or('_');
        let after = chars.get(at + 1).copied().unwrap_or('_');
        let begins = c.is_uppercase() && (before.is_lowercase() || before.is_numeric() || after.is_lowercase());
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}
