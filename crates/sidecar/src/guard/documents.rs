//! Applies the rules about documents: which document must be in order before the agent goes on, and is not.

use super::{
    moment::{Moment, MomentDocument},
    ruling::{RuleVerdict, add_verdict},
    scope::{GuardrailRule, ScopedRules},
};
use umbra_domain::{
    PolicyMode,
    sidecar::{CheckedBy, DocumentDue, DocumentNeed, DocumentRule, Ruling},
};

/// Applies the rules to the next step of the agent. If the state of the documents is unknown, none is missed.
pub(super) fn apply_document_rules(rules: &ScopedRules<DocumentRule>, moment: &Moment<'_>, ruling: &mut Ruling) {
    let (Some(step), Some(documents)) = (moment.subject.step(), moment.documents) else { return };
    let is_about = |rule: &&DocumentRule| rule.of.is_empty() || rule.of.contains(&step);
    for rule in rules.about(moment).filter(is_about).filter(|rule| !is_in_order(rule, documents)) {
        add_verdict(ruling, &RuleVerdict::of(&rule.head(), CheckedBy::Rule));
        let of = rule.section.as_ref().map(|section| format!(" ({section})")).unwrap_or_default();
        let (mode, verdict, needs) = (rule.mode.as_str(), rule.verdict.as_str(), rule.needs.as_str());
        let line =
            format!("{} ({mode}): {verdict}, because this does not hold: {}{of} {needs}", rule.name, rule.document);
        ruling.explain.push(line);
        if rule.mode == PolicyMode::Enforce {
            ruling.due.push(DocumentDue {
                document: rule.document.clone(),
                section: rule.section.clone(),
                rule: rule.name.clone(),
                needs: rule.needs,
                verdict: rule.verdict,
                reason: rule.reason.clone(),
            });
        }
    }
}

/// True if a document is as a rule requires. A missing document never is: else deleting it would be enough.
fn is_in_order(rule: &DocumentRule, documents: &[MomentDocument<'_>]) -> bool {
    let found = documents.iter().find(|standing| standing.name.eq_ignore_ascii_case(&rule.document));
    let Some((standing, document)) = found.and_then(|standing| Some((standing, standing.document?))) else {
        return false;
    };
    let slug = match &rule.section {
        None => None,
        Some(name) => match document.slug_of(name) {
            None => return false,
            slug => slug,
        },
    };
    let Some(progress) = document.progress(slug) else { return false };
    match rule.needs {
        DocumentNeed::Exists => slug.is_none() || !progress.is_empty,
        DocumentNeed::Updated => (standing.changed)(slug, rule.since),
        DocumentNeed::Complete => progress.is_complete(),
    }
}
