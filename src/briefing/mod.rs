//! Daily briefings and weekly reports: composes facts into a [`Briefing`], as JSON or as a page of markdown. Pure.
//!
//! A date means each shadow's own calendar day, so caps, skips and this page speak of the same day. Passive shadows
//! have a section of their own: their cost and findings are for the operators of Umbra, and are part of no total, agent
//! or recurring fault.

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
    compose::{BriefingFacts, compose},
    markdown::page,
};
use umbra_domain::Mode;
use umbra_store::{
    briefings::{FeedbackCounts, RecurringFault, TroubledAgent},
    gravest::GravestFinding,
};

/// A daily briefing or a weekly report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Briefing {
    /// `day` or `week`.
    pub kind: Kind,
    /// `2026-02-28` or `2026-W09`.
    #[schema(example = "2026-02-28")]
    pub period: String,
    /// First day of the period.
    pub first: Date,
    /// Last day of the period.
    pub last: Date,
    /// True if the period was over in the time zone of every shadow when this was made.
    pub complete: bool,
    /// Time at which this was made.
    pub made_at: Timestamp,
    /// First local day of this installation: nothing before it is known. Null in briefings from before Umbra kept it.
    #[serde(default)]
    pub first_day: Option<Date>,
    /// The five most severe findings, without those of passive shadows and false alarms; equal faults of an agent count
    /// as one.
    #[serde(default)]
    pub gravest: Vec<GravestFinding>,
    /// Sums over all shadows but the passive ones.
    pub totals: BriefingLine,
    /// The same sums for the earlier periods, latest last: seven days, or four weeks.
    pub before: Vec<BriefingPast>,
    /// Shadows that are in force or reviewed something, except passive ones.
    pub shadows: Vec<ShadowLine>,
    /// Agents, those with the most severe and the most findings first.
    pub agents: Vec<AgentLine>,
    /// Number of reviewed agents that are not listed.
    pub more_agents: i64,
    /// Faults that were found again.
    pub recurring: Vec<RecurringFault>,
    /// Agents whose breakers were not closed when this was made.
    #[serde(default)]
    pub breakers: Vec<TroubledAgent>,
    /// People's ratings of the findings.
    pub feedback: FeedbackCounts,
    /// Passive shadows, which are in no other section.
    pub passive: Vec<ShadowLine>,
}

/// Counts of reviews and of their findings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BriefingLine {
    /// Number of reviews with an assessment.
    pub reviews: i64,
    /// These reviews by assessment.
    pub assessments: Assessments,
    /// Number of reviews that were given up.
    pub failed: i64,
    /// Number of reviews that had not ended.
    pub open: i64,
    /// Findings by severity.
    pub findings: Findings,
    /// Share of reviews that found something; null without a review.
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
    /// Warnings and critical findings of a model whose evidence was not found in the text.
    #[serde(default)]
    pub unverified: i64,
}

impl Findings {
    /// Returns their sum.
    pub fn all(self) -> i64 {
        self.info + self.warning + self.critical
    }
}

/// Counts of an earlier period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BriefingPast {
    /// First day of the period.
    pub first: Date,
    /// Number of reviews with an assessment.
    pub reviews: i64,
    /// Number of these reviews that flag.
    pub flagged: i64,
    /// Number of findings.
    pub findings: i64,
    /// Money spent, in US dollars.
    pub cost_usd: f64,
}

/// Counts of a shadow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BriefingShadow)]
pub struct ShadowLine {
    /// Name of the shadow.
    pub shadow: String,
    /// Mode in which it reviewed.
    pub mode: Mode,
    /// Counts of the period.
    #[serde(flatten)]
    pub line: BriefingLine,
    /// Matching events that were not reviewed, by reason.
    pub skips: BTreeMap<String, i64>,
    /// Means of the earlier periods; null where the shadow did nothing in them.
    pub trend: Option<Trend>,
}

/// Counts of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BriefingAgent)]
pub struct AgentLine {
    /// Name of the agent.
    pub agent: String,
    /// Counts of reviews of the agent.
    #[serde(flatten)]
    pub line: BriefingLine,
    /// Means of the earlier periods; null where the agent was not reviewed in them.
    pub trend: Option<Trend>,
}

/// Means over the earlier periods.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = BriefingTrend)]
pub struct Trend {
    /// Reviews with an assessment.
    pub reviews: f64,
    /// Findings.
    pub findings: f64,
    /// Share of reviews that found something; null without a review.
    pub finding_rate: Option<f64>,
    /// Money spent, in US dollars.
    pub cost_usd: f64,
}
