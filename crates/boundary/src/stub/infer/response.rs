//! Builds a stub's response from recorded results: ids are minted, arguments are echoed, times are the run's.
//! Everything else is a literal, if it may be repeated to the agent that asks.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use serde_json::{Value, json};

use super::{RecordedResult, text::composed};
use crate::stub::{sample::is_id, template::literal};

/// Deepest value that is read.
const MAX_DEPTH: usize = 12;
/// Longest list whose items are told apart by their position.
const MOST_ITEMS: usize = 3;
/// Shortest text that counts as an id because no two calls gave the same, in bytes.
const SHORTEST_ID: usize = 6;
/// Most digits of a number that is minted.
const MOST_DIGITS: usize = 12;
/// Seconds since 1970 that are taken for a time: 2001 to 2100.
const EPOCH_SECONDS: RangeInclusive<u64> = 1_000_000_000..=4_102_444_800;

/// A value of one recorded result, with the call that gave it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'a> {
    pub call: &'a RecordedResult,
    pub value: &'a Value,
}

/// The values of each field, with their calls.
pub(super) fn fields<'a>(samples: &[Sample<'a>]) -> BTreeMap<&'a str, Vec<Sample<'a>>> {
    let mut fields: BTreeMap<&str, Vec<Sample<'a>>> = BTreeMap::new();
    for sample in samples {
        for (name, value) in sample.value.as_object().into_iter().flatten() {
            fields.entry(name).or_default().push(Sample { value, ..*sample });
        }
    }
    fields
}

/// Builds the template of a value from its recorded values, which belong to a field of this name. Arguments at `paths`
/// may be echoed.
pub(super) fn template(samples: &[Sample<'_>], name: Option<&str>, paths: &[String], depth: usize) -> Value {
    if let Some(path) = paths.iter().find(|path| echoes(samples, name, path)) {
        return Value::String(format!("{{{{ args{path} }}}}"));
    }
    if depth <= MAX_DEPTH && samples.iter().all(|sample| sample.value.is_object()) {
        // A field that some results lack is left out.
        let whole =
            fields(samples).into_iter().filter(|(name, seen)| seen.len() == samples.len() && !name.contains("{{"));
        let entries = whole.map(|(name, seen)| (name.to_owned(), template(&seen, Some(name), paths, depth + 1)));
        return Value::Object(entries.collect());
    }
    if depth <= MAX_DEPTH && samples.iter().all(|sample| sample.value.is_array()) {
        return Value::Array(items(samples, name, paths, depth));
    }
    if let Some(minted) = minted(samples, name).or_else(|| composed(samples, paths)) {
        return Value::String(minted);
    }
    literal_of(samples).map_or_else(|| placeholder(samples), escaped)
}

/// Templates of a list's items: by position if all recorded lists are equally short, else one item in the form of all.
fn items(samples: &[Sample<'_>], name: Option<&str>, paths: &[String], depth: usize) -> Vec<Value> {
    let lists: Vec<(&RecordedResult, &[Value])> =
        samples.iter().filter_map(|sample| Some((sample.call, sample.value.as_array()?.as_slice()))).collect();
    let length = lists.first().map_or(0, |(_, items)| items.len());
    let all = lists.iter().flat_map(|(call, items)| items.iter().map(|value| Sample { call, value }));
    if length > MOST_ITEMS || lists.iter().any(|(_, items)| items.len() != length) {
        return vec![template(&all.collect::<Vec<_>>(), name, paths, depth + 1)];
    }
    let column = |index: usize| -> Vec<Sample<'_>> {
        lists.iter().filter_map(|(call, items)| Some(Sample { call, value: items.get(index)? })).collect()
    };
    (0..length).map(|index| template(&column(index), name, paths, depth + 1)).collect()
}

/// True if the values always equal the argument at this path. A short text that never varies counts only if it has the
/// argument's name.
fn echoes(samples: &[Sample<'_>], name: Option<&str>, path: &str) -> bool {
    let pointer = path.replace('.', "/");
    let is_argument = |sample: &Sample<'_>| {
        sample.call.args.pointer(&pointer).is_some_and(|argument| is_same(argument, sample.value))
    };
    let varies = samples.windows(2).any(|pair| pair.first().map(|a| a.value) != pair.get(1).map(|b| b.value));
    let is_telling = samples.first().is_some_and(|sample| match sample.value {
        Value::String(text) => text.len() >= SHORTEST_ID,
        Value::Number(_) => true,
        _ => false,
    });
    (varies || is_telling || path.rsplit('.').next() == name) && samples.iter().all(is_argument)
}

/// True for equal values; 8 and 8.0 are the same number.
fn is_same(a: &Value, b: &Value) -> bool {
    a == b || a.as_f64().zip(b.as_f64()).is_some_and(|(a, b)| a.total_cmp(&b).is_eq())
}

/// Expression that mints the values anew, if they are ids or times; none otherwise.
fn minted(samples: &[Sample<'_>], name: Option<&str>) -> Option<String> {
    let is_id = name.is_some_and(is_id);
    let different: BTreeSet<String> = samples.iter().map(|sample| sample.value.to_string()).collect();
    let all_differ = different.len() == samples.len() && samples.len() > 1;
    let numbers: Vec<u64> = samples.iter().filter_map(|sample| sample.value.as_u64()).collect();
    if numbers.len() == samples.len() {
        return match epoch(&numbers, name) {
            _ if is_id && all_differ => Some(format!("{{{{ int(seq('{}')) }}}}", beyond(&different))),
            time => time.map(|time| format!("{{{{ {time} }}}}")),
        };
    }
    let texts: Vec<&str> = samples.iter().filter_map(|sample| sample.value.as_str()).collect();
    if texts.len() < samples.len() || texts.is_empty() {
        return None;
    }
    minted_text(&texts, is_id, all_differ)
}

/// The same for texts.
pub(super) fn minted_text(texts: &[&str], is_id: bool, all_differ: bool) -> Option<String> {
    let all = |holds: fn(&str) -> bool| texts.iter().all(|text| holds(text));
    if all(|text| text.parse::<jiff::Timestamp>().is_ok()) {
        return Some("{{ now() }}".to_owned());
    }
    if !all_differ {
        return None;
    }
    if all(|text| text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()) {
        return Some("{{ uuid('') }}".to_owned());
    }
    let is_epoch = |text: &str| {
        let parts = text
            .split_once('.')
            .map(|(seconds, rest)| (seconds.parse().ok(), rest.bytes().all(|b| b.is_ascii_digit())));
        matches!(parts, Some((Some(seconds), true)) if EPOCH_SECONDS.contains(&seconds))
    };
    if texts.iter().all(|text| is_epoch(text)) {
        return Some("{{ epoch() }}.{{ seq('00000') }}".to_owned());
    }
    if is_id && all(|text| text.bytes().all(|b| b.is_ascii_digit())) {
        let different = texts.iter().map(|text| (*text).to_owned()).collect();
        return Some(format!("{{{{ seq('{}') }}}}", beyond(&different)));
    }
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'));
    let is_hex = all(|text| text.len() >= 8 && text.bytes().all(|b| b.is_ascii_hexdigit()));
    let is_mixed = |text: &str| {
        text.len() >= SHORTEST_ID
            && text.contains(|c: char| c.is_ascii_digit())
            && text.contains(|c: char| !c.is_ascii_digit())
    };
    let looks_minted = texts.iter().all(|text| is_mixed(text)) || is_hex && texts.iter().any(|text| is_mixed(text));
    if !texts.iter().all(|text| is_plain(text)) || !(is_id || looks_minted) {
        return None;
    }
    let prefix = common_prefix(texts);
    let rest = |text: &str| text.get(prefix.len()..).unwrap_or_default().to_owned();
    let counted = texts.iter().all(|text| rest(text).bytes().all(|b| b.is_ascii_digit()));
    let mint = if counted && !prefix.is_empty() { "seq" } else { "uuid" };
    Some(format!("{{{{ {mint}('{prefix}shadow-') }}}}"))
}

/// Expression of the run's time in the unit of these numbers, seconds or milliseconds; none if they are no times.
fn epoch(numbers: &[u64], name: Option<&str>) -> Option<&'static str> {
    let is_time = name.is_some_and(|name| {
        let name = name.to_lowercase();
        name == "ts"
            || name.ends_with("at")
            || ["time", "date", "created", "modified"].iter().any(|word| name.contains(word))
    });
    let all = |unit: u64| numbers.iter().all(|number| EPOCH_SECONDS.contains(&(number / unit)));
    match is_time {
        true if all(1) => Some("epoch()"),
        true if all(1_000) => Some("epoch() * 1000"),
        _ => None,
    }
}

/// Prefix for minted numbers, longer than any recorded number, so that they name no real record.
fn beyond(numbers: &BTreeSet<String>) -> String {
    let longest = numbers.iter().map(String::len).max().unwrap_or_default();
    format!("9{}", "0".repeat(longest.min(MOST_DIGITS)))
}

/// Common beginning of all texts, up to the last separator.
fn common_prefix<'a>(texts: &[&'a str]) -> &'a str {
    let Some(first) = texts.first() else { return "" };
    let same = |length: &usize| {
        let start = first.get(..*length);
        start.is_some() && texts.iter().all(|text| text.get(..*length) == start)
    };
    let length = (0..=first.len()).rev().find(same).unwrap_or(0);
    let start = first.get(..length).unwrap_or_default();
    start.rfind(['-', '_', ':']).and_then(|joint| start.get(..=joint)).unwrap_or_default()
}

/// Most frequent value, of several the latest, that may be repeated to the agent that asks: one of its own, or one that
/// two other agents have seen.
pub(super) fn literal_of<'a>(samples: &[Sample<'a>]) -> Option<&'a Value> {
    let mut counts: BTreeMap<String, (usize, usize, BTreeSet<usize>)> = BTreeMap::new();
    for (index, sample) in samples.iter().enumerate() {
        let (count, last, agents) = counts.entry(sample.value.to_string()).or_default();
        *count += 1;
        *last = index;
        agents.insert(sample.call.agent);
    }
    let mut open =
        counts.into_values().filter(|(_, _, agents)| agents.contains(&0) || agents.len() > 1).collect::<Vec<_>>();
    open.sort_unstable_by_key(|(count, last, _)| (*count, *last));
    open.last().and_then(|(_, last, _)| samples.get(*last)).map(|sample| sample.value)
}

/// Value of the same type, for use if none of the recorded values may be repeated.
fn placeholder(samples: &[Sample<'_>]) -> Value {
    match samples.last().map(|sample| sample.value) {
        Some(Value::String(_)) => json!("shadow"),
        Some(Value::Number(_)) => json!(1),
        Some(value @ Value::Bool(_)) => value.clone(),
        Some(Value::Array(_)) => json!([]),
        Some(Value::Object(_)) => json!({}),
        Some(Value::Null) | None => Value::Null,
    }
}

/// Value whose texts are escaped, so that they are no templates.
pub(super) fn escaped(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(literal(text)),
        Value::Array(items) => Value::Array(items.iter().map(escaped).collect()),
        Value::Object(entries) => Value::Object(
            entries
                .iter()
                .filter(|(key, _)| !key.contains("{{"))
                .map(|(key, value)| (key.clone(), escaped(value)))
                .collect(),
        ),
        other => other.clone(),
    }
}
