//! What others are told by webhook, and about whom.

use jiff::Timestamp;
use serde_json::Value;

use super::Severity;

words! {
    /// What a notice is about: the word in an endpoint's `events`.
    #[derive(PartialOrd, Ord)]
    pub enum Topic {
        /// A finding.
        Finding = "finding",
        /// A verdict.
        Verdict = "verdict",
        /// A breaker.
        Breaker = "breaker",
        /// A reflexion.
        Reflexion = "reflexion",
        /// A daily briefing or a weekly report.
        Briefing = "briefing",
        /// The boundary around tools.
        Boundary = "boundary",
        /// A call that waits for a person.
        Approval = "approval",
    }
}

words! {
    /// What happened: the `type` of a message.
    pub enum NoticeKind {
        /// Something was found.
        FindingCreated = "finding.created",
        /// An output was accepted or rejected.
        VerdictDecided = "verdict.decided",
        /// A breaker recommends to stop an agent.
        BreakerOpened = "breaker.opened",
        /// A breaker lets an agent try.
        BreakerHalfOpen = "breaker.half_open",
        /// A breaker recommends nothing any more.
        BreakerClosed = "breaker.closed",
        /// A breaker has been open for long.
        BreakerStillOpen = "breaker.still_open",
        /// A fault recurs.
        ReflexionOpened = "reflexion.opened",
        /// A fault recurs no more.
        ReflexionClosed = "reflexion.closed",
        /// A briefing or report was filed.
        BriefingReady = "briefing.ready",
        /// Live results no longer fit a contract, or none has confirmed it for too long.
        ContractStale = "contract.stale",
        /// A call was seen that no decision was asked for.
        CallUnguarded = "call.unguarded",
        /// A call ran although it was told not to.
        CallUnexpected = "call.unexpected",
        /// A call waits for a person's word.
        ApprovalRequested = "approval.requested",
        /// A person has approved or denied it.
        ApprovalDecided = "approval.decided",
    }
}

impl NoticeKind {
    /// What it is about.
    pub fn topic(self) -> Topic {
        match self {
            Self::FindingCreated => Topic::Finding,
            Self::VerdictDecided => Topic::Verdict,
            Self::BreakerOpened | Self::BreakerHalfOpen | Self::BreakerClosed | Self::BreakerStillOpen => {
                Topic::Breaker
            }
            Self::ReflexionOpened | Self::ReflexionClosed => Topic::Reflexion,
            Self::BriefingReady => Topic::Briefing,
            Self::ContractStale | Self::CallUnguarded | Self::CallUnexpected => Topic::Boundary,
            Self::ApprovalRequested | Self::ApprovalDecided => Topic::Approval,
        }
    }
}

/// Something that others may be told. Never made of what passive shadows see; texts in it are redacted.
#[derive(Debug, Clone)]
pub struct Notice {
    /// What happened.
    pub kind: NoticeKind,
    /// When.
    pub at: Timestamp,
    /// The agent that it is about, if it is about one.
    pub agent: Option<String>,
    /// The task that it is about, if it is about one.
    pub task_id: Option<String>,
    /// The shadow that saw it, if one did.
    pub shadow: Option<String>,
    /// How bad, if that can be said.
    pub severity: Option<Severity>,
    /// What is told.
    pub data: Value,
}
