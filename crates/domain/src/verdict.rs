//! Verdict of the active shadows on an output: the opinions of their reviews in, one verdict out.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Assessment, ReviewId, contract::is_default};

words! {
    /// Verdict in place of an active shadow's missing or inconclusive review.
    #[derive(schemars::JsonSchema, utoipa::ToSchema)]
    pub enum FallbackVerdict {
        /// The output is accepted: the agent goes on.
        Accept = "accept",
        /// The output is rejected: the agent does the work again.
        Reject = "reject",
    }
}

words! {
    /// Meaning of an active shadow's FLAG whose quotes are not found in the text.
    #[derive(Default, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum UnfoundedFlag {
        /// Such a FLAG counts as SUGGEST.
        #[default]
        Suggest = "suggest",
        /// Such a FLAG stands, and rejects.
        Reject = "reject",
    }
}

/// Rules for the verdict of an active shadow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerdictRules {
    /// Time after the event within which a result counts.
    pub within: Duration,
    /// Verdict if no result comes in time.
    pub on_timeout: FallbackVerdict,
    /// Verdict if the review ends INCONCLUSIVE or CHECKED.
    pub on_inconclusive: FallbackVerdict,
    /// Meaning of a FLAG whose quotes are not found, after the model was asked for one.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_unfounded: UnfoundedFlag,
}

impl Default for VerdictRules {
    fn default() -> Self {
        Self {
            within: Duration::from_secs(20),
            on_timeout: FallbackVerdict::Accept,
            on_inconclusive: FallbackVerdict::Accept,
            on_unfounded: UnfoundedFlag::Suggest,
        }
    }
}

words! {
    /// Rule that decided a verdict.
    #[derive(utoipa::ToSchema)]
    pub enum DecidedBy {
        /// Assessment of a review: FLAG rejects, APPROVE and SUGGEST accept.
        Assessment = "assessment",
        /// FLAG by the built-in checks, which no model lowers and which waits for no model.
        Checks = "checks",
        /// `on_inconclusive`, since the built-in checks alone looked and found nothing.
        ChecksOnly = "checks_only",
        /// `on_inconclusive`, since the model gave no verdict.
        OnInconclusive = "on_inconclusive",
        /// `on_timeout`, since no review came in time or it was given up.
        OnTimeout = "on_timeout",
        /// A FLAG that cannot be quoted, with which a second, independent call agreed: it rejects.
        SecondCall = "second_call",
        /// A FLAG with which no second call agreed: it counts as SUGGEST.
        Unconfirmed = "unconfirmed",
        /// `on_unfounded`, since no quote of a FLAG stands in the text.
        OnUnfounded = "on_unfounded",
        /// A FLAG about text that the agent was given, which is no fault of the agent's: it counts as SUGGEST.
        Given = "given",
        /// No verdict, since an active shadow watches the event and skipped it.
        Skipped = "skipped",
        /// No verdict, since no active shadow watches the event.
        NoActiveShadow = "no_active_shadow",
    }
}

impl DecidedBy {
    /// Returns the rule in words, for a review's notes and a verdict's reasons; `None` if the findings say enough.
    pub fn sentence(self, assessment: Assessment) -> Option<&'static str> {
        Some(match (self, assessment) {
            (Self::SecondCall, _) => {
                "The model's FLAG is about something that cannot be quoted: a second, independent call agrees."
            }
            (Self::Unconfirmed, _) => "The model's FLAG was not confirmed by a second call: it counts as SUGGEST.",
            (Self::OnUnfounded, Assessment::Flag) => {
                "The model's FLAG has no evidence in the text: it stands because on_unfounded is reject."
            }
            (Self::OnUnfounded, _) => {
                "The model's FLAG has no evidence in the text: it counts as SUGGEST because on_unfounded is suggest."
            }
            (Self::Given, _) => {
                "The grounds for rejection are in data that the agent was given, and are no fault of the agent: they \
                 count as SUGGEST."
            }
            _ => return None,
        })
    }

    /// True if a FLAG of the model was lowered, or kept by a setting alone, so that it proves nothing about the agent.
    pub fn is_doubtful(self) -> bool {
        matches!(self, Self::Unconfirmed | Self::OnUnfounded | Self::Given)
    }
}

words! {
    /// State of the verdict on an output.
    #[derive(utoipa::ToSchema)]
    pub enum VerdictState {
        /// Final: the agent may go on.
        Accepted = "accepted",
        /// Final: the work should be done again.
        Rejected = "rejected",
        /// A review may still decide.
        Pending = "pending",
        /// No active shadow reviews the output.
        NotReviewed = "not_reviewed",
    }
}

impl VerdictState {
    /// True for a final verdict.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Accepted | Self::Rejected)
    }
}

/// Progress of an active review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReviewProgress {
    /// The review waits or runs.
    Open,
    /// The review ended at this time, with this assessment.
    Done(Timestamp, Assessment),
    /// The review was given up, for this reason.
    GivenUp(String),
}

/// Active review of an output, with its opinion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictInput {
    /// Name of the shadow.
    pub shadow: String,
    /// Id of the review.
    pub review: ReviewId,
    /// End of the shadow's time for the review.
    pub by: Timestamp,
    /// Rules of the shadow.
    pub rules: VerdictRules,
    /// Progress of the review.
    pub progress: ReviewProgress,
    /// Rule behind the assessment, once the review has one.
    pub decided_by: DecidedBy,
    /// Objections of the built-in checks, which stand whatever the review concludes and when: no model lowers them.
    pub certain: Vec<String>,
    /// Objections of the review to the output.
    pub reasons: Vec<String>,
    /// Recommendation of the review.
    pub recommendation: Option<String>,
}

/// Final verdict of the opinions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FinalVerdict {
    /// [`VerdictState::Accepted`] or [`VerdictState::Rejected`].
    pub standing: VerdictState,
    /// Rule by which the review decided.
    pub decided_by: DecidedBy,
    /// Reasons, in sentences.
    pub reasons: Vec<String>,
    /// Recommended action.
    pub recommendation: Option<String>,
    /// Shadow that rejected, or the last that accepted.
    pub shadow: String,
    /// Review of that shadow.
    pub review: ReviewId,
}

/// Returns the verdict of active reviews at `now`: one rejection rejects at once; the output is accepted when no review
/// can reject it any more. `None` while a review may still decide, and without reviews.
pub fn decide_verdict(opinions: &[VerdictInput], now: Timestamp) -> Option<FinalVerdict> {
    let said: Vec<Option<FinalVerdict>> = opinions.iter().map(|opinion| opinion.ruling_at(now)).collect();
    let rejection = said.iter().flatten().find(|ruling| ruling.standing == VerdictState::Rejected);
    if let Some(rejection) = rejection {
        return Some(rejection.clone());
    }
    let mut accepted = said.into_iter().collect::<Option<Vec<FinalVerdict>>>()?;
    let mut ruling = accepted.pop()?;
    for other in accepted.into_iter().rev() {
        ruling.reasons.splice(0..0, other.reasons);
    }
    Some(ruling)
}

impl VerdictInput {
    /// Returns the ruling of this review alone; `None` while it may still decide.
    fn ruling_at(&self, now: Timestamp) -> Option<FinalVerdict> {
        let Self { shadow, by, rules, .. } = self;
        let by_rule = |decided_by, rule, otherwise: FallbackVerdict, why: &str| {
            let reason = format!("{shadow}: {why}, and {rule} is {}", otherwise.as_str());
            self.ruling(decided_by, otherwise, vec![reason])
        };
        let on_inconclusive = |decided_by, why| by_rule(decided_by, "on_inconclusive", rules.on_inconclusive, why);
        let on_timeout = |why: &str| by_rule(DecidedBy::OnTimeout, "on_timeout", rules.on_timeout, why);
        match &self.progress {
            ReviewProgress::Done(at, assessment) if at <= by => Some(match assessment {
                Assessment::Flag => {
                    let mut ruling = self.ruling_of_assessment(FallbackVerdict::Reject, *assessment);
                    if ruling.reasons.is_empty() {
                        ruling.reasons.push(format!("{shadow} flags this output"));
                    }
                    ruling
                }
                Assessment::Inconclusive => {
                    on_inconclusive(DecidedBy::OnInconclusive, "the review gave no clear verdict")
                }
                Assessment::Checked => {
                    on_inconclusive(DecidedBy::ChecksOnly, "the built-in checks found nothing and no model judged it")
                }
                Assessment::Approve | Assessment::Suggest => {
                    self.ruling_of_assessment(FallbackVerdict::Accept, *assessment)
                }
            }),
            _ if !self.certain.is_empty() => {
                Some(self.ruling(DecidedBy::Checks, FallbackVerdict::Reject, self.certain.clone()))
            }
            ReviewProgress::GivenUp(why) => Some(on_timeout(&format!("the review was given up ({why})"))),
            _ if now > *by => Some(on_timeout("no review ended in time")),
            _ => None,
        }
    }

    /// Returns the ruling of an assessment, with the rule behind it before the findings.
    fn ruling_of_assessment(&self, otherwise: FallbackVerdict, assessment: Assessment) -> FinalVerdict {
        let rule = self.decided_by.sentence(assessment).map(|rule| format!("{}: {rule}", self.shadow));
        let reasons = rule.into_iter().chain(self.reasons.iter().cloned()).collect();
        self.ruling(self.decided_by, otherwise, reasons)
    }

    fn ruling(&self, decided_by: DecidedBy, otherwise: FallbackVerdict, reasons: Vec<String>) -> FinalVerdict {
        let standing = match otherwise {
            FallbackVerdict::Accept => VerdictState::Accepted,
            FallbackVerdict::Reject => VerdictState::Rejected,
        };
        FinalVerdict {
            standing,
            decided_by,
            reasons,
            recommendation: self.recommendation.clone(),
            shadow: self.shadow.clone(),
            review: self.review,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap_or_default()
    }

    fn opinion(shadow: &str, progress: ReviewProgress) -> VerdictInput {
        VerdictInput {
            shadow: shadow.into(),
            review: ReviewId(uuid::Uuid::nil()),
            by: at(20),
            rules: VerdictRules { on_timeout: FallbackVerdict::Reject, ..VerdictRules::default() },
            progress,
            decided_by: DecidedBy::Assessment,
            certain: Vec::new(),
            reasons: vec![format!("{shadow} says so")],
            recommendation: None,
        }
    }

    fn ruled(opinions: &[VerdictInput], now: i64) -> Option<VerdictState> {
        decide_verdict(opinions, at(now)).map(|ruling| ruling.standing)
    }

    #[test]
    fn single_review_decides_by_assessment_or_timeout() {
        use Assessment::{Approve, Checked, Flag, Inconclusive, Suggest};
        use VerdictState::{Accepted, Rejected};
        for (progress, now, expected) in [
            (ReviewProgress::Open, 0, None),
            (ReviewProgress::Open, 20, None),
            (ReviewProgress::Open, 21, Some(Rejected)),
            (ReviewProgress::Done(at(5), Approve), 5, Some(Accepted)),
            (ReviewProgress::Done(at(5), Suggest), 5, Some(Accepted)),
            (ReviewProgress::Done(at(5), Inconclusive), 5, Some(Accepted)),
            (ReviewProgress::Done(at(5), Checked), 5, Some(Accepted)),
            (ReviewProgress::Done(at(5), Flag), 5, Some(Rejected)),
            (ReviewProgress::Done(at(20), Approve), 90, Some(Accepted)),
            (ReviewProgress::Done(at(21), Approve), 90, Some(Rejected)),
            (ReviewProgress::GivenUp("no provider".into()), 1, Some(Rejected)),
        ] {
            assert_eq!(ruled(&[opinion("a", progress.clone())], now), expected, "{progress:?} at {now}");
        }
        assert_eq!(ruled(&[], 90), None);
    }

    #[test]
    fn verdict_names_its_deciding_rule() {
        use Assessment::{Approve, Checked, Flag, Inconclusive, Suggest};
        use VerdictState::{Accepted, Rejected};
        for (progress, standing, decided_by) in [
            (ReviewProgress::Done(at(5), Flag), Rejected, DecidedBy::Assessment),
            (ReviewProgress::Done(at(5), Suggest), Accepted, DecidedBy::Assessment),
            (ReviewProgress::Done(at(5), Approve), Accepted, DecidedBy::Assessment),
            (ReviewProgress::Done(at(5), Inconclusive), Rejected, DecidedBy::OnInconclusive),
            (ReviewProgress::Done(at(5), Checked), Rejected, DecidedBy::ChecksOnly),
            (ReviewProgress::Open, Accepted, DecidedBy::OnTimeout),
            (ReviewProgress::GivenUp("no provider".into()), Accepted, DecidedBy::OnTimeout),
        ] {
            let mut one = opinion("a", progress.clone());
            (one.rules.on_timeout, one.rules.on_inconclusive) = (FallbackVerdict::Accept, FallbackVerdict::Reject);
            let ruling = decide_verdict(&[one], at(21)).map(|ruling| (ruling.standing, ruling.decided_by));
            assert_eq!(ruling, Some((standing, decided_by)), "{progress:?}");
        }
    }

    #[test]
    fn deciding_rule_precedes_the_finding_in_reasons() {
        for (decided_by, assessment, standing, said) in [
            (DecidedBy::SecondCall, Assessment::Flag, VerdictState::Rejected, "a second, independent call"),
            (DecidedBy::OnUnfounded, Assessment::Flag, VerdictState::Rejected, "on_unfounded is reject"),
            (DecidedBy::OnUnfounded, Assessment::Suggest, VerdictState::Accepted, "on_unfounded is suggest"),
            (DecidedBy::Unconfirmed, Assessment::Suggest, VerdictState::Accepted, "not confirmed by a second call"),
            (DecidedBy::Given, Assessment::Suggest, VerdictState::Accepted, "was given"),
        ] {
            let one = VerdictInput { decided_by, ..opinion("a", ReviewProgress::Done(at(5), assessment)) };
            let Some(ruling) = decide_verdict(&[one], at(6)) else { panic!("{decided_by:?} decides") };
            assert_eq!((ruling.standing, ruling.decided_by), (standing, decided_by));
            let [rule, found] = &ruling.reasons[..] else { panic!("{:?}", ruling.reasons) };
            assert!(rule.starts_with("a: ") && rule.contains(said) && found == "a says so", "{:?}", ruling.reasons);
        }
    }

    #[test]
    fn certain_check_hit_rejects_without_waiting_for_the_model() {
        for progress in [ReviewProgress::Open, ReviewProgress::GivenUp("no provider".into())] {
            let mut sure = opinion("a", progress);
            (sure.certain, sure.rules.on_timeout) = (vec!["a key".into()], FallbackVerdict::Accept);
            assert_eq!(
                decide_verdict(&[sure], at(0)).map(|ruling| (ruling.standing, ruling.decided_by, ruling.reasons)),
                Some((VerdictState::Rejected, DecidedBy::Checks, vec!["a key".into()]))
            );
        }
    }

    #[test]
    fn one_rejection_rejects_and_all_must_accept() {
        let yes = || opinion("yes", ReviewProgress::Done(at(1), Assessment::Approve));
        let no = || opinion("no", ReviewProgress::Done(at(2), Assessment::Flag));
        let open = || opinion("open", ReviewProgress::Open);
        assert_eq!(ruled(&[yes(), open()], 3), None);
        assert_eq!(ruled(&[open(), no()], 3), Some(VerdictState::Rejected));
        assert_eq!(ruled(&[yes(), yes()], 3), Some(VerdictState::Accepted));
        let ruling = decide_verdict(&[yes(), no(), yes()], at(3));
        assert_eq!(
            ruling.map(|ruling| (ruling.shadow, ruling.reasons)),
            Some(("no".into(), vec!["no says so".into()]))
        );
    }
}
