//! Breaker of an agent, as people, orchestrators and the agent itself see it.

use std::collections::{BTreeMap, HashMap};

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use umbra_config::settings::Breaker;
use umbra_domain::{BreakerState, ReviewId};
use umbra_store::breakers::{BreakerAgent, BreakerReset, BreakerRow};

/// Breaker of an agent: a recommendation to hold it back, or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Breaker)]
pub struct BreakerItem {
    /// Name of the agent.
    pub agent: String,
    /// Strictest recommendation of the shadows: `open` to hold the agent back, `half_open` to let it try, `closed` to
    /// let it work.
    pub recommendation: BreakerState,
    /// Verified rejections in a row, by the shadow with the most.
    pub consecutive_rejections: u32,
    /// Rejections of the same output, by the shadow with the most; 0 if no output was rejected twice. Such copies count
    /// once among the rejections in a row.
    pub stuck: u32,
    /// Number of rejections in a row, or of the same output, that opens the breaker.
    pub threshold: u32,
    /// Start of the present recommendation; null if the breaker was never other than closed.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// Reasons, in sentences.
    pub reasons: Vec<String>,
    /// True if a person has acknowledged the breaker since it opened.
    pub acknowledged: bool,
    /// Time of the acknowledgement.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub acknowledged_at: Option<Timestamp>,
    /// Name of the person or key that acknowledged it.
    pub acknowledged_by: Option<String>,
    /// Note of the acknowledgement.
    pub note: Option<String>,
    /// Last reset by hand.
    pub reset: Option<BreakerReset>,
    /// Time at which an open breaker becomes half open.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub half_open_at: Option<Timestamp>,
    /// Breakers of the single shadows.
    pub shadows: Vec<ShadowBreaker>,
}

/// Recommendation of one shadow about an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ShadowBreaker {
    /// Name of the shadow.
    pub shadow: String,
    /// Recommendation of the shadow.
    pub recommendation: BreakerState,
    /// Verified rejections in a row.
    pub consecutive_rejections: u32,
    /// Rejections of the same output; 0 if no output was rejected twice.
    pub stuck: u32,
    /// Start of the present recommendation.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// Reviews that rejected, oldest first.
    #[schema(value_type = Vec<String>)]
    pub reviews: Vec<ReviewId>,
}

impl BreakerItem {
    /// Returns the shadow whose breaker decides.
    pub(super) fn decisive(&self) -> Option<&ShadowBreaker> {
        let weight = |one: &&ShadowBreaker| (one.recommendation, one.consecutive_rejections.max(one.stuck));
        self.shadows.iter().max_by_key(weight)
    }

    /// Returns the time of the last opening; `None` if the breaker is closed.
    pub(super) fn opened(&self, limits: &Breaker) -> Option<Timestamp> {
        match self.recommendation {
            BreakerState::Closed => None,
            BreakerState::HalfOpen => self.since.and_then(|since| since.checked_sub(limits.cool_off).ok()),
            BreakerState::Open => self.since,
        }
    }
}

/// Returns the recommendation of a row at `now`, and its start: the row may have become half open since it was written.
pub(super) fn standing(row: &BreakerRow, now: Timestamp) -> (BreakerState, Option<Timestamp>) {
    match row.half_open_at.filter(|at| *at <= now) {
        Some(at) => (BreakerState::HalfOpen, Some(at)),
        None => (row.recommendation, row.since),
    }
}

/// Builds the breakers of agents from their shadows' rows at `now`. `words` has the reasons of reviews that rejected.
pub(super) fn items(
    agents: Vec<BreakerAgent>,
    rows: Vec<BreakerRow>,
    words: &HashMap<ReviewId, String>,
    now: Timestamp,
    limits: &Breaker,
) -> Vec<BreakerItem> {
    let mut by_agent: BTreeMap<String, Vec<BreakerRow>> = BTreeMap::new();
    for mut row in rows {
        (row.recommendation, row.since) = standing(&row, now);
        row.half_open_at.take_if(|at| *at <= now);
        by_agent.entry(row.agent.clone()).or_default().push(row);
    }
    let dress = |agent: BreakerAgent| {
        let rows = by_agent.remove(&agent.agent).unwrap_or_default();
        item(agent, rows, words, limits)
    };
    agents.into_iter().map(dress).collect()
}

/// Returns the last review of each row, which the row's reasons name.
pub(super) fn last_reviews(rows: &[BreakerRow]) -> Vec<ReviewId> {
    rows.iter().filter_map(|row| row.rejected_by.last().copied()).collect()
}

fn item(
    agent: BreakerAgent,
    rows: Vec<BreakerRow>,
    words: &HashMap<ReviewId, String>,
    limits: &Breaker,
) -> BreakerItem {
    let mut item = BreakerItem {
        recommendation: BreakerState::Closed,
        consecutive_rejections: rows.iter().map(|row| row.rejections).max().unwrap_or(0),
        stuck: rows.iter().map(|row| row.stuck).max().unwrap_or(0),
        threshold: limits.threshold,
        since: None,
        reasons: rows.iter().flat_map(|row| reasons(row, words)).collect(),
        acknowledged: false,
        acknowledged_at: None,
        acknowledged_by: None,
        note: None,
        reset: agent.reset,
        half_open_at: rows.iter().filter_map(|row| row.half_open_at).max(),
        shadows: rows.into_iter().map(Into::into).collect(),
        agent: agent.agent,
    };
    let decisive = item.decisive().map(|one| (one.recommendation, one.since));
    (item.recommendation, item.since) = decisive.unwrap_or_default();
    // An acknowledgement counts for the last opening, not for an earlier one.
    let opened = item.opened(limits);
    if let Some(at) = agent.acknowledged_at.filter(|at| opened.is_some_and(|opened| *at >= opened)) {
        (item.acknowledged, item.acknowledged_at) = (true, Some(at));
        (item.acknowledged_by, item.note) = (agent.acknowledged_by, agent.note);
    }
    item
}

/// Describes the counts of a shadow in words, the greater count first.
fn reasons(row: &BreakerRow, words: &HashMap<ReviewId, String>) -> Vec<String> {
    let Some(last) = row.rejected_by.last() else { return Vec::new() };
    let (shadow, rejections, stuck) = (&row.shadow, row.rejections, row.stuck);
    let noun = if rejections == 1 { "rejection" } else { "rejections in a row" };
    let said = words.get(last).map(|words| format!(": {words}")).unwrap_or_default();
    let mut reasons = vec![format!("{shadow}: {rejections} verified {noun}, the last in {last}{said}")];
    if stuck > 0 {
        let copies =
            format!("{shadow}: stuck: the same output was rejected {stuck} times, the last time in {last}{said}");
        reasons.insert(usize::from(stuck <= rejections), copies);
    }
    reasons
}

impl From<BreakerRow> for ShadowBreaker {
    fn from(row: BreakerRow) -> Self {
        Self {
            shadow: row.shadow,
            recommendation: row.recommendation,
            consecutive_rejections: row.rejections,
            stuck: row.stuck,
            since: row.since,
            reviews: row.rejected_by,
        }
    }
}
