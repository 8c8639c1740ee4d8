//! Weighs a model's FLAG: its grounds, and the question for one more call if they do not suffice.
//! In: the assessment of a reply and its findings; later the judgement of another reply. Out: the question to ask, and
//! what remains of the FLAG. Never: a rejection by one call alone without a quote.

use std::collections::BTreeSet;

use super::{Judgement, assess::grade, claims::CheckedClaim};
use umbra_domain::{
    Assessment, Finding, FindingCategory, FindingSource, FindingSubject, Severity, Shadow,
    verdict::{DecidedBy, UnfoundedFlag},
};

/// Checklist items for faults that cannot be quoted: work off the task, and missing work.
const UNQUOTABLE: [&str; 2] = ["addresses_task", "complete"];
/// Request for quotes after a FLAG without any, in the words of a repair.
pub(super) const QUOTES_WANTED: &str = "it rejects, and none of its quotes stands in what the agent did (output, \
     tool.name, tool.args): quote exactly what must not pass, or judge anew without FLAG and critical findings";

/// Question for one more call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowUp {
    /// The reply could not be read, for this reason.
    Repair(String),
    /// The model rejects, but quotes nothing that the agent did.
    Quotes {
        /// True if the quotes are in texts that the agent was given.
        given: bool,
    },
    /// The model rejects for faults that cannot be quoted, under these checklist items. An independent call
    /// must agree.
    Confirmation(BTreeSet<String>),
}

/// Grounds of a model's FLAG.
pub(super) enum Grounds {
    /// A quote of what the agent did.
    Quoted,
    /// Not enough, until another call has settled the question.
    Open(FollowUp),
}

/// Returns the grounds of a FLAG, given as the assessment or implied by a finding; `None` if there is no FLAG.
pub(super) fn grounds(word: Assessment, found: &[CheckedClaim], shadow: &Shadow) -> Option<Grounds> {
    let flagged = word == Assessment::Flag;
    // Findings about given texts make no FLAG by themselves.
    let rejects = |found: &&CheckedClaim| {
        let Finding { severity, verified, about, .. } = found.finding;
        grade(severity, shadow) == Assessment::Flag && !(verified && about == FindingSubject::Given)
    };
    let weighty: Vec<&CheckedClaim> = if flagged {
        found.iter().filter(|found| found.finding.severity >= Severity::Warning).collect()
    } else {
        found.iter().filter(rejects).collect()
    };
    if weighty.is_empty() && !flagged {
        return None;
    }
    if weighty.iter().any(|CheckedClaim { finding, .. }| finding.verified && finding.about == FindingSubject::Agent) {
        return Some(Grounds::Quoted);
    }
    let unquotable = weighty.iter().filter(|found| !found.misquoted && is_unquotable(&found.finding));
    let items: BTreeSet<String> = unquotable.map(|found| found.finding.rule.clone()).collect();
    let given = !weighty.is_empty() && weighty.iter().all(|found| found.finding.verified);
    Some(Grounds::Open(if items.is_empty() { FollowUp::Quotes { given } } else { FollowUp::Confirmation(items) }))
}

fn is_unquotable(finding: &Finding) -> bool {
    UNQUOTABLE.contains(&finding.rule.as_str())
        && !matches!(finding.category, FindingCategory::Security | FindingCategory::Factual)
        && finding.severity >= Severity::Warning
}

impl FollowUp {
    /// Returns the words that the next prompt adds; `None` for an independent call.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Repair(reason) => Some(reason),
            Self::Quotes { .. } => Some(QUOTES_WANTED),
            Self::Confirmation(_) => None,
        }
    }
}

impl Judgement {
    /// Settles this judgement by the reply to the call that it asked for.
    #[must_use]
    pub fn settled_by(mut self, second: Self) -> Self {
        match (self.follow_up.clone(), &second.follow_up) {
            (None, _) => self,
            (Some(FollowUp::Repair(_)), _) => second,
            // The second reply is no verdict: this judgement remains.
            _ if second.score.is_none() => self,
            (_, None) if second.assessment == Assessment::Flag => second,
            (Some(FollowUp::Quotes { .. }), Some(_)) => second,
            // Asked for quotes, the model took its FLAG back.
            (Some(FollowUp::Quotes { .. }), None) => {
                self.assessment = self.assessment.max(second.assessment);
                self.lowered(DecidedBy::Unconfirmed)
            }
            (Some(FollowUp::Confirmation(items)), Some(FollowUp::Confirmation(others)))
                if !items.is_disjoint(others) =>
            {
                self.confirmed(&items.intersection(others).cloned().collect())
            }
            (Some(FollowUp::Confirmation(_)), _) => self,
        }
    }

    /// Concludes the judgement by the rules for questions that no call has settled.
    #[must_use]
    pub fn concluded(mut self, shadow: &Shadow) -> Self {
        match &self.follow_up {
            None | Some(FollowUp::Repair(_)) => self,
            Some(FollowUp::Confirmation(_)) => self.lowered(DecidedBy::Unconfirmed),
            Some(FollowUp::Quotes { given: true }) => self.lowered(DecidedBy::Given),
            Some(FollowUp::Quotes { given: false }) => {
                if shadow.verdict.on_unfounded == UnfoundedFlag::Reject {
                    self.assessment = Assessment::Flag;
                }
                self.lowered(DecidedBy::OnUnfounded)
            }
        }
    }

    /// Rejects, since two calls agree on these items.
    fn confirmed(mut self, items: &BTreeSet<String>) -> Self {
        for finding in self.findings.iter_mut().filter(|finding| finding.source == FindingSource::Model) {
            finding.verified |= items.contains(&finding.rule) && is_unquotable(finding);
        }
        self.assessment = Assessment::Flag;
        self.decided(DecidedBy::SecondCall)
    }

    /// Records the rule that lowers the FLAG. Unverified findings of the model become warnings at most.
    fn lowered(mut self, by: DecidedBy) -> Self {
        if self.assessment < Assessment::Flag {
            let of_model = |finding: &&mut Finding| finding.source == FindingSource::Model && !finding.verified;
            for finding in self.findings.iter_mut().filter(of_model) {
                finding.severity = finding.severity.min(Severity::Warning);
            }
        }
        self.decided(by)
    }

    /// Records the rule that decided the assessment, with a note.
    pub(super) fn decided(mut self, by: DecidedBy) -> Self {
        self.follow_up = None;
        self.decided_by = by;
        self.notes.extend(by.sentence(self.assessment).map(ToOwned::to_owned));
        self
    }
}
