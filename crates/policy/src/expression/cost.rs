//! Upper bounds on the cost and size of an evaluation, computed before it: an expression and its variables in, a
//! refusal out if the bounds are too high.
//!
//! The expression is walked as the interpreter would walk it, but over sizes. A variable counts with its actual value,
//! so a loop over a list costs what its items cost; a computed value counts with an upper bound. The walk counts its
//! own steps too, so it takes no more steps than it allows.

use std::collections::BTreeMap;

use cel::{
    IdedExpr,
    common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, operators},
};
use serde_json::Value;

use super::{EvalError, MAX_STEPS, MAX_VALUE_BYTES, order::ORDERED};

/// Largest result of a function that a scope adds, in bytes.
pub(super) const MAX_FUNCTION_BYTES: u64 = 1_024;
/// Bytes that are copied or compared in one step.
const BYTES_A_STEP: u64 = 8;
/// Longest text of a number, in bytes.
const NUMBER_BYTES: u64 = 330;

/// Size of a value, as far as it is known.
#[derive(Debug, Clone, Copy)]
enum Size<'v> {
    /// The value itself.
    Exact(&'v Value),
    /// Upper bound of a computed value.
    Upto(ValueBound),
}

/// Upper bound of a computed value.
#[derive(Debug, Clone, Copy, Default)]
struct ValueBound {
    /// Bytes of its texts and keys, plus one for each value.
    bytes: u64,
    /// Number of items or keys.
    items: u64,
    /// Bytes of the largest item.
    item: u64,
}

const SCALAR: Size<'static> = Size::Upto(ValueBound { bytes: 1, items: 0, item: 0 });

/// Refuses an evaluation that could be too costly.
pub(super) fn check_cost(root: &IdedExpr, variables: &BTreeMap<String, &Value>) -> Result<(), EvalError> {
    let mut reckoning = CostEstimate { variables, bound: Vec::new(), left: MAX_STEPS };
    let size = reckoning.walk(root)?;
    reckoning.bytes(size).map(drop)
}

/// Returns the bytes of a value's texts and keys, plus one for each value.
pub(super) fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => 1 + text.len() as u64,
        Value::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Value::Object(entries) => 1 + entries.iter().map(|(key, value)| key.len() as u64 + weight(value)).sum::<u64>(),
        _ => 1,
    }
}

struct CostEstimate<'e, 'v> {
    variables: &'e BTreeMap<String, &'v Value>,
    /// Variables of the enclosing comprehensions, the innermost last.
    bound: Vec<(&'e str, Size<'v>)>,
    left: u64,
}

impl<'e, 'v> CostEstimate<'e, 'v> {
    fn spend(&mut self, steps: u64) -> Result<(), EvalError> {
        self.left = self.left.checked_sub(steps).ok_or(EvalError::Budget)?;
        Ok(())
    }

    /// Returns the bytes of a value, and counts the steps to read them.
    fn bytes(&mut self, size: Size<'_>) -> Result<u64, EvalError> {
        let bytes = match size {
            Size::Exact(value) => weight(value),
            Size::Upto(bound) => bound.bytes,
        };
        self.spend(bytes / BYTES_A_STEP)?;
        Ok(bytes)
    }

    fn checked_size(bound: ValueBound) -> Result<Size<'v>, EvalError> {
        if bound.bytes > MAX_VALUE_BYTES { Err(EvalError::Budget) } else { Ok(Size::Upto(bound)) }
    }

    /// Returns the bound of a value, exact or not.
    fn bound_of(&mut self, size: Size<'_>) -> Result<ValueBound, EvalError> {
        let bytes = self.bytes(size)?;
        Ok(match size {
            Size::Upto(bound) => bound,
            Size::Exact(Value::Array(items)) => {
                let item = items.iter().map(weight).max().unwrap_or_default();
                ValueBound { bytes, items: items.len() as u64, item }
            }
            Size::Exact(Value::Object(entries)) => {
                let item = entries.iter().map(|(key, value)| (key.len() as u64 + 1).max(weight(value))).max();
                ValueBound { bytes, items: entries.len() as u64, item: item.unwrap_or_default() }
            }
            Size::Exact(_) => ValueBound { bytes, items: 0, item: 0 },
        })
    }

    fn walk(&mut self, node: &'e IdedExpr) -> Result<Size<'v>, EvalError> {
        self.spend(1)?;
        match &node.expr {
            Expr::Literal(LiteralValue::String(text)) => {
                Self::checked_size(ValueBound { bytes: 1 + text.inner().len() as u64, items: 0, item: 0 })
            }
            Expr::Literal(LiteralValue::Bytes(bytes)) => {
                Self::checked_size(ValueBound { bytes: 1 + bytes.inner().len() as u64, items: 0, item: 0 })
            }
            Expr::Ident(name) => Ok(self.variable(name)),
            Expr::Select(select) => {
                let operand = self.walk(&select.operand)?;
                if select.test { Ok(SCALAR) } else { Ok(field(operand, &select.field)) }
            }
            Expr::List(list) => {
                let mut made = ValueBound { bytes: 1, items: list.elements.len() as u64, item: 0 };
                for element in &list.elements {
                    let size = self.walk(element)?;
                    let bytes = self.bytes(size)?;
                    made.bytes += bytes;
                    made.item = made.item.max(bytes);
                }
                Self::checked_size(made)
            }
            Expr::Map(map) => {
                let mut made = ValueBound { bytes: 1, items: map.entries.len() as u64, item: 0 };
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
                    for part in [&entry.key, &entry.value] {
                        let size = self.walk(part)?;
                        let bytes = self.bytes(size)?;
                        made.bytes += bytes;
                        made.item = made.item.max(bytes);
                    }
                }
                Self::checked_size(made)
            }
            Expr::Call(call) => self.call(call),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Literal(_) | Expr::Struct(_) | Expr::Unspecified => Ok(SCALAR),
        }
    }

    fn variable(&self, name: &str) -> Size<'v> {
        let bound = self.bound.iter().rev().find(|(bound, _)| *bound == name).map(|(_, size)| *size);
        // An unknown variable ends the evaluation.
        bound.or_else(|| self.variables.get(name).map(|value| Size::Exact(value))).unwrap_or(SCALAR)
    }

    fn call(&mut self, call: &'e CallExpr) -> Result<Size<'v>, EvalError> {
        let mut sizes = Vec::with_capacity(3);
        for part in call.target.as_deref().into_iter().chain(&call.args) {
            sizes.push(self.walk(part)?);
        }
        match (call.func_name.as_str(), sizes.as_slice()) {
            (operators::CONDITIONAL, [_, left, right]) => {
                let (left, right) = (self.bound_of(*left)?, self.bound_of(*right)?);
                Self::checked_size(ValueBound {
                    bytes: left.bytes.max(right.bytes),
                    items: left.items.max(right.items),
                    item: left.item.max(right.item),
                })
            }
            (operators::ADD, [left, right]) => {
                let mut both = self.bound_of(*left)?;
                grow(&mut both, self.bound_of(*right)?);
                Self::checked_size(both)
            }
            (operators::INDEX, [operand, _]) => {
                let at = call.args.get(1).map(|index| &index.expr);
                match (operand, at) {
                    (Size::Exact(Value::Array(items)), Some(Expr::Literal(LiteralValue::Int(at)))) => {
                        let item = usize::try_from(*at.inner()).ok().and_then(|at| items.get(at));
                        Ok(item.map_or(SCALAR, Size::Exact))
                    }
                    (operand, Some(Expr::Literal(LiteralValue::String(key)))) => Ok(field(*operand, key.inner())),
                    (operand, _) => {
                        let item = self.bound_of(*operand)?.item;
                        Self::checked_size(ValueBound { bytes: item, items: item, item })
                    }
                }
            }
            ("size", [Size::Exact(Value::Array(_) | Value::Object(_))]) => Ok(SCALAR),
            ("dyn", [value]) => Ok(*value),
            (ORDERED, [range]) => {
                if !matches!(range, Size::Exact(Value::Array(_))) {
                    self.bytes(*range)?;
                }
                Ok(*range)
            }
            ("string", [value]) => {
                let bytes = self.bytes(*value)?.max(if is_number(*value) { NUMBER_BYTES } else { 1 });
                Self::checked_size(ValueBound { bytes, items: 0, item: 0 })
            }
            (name, sizes) => {
                for size in sizes {
                    self.bytes(*size)?;
                }
                let gives_scalar = !name.starts_with(|c: char| c.is_alphabetic()) || name_gives_scalar(name);
                let bytes = if gives_scalar { 1 } else { MAX_FUNCTION_BYTES };
                Self::checked_size(ValueBound { bytes, items: bytes, item: bytes })
            }
        }
    }

    fn comprehension(&mut self, inner: &'e ComprehensionExpr) -> Result<Size<'v>, EvalError> {
        let range = self.walk(&inner.iter_range)?;
        let first = self.walk(&inner.accu_init)?;
        let mut made = self.bound_of(first)?;
        match range {
            Size::Exact(Value::Array(items)) => {
                for item in items {
                    self.bytes(Size::Exact(item))?;
                    let step = self.step(inner, Size::Exact(item))?;
                    grow(&mut made, step);
                }
            }
            Size::Exact(Value::Object(entries)) => {
                for key in entries.keys() {
                    let key = ValueBound { bytes: 1 + key.len() as u64, items: 0, item: 0 };
                    let step = self.step(inner, Size::Upto(key))?;
                    grow(&mut made, step);
                }
            }
            // A range that is neither a list nor a mapping ends the evaluation.
            Size::Exact(_) => {}
            Size::Upto(range) => {
                let before = self.left;
                let item = ValueBound { bytes: range.item, items: range.item, item: range.item };
                let step = self.step(inner, Size::Upto(item))?;
                let spent = (before - self.left).saturating_add(range.item / BYTES_A_STEP);
                self.spend(spent.saturating_mul(range.items.saturating_sub(1)))?;
                let times = |count: u64| count.saturating_mul(range.items);
                grow(&mut made, ValueBound { bytes: times(step.bytes), items: times(step.items), item: step.item });
            }
        }
        let made = Self::checked_size(made)?;
        self.bound.push((&inner.accu_var, made));
        let result = self.walk(&inner.result);
        self.bound.pop();
        result
    }

    /// Walks one round of a loop, and returns what the round adds to the accumulator.
    fn step(&mut self, inner: &'e ComprehensionExpr, item: Size<'v>) -> Result<ValueBound, EvalError> {
        self.bound.push((&inner.iter_var, item));
        self.bound.push((&inner.accu_var, Size::Upto(ValueBound::default())));
        let cond = self.walk(&inner.loop_cond);
        let step = self.walk(&inner.loop_step);
        self.bound.truncate(self.bound.len() - 2);
        cond?;
        self.bound_of(step?)
    }
}

fn grow(made: &mut ValueBound, step: ValueBound) {
    made.bytes = made.bytes.saturating_add(step.bytes);
    made.items = made.items.saturating_add(step.items);
    made.item = made.item.max(step.item);
}

/// Returns the size of the value of a key.
fn field<'v>(operand: Size<'v>, key: &str) -> Size<'v> {
    match operand {
        Size::Exact(Value::Object(entries)) => entries.get(key).map_or(SCALAR, Size::Exact),
        Size::Exact(_) => SCALAR,
        Size::Upto(bound) => Size::Upto(ValueBound { bytes: bound.item, items: bound.item, item: bound.item }),
    }
}

fn is_number(size: Size<'_>) -> bool {
    !matches!(size, Size::Exact(Value::String(_) | Value::Bool(_) | Value::Null))
}

fn name_gives_scalar(name: &str) -> bool {
    matches!(
        name,
        "size" | "contains" | "startsWith" | "endsWith" | "matches" | "int" | "uint" | "double" | "bool" | "type"
    )
}
