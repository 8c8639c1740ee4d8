//! Draws the conclusion: from the checks alone, or from the checks and a model's reply.
//! In: a shadow, its subject, a prompt with the reply to it. Out: a judgement. Never: one below the checks' own, nor
//! an approval that anything speaks against.

use std::cmp::Reverse;

use super::{
    Judgement, ModelReply, Prompt, Shown, Subject, advice,
    claims::{self, Claims},
    evidence,
    excerpt::grouped,
    reply::{self, Unreadable, Verdict},
};
use umbra_domain::{Assessment, Finding, Hit, Reviewer, Severity, Shadow, Source};

/// Most hits of one event that become findings, worst first; all count for the assessment.
const MAX_CHECK_FINDINGS: usize = 50;
/// An approval with a lower score contradicts itself.
const APPROVE_SCORE: u8 = 50;
/// What is said of each event of a batch whose reply holds too many verdicts.
const SURPLUS: &str = "The model's reply judges more events than it was given: it approves none.";

/// What is noted of a rejection that points at nothing.
const UNFOUNDED: &str = "The model's FLAG rests on no evidence found in the text: it counts as SUGGEST.";
/// What is noted where more was found than a model's word admits.
const OVERRULED: &str = "The model's verdict is milder than what was found: its score counts for nothing.";

/// Whether these notes of a review say that its model rejected on no evidence. That is no approval, whatever became of
/// the review.
pub fn is_unfounded(notes: &[String]) -> bool {
    notes.iter().any(|note| note == UNFOUNDED)
}

/// Whether a review with these notes says with its score what it says with its assessment. The score of a verdict that
/// did not stand tells nothing of the work.
pub fn score_stands(notes: &[String]) -> bool {
    !notes.iter().any(|note| note == UNFOUNDED || note == OVERRULED)
}

/// Why a reply is no verdict.
#[derive(Debug, Clone, Copy, thiserror::Error)]
enum NoVerdict {
    #[error("The model refused to review this.")]
    Refused,
    #[error("The model's reply was cut off at its limit of output tokens: raise max_output_tokens of the model.")]
    CutOff,
    #[error(
        "The model spent its limit of output tokens before it replied, most likely on reasoning, which counts as well: \
         raise max_output_tokens of the model."
    )]
    Unsaid,
    #[error("The model's reply could not be used: {0}.")]
    Unreadable(#[from] Unreadable),
    #[error(
        "The model's reply does not echo this review's nonce, so it may follow the reviewed text: it was discarded."
    )]
    WrongNonce,
    #[error("The model's reply says nothing of this event.")]
    Missing,
    #[error("The model's reply missed the fault that was planted for it to find: it was discarded.")]
    MissedCanary,
    #[error("The model's reply gives more than one verdict on this event: none counts.")]
    Twice,
}

/// Judges by the built-in checks alone: clean is CHECKED.
pub fn of_checks(shadow: &Shadow, subject: &Subject) -> Judgement {
    of_checks_over(shadow, std::slice::from_ref(subject))
}

/// The same over several events that are judged as one.
pub(super) fn of_checks_over(shadow: &Shadow, subjects: &[Subject]) -> Judgement {
    let mut judged = floor(shadow, subjects);
    judged.assessment = judged.assessment.max(Assessment::Checked);
    judged
}

/// The part of the built-in checks in a judgement: no word of a model goes below it.
fn floor(shadow: &Shadow, subjects: &[Subject]) -> Judgement {
    let all = || subjects.iter().flat_map(|subject| subject.hits.iter().map(move |hit| (subject, hit)));
    let assessment = all().map(|(_, hit)| grade(hit.severity, shadow)).max().unwrap_or(Assessment::Approve);
    let mut worst: Vec<(&Subject, &Hit)> = all().collect();
    worst.sort_by_key(|(_, hit)| Reverse(hit.severity));
    let kinds: Vec<&Hit> = worst.iter().map(|(_, hit)| *hit).collect();
    let more = worst.len().saturating_sub(MAX_CHECK_FINDINGS);
    worst.truncate(MAX_CHECK_FINDINGS);
    let note = || format!("{} further hits of the built-in checks are counted but not listed.", grouped(more));
    Judgement {
        assessment,
        score: None,
        recommendation: advice::of_hits(&kinds),
        findings: worst.into_iter().map(|(subject, hit)| from_hit(subject, hit)).collect(),
        reviewer: Reviewer::Checks,
        notes: (more > 0).then(note).into_iter().collect(),
        needs_repair: None,
    }
}

/// Judges by the checks and a model's reply to `prompt`.
pub fn of_reply(shadow: &Shadow, subject: &Subject, prompt: &Prompt, reply: ModelReply) -> Judgement {
    of_reply_over(shadow, &[(None, *subject)], prompt, reply)
}

/// The same over several events that are judged as one, each with the number of its step.
pub(super) fn of_reply_over(
    shadow: &Shadow,
    steps: &[(Option<usize>, Subject)],
    prompt: &Prompt,
    reply: ModelReply,
) -> Judgement {
    let subjects: Vec<Subject> = steps.iter().map(|(_, subject)| *subject).collect();
    let Some(shown) = prompt.shown.first() else { return of_checks_over(shadow, &subjects) };
    let checks = asked(floor(shadow, &subjects), shown);
    let read = whole(reply).and_then(|text| {
        let verdict = reply::parse(text)?;
        if verdict.nonce == shown.nonce { Ok(verdict) } else { Err(NoVerdict::WrongNonce) }
    });
    match read {
        Ok(verdict) => with_verdict(shadow, steps, shown, checks, verdict),
        Err(reason) => without_verdict(checks, reason),
    }
}

/// Judges each event of a batch by the checks and by what one reply says of it.
pub(super) fn of_batch_reply(
    shadow: &Shadow,
    subjects: &[Subject],
    prompt: &Prompt,
    reply: ModelReply,
) -> Vec<Judgement> {
    let mut read = whole(reply).and_then(|text| Ok(reply::parse_batch(text)?));
    // One that judges more than it was given has counted something in that is none of the events.
    let surplus = read.as_ref().is_ok_and(|verdicts| verdicts.len() > subjects.len());
    let mut judge = |(subject, shown): (&Subject, &Shown)| {
        let checks = asked(floor(shadow, std::slice::from_ref(subject)), shown);
        let verdicts = match &mut read {
            Ok(verdicts) => verdicts,
            Err(reason) => return without_verdict(checks, *reason),
        };
        let mut own = verdicts.extract_if(.., |verdict| verdict.nonce == shown.nonce).collect::<Vec<_>>().into_iter();
        match (own.next(), own.next()) {
            (Some(verdict), None) => {
                let mut checks = checks;
                checks.notes.extend(surplus.then(|| SURPLUS.to_owned()));
                let judged = with_verdict(shadow, &[(None, *subject)], shown, checks, verdict);
                if surplus { doubted(judged) } else { judged }
            }
            // Choosing between two is for whoever wrote the text to win.
            (Some(_), Some(_)) => without_verdict(checks, NoVerdict::Twice),
            (None, _) => without_verdict(checks, NoVerdict::Missing),
        }
    };
    subjects.iter().zip(&prompt.shown).map(&mut judge).collect()
}

/// The judgement, if it is no approval.
fn doubted(mut judged: Judgement) -> Judgement {
    if judged.assessment == Assessment::Approve {
        judged.assessment = Assessment::Inconclusive;
        advice::of_assessment(Assessment::Inconclusive).clone_into(&mut judged.recommendation);
    }
    judged
}

/// What the checks say, once a model is asked as well.
fn asked(mut checks: Judgement, shown: &Shown) -> Judgement {
    checks.reviewer = Reviewer::Model;
    for part in &shown.omitted {
        checks.notes.push(format!("Not shown to the model, {part}."));
    }
    checks
}

fn whole(reply: ModelReply<'_>) -> Result<&str, NoVerdict> {
    if reply.refused {
        return Err(NoVerdict::Refused);
    }
    if reply.cut_off {
        let is_silent = !reply.text.contains('{');
        return Err(if is_silent { NoVerdict::Unsaid } else { NoVerdict::CutOff });
    }
    Ok(reply.text)
}

/// The checks' judgement stands, save that it approves nothing.
fn without_verdict(mut checks: Judgement, reason: NoVerdict) -> Judgement {
    checks.notes.push(reason.to_string());
    checks = doubted(checks);
    if let NoVerdict::Unreadable(fault) = reason {
        checks.needs_repair = Some(fault.to_string());
    }
    checks
}

fn with_verdict(
    shadow: &Shadow,
    steps: &[(Option<usize>, Subject)],
    shown: &Shown,
    checks: Judgement,
    verdict: Verdict,
) -> Judgement {
    let score = verdict.score();
    let Claims { found, not_found, unknown_steps, told } = claims::look_up(steps, shown, verdict.findings);
    if !told {
        return without_verdict(checks, NoVerdict::MissedCanary);
    }

    let mut notes = checks.notes;
    let mut word = verdict.assessment;
    if word == Assessment::Flag && !found.iter().any(|f| f.verified && f.severity >= Severity::Warning) {
        word = Assessment::Suggest;
        notes.push(UNFOUNDED.to_owned());
    }
    if word == Assessment::Inconclusive {
        notes.push("The model says that it cannot tell.".to_owned());
    }
    if not_found > 0 {
        notes.push(format!("{not_found} of the model's quotes are not in the text."));
    }
    if unknown_steps > 0 {
        notes.push(format!("{unknown_steps} of the model's findings are about steps that it was not shown."));
    }
    let doubtful_score = word == Assessment::Approve && score < APPROVE_SCORE;
    if doubtful_score {
        notes.push(format!("The model approved with a score of {score}, which contradicts itself."));
    }
    let worst = found.iter().map(|finding| weight(finding, shadow)).max().unwrap_or(Assessment::Approve);
    let mut assessment = checks.assessment.max(word).max(worst);
    if assessment == Assessment::Approve
        && (not_found > 0 || unknown_steps > 0 || doubtful_score || !shown.omitted.is_empty() || shown.unseen_steps > 0)
    {
        assessment = Assessment::Inconclusive;
    }
    if verdict.assessment < assessment && assessment != Assessment::Inconclusive {
        notes.push(OVERRULED.to_owned());
    }

    let from_checks = (checks.assessment >= Assessment::Suggest).then_some(checks.recommendation);
    let advice = claims::for_people(shown, &verdict.recommendation);
    let from_model = stands(word, assessment).then_some(advice).filter(|text| !text.is_empty());
    let said: Vec<String> = from_checks.into_iter().chain(from_model).collect();
    Judgement {
        assessment,
        score: Some(score),
        recommendation: if said.is_empty() { advice::of_assessment(assessment).to_owned() } else { said.join(" ") },
        findings: checks.findings.into_iter().chain(found).collect(),
        reviewer: Reviewer::Model,
        notes,
        needs_repair: None,
    }
}

/// Whether a model's recommendation fits what became of its word: advice given with an approval does not fit a
/// rejection.
fn stands(word: Assessment, assessment: Assessment) -> bool {
    word == assessment || (word >= Assessment::Suggest && assessment >= Assessment::Suggest)
}

/// What a finding of this severity makes of its event.
pub(super) fn grade(severity: Severity, shadow: &Shadow) -> Assessment {
    if severity >= shadow.flag_at {
        Assessment::Flag
    } else if severity >= Severity::Warning {
        Assessment::Suggest
    } else {
        Assessment::Approve
    }
}

/// What a model's finding makes of its event: SUGGEST at most where its evidence was not found.
fn weight(finding: &Finding, shadow: &Shadow) -> Assessment {
    let full = grade(finding.severity, shadow);
    if finding.verified { full } else { full.min(Assessment::Suggest) }
}

fn from_hit(subject: &Subject, hit: &Hit) -> Finding {
    let evidence = evidence::of_hit(subject.event, hit);
    Finding {
        event_id: subject.event_id,
        severity: hit.severity,
        category: hit.check.category(),
        description: hit.description.clone(),
        verified: evidence.is_some(),
        evidence,
        source: Source::Check,
        rule: format!("{}.{}", hit.check.as_str(), hit.rule),
    }
}
