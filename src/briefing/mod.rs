//! The daily briefing and the weekly report: facts in, a [`Briefing`] out, as JSON or as a page of markdown. Pure.
//!
//! A date means each shadow's own calendar day, so that caps, skips and this page speak of the same day. Passive
//! shadows have a section of their own: what they cost and found is for those who watch over Umbra, and stands in no
//! total, at no agent and in no recurring fault.

mod calendar;
mod compose;
mod markdown;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::{Timestamp, civil::Date};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use self::{
    calendar::{Kind, Period, latest_day, latest_week},
    compose::{Facts, compose},
    markdown::page,
};
use umbra_domain::Mode;
use umbra_store::{
    briefings::{FeedbackCounts, Recurring, Troubled},
    gravest::Gravest,
};

/// A daily briefing or a weekly report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Briefing {
    /// `day` or `week`.
    pub kind: Kind,
    /// `2026-02-28` or `2026-W09`.
    #[schema(example = "2026-02-28")]
    pub period: String,
    /// Its first day.
    #[schema(value_type = String, format = Date)]
    pub first: Date,
    /// Its last day.
    #[schema(value_type = String, format = Date)]
    pub last: Date,
    /// Whether it was over, in the time zone of every shadow, when this was made.
    pub complete: bool,
    /// When this was made.
    #[schema(value_type = String, format = DateTime)]
    pub made_at: Timestamp,
    /// First local day of this installation: nothing before it is known. Null in briefings from before Umbra kept it.
    #[serde(default)]
    #[schema(value_type = Option<String>, format = Date)]
    pub first_day: Option<Date>,
    /// The five gravest findings, without those of passive shadows and false alarms; equal faults of an agent are one.
    #[serde(default)]
    pub gravest: Vec<Gravest>,
    /// All shadows but the passive ones.
    pub totals: Line,
    /// The same for the periods before it, the latest last: seven days, or four weeks.
    pub before: Vec<Past>,
    /// Each shadow that is in force or reviewed, but for the passive ones.
    pub shadows: Vec<ShadowLine>,
    /// Agents with the gravest and the most findings first.
    pub agents: Vec<AgentLine>,
    /// Agents that were reviewed and are not listed.
    pub more_agents: i64,
    /// Faults that were found again.
    pub recurring: Vec<Recurring>,
    /// Agents whose breakers were not closed when this was made.
    #[serde(default)]
    pub breakers: Vec<Troubled>,
    /// What people made of the findings.
    pub feedback: FeedbackCounts,
    /// Passive shadows: in no other section.
    pub passive: Vec<ShadowLine>,
}

/// Reviews and what they found.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BriefingLine)]
pub struct Line {
    /// Reviews that came to an assessment.
    pub reviews: i64,
    /// Of them, by assessment.
    pub assessments: Assessments,
    /// Reviews that were given up.
    pub failed: i64,
    /// Reviews that had not ended.
    pub open: i64,
    /// Findings by severity.
    pub findings: Findings,
    /// The share of reviews that found something; null without a review.
    pub finding_rate: Option<f64>,
    /// Money spent, in US dollars.
    pub cost_usd: f64,
    /// Tokens spent.
    pub tokens: i64,
}

/// Reviews by assessment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
#[expect(missing_docs, reason = "the words of an assessment")]
pub struct Assessments {
    pub approve: i64,
    #[serde(default)]
    pub checked: i64,
    pub inconclusive: i64,
    pub suggest: i64,
    pub flag: i64,
}

/// Findings by severity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = FindingCounts)]
#[expect(missing_docs, reason = "the words of a severity")]
pub struct Findings {
    pub info: i64,
    pub warning: i64,
    pub critical: i64,
    /// Of the warnings and critical ones, those of a model whose evidence does not stand in the text.
    #[serde(default)]
    pub unverified: i64,
}

impl Findings {
    /// All of them.
    pub fn all(self) -> i64 {
        self.info + self.warning + self.critical
    }
}

/// A period before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BriefingPast)]
pub struct Past {
    /// Its first day.
    #[schema(value_type = String, format = Date)]
    pub first: Date,
    /// Reviews that came to an assessment.
    pub reviews: i64,
    /// Of them, those that flag.
    pub flagged: i64,
    /// What they found.
    pub findings: i64,
    /// Money spent, in US dollars.
    pub cost_usd: f64,
}

/// A shadow's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BriefingShadow)]
pub struct ShadowLine {
    /// The shadow.
    pub shadow: String,
    /// The mode in which it reviewed.
    pub mode: Mode,
    /// What it did.
    #[serde(flatten)]
    pub line: Line,
    /// Matched events that were not reviewed, by reason.
    pub skips: BTreeMap<String, i64>,
    /// Means of the periods before; null where it did nothing in them.
    pub trend: Option<Trend>,
}

/// An agent's part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BriefingAgent)]
pub struct AgentLine {
    /// The agent.
    pub agent: String,
    /// What reviews of it came to.
    #[serde(flatten)]
    pub line: Line,
    /// Means of the periods before; null where it was not reviewed in them.
    pub trend: Option<Trend>,
}

/// What a period before was like, on average over all of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BriefingTrend)]
pub struct Trend {
    /// Reviews that came to an assessment.
    pub reviews: f64,
    /// What they found.
    pub findings: f64,
    /// The share of reviews that found something; null without a review.
    pub finding_rate: Option<f64>,
    /// Money spent, in US dollars.
    pub cost_usd: f64,
}
