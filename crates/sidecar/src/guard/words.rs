//! Which rules in words are about a moment, and could change what was ruled of it.

use super::{
    bound::Bound,
    moment::{Moment, Subject},
};
use umbra_domain::{
    PolicyMode,
    sidecar::{ModelRule, Ruling},
};

/// The rules whose violation would be more than what holds, or, where they are only tried, than what would hold. Of a turn
/// there is nothing to read yet, and what a tool answered is nothing that the agent does.
pub(super) fn open<'a>(rules: &'a Bound<ModelRule>, moment: &Moment<'_>, ruling: &Ruling) -> Vec<&'a ModelRule> {
    if matches!(moment.subject, Subject::Turn | Subject::Result { .. }) {
        return Vec::new();
    }
    let counts = |rule: &&ModelRule| match rule.mode {
        PolicyMode::Enforce => rule.verdict > ruling.decision,
        PolicyMode::Audit => rule.verdict > ruling.would,
    };
    rules.about(moment).filter(counts).collect()
}
