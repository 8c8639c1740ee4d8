//! Notices that webhooks send: topic, kind, agent and content.

use jiff::Timestamp;
use serde_json::Value;

use super::Severity;

words! {
    /// Subject of a notice: the word in an endpoint's `events`.
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
    /// Kind of a notice: the `type` of a message.
    pub enum NoticeKind {
        /// A finding was stored.
        FindingCreated = "finding.created",
        /// An output was accepted or rejected.
        VerdictDecided = "verdict.decided",
        /// A breaker recommends to stop an agent.
        BreakerOpened = "breaker.opened",
        /// A breaker lets an agent try again.
        BreakerHalfOpen = "breaker.half_open",
        /// A breaker has closed and recommends nothing.
        BreakerClosed = "breaker.closed",
        /// A breaker has been open for a long time.
        BreakerStillOpen = "breaker.still_open",
        /// A fault recurs.
        ReflexionOpened = "reflexion.opened",
        /// A fault recurs no more.
        ReflexionClosed = "reflexion.closed",
        /// A briefing or report was filed.
        BriefingReady = "briefing.ready",
        /// Live results no longer fit a contract, or none has confirmed it for too long.
        ContractStale = "contract.stale",
        /// A call was seen for which no decision was asked.
        CallUnguarded = "call.unguarded",
        /// A call ran although its decision did not allow it.
        CallUnexpected = "call.unexpected",
        /// A call waits for a person's approval.
        ApprovalRequested = "approval.requested",
        /// A person has approved or denied a call.
        ApprovalDecided = "approval.decided",
    }
}

impl NoticeKind {
    /// Returns the topic of the kind.
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

/// Notice for webhooks. Never made from the findings of passive shadows; texts in it are redacted.
#[derive(Debug, Clone)]
pub struct Notice {
    /// Kind of the notice.
    pub kind: NoticeKind,
    /// Time at which it happened.
    pub at: Timestamp,
    /// Agent that the notice is about, if any.
    pub agent: Option<String>,
    /// Task that the notice is about, if any.
    pub task_id: Option<String>,
    /// Shadow that saw it, if any.
    pub shadow: Option<String>,
    /// Severity, if known.
    pub severity: Option<Severity>,
    /// Content of the message.
    pub data: Value,
}

impl Notice {
    /// Begins a notice that names no task, shadow or severity.
    pub fn new(kind: NoticeKind, at: Timestamp, agent: Option<&str>, data: Value) -> Self {
        let agent = agent.map(ToOwned::to_owned);
        Self { kind, at, agent, task_id: None, shadow: None, severity: None, data }
    }
}
