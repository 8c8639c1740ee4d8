//! Selects the rules in words that apply to a moment and could change its ruling.

use super::{
    moment::{Moment, MomentSubject},
    scope::ScopedRules,
};
use umbra_domain::{
    PolicyMode,
    sidecar::{ModelRule, Ruling},
};

/// Returns the rules whose violation would raise the decision, or `would` for a rule in audit mode. A turn has no text
/// yet, and a result is no act of the agent.
pub(super) fn applicable_rules<'a>(
    rules: &'a ScopedRules<ModelRule>,
    moment: &Moment<'_>,
    ruling: &Ruling,
) -> Vec<&'a ModelRule> {
    if matches!(moment.subject, MomentSubject::Turn | MomentSubject::Result { .. }) {
        return Vec::new();
    }
    let counts = |rule: &&ModelRule| match rule.mode {
        PolicyMode::Enforce => rule.verdict > ruling.decision,
        PolicyMode::Audit => rule.verdict > ruling.would,
    };
    rules.about(moment).filter(counts).collect()
}
