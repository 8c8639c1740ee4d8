//! What numbers may look like: counts, money, durations and sizes. Nodes in, values within their bounds out; the
//! same bounds as JSON Schema.

use std::{ops::RangeInclusive, time::Duration};

use serde_json::{Value, json};

use super::{
    fault::Faults,
    keys::Shape,
    quantity::{parse_bytes, parse_duration, show_bytes, show_duration},
    shape::shown,
    tree::{Kind, Node},
};

/// A whole number within bounds.
pub(super) struct Whole {
    range: RangeInclusive<u64>,
    hint: &'static str,
}

/// A whole number within `range`.
pub(super) fn whole(range: RangeInclusive<u64>) -> Whole {
    Whole { range, hint: "" }
}

impl Whole {
    /// What to say besides when the number is out of bounds.
    pub fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }

    /// The same as another integer type, which must hold the whole range.
    pub fn to<T: TryFrom<u64>>(self) -> impl Shape<Value = T> {
        Mapped { shape: self, convert: |number| T::try_from(number).ok() }
    }
}

impl Shape for Whole {
    type Value = u64;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<u64> {
        let (min, max) = (*self.range.start(), *self.range.end());
        let help = format!("write a whole number from {min} to {max}{}", self.hint);
        let number = match node.kind {
            Kind::Whole(number) => number,
            // `1e12` is a decimal in YAML; as a count it is out of bounds, not of the wrong kind.
            #[expect(clippy::cast_possible_truncation, reason = "saturates, which is out of bounds as well")]
            Kind::Decimal(number) if number.fract() == 0.0 => number as i128,
            _ => {
                faults.fault(node.at, format!("{} is not a whole number", shown(node)), help);
                return None;
            }
        };
        let value = u64::try_from(number).ok().filter(|value| self.range.contains(value));
        if value.is_none() {
            faults.fault(node.at, format!("{number} is out of bounds"), help);
        }
        value
    }

    fn schema(&mut self) -> Value {
        json!({"type": "integer", "minimum": self.range.start(), "maximum": self.range.end()})
    }
}

/// A number within bounds, such as money.
pub(super) struct Decimal<T> {
    what: &'static str,
    range: RangeInclusive<f64>,
    convert: fn(f64) -> Option<T>,
}

/// `what` within `range`, given to `convert`.
pub(super) fn decimal<T>(what: &'static str, range: RangeInclusive<f64>, convert: fn(f64) -> Option<T>) -> Decimal<T> {
    Decimal { what, range, convert }
}

impl<T> Shape for Decimal<T> {
    type Value = T;

    #[expect(clippy::cast_precision_loss, reason = "bounds are far below where whole numbers lose precision")]
    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<T> {
        let (min, max) = (*self.range.start(), *self.range.end());
        let help = format!("write {} from {min} to {max}", self.what);
        let number = match node.kind {
            Kind::Whole(number) => number as f64,
            Kind::Decimal(number) => number,
            _ => {
                faults.fault(node.at, format!("{} is not {}", shown(node), self.what), help);
                return None;
            }
        };
        let value = self.range.contains(&number).then(|| (self.convert)(number)).flatten();
        if value.is_none() {
            faults.fault(node.at, format!("{number} is out of bounds"), help);
        }
        value
    }

    fn schema(&mut self) -> Value {
        json!({"type": "number", "minimum": self.range.start(), "maximum": self.range.end()})
    }
}

/// A duration such as `30s`.
pub(super) struct Time(pub RangeInclusive<Duration>);

impl Shape for Time {
    type Value = Duration;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Duration> {
        let (min, max) = (show_duration(*self.0.start()), show_duration(*self.0.end()));
        let help = format!("write {min} to {max} as a number with ms, s, m, h or d: 500ms, 30s, 2h, 1d");
        let time = match &node.kind {
            Kind::Text(text) => parse_duration(text),
            Kind::Whole(0) => Some(Duration::ZERO),
            _ => None,
        };
        let Some(time) = time else {
            faults.fault(node.at, format!("{} is not a duration", shown(node)), help);
            return None;
        };
        if !self.0.contains(&time) {
            faults.fault(node.at, format!("{} is out of bounds", shown(node)), help);
            return None;
        }
        Some(time)
    }

    fn schema(&mut self) -> Value {
        json!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"})
    }
}

/// A size in bytes: a whole number, or text such as `4MiB`.
pub(super) struct Bytes(pub RangeInclusive<u64>);

impl Shape for Bytes {
    type Value = usize;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<usize> {
        let (min, max) = (show_bytes(*self.0.start()), show_bytes(*self.0.end()));
        let help = format!("write {min} to {max} in bytes or with KiB, MiB, GiB: 65536, 4MiB");
        let bytes = match &node.kind {
            Kind::Text(text) => parse_bytes(text).map(i128::from),
            Kind::Whole(number) => Some(*number),
            _ => None,
        };
        let Some(bytes) = bytes else {
            faults.fault(node.at, format!("{} is not a size", shown(node)), help);
            return None;
        };
        let value = u64::try_from(bytes).ok().filter(|bytes| self.0.contains(bytes));
        if value.is_none() {
            faults.fault(node.at, format!("{} is out of bounds", shown(node)), help);
        }
        value.and_then(|bytes| usize::try_from(bytes).ok())
    }

    fn schema(&mut self) -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": self.0.start(), "maximum": self.0.end()},
            {"type": "string", "pattern": "^[0-9]+ *(B|KiB|MiB|GiB)$"},
        ]})
    }
}

/// A shape whose values are turned into something else.
struct Mapped<S, F> {
    shape: S,
    convert: F,
}

impl<S: Shape, T, F: Fn(S::Value) -> Option<T>> Shape for Mapped<S, F> {
    type Value = T;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<T> {
        self.shape.read(node, faults).and_then(&self.convert)
    }

    fn schema(&mut self) -> Value {
        self.shape.schema()
    }
}
