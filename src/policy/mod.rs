//! Rules about tool calls. [`rules`] says what the operator's rules make of a call; [`expression`] is what a rule or a
//! contract may say as a predicate: CEL within budgets.
//!
//! Pure: values in, values out.

pub mod expression;
pub mod rules;

pub use expression::{EvalError, Expression, ExpressionError, Scope};
pub use rules::{Asked, BadRule, Policy, check_condition};
