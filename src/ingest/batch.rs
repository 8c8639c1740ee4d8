//! Cuts a batch into the texts of its events, without reading them. The result is slices of the body, at most as many
//! as a batch may have; memory stays bounded by that number, whatever the body contains.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{error::Category, value::RawValue};

use super::{
    Limits,
    fault::{At, RequestFaults, code},
    strict,
};

/// Name of the one member of a JSON batch.
pub(super) const EVENTS: &str = "events";

/// Returns the lines of an NDJSON body that are not blank, each with the number of lines before it.
pub(super) fn lines<'a>(body: &'a [u8], limits: &Limits, faults: &mut RequestFaults) -> Option<Vec<(usize, &'a [u8])>> {
    let lines = strict::without_mark(body).split(|byte| *byte == b'\n').enumerate();
    let mut filled = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    let lines: Vec<_> = filled.by_ref().take(limits.batch_events).collect();
    let rest = filled.count();
    if lines.is_empty() {
        return faults.refuse(At::Root, code::EMPTY, "the body is empty: send one JSON object a line");
    }
    if rest > 0 {
        return too_many(lines.len() + rest, limits, At::Root, faults);
    }
    Some(lines)
}

/// Returns the texts of the events in `{"events": [...]}`.
pub(super) fn events<'a>(text: &'a str, limits: &Limits, faults: &mut RequestFaults) -> Option<Vec<&'a str>> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Batch { limits, faults }.deserialize(&mut deserializer);
    match read.and_then(|texts| deserializer.end().map(|()| texts)) {
        Ok(texts) => texts,
        Err(error) if error.classify() == Category::Data => {
            faults.refuse(At::Root, code::TYPE, r#"expected an object with one member "events", a list of events"#)
        }
        Err(error) => faults.refuse(At::Root, code::SYNTAX, strict::syntax(&error, text, 0)),
    }
}

fn too_many<T>(count: usize, limits: &Limits, at: At<'_>, faults: &mut RequestFaults) -> Option<T> {
    let detail = format!(
        "a batch may have {} events, and this one has {count}: send several smaller batches",
        limits.batch_events
    );
    faults.refuse(at, code::TOO_MANY_EVENTS, detail)
}

/// Reader of the whole batch.
struct Batch<'f> {
    limits: &'f Limits,
    faults: &'f mut RequestFaults,
}

impl<'de> DeserializeSeed<'de> for Batch<'_> {
    type Value = Option<Vec<&'de str>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Batch<'_> {
    type Value = Option<Vec<&'de str>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut texts = None;
        while let Some(key) = members.next_key::<String>()? {
            let at = At::Key(&At::Root, &key);
            if key != EVENTS {
                members.next_value::<IgnoredAny>()?;
                self.faults.add(at, code::UNKNOWN_FIELD, r#"unknown field: a batch has only the field "events""#);
            } else if texts.is_some() {
                members.next_value::<IgnoredAny>()?;
                self.faults.add(at, code::DUPLICATE_KEY, "the field occurs twice in one object: give it once");
            } else {
                let (kept, rest) = members.next_value_seed(Texts { most: self.limits.batch_events })?;
                if rest > 0 {
                    too_many::<()>(kept.len() + rest, self.limits, at, self.faults);
                }
                texts = Some(kept);
            }
        }
        if texts.is_none() {
            self.faults.add(At::Key(&At::Root, EVENTS), code::MISSING, "required: a list of events");
        }
        Ok(texts)
    }
}

/// Reader of the list of events: the texts of the first `most`, and the number of further ones.
struct Texts {
    most: usize,
}

impl<'de> DeserializeSeed<'de> for Texts {
    type Value = (Vec<&'de str>, usize);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Texts {
    type Value = (Vec<&'de str>, usize);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut texts = Vec::new();
        while texts.len() < self.most {
            match items.next_element::<&RawValue>()? {
                Some(raw) => texts.push(raw.get()),
                None => return Ok((texts, 0)),
            }
        }
        let mut rest = 0;
        while items.next_element::<IgnoredAny>()?.is_some() {
            rest += 1;
        }
        Ok((texts, rest))
    }
}
