//! Rules about tool calls. [`expression`] is what a rule or a contract may say as a predicate: CEL within budgets.
//!
//! Pure: values in, values out.

pub mod expression;

pub use expression::{EvalError, Expression, ExpressionError, Scope};
