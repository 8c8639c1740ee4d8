//! What others are told by webhook, and about whom.

use jiff::Timestamp;
use serde_json::Value;

use super::Severity;

/// What a notice is about: the word in an endpoint's `events`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// A finding.
    Finding,
    /// A verdict.
    Verdict,
    /// A breaker.
    Breaker,
    /// A reflexion.
    Reflexion,
    /// A daily briefing or a weekly report.
    Briefing,
    /// The boundary around tools.
    Boundary,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Self; 6] =
        [Self::Finding, Self::Verdict, Self::Breaker, Self::Reflexion, Self::Briefing, Self::Boundary];

    /// The word in YAML.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finding => "finding",
            Self::Verdict => "verdict",
            Self::Breaker => "breaker",
            Self::Reflexion => "reflexion",
            Self::Briefing => "briefing",
            Self::Boundary => "boundary",
        }
    }
}

/// What happened: the `type` of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoticeKind {
    /// Something was found.
    FindingCreated,
    /// An output was accepted or rejected.
    VerdictDecided,
    /// A breaker recommends to stop an agent.
    BreakerOpened,
    /// A breaker lets an agent try.
    BreakerHalfOpen,
    /// A breaker recommends nothing any more.
    BreakerClosed,
    /// A breaker has been open for long.
    BreakerStillOpen,
    /// A fault recurs.
    ReflexionOpened,
    /// A fault recurs no more.
    ReflexionClosed,
    /// A briefing or report was filed.
    BriefingReady,
    /// Live results no longer fit a contract, or none has confirmed it for too long.
    ContractStale,
    /// A call was seen that no decision was asked for.
    CallUnguarded,
    /// A call ran although it was told not to.
    CallUnexpected,
}

impl NoticeKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FindingCreated => "finding.created",
            Self::VerdictDecided => "verdict.decided",
            Self::BreakerOpened => "breaker.opened",
            Self::BreakerHalfOpen => "breaker.half_open",
            Self::BreakerClosed => "breaker.closed",
            Self::BreakerStillOpen => "breaker.still_open",
            Self::ReflexionOpened => "reflexion.opened",
            Self::ReflexionClosed => "reflexion.closed",
            Self::BriefingReady => "briefing.ready",
            Self::ContractStale => "contract.stale",
            Self::CallUnguarded => "call.unguarded",
            Self::CallUnexpected => "call.unexpected",
        }
    }

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
