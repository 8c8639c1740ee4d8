//! Reads JSON in one pass into a tree that is safe to keep, with a fault and its pointer for input that a lenient
//! reader would swallow. It never recurses deeper than the limit on depth.

use std::{borrow::Cow, collections::HashSet, fmt};

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Number, value::RawValue};

use super::{
    Limits,
    fault::{At, RequestFaults, code},
    tree::{Key, Members, Tree},
};

/// Prefix of keys that steer `serde_json` itself when a stored tree is read back: an object under such a key is taken
/// for raw JSON text. An event with one would poison its row, or bring back text that redaction saw as a string.
const RESERVED_PREFIX: &str = "$serde_json::private::";

/// Returns the text of a body: UTF-8, without a byte order mark, not blank.
pub(super) fn text<'a>(body: &'a [u8], faults: &mut RequestFaults) -> Option<&'a str> {
    let body = without_mark(body);
    match std::str::from_utf8(body) {
        Ok(text) if text.trim_ascii().is_empty() => {
            faults.refuse(At::Root, code::EMPTY, "the body is empty: send a JSON object")
        }
        Ok(text) => Some(text),
        Err(error) => {
            let detail = format!("not UTF-8 at byte {}: send JSON as UTF-8", error.valid_up_to());
            faults.refuse(At::Root, code::NOT_UTF8, detail)
        }
    }
}

/// Removes the byte order mark that some systems put before UTF-8.
pub(super) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body)
}

/// Reads one JSON value with no more bytes than an event may have.
pub(super) fn within<'a>(text: &'a str, limits: &Limits, at: At<'_>, faults: &mut RequestFaults) -> Option<Tree<'a>> {
    if text.len() > limits.event_bytes {
        let mut probed = RequestFaults::default();
        if parse(text, limits, at, &mut probed).is_none() && probed.has(code::TOO_DEEP) {
            faults.append(probed);
            return None;
        }
        let detail = format!("an event may have {} bytes of JSON, and this one has {}", limits.event_bytes, text.len());
        return faults.refuse(at, code::TOO_LARGE, detail);
    }
    parse(text, limits, at, faults)
}

/// Reads one JSON value and nothing after it. `None` where reading had to stop; a tree may come with faults too.
pub(super) fn parse<'a>(text: &'a str, limits: &Limits, at: At<'_>, faults: &mut RequestFaults) -> Option<Tree<'a>> {
    let exact = may_hold_long_integer(text);
    let mut reading = Reading { limits, nodes: 0, faults, stopped_at: None, over_limit: false, exact };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = ValueSeed { at, depth: 0, reading: &mut reading }.deserialize(&mut deserializer);
    match read.and_then(|value| deserializer.end().map(|()| value)) {
        Ok(value) => Some(value),
        Err(_) if reading.over_limit => None,
        Err(error) => {
            let pointer = reading.stopped_at.unwrap_or_else(|| at.pointer());
            let detail = syntax(&error, text, faults.lines_before());
            faults.add_at(pointer, code::SYNTAX, detail);
            None
        }
    }
}

/// Describes a syntax error and its place; `serde_json` words it without the text itself.
pub(super) fn syntax(error: &serde_json::Error, text: &str, lines_before: usize) -> String {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let rest = line.as_bytes().get(error.column().saturating_sub(1)..).unwrap_or_default();
    let is_no_number = ["NaN", "Infinity"].iter().any(|word| rest.starts_with(word.as_bytes()));
    let hint = if is_no_number { "; JSON has no NaN or Infinity: leave the field out" } else { "" };
    let (told, column) = (error.to_string(), error.column());
    let what = told.strip_suffix(&format!(" at line {} column {column}", error.line())).unwrap_or(&told);
    format!("not valid JSON: {what} at line {} column {column}{hint}", lines_before + error.line())
}

/// State of a reading.
struct Reading<'f> {
    limits: &'f Limits,
    nodes: usize,
    faults: &'f mut RequestFaults,
    /// Innermost value that could not be read to its end.
    stopped_at: Option<String>,
    /// True if a limit ended the reading; its fault is listed already.
    over_limit: bool,
    /// True if each value's own text is checked, since an integer may exceed 64 bits.
    exact: bool,
}

/// Number of digits of the shortest integer that may not fit into 64 bits.
const LONG: usize = 19;

/// True if the text has a run of digits that may be an integer beyond 64 bits.
fn may_hold_long_integer(text: &str) -> bool {
    let bytes = text.as_bytes();
    // A run of so many digits covers one byte in so many.
    (LONG - 1..bytes.len()).step_by(LONG).any(|at| {
        let (before, after) = bytes.split_at(at);
        let right = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if right == 0 {
            return false;
        }
        let left = before.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let negative = before.len().checked_sub(left + 1).and_then(|sign| before.get(sign)) == Some(&b'-');
        // An integer of just so many digits fits if it is positive, such as a time in nanoseconds.
        left + right > LONG || (left + right == LONG && negative)
    })
}

/// True if a number's text is an integer that does not fit into 64 bits.
fn is_long_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.len() >= LONG
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && text.parse::<i64>().is_err()
        && text.parse::<u64>().is_err()
}

impl Reading<'_> {
    /// Checks a text that was written with escapes for U+0000. Other texts have none: JSON permits it only as an
    /// escape.
    fn check_escaped(&mut self, text: &str, at: At<'_>) {
        if text.contains('\0') {
            self.faults.add(at, code::NUL, "contains U+0000, which cannot be stored: leave the character out");
        }
    }

    fn check_key(&mut self, Key(key): &Key<'_>, at: At<'_>) {
        if let Cow::Owned(key) = key {
            self.check_escaped(key, at);
        }
        if key.starts_with(RESERVED_PREFIX) {
            self.faults.add(
                at,
                code::RESERVED_KEY,
                format!("the key begins with {RESERVED_PREFIX}, which is reserved: rename the key"),
            );
        }
    }

    fn stop<E: serde::de::Error>(&mut self, at: At<'_>, code: &'static str, detail: String) -> E {
        self.faults.add(at, code, detail);
        self.over_limit = true;
        E::custom(code)
    }
}

/// Value to be read: its place, and the number of arrays and objects around it.
struct ValueSeed<'a, 'f> {
    at: At<'a>,
    depth: usize,
    reading: &'a mut Reading<'f>,
}

impl<'f> ValueSeed<'_, 'f> {
    fn child<'c>(&'c mut self, at: At<'c>) -> ValueSeed<'c, 'f> {
        ValueSeed { at, depth: self.depth, reading: self.reading }
    }

    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.depth += 1;
        if self.depth <= self.reading.limits.depth {
            return Ok(());
        }
        let detail =
            format!("arrays and objects are nested more than {} deep: flatten the value", self.reading.limits.depth);
        Err(self.reading.stop(self.at, code::TOO_DEEP, detail))
    }
}

impl ValueSeed<'_, '_> {
    /// Reads the value of this text, which is one JSON value.
    fn read_exactly(self, text: &str) -> Result<Tree<'_>, serde_json::Error> {
        if is_long_integer(text) {
            return Ok(Tree::LongInteger(text));
        }
        serde_json::Deserializer::from_str(text).deserialize_any(self)
    }
}

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = Tree<'de>;

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<Tree<'de>, D::Error> {
        self.reading.nodes += 1;
        if self.reading.nodes > self.reading.limits.nodes {
            let detail = format!(
                "an event may have {} JSON values, and this one has more: send less",
                self.reading.limits.nodes
            );
            return Err(self.reading.stop(At::Root, code::TOO_MANY_NODES, detail));
        }
        let at = self.at;
        let read = if self.reading.exact {
            let raw = <&'de RawValue>::deserialize(deserializer);
            raw.and_then(|raw| self.child(at).read_exactly(raw.get()).map_err(D::Error::custom))
        } else {
            deserializer.deserialize_any(self.child(at))
        };
        if read.is_err() && self.reading.stopped_at.is_none() {
            self.reading.stopped_at = Some(at.pointer());
        }
        read
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = Tree<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Tree<'de>, E> {
        Ok(Tree::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Tree<'de>, E> {
        Ok(Tree::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree<'de>, E> {
        Ok(Tree::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Tree<'de>, E> {
        Ok(Number::from_f64(value).map_or(Tree::Null, Tree::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Tree<'de>, E> {
        Ok(Tree::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree<'de>, E> {
        self.reading.check_escaped(text, self.at);
        Ok(Tree::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Tree<'de>, A::Error> {
        self.enter()?;
        let at = self.at;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.child(At::Index(&at, array.len())))? {
            array.push(item);
        }
        Ok(Tree::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Tree<'de>, A::Error> {
        self.enter()?;
        let at = self.at;
        // An event has a dozen fields or more, objects within it mostly few.
        let (mut members, mut many) = (Members::with_capacity(if self.depth == 1 { 16 } else { 4 }), HashSet::new());
        while let Some(key) = entries.next_key::<Key<'de>>()? {
            self.reading.check_key(&key, at);
            let value = entries.next_value_seed(self.child(At::Key(&at, &key.0)))?;
            if let Err(key) = members.add(key.0, value, &mut many) {
                let place = At::Key(&at, &key);
                self.reading.faults.add(
                    place,
                    code::DUPLICATE_KEY,
                    "the field occurs twice in one object: give it once",
                );
            }
        }
        Ok(Tree::Object(members))
    }
}
