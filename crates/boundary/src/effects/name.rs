//! Reads a tool's name. In: a name. Out: the mildest and the most severe effect that it can mean, and its verb.
//!
//! A name is a verb and its objects (`get_issue`), or a thing and its verb (`issue_write`); many words are both
//! (`release`, `order`). If a name can be read in two ways, the more severe one counts, unless the tool's server is
//! trusted: then the description decides between them.
//!
//! A name is read-only (`looks`) only if it has a read verb, and every other word is known to do nothing.

use super::{
    lexicon::{Act, Verb, compound, inflected, phrase, verb, with_objects},
    lists::{LISTS, among},
    vocabulary::{WordKind, word},
};
use umbra_domain::{Effect, ToolName};

/// Longest part of a name that is read, in characters.
const MAX_CHARS: usize = 256;

/// Possible readings of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// Mildest effect that the name can mean.
    pub least: Effect,
    /// Most severe effect that the name can mean.
    pub most: Effect,
    /// Verb of the name; none if none is known.
    pub verb: Option<Verb>,
    /// True if the name has a read verb, and every other word is known to do nothing.
    pub is_read_only: bool,
}

impl Reading {
    /// True if only one effect is possible.
    pub fn is_firm(self) -> bool {
        self.least == self.most
    }
}

/// Reads a tool's name, without a repeated name of its server, unless that is the thing to be shown: `git_status`.
pub(super) fn read(tool: &ToolName) -> Reading {
    let words = words(&tool.name);
    let server = tool.server.as_deref().map(self::words).unwrap_or_default();
    let own = words.strip_prefix(server.as_slice()).filter(|own| !own.is_empty()).unwrap_or(&words);
    // `place_details_tool`
    let own = own.strip_suffix(&["tool".to_owned()]).filter(|rest| !rest.is_empty()).unwrap_or(own);
    let start = own.iter().take_while(|word| among(&LISTS.names.boilerplate, word)).count();
    let reading = of_words(own.get(start..).unwrap_or_default());
    let looks = reading.is_read_only || (own.len() < words.len() && looks(&words));
    Reading { is_read_only: looks, ..reading }
}

/// Reads the words of a name, in order.
pub(super) fn of_words(words: &[String]) -> Reading {
    let found = verbs(words);
    let Some((first, head)) = found.first().copied() else {
        let looks = looks(words);
        return Reading { least: Effect::Read, most: Effect::Destructive, verb: None, is_read_only: looks };
    };
    let is_look = matches!(head.act, Act::Read | Act::Compute | Act::Query);
    // `list` is a verb at the beginning of a name, and a noun at its end: `todo_list`.
    let is_verb = !head.noun || (first == 0 && is_look);
    let own = head.act.effect();
    let mut reading = Reading {
        least: if is_verb { own } else { Effect::Read },
        most: if !is_verb && is_look { Effect::Destructive } else { own },
        verb: Some(head),
        is_read_only: looks(words),
    };
    if among(&LISTS.names.light, head.word) && words.iter().any(|word| among(&LISTS.names.looks, word)) {
        reading.least = Effect::Read;
    }
    for (at, other) in found.iter().skip(1).copied() {
        let effect = other.act.effect();
        let joined =
            at.checked_sub(1).and_then(|before| words.get(before)).is_some_and(|word| among(&LISTS.names.joints, word));
        if joined && !other.noun {
            reading.least = reading.least.max(effect);
        } else if !is_verb && !other.noun {
            // Either of the two is the verb.
            reading.least = own.min(effect).max(reading.least);
            reading.most = if is_look { effect } else { reading.most };
        }
        if joined || !other.noun || !is_verb {
            reading.most = reading.most.max(effect);
        }
    }
    reading.most = reading.most.max(reading.least);
    reading
}

/// Verbs of a name, with their indexes.
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

/// True if an identifier is an order: `purge`, `delete_all`; not `delete_reason`.
pub(super) fn acts(identifier: &str) -> bool {
    let words = words(identifier);
    let firm = |word: &String| verb(word).is_some_and(|verb| !verb.noun && verb.act.effect() > Effect::Read);
    let known = words.len() > 1 && words.last().is_some_and(|last| among(&LISTS.names.attributes, last));
    words.first().is_some_and(firm) && !known
}

/// True if a noun beside a read verb is rather a second verb: `peek_pop`, `get_flush_cache`, `get_lock`.
fn hides_order(words: &[String], place: usize, at: usize) -> bool {
    let text = |at: usize| words.get(at).map_or("", String::as_str);
    let (own, next, last) = (text(place), text(place + 1), place + 1 == words.len());
    let of_many = own == "empty" && is_plural(next);
    let known = !last && among(&LISTS.names.attributes, next);
    if place < at {
        // The first word of a name that ends with its read verb.
        return place == 0 && (among(&LISTS.names.hardly, own) || among(&LISTS.names.ordered, own)) && !known;
    }
    let hardly = among(&LISTS.names.hardly, own) && !known && !of_many;
    let ordered = among(&LISTS.names.ordered, own)
        && (last && place == at + 1 || !last && ["lock", "start", "stop"].contains(&own) && !known && !is_plural(next));
    let taken = among(&LISTS.names.taken, own) && !last && !known && !is_plural(next) && place == at + 1;
    hardly || ordered || taken
}

/// True if reading the thing makes it, or takes it away: `get_new_token`, `get_next_job`.
fn takes(words: &[String]) -> bool {
    words.windows(2).any(|pair| match pair {
        [first, second] => {
            first == "new" && among(&LISTS.names.made, second) || first == "next" && among(&LISTS.names.queued, second)
        }
        _ => false,
    })
}

/// True if words can mean nothing but a read.
fn looks(words: &[String]) -> bool {
    let Some(at) = look(words).filter(|_| !takes(words)) else { return false };
    let mut joined = false;
    (0..words.len()).all(|place| {
        let text = words.get(place).map_or("", String::as_str);
        // A word after `and` may be a second verb: it is harmless only if it cannot be one.
        joined |= among(&LISTS.names.joints, text) || word(text) == Some(WordKind::Joint);
        place == at || does_nothing(words, place, at, joined)
    })
}

/// Index of the read verb, if the form of the name leaves no doubt that it is the verb.
fn look(words: &[String]) -> Option<usize> {
    let text = |at: usize| words.get(at).map_or("", String::as_str);
    let is_look = |at: usize| {
        let found = phrase(text(at), text(at + 1)).or_else(|| verb(text(at)))?;
        let found = with_objects(found, words.iter().map(String::as_str));
        let looks = matches!(found.act, Act::Read | Act::Compute | Act::Query);
        (looks && !among(&LISTS.names.not_inside, found.word)).then_some(found)
    };
    if is_look(0).is_some() {
        return Some(0);
    }
    let last = words.len().checked_sub(1).filter(|last| *last > 0)?;
    let opens = verb(text(0)).filter(|_| !compound(text(0), text(1)));
    let listed =
        is_plural(text(last)) || matches!(word(text(last)), Some(WordKind::Noun | WordKind::Both | WordKind::Manner));
    let amid =
        |at: usize| is_look(at).is_some_and(|verb| !verb.noun || (among(&LISTS.names.amid, verb.word) && listed));
    if let Some(at) = (1..last).find(|at| opens.is_none() && amid(*at)) {
        return Some(at);
    }
    let ends = match text(last) {
        "read" => !among(&LISTS.names.marked, text(last - 1)),
        "list" => !among(&LISTS.names.listed, text(last - 1)),
        "view" => is_plural(text(last - 1)),
        other => among(&LISTS.names.at_the_end, other) || among(&LISTS.names.sights, other),
    };
    // A name that opens with a verb is an order, unless it ends with a read verb that is hardly ever a noun:
    // `order_get`.
    let ordered = opens.is_some_and(|verb| !verb.noun || !among(&LISTS.names.at_the_end, text(last)));
    (ends && !ordered).then_some(last)
}

fn is_plural(text: &str) -> bool {
    text.len() > 3 && text.ends_with('s') && !["ss", "us", "is"].iter().any(|end| text.ends_with(end))
}

/// True if a word beside the read verb is known to do nothing by itself.
fn does_nothing(words: &[String], place: usize, at: usize, joined: bool) -> bool {
    let text = |at: usize| words.get(at).map_or("", String::as_str);
    let (own, next, last) = (text(place), text(place + 1), place + 1 == words.len());
    let is_pair = |at: Option<usize>| at.is_some_and(|at| compound(text(at), text(at + 1)));
    let is_two = |at: Option<usize>| {
        at.is_some_and(|at| phrase(text(at), text(at + 1)).is_some_and(|both| both.act == Act::Read))
    };
    if !joined && (is_pair(Some(place)) || is_pair(place.checked_sub(1))) || is_two(place.checked_sub(1)) {
        return true;
    }
    if own.bytes().any(|byte| byte.is_ascii_digit()) {
        // `s3`, `v2`, `2024`: no verb holds a digit, but one may stand beside it.
        let is_verb = |part: &str| verb(part).is_some() || word(part) == Some(WordKind::Verb);
        return hides_no_verb(own) && !own.split(|c: char| c.is_ascii_digit()).any(is_verb);
    }
    if let Some(verb) = verb(own) {
        return match verb.act {
            Act::Compute | Act::Read | Act::Query => !among(&LISTS.names.not_inside, verb.word),
            // A word after the verb, or before a final one, is a noun if it can be one.
            _ => {
                verb.noun
                    && !joined
                    && !hides_order(words, place, at)
                    && phrase(own, next).is_none()
                    && !(last && place > at + 1 && among(&LISTS.names.done, verb.word))
            }
        };
    }
    match word(own) {
        Some(WordKind::Noun | WordKind::Joint) => true,
        Some(WordKind::Manner | WordKind::Both) => !joined,
        Some(WordKind::Before) => !last,
        Some(WordKind::Verb) => false,
        None if is_plural(own) => hides_no_verb(own),
        // `deleted`, `pending` describe a thing; but `get_started` is an order.
        None if holds_form(own) && inflected(own).is_some() => {
            let caused = last && text(at) == "get" && place == at + 1;
            !joined && !caused
        }
        // A proper name before its thing: `get_kafka_topic`, `zia_list_locations`.
        None => {
            let parted = matches!(word(next), Some(WordKind::Joint | WordKind::Before));
            !last && !joined && !parted && at != words.len() - 1 && own.len() > 1 && hides_no_verb(own)
        }
    }
}

/// True if no word of a value tells of a change: `hourly`, `created_at`.
pub(super) fn says_nothing(words: &[String]) -> bool {
    let looks = |word: &String| verb(word).is_none_or(|verb| verb.act.effect() == Effect::Read);
    (0..words.len()).all(|place| words.get(place).is_some_and(looks) && does_nothing(words, place, words.len(), false))
}

/// True if a word ends like a verb form that is no order.
fn holds_form(text: &str) -> bool {
    text.len() > 4 && ["ed", "en", "ing"].iter().any(|end| text.ends_with(end))
}

/// True if an unknown word does not begin or end with a verb that changes something.
fn hides_no_verb(text: &str) -> bool {
    let text = text.strip_suffix('s').unwrap_or(text);
    !(3..text.len()).filter(|cut| text.is_char_boundary(*cut)).any(|cut| {
        let (start, end) = text.split_at(cut);
        let does = |part: &str| {
            part.len() > 3 && verb(part).is_some_and(|verb| !verb.noun && verb.act.effect() > Effect::Read)
        };
        does(start) || does(end)
    })
}

/// Adjusts a light verb to its object: `run a scan` is a read.
pub(super) fn light<'a>(verb: Verb, following: impl Iterator<Item = &'a str>) -> Verb {
    if !among(&LISTS.names.light, verb.word) {
        return verb;
    }
    match following.take(4).find(|word| among(&LISTS.names.looks, word)) {
        Some("query" | "queries") => Verb { act: Act::Query, ..verb },
        Some(_) => Verb { act: Act::Read, ..verb },
        None => verb,
    }
}

/// Splits an identifier into words in lower case: `getHTTPStatus_v2` is get, http, status, v2.
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
