//! Splits a model's claims into findings about the work, with the stored text that they quote, and the canary's report.
//! In: the findings of a reply, and what the model was shown. Out: findings with their evidence looked up, and the
//! number of claims that do not fit what was shown. Never: a finding about the canary, or a mark of ours in a text for
//! people.

use super::{
    EventInput, FENCE_MARK, ShownItem,
    authorship::{GivenTexts, described},
    evidence,
    reply::FindingClaim,
    sections::stored_texts,
};
use umbra_domain::{Finding, FindingSource, FindingSubject};

/// A finding of a reply.
pub(super) struct CheckedClaim {
    pub finding: Finding,
    /// True if the claim has a quote that is not in the text.
    pub misquoted: bool,
}

/// Findings of a reply, looked up in the stored texts.
pub(super) struct CheckedClaims {
    /// Findings about the work.
    pub found: Vec<CheckedClaim>,
    /// Findings about steps that the model was not shown.
    pub unknown_steps: usize,
    /// True if the reply reports the canary, or there is none.
    pub told: bool,
}

/// Looks up the quotes of claims in the texts of these events, each with the number of its step.
pub(super) fn look_up(
    steps: &[(Option<usize>, EventInput)],
    shown: &ShownItem,
    claims: Vec<FindingClaim>,
) -> CheckedClaims {
    let fields: Vec<_> = steps.iter().map(|(_, subject)| stored_texts(subject.event)).collect();
    let of_task = steps.iter().any(|(number, _)| number.is_some());
    let last = steps.len().saturating_sub(1);
    let given = GivenTexts::of(steps.iter().map(|(_, subject)| subject.event));
    let mut all = CheckedClaims { found: Vec::new(), unknown_steps: 0, told: shown.canary.is_none() };
    for claim in claims {
        let bare = shown.marks.remove(&claim.evidence_quote);
        if claim.is_canary() && is_canary_named(shown, &[&bare, &claim.description]) {
            all.told = true;
            continue;
        }
        // First the step that the claim names, then the others, the latest first: there the work ended.
        let named = claim.step.and_then(|step| usize::try_from(step).ok());
        let named = named.and_then(|step| steps.iter().position(|(number, _)| *number == Some(step)));
        let mut places = named.into_iter().chain((0..steps.len()).rev());
        let quote = |place: usize| {
            let fields = fields.get(place)?;
            evidence::of_quote(fields, &claim.evidence_quote).or_else(|| evidence::of_quote(fields, &bare))
        };
        let at = |place: usize| Some((place, quote(place)?));
        let (place, evidence) =
            places.find_map(at).map_or((named.unwrap_or(last), None), |(at, quote)| (at, Some(quote)));
        let Some((_, subject)) = steps.get(place) else { continue };
        // A claim about the canary and not about the work is dropped, right or wrong.
        if evidence.is_none() && (claim.is_canary() || is_canary_meant(shown, &[&bare, &claim.description])) {
            all.told |= is_canary_named(shown, &[&bare]);
            continue;
        }
        all.unknown_steps += usize::from(of_task && claim.step.is_some() && named.is_none());
        let misquoted = evidence.is_none() && !claim.evidence_quote.trim().is_empty();
        let about =
            evidence.as_ref().map_or(FindingSubject::Agent, |evidence| given.about(&evidence.field, &evidence.quote));
        let field = evidence.as_ref().map(|evidence| &evidence.field);
        let description = described(about, field, &for_people(shown, &claim.description));
        let finding = Finding {
            event_id: subject.event_id,
            severity: claim.severity,
            category: claim.category,
            verified: evidence.is_some(),
            about,
            evidence,
            source: FindingSource::Model,
            description,
            rule: claim.filed_under(),
        };
        all.found.push(CheckedClaim { finding, misquoted });
    }
    all
}

/// Removes our marks, the nonce and sentences about the canary from a model's text. The fence mark goes as well: else a
/// later quote of this text would pass for our own traffic.
pub(super) fn for_people(shown: &ShownItem, text: &str) -> String {
    let bare = shown.marks.remove(text).replace(&shown.nonce, "").replace(FENCE_MARK, "fence");
    match &shown.canary {
        Some(canary) => canary.without(bare),
        None => bare,
    }
}

fn is_canary_named(shown: &ShownItem, texts: &[&str]) -> bool {
    shown.canary.as_ref().is_some_and(|canary| texts.iter().any(|text| canary.is_named(text)))
}

fn is_canary_meant(shown: &ShownItem, texts: &[&str]) -> bool {
    shown.canary.as_ref().is_some_and(|canary| texts.iter().any(|text| canary.is_meant(text)))
}
