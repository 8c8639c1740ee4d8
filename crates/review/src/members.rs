//! Reads the members of a model's JSON reply, each by its name. In: JSON as a model wrote it. Out: texts, words,
//! numbers and objects, or the path of the member at fault. Small models slip in form: a number as text, null or
//! nothing for an empty list, another case of a word. Such slips have one meaning and are read. A missing member
//! without a default, an unknown word, or a repeated member is refused.

use std::{
    fmt::{self, Display},
    ops::RangeInclusive,
};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::reply::Unreadable;

/// JSON in which no object repeats a member: with two, either may come from the author of the reviewed text.
pub(super) struct UniqueMembers(pub Value);

impl<'de> Deserialize<'de> for UniqueMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(UniqueMembers(item)) = items.next_element()? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some((name, UniqueMembers(value))) = members.next_entry::<String, _>()? {
            if read.insert(name, value).is_some() {
                return Err(A::Error::custom("a member is given twice"));
            }
        }
        Ok(Value::Object(read))
    }
}

/// Members of one object of a reply.
pub(super) struct Members<'v> {
    members: &'v Map<String, Value>,
    /// Place of the object in the reply, such as `findings[2].`
    path: String,
}

impl<'v> Members<'v> {
    /// Returns the members of the reply's one object.
    pub fn of(members: &'v Map<String, Value>) -> Self {
        Self { members, path: String::new() }
    }

    fn get(&self, name: &str) -> Option<&'v Value> {
        self.members.get(name).filter(|value| !value.is_null())
    }

    /// Names a member by its path, in names of ours, with its fault.
    fn fault(&self, name: &str, fault: impl Display) -> Unreadable {
        format!("its `{}{name}` {fault}", self.path)
    }

    fn required(&self, name: &str) -> Result<&'v Value, Unreadable> {
        self.get(name).ok_or_else(|| self.fault(name, "is missing"))
    }

    /// Returns a text.
    pub fn text(&self, name: &str) -> Result<String, Unreadable> {
        let text = self.required(name)?.as_str();
        text.map(ToOwned::to_owned).ok_or_else(|| self.fault(name, "is not a text"))
    }

    /// Returns a text; empty if it is missing.
    pub fn text_or_empty(&self, name: &str) -> Result<String, Unreadable> {
        self.get(name).map_or_else(|| Ok(String::new()), |_| self.text(name))
    }

    /// Returns one of a few words, in any case.
    pub fn word<T: Copy>(&self, name: &str, all: &[T], word: fn(T) -> &'static str) -> Result<T, Unreadable> {
        let said = self.text(name)?;
        let named = all.iter().find(|known| word(**known).eq_ignore_ascii_case(said.trim()));
        let known = || all.iter().map(|known| word(*known)).collect::<Vec<_>>().join(", ");
        named.copied().ok_or_else(|| self.fault(name, format!("is not one of {}", known())))
    }

    /// Returns a number within bounds, even if it is written as text.
    pub fn number(&self, name: &str, bounds: RangeInclusive<f64>) -> Result<f64, Unreadable> {
        let value = self.required(name)?;
        let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
        let fault = || self.fault(name, format!("is not a number from {} to {}", bounds.start(), bounds.end()));
        number.filter(|number| bounds.contains(number)).ok_or_else(fault)
    }

    /// Returns the number of a step, which may be missing.
    pub fn optional_step(&self, name: &str) -> Result<Option<u32>, Unreadable> {
        if self.get(name).is_none() {
            return Ok(None);
        }
        let number = self.number(name, 0.0..=f64::from(u32::MAX))?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within the bounds of a u32")]
        let step = number as u32;
        Ok(Some(step))
    }

    /// Returns a list of objects.
    pub fn required_objects(&self, name: &str) -> Result<Vec<Members<'v>>, Unreadable> {
        self.required(name)?;
        self.objects(name)
    }

    /// Returns a list of objects; empty if it is missing.
    pub fn objects(&self, name: &str) -> Result<Vec<Members<'v>>, Unreadable> {
        let Some(value) = self.get(name) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or_else(|| self.fault(name, "is not a list"))?;
        let object = |(index, item): (usize, &'v Value)| {
            let name = format!("{name}[{index}]");
            let members = item.as_object().ok_or_else(|| self.fault(&name, "is not an object"))?;
            Ok(Members { members, path: format!("{}{name}.", self.path) })
        };
        items.iter().enumerate().map(object).collect()
    }
}
