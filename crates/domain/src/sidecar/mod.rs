//! Guardrail of the sidecar: the rules of the sidecar file ([`rule`]), and their ruling on one moment of a session
//! ([`ruling`]).

pub mod rule;
pub mod ruling;

pub use rule::{DocumentNeed, DocumentOf, DocumentRule, ModelRule, SidecarRules, Since, TextOf, TextRule};
pub use ruling::{CheckedBy, DocumentDue, Ruling, SidecarVerdict};
