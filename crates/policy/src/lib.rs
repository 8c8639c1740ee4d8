//! Rules about tool calls: [`rules`] judges calls by the operator's rules, [`reach`] matches rules with agents and
//! tools, and [`expression`] evaluates predicates in CEL within budgets.
//!
//! Pure: values in, values out.

pub mod expression;
pub mod reach;
pub mod rules;

pub use expression::{EvalError, EvaluationScope, Expression};
pub use reach::{RuleReach, by_tool};
pub use rules::{AgentContext, CallFacts, Policy, check_condition};
