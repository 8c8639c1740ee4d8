//! Draws the conclusion: from the checks alone, or from the checks and a model's reply.
//! In: a shadow, its subject, a prompt with the reply to it. Out: a judgement. Never: a judgement below the checks'
//! own, or an approval that anything speaks against.

use std::cmp::Reverse;

use super::{
    EventInput, Judgement, ModelReply, Prompt, ShownItem, advice,
    authorship::{GivenTexts, described},
    claims::{self, CheckedClaims},
    evidence,
    excerpt::grouped,
    rejection::{self, FollowUp, Grounds},
    reply::{self, ModelVerdict, Unreadable},
};
use umbra_domain::{
    Assessment, Finding, FindingSource, FindingSubject, Hit, Reviewer, Severity, Shadow, verdict::DecidedBy,
};

/// Most hits of one event that become findings, worst first; all count for the assessment.
const MAX_CHECK_FINDINGS: usize = 50;
/// Score below which an approval contradicts itself.
const APPROVE_SCORE: u8 = 50;
/// Note on each event of a batch whose reply holds too many verdicts.
const SURPLUS: &str = "The model's reply judges more events than it was given: it approves none.";

/// Note on a judgement that is stricter than the model's verdict.
const OVERRULED: &str = "The model's verdict is milder than what was found: its score counts for nothing.";

/// Notes on replies that are no verdict.
const CUT_OFF: &str =
    "The model's reply was cut off at its limit of output tokens: raise max_output_tokens of the model.";
const REASONING_ONLY: &str = "The model spent its limit of output tokens before it replied, most likely on reasoning, \
     which counts as well: raise max_output_tokens of the model.";
const WRONG_NONCE: &str =
    "The model's reply does not echo this review's nonce, so it may follow the reviewed text: it was discarded.";
const MISSING: &str = "The model's reply has no verdict on this event.";
const MISSED_CANARY: &str = "The model's reply missed the planted test fault: it was discarded.";
const TWICE: &str = "The model's reply has more than one verdict on this event: none counts.";

/// True if the score of a review says the same as its assessment. The score of a model whose verdict did not stand, or
/// whose assessment rests on the checks, tells nothing of the work.
pub fn score_stands(reviewer: Reviewer, decided_by: DecidedBy, notes: &[String]) -> bool {
    let rests_on_checks = reviewer == Reviewer::Model && decided_by == DecidedBy::Checks;
    !decided_by.is_doubtful() && !rests_on_checks && !notes.iter().any(|note| note == OVERRULED)
}

/// Reason why a reply is no verdict.
enum NoVerdict {
    /// A fault in its form, which the model can repair.
    Unreadable(Unreadable),
    /// Anything else, as a note for people.
    Unfit(&'static str),
}

impl From<Unreadable> for NoVerdict {
    fn from(fault: Unreadable) -> Self {
        Self::Unreadable(fault)
    }
}

/// Judges by the built-in checks alone; a clean event is CHECKED.
pub fn of_checks(shadow: &Shadow, subject: &EventInput) -> Judgement {
    of_checks_over(shadow, std::slice::from_ref(subject))
}

/// Judges several events as one, by the built-in checks alone.
pub(super) fn of_checks_over(shadow: &Shadow, subjects: &[EventInput]) -> Judgement {
    let mut judged = floor(shadow, subjects);
    judged.assessment = judged.assessment.max(Assessment::Checked);
    let by = judged.decided_by;
    judged.decided(by)
}

/// Returns the checks' part of a judgement: no reply of a model goes below it.
fn floor(shadow: &Shadow, subjects: &[EventInput]) -> Judgement {
    let given = GivenTexts::of(subjects.iter().map(|subject| subject.event));
    let mut worst: Vec<(&EventInput, &Hit, FindingSubject)> = Vec::new();
    for subject in subjects {
        worst.extend(subject.hits.iter().map(|hit| (subject, hit, about(subject, hit, &given))));
    }
    worst.sort_by_key(|(_, hit, _)| Reverse(hit.severity));
    let grades = |wanted: FindingSubject| {
        let of = worst.iter().filter(move |(_, _, about)| *about == wanted);
        of.map(|(_, hit, _)| grade(hit.severity, shadow)).max().unwrap_or(Assessment::Approve)
    };
    let (of_agent, of_given) = (grades(FindingSubject::Agent), grades(FindingSubject::Given));
    let assessment = of_agent.max(of_given.min(Assessment::Suggest));
    let decided_by = match assessment {
        Assessment::Flag => DecidedBy::Checks,
        milder if of_given > milder => DecidedBy::Given,
        _ => DecidedBy::Assessment,
    };
    let kinds: Vec<&Hit> = worst.iter().map(|(_, hit, _)| *hit).collect();
    let more = worst.len().saturating_sub(MAX_CHECK_FINDINGS);
    worst.truncate(MAX_CHECK_FINDINGS);
    let more = (more > 0)
        .then(|| format!("{} further hits of the built-in checks are counted but not listed.", grouped(more)));
    Judgement {
        assessment,
        score: None,
        recommendation: advice::of_hits(&kinds),
        findings: worst.into_iter().map(|(subject, hit, about)| from_hit(subject, hit, about)).collect(),
        reviewer: Reviewer::Checks,
        notes: more.into_iter().collect(),
        decided_by,
        follow_up: None,
    }
}

/// Judges by the checks and a model's reply to `prompt`.
pub fn of_reply(shadow: &Shadow, subject: &EventInput, prompt: &Prompt, reply: ModelReply) -> Judgement {
    of_reply_over(shadow, &[(None, *subject)], prompt, reply)
}

/// Judges several events as one by the checks and a reply, each event with the number of its step.
pub(super) fn of_reply_over(
    shadow: &Shadow,
    steps: &[(Option<usize>, EventInput)],
    prompt: &Prompt,
    reply: ModelReply,
) -> Judgement {
    let subjects: Vec<EventInput> = steps.iter().map(|(_, subject)| *subject).collect();
    let Some(shown) = prompt.shown.first() else { return of_checks_over(shadow, &subjects) };
    let checks = as_model_review(floor(shadow, &subjects), shown);
    let read = whole(reply).and_then(|text| {
        let verdict = reply::parse(text)?;
        if verdict.nonce == shown.nonce { Ok(verdict) } else { Err(NoVerdict::Unfit(WRONG_NONCE)) }
    });
    match read {
        Ok(verdict) => with_verdict(shadow, steps, shown, checks, verdict),
        Err(reason) => without_verdict(checks, &reason),
    }
}

/// Judges each event of a batch by the checks and by its verdict in one reply.
pub(super) fn of_batch_reply(
    shadow: &Shadow,
    subjects: &[EventInput],
    prompt: &Prompt,
    reply: ModelReply,
) -> Vec<Judgement> {
    let mut read = whole(reply).and_then(|text| Ok(reply::parse_batch(text)?));
    // A reply with more verdicts than events has judged something that is none of the events.
    let surplus = read.as_ref().is_ok_and(|verdicts| verdicts.len() > subjects.len());
    let mut judge = |(subject, shown): (&EventInput, &ShownItem)| {
        let checks = as_model_review(floor(shadow, std::slice::from_ref(subject)), shown);
        let verdicts = match &mut read {
            Ok(verdicts) => verdicts,
            Err(reason) => return without_verdict(checks, reason),
        };
        let mut own = verdicts.extract_if(.., |verdict| verdict.nonce == shown.nonce).collect::<Vec<_>>().into_iter();
        match (own.next(), own.next()) {
            (Some(verdict), None) => {
                let mut checks = checks;
                checks.notes.extend(surplus.then(|| SURPLUS.to_owned()));
                let judged = with_verdict(shadow, &[(None, *subject)], shown, checks, verdict);
                if surplus { without_approval(judged) } else { judged }
            }
            // With two verdicts, either may come from the author of the reviewed text: none counts.
            (Some(_), Some(_)) => without_verdict(checks, &NoVerdict::Unfit(TWICE)),
            (None, _) => without_verdict(checks, &NoVerdict::Unfit(MISSING)),
        }
    };
    subjects.iter().zip(&prompt.shown).map(&mut judge).collect()
}

/// Turns an approval into INCONCLUSIVE; other judgements stay.
fn without_approval(mut judged: Judgement) -> Judgement {
    if judged.assessment == Assessment::Approve {
        judged.assessment = Assessment::Inconclusive;
        advice::of_assessment(Assessment::Inconclusive).clone_into(&mut judged.recommendation);
    }
    judged
}

/// Turns the checks' judgement into that of a review in which a model is asked, with notes on what it was not shown.
fn as_model_review(mut checks: Judgement, shown: &ShownItem) -> Judgement {
    checks.reviewer = Reviewer::Model;
    for part in &shown.omitted {
        checks.notes.push(format!("Not shown to the model, {part}."));
    }
    checks
}

fn whole(reply: ModelReply<'_>) -> Result<&str, NoVerdict> {
    if reply.refused {
        return Err(NoVerdict::Unfit("The model refused to review this."));
    }
    if reply.cut_off {
        let is_silent = !reply.text.contains('{');
        return Err(NoVerdict::Unfit(if is_silent { REASONING_ONLY } else { CUT_OFF }));
    }
    Ok(reply.text)
}

/// Returns the checks' judgement for a reply that is no verdict. An approval becomes INCONCLUSIVE.
fn without_verdict(mut checks: Judgement, reason: &NoVerdict) -> Judgement {
    let (note, follow_up) = match reason {
        NoVerdict::Unfit(note) => ((*note).to_owned(), None),
        NoVerdict::Unreadable(fault) => {
            (format!("The model's reply could not be used: {fault}."), Some(FollowUp::Repair(fault.clone())))
        }
    };
    checks.notes.push(note);
    let by = checks.decided_by;
    Judgement { follow_up, ..without_approval(checks).decided(by) }
}

fn with_verdict(
    shadow: &Shadow,
    steps: &[(Option<usize>, EventInput)],
    shown: &ShownItem,
    checks: Judgement,
    verdict: ModelVerdict,
) -> Judgement {
    let score = verdict.score();
    let CheckedClaims { found, unknown_steps, told } = claims::look_up(steps, shown, verdict.findings);
    if !told {
        return without_verdict(checks, &NoVerdict::Unfit(MISSED_CANARY));
    }

    let mut notes = checks.notes;
    let (mut word, mut follow_up, mut by) = (verdict.assessment, None, checks.decided_by);
    match rejection::grounds(word, &found, shadow) {
        None => {}
        Some(Grounds::Quoted) => by = DecidedBy::Assessment,
        Some(Grounds::Open(open)) => {
            word = word.min(Assessment::Suggest);
            follow_up = (checks.assessment < Assessment::Flag).then_some(open);
        }
    }
    if word == Assessment::Inconclusive {
        notes.push("The model says that it cannot tell.".to_owned());
    }
    let misquoted = found.iter().filter(|found| found.misquoted).count();
    if misquoted > 0 {
        notes.push(format!("{} not in the text.", of_the_models("quotes", misquoted)));
    }
    if unknown_steps > 0 {
        notes.push(format!("{} about steps that the model was not shown.", of_the_models("findings", unknown_steps)));
    }
    let doubtful_score = word == Assessment::Approve && score < APPROVE_SCORE;
    if doubtful_score {
        notes.push(format!("The model approved with a score of {score}, which contradicts itself."));
    }
    let found: Vec<Finding> = found.into_iter().map(|found| found.finding).collect();
    let worst = found.iter().map(|finding| weight(finding, shadow)).max().unwrap_or(Assessment::Approve);
    let mut assessment = checks.assessment.max(word).max(worst);
    if assessment == Assessment::Approve
        && (misquoted > 0 || unknown_steps > 0 || doubtful_score || !shown.omitted.is_empty() || shown.unseen_steps > 0)
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
    let judged = Judgement {
        assessment,
        score: Some(score),
        recommendation: if said.is_empty() { advice::of_assessment(assessment).to_owned() } else { said.join(" ") },
        findings: checks.findings.into_iter().chain(found).collect(),
        reviewer: Reviewer::Model,
        notes,
        decided_by: by,
        follow_up,
    };
    if judged.follow_up.is_some() { judged } else { judged.decided(by) }
}

/// Returns the subject of a sentence, such as "3 of the model's quotes are".
fn of_the_models(what: &str, count: usize) -> String {
    format!("{count} of the model's {what} {}", if count == 1 { "is" } else { "are" })
}

/// True if a model's recommendation fits the assessment: advice given with an approval does not fit a rejection.
fn stands(word: Assessment, assessment: Assessment) -> bool {
    word == assessment || (word >= Assessment::Suggest && assessment >= Assessment::Suggest)
}

/// Returns the assessment that a finding of this severity leads to.
pub(super) fn grade(severity: Severity, shadow: &Shadow) -> Assessment {
    if severity >= shadow.flag_at {
        Assessment::Flag
    } else if severity >= Severity::Warning {
        Assessment::Suggest
    } else {
        Assessment::Approve
    }
}

/// Returns the assessment that a model's finding leads to: SUGGEST at most if its evidence was not found, or was given
/// to the agent.
fn weight(finding: &Finding, shadow: &Shadow) -> Assessment {
    let full = grade(finding.severity, shadow);
    if finding.verified && finding.about == FindingSubject::Agent { full } else { full.min(Assessment::Suggest) }
}

/// Returns the author of the words or acts that a hit is about: the agent, or the source that it was given.
fn about(subject: &EventInput, hit: &Hit, given: &GivenTexts) -> FindingSubject {
    let words = evidence::of_hit(subject.event, hit).map(|evidence| evidence.quote).unwrap_or_default();
    given.about_hit(hit.check, &hit.field, &words)
}

fn from_hit(subject: &EventInput, hit: &Hit, about: FindingSubject) -> Finding {
    let evidence = evidence::of_hit(subject.event, hit);
    Finding {
        event_id: subject.event_id,
        severity: hit.severity,
        category: hit.check.category(),
        description: described(about, Some(&hit.field), &hit.description),
        verified: evidence.is_some(),
        about,
        evidence,
        source: FindingSource::Check,
        rule: format!("{}.{}", hit.check.as_str(), hit.rule),
    }
}
