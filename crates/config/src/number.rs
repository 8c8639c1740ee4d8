//! Shapes of numbers: counts, money, durations and sizes. Nodes in, values within their bounds out; the same bounds as
//! JSON Schema.

use std::{marker::PhantomData, ops::RangeInclusive, time::Duration};

use serde_json::{Value, json};

use super::{
    fault::Faults,
    keys::Shape,
    quantity::{parse_bytes, parse_duration, show_bytes, show_duration},
    shape::refuse,
    tree::{Node, NodeValue},
};

/// Shape of a whole number within bounds, read as an integer type that holds them.
pub(super) struct WholeNumberShape<T> {
    range: RangeInclusive<u64>,
    hint: &'static str,
    integer: PhantomData<T>,
}

/// Returns the shape of a whole number within `range`.
pub(super) fn whole<T: TryFrom<u64>>(range: RangeInclusive<u64>) -> WholeNumberShape<T> {
    WholeNumberShape { range, hint: "", integer: PhantomData }
}

impl<T> WholeNumberShape<T> {
    /// Adds advice for a number that is out of bounds.
    pub fn hint(self, hint: &'static str) -> Self {
        Self { hint, ..self }
    }
}

impl<T: TryFrom<u64>> Shape for WholeNumberShape<T> {
    type Value = T;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<T> {
        let (min, max) = (*self.range.start(), *self.range.end());
        let help = format!("write a whole number from {min} to {max}{}", self.hint);
        let number = match node.kind {
            NodeValue::Whole(number) => Some(number),
            // `1e12` is a decimal in YAML; as a count it is out of bounds, not of the wrong kind.
            #[expect(clippy::cast_possible_truncation, reason = "saturates, which is out of bounds as well")]
            NodeValue::Decimal(number) if number.fract() == 0.0 => Some(number as i128),
            _ => None,
        };
        bounded(node, number, "a whole number", help, faults, |number| {
            let number = u64::try_from(number).ok().filter(|number| self.range.contains(number))?;
            T::try_from(number).ok()
        })
    }

    fn schema(&mut self) -> Value {
        json!({"type": "integer", "minimum": self.range.start(), "maximum": self.range.end()})
    }
}

/// Converts a read number by `within`. Notes a fault where no number was read, or `within` returns `None`.
fn bounded<R, V>(
    node: &Node,
    read: Option<R>,
    what: &str,
    help: String,
    faults: &mut Faults,
    within: impl FnOnce(R) -> Option<V>,
) -> Option<V> {
    let wrong = if read.is_some() { "is out of bounds".to_owned() } else { format!("is not {what}") };
    read.and_then(within).or_else(|| refuse(node, &wrong, help, faults))
}

/// Shape of a number within bounds, such as money.
pub(super) struct Decimal<T> {
    what: &'static str,
    range: RangeInclusive<f64>,
    convert: fn(f64) -> Option<T>,
}

/// Returns the shape of `what` within `range`, converted by `convert`.
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
            NodeValue::Whole(number) => Some(number as f64),
            NodeValue::Decimal(number) => Some(number),
            _ => None,
        };
        bounded(node, number, self.what, help, faults, |number| {
            self.range.contains(&number).then(|| (self.convert)(number)).flatten()
        })
    }

    fn schema(&mut self) -> Value {
        json!({"type": "number", "minimum": self.range.start(), "maximum": self.range.end()})
    }
}

/// Shape of a duration such as `30s`, within bounds.
pub(super) struct Time(pub RangeInclusive<Duration>);

impl Shape for Time {
    type Value = Duration;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Duration> {
        let (min, max) = (show_duration(*self.0.start()), show_duration(*self.0.end()));
        let help = format!("write {min} to {max} as a number with ms, s, m, h or d: 500ms, 30s, 2h, 1d");
        let time = match &node.kind {
            NodeValue::Text(text) => parse_duration(text),
            NodeValue::Whole(0) => Some(Duration::ZERO),
            _ => None,
        };
        bounded(node, time, "a duration", help, faults, |time| self.0.contains(&time).then_some(time))
    }

    fn schema(&mut self) -> Value {
        json!({"type": "string", "pattern": "^([0-9]+(ms|s|m|h|d))+$"})
    }
}

/// Shape of a size in bytes: a whole number, or text such as `4MiB`.
pub(super) struct Bytes(pub RangeInclusive<u64>);

impl Shape for Bytes {
    type Value = usize;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<usize> {
        let (min, max) = (show_bytes(*self.0.start()), show_bytes(*self.0.end()));
        let help = format!("write {min} to {max} in bytes or with KiB, MiB, GiB: 65536, 4MiB");
        let bytes = match &node.kind {
            NodeValue::Text(text) => parse_bytes(text).map(i128::from),
            NodeValue::Whole(number) => Some(*number),
            _ => None,
        };
        bounded(node, bytes, "a size", help, faults, |bytes| {
            usize::try_from(u64::try_from(bytes).ok().filter(|bytes| self.0.contains(bytes))?).ok()
        })
    }

    fn schema(&mut self) -> Value {
        json!({"anyOf": [
            {"type": "integer", "minimum": self.0.start(), "maximum": self.0.end()},
            {"type": "string", "pattern": "^[0-9]+ *(B|KiB|MiB|GiB)$"},
        ]})
    }
}
