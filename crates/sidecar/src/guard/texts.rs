//! Applies the rules about texts, by the built-in checks.

use std::collections::BTreeSet;

use super::{
    moment::{Moment, MomentSubject},
    ruling::{RuleVerdict, add_verdict},
    scope::{GuardrailRule, ScopedRules},
};
use umbra_checks::review;
use umbra_domain::{
    CheckName, Hit,
    sidecar::{CheckedBy, Ruling, TextOf, TextRule},
};

/// Most hits that a line of `explain` names.
const MOST_NAMED: usize = 5;

/// Runs each check once that a rule about the moment names, and applies the rules.
pub(super) fn apply_text_rules(rules: &ScopedRules<TextRule>, moment: &Moment<'_>, ruling: &mut Ruling) {
    let kinds: &[TextOf] = match moment.subject {
        MomentSubject::Turn => return,
        // Many clients send results this way.
        MomentSubject::Message { role: "tool", .. } => &[TextOf::Message, TextOf::Result],
        MomentSubject::Message { .. } => &[TextOf::Message],
        MomentSubject::Call { .. } => &[TextOf::Call],
        MomentSubject::Result { .. } => &[TextOf::Result],
    };
    let is_about = |rule: &&TextRule| rule.of.is_empty() || rule.of.iter().any(|of| kinds.contains(of));
    let rules: Vec<&TextRule> = rules.about(moment).filter(is_about).collect();
    let wanted: BTreeSet<CheckName> = rules.iter().flat_map(|rule| &rule.checks).copied().collect();
    if wanted.is_empty() {
        return;
    }
    let hits = review(&moment.subject.as_event(), moment.marks, &wanted);
    for rule in rules {
        let counts = |hit: &&Hit| rule.checks.contains(&hit.check) && hit.severity >= rule.severity;
        let seen = named(hits.iter().filter(counts));
        if seen.is_empty() {
            continue;
        }
        add_verdict(ruling, &RuleVerdict::of(&rule.head(), CheckedBy::Check));
        let (mode, verdict) = (rule.mode.as_str(), rule.verdict.as_str());
        ruling.explain.push(format!("{} ({mode}): {verdict}, seen: {}", rule.name, seen.join(", ")));
    }
}

/// Names hits by check and rule, each once, the gravest first, without any of the text.
fn named<'a>(hits: impl Iterator<Item = &'a Hit>) -> Vec<String> {
    let mut seen: Vec<&Hit> = hits.collect();
    seen.sort_by_key(|hit| (std::cmp::Reverse(hit.severity), hit.check, &hit.rule));
    let name = |hit: &Hit| format!("{}.{} ({})", hit.check.as_str(), hit.rule, hit.severity.as_str());
    let mut names: Vec<String> = seen.into_iter().map(name).collect();
    names.dedup();
    names.truncate(MOST_NAMED);
    names
}
