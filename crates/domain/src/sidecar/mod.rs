//! The guardrail of the sidecar: rules as the sidecar file says them ([`rule`]), and what they say of one moment of a session
//! ([`ruling`]).

pub mod rule;
pub mod ruling;

pub use rule::{DocumentNeed, DocumentOf, DocumentRule, ModelRule, SidecarRules, Since, TextOf, TextRule};
pub use ruling::{CheckedBy, DocumentDue, Ruling, SidecarVerdict};
