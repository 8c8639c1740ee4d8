//! JSON tree of a request: texts and keys are slices of it, copied only where an escape forces it. No object has a key
//! twice.

use std::{borrow::Cow, collections::HashSet};

use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Number, Value, value::RawValue};

/// JSON value.
pub(super) enum Tree<'a> {
    Null,
    Bool(bool),
    Number(Number),
    /// Integer beyond 64 bits: its digits, which are kept as text.
    LongInteger(&'a str),
    Text(Cow<'a, str>),
    Array(Vec<Tree<'a>>),
    Object(Members<'a>),
}

impl From<Tree<'_>> for Value {
    fn from(tree: Tree<'_>) -> Self {
        match tree {
            Tree::Null => Self::Null,
            Tree::Bool(value) => Self::Bool(value),
            Tree::Number(number) => Self::Number(number),
            Tree::LongInteger(digits) => Self::String(digits.to_owned()),
            Tree::Text(text) => Self::String(text.into_owned()),
            Tree::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Tree::Object(members) => Self::Object(members.into()),
        }
    }
}

/// Canonical form: compact, with every object's keys sorted.
impl Serialize for Tree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => number.serialize(serializer),
            // Written as a number: an event with the same digits as a text is a different event.
            Self::LongInteger(digits) => match serde_json::from_str::<&RawValue>(digits) {
                Ok(raw) => raw.serialize(serializer),
                Err(error) => Err(serde::ser::Error::custom(error)),
            },
            Self::Text(text) => serializer.serialize_str(text),
            Self::Array(items) => serializer.collect_seq(items),
            Self::Object(members) => members.serialize(serializer),
        }
    }
}

/// Most members among which a repeated key is searched for one by one; beyond, by hash, so the cost is not quadratic.
const FEW: usize = 16;

/// Members of an object.
#[derive(Default)]
pub(super) struct Members<'a>(Vec<(Cow<'a, str>, Tree<'a>)>);

impl<'a> Members<'a> {
    /// Returns an empty object with room for so many members.
    pub fn with_capacity(members: usize) -> Self {
        Self(Vec::with_capacity(members))
    }

    /// Adds a member; returns the key if it is there already. `many` belongs to the object: the set of its keys once
    /// they are more than a few.
    pub fn add(
        &mut self,
        key: Cow<'a, str>,
        value: Tree<'a>,
        many: &mut HashSet<Cow<'a, str>>,
    ) -> Result<(), Cow<'a, str>> {
        if self.0.len() == FEW {
            many.extend(self.0.iter().map(|(key, _)| key.clone()));
        }
        let known =
            if self.0.len() < FEW { self.0.iter().any(|(known, _)| *known == key) } else { !many.insert(key.clone()) };
        if known {
            return Err(key);
        }
        self.0.push((key, value));
        Ok(())
    }

    /// Takes out the member of this name, unless it is null.
    pub fn take(&mut self, name: &str) -> Option<Tree<'a>> {
        let at = self.0.iter().position(|(key, _)| key == name)?;
        Some(self.0.swap_remove(at).1).filter(|value| !matches!(value, Tree::Null))
    }

    /// True if there is a member of this name that is not null.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, value)| key == name && !matches!(value, Tree::Null))
    }

    /// Returns the keys in their order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(key, _)| &**key)
    }

    /// True if every member was taken.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the keys, sorted.
    pub fn into_keys(self) -> Vec<Cow<'a, str>> {
        let mut keys: Vec<_> = self.0.into_iter().map(|(key, _)| key).collect();
        keys.sort_unstable();
        keys
    }
}

impl From<Members<'_>> for Map<String, Value> {
    fn from(members: Members<'_>) -> Self {
        let mut map = Self::new();
        for (key, value) in members.0 {
            map.insert(key.into_owned(), value.into());
        }
        map
    }
}

impl Serialize for Members<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sorted: Vec<_> = self.0.iter().map(|(key, value)| (key, value)).collect();
        sorted.sort_unstable_by_key(|(key, _)| *key);
        serializer.collect_map(sorted)
    }
}

/// Key of an object, borrowed where possible.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Key<'a>(#[serde(borrow)] pub Cow<'a, str>);
