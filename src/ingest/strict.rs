//! Reads JSON in one pass into a tree that is safe to keep. In: bytes and limits. Out: the tree, and a fault with its
//! pointer for whatever a lenient reader would swallow. It never recurses deeper than the limit on depth.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value, map::Entry};

use super::{
    Limits,
    fault::{At, Faults, code},
};

/// Keys beginning so steer `serde_json` itself when a stored tree is read back: an object under such a key is taken
/// for raw JSON text. An event with one would poison its row, or bring back text that redaction saw as a string.
const RESERVED_PREFIX: &str = "$serde_json::private::";

/// The text of a body: UTF-8, without a byte order mark, not blank.
pub(super) fn text<'a>(body: &'a [u8], faults: &mut Faults) -> Option<&'a str> {
    let body = without_mark(body);
    match std::str::from_utf8(body) {
        Ok(text) if text.trim_ascii().is_empty() => {
            faults.refuse(At::Root, code::EMPTY, "nothing was sent; send a JSON object")
        }
        Ok(text) => Some(text),
        Err(error) => {
            let detail = format!("not UTF-8 at byte {}; JSON is UTF-8 text", error.valid_up_to());
            faults.refuse(At::Root, code::NOT_UTF8, detail)
        }
    }
}

/// The body without the byte order mark that some systems put before UTF-8.
pub(super) fn without_mark(body: &[u8]) -> &[u8] {
    body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body)
}

/// Reads one JSON value and nothing after it. `None` where reading had to stop; the tree may come with faults too.
pub(super) fn parse(text: &str, limits: &Limits, at: At<'_>, faults: &mut Faults) -> Option<Value> {
    let mut reading = Reading { limits, nodes: 0, faults, stopped_at: None, over_limit: false };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Node { at, depth: 0, reading: &mut reading }.deserialize(&mut deserializer);
    match read.and_then(|value| deserializer.end().map(|()| value)) {
        Ok(value) => Some(value),
        Err(_) if reading.over_limit => None,
        Err(error) => {
            let pointer = reading.stopped_at.unwrap_or_else(|| at.pointer());
            faults.add_at(pointer, code::SYNTAX, syntax(&error, text));
            None
        }
    }
}

/// Says what is wrong with the syntax, and where; `serde_json` words it without the text itself.
pub(super) fn syntax(error: &serde_json::Error, text: &str) -> String {
    let line = text.split('\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let rest = line.as_bytes().get(error.column().saturating_sub(1)..).unwrap_or_default();
    let is_no_number = ["NaN", "Infinity"].iter().any(|word| rest.starts_with(word.as_bytes()));
    let hint = if is_no_number { "; JSON has no NaN or Infinity: leave the field out" } else { "" };
    format!("not valid JSON: {error}{hint}")
}

/// What is known while a tree is read.
struct Reading<'f> {
    limits: &'f Limits,
    nodes: usize,
    faults: &'f mut Faults,
    /// The innermost value that could not be read to its end.
    stopped_at: Option<String>,
    /// A limit ended the reading; its fault is listed already.
    over_limit: bool,
}

impl Reading<'_> {
    fn check_text(&mut self, text: &str, at: At<'_>) {
        if text.contains('\0') {
            self.faults.add(at, code::NUL, "holds U+0000, which cannot be stored; leave the character out");
        }
    }

    fn check_key(&mut self, key: &str, at: At<'_>) {
        self.check_text(key, at);
        if key.starts_with(RESERVED_PREFIX) {
            self.faults.add(at, code::RESERVED_KEY, format!("no key may begin with {RESERVED_PREFIX}"));
        }
    }

    fn stop<E: serde::de::Error>(&mut self, at: At<'_>, code: &'static str, detail: String) -> E {
        self.faults.add(at, code, detail);
        self.over_limit = true;
        E::custom(code)
    }
}

/// One value to be read: its place, and how many arrays and objects are around it.
struct Node<'a, 'f> {
    at: At<'a>,
    depth: usize,
    reading: &'a mut Reading<'f>,
}

impl<'f> Node<'_, 'f> {
    fn child<'c>(&'c mut self, at: At<'c>) -> Node<'c, 'f> {
        Node { at, depth: self.depth, reading: self.reading }
    }

    fn enter<E: serde::de::Error>(&mut self) -> Result<(), E> {
        self.depth += 1;
        if self.depth <= self.reading.limits.depth {
            return Ok(());
        }
        let detail = format!("arrays and objects may be nested {} deep", self.reading.limits.depth);
        Err(self.reading.stop(self.at, code::TOO_DEEP, detail))
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_, '_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, deserializer: D) -> Result<Value, D::Error> {
        self.reading.nodes += 1;
        if self.reading.nodes > self.reading.limits.nodes {
            let detail = format!("an event may have {} JSON values", self.reading.limits.nodes);
            return Err(self.reading.stop(At::Root, code::TOO_MANY_NODES, detail));
        }
        let at = self.at;
        let read = deserializer.deserialize_any(self.child(at));
        if read.is_err() && self.reading.stopped_at.is_none() {
            self.reading.stopped_at = Some(at.pointer());
        }
        read
    }
}

impl<'de> Visitor<'de> for Node<'_, '_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        self.reading.check_text(text, self.at);
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        self.enter()?;
        let at = self.at;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self.child(At::Index(&at, array.len())))? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<Value, A::Error> {
        self.enter()?;
        let at = self.at;
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            self.reading.check_key(&key, at);
            let value = members.next_value_seed(self.child(At::Key(&at, &key)))?;
            match object.entry(key) {
                Entry::Vacant(entry) => {
                    entry.insert(value);
                }
                Entry::Occupied(entry) => {
                    let place = At::Key(&at, entry.key());
                    self.reading.faults.add(place, code::DUPLICATE_KEY, "given twice in one object; give it once");
                }
            }
        }
        Ok(Value::Object(object))
    }
}
