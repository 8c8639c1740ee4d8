//! Rules about tool calls. [`rules`] says what the operator's rules make of a call; [`reach`] whom and what a rule is about;
//! [`expression`] is what a rule or a contract may say as a predicate: CEL within budgets.
//!
//! Pure: values in, values out.

pub mod expression;
pub mod reach;
pub mod rules;

pub use expression::{EvalError, Expression, ExpressionError, Scope};
pub use reach::{Reach, by_tool};
pub use rules::{Asked, BadRule, Policy, check_condition};
