//! Breakers: moved on by what reviews said and by time, read for those who steer agents, acknowledged and reset.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    breaker::{self, History, Limits, Opinion, Standing},
    flows::followers::{
        Followers,
        consequences::{self, Judged},
    },
    telemetry::metric,
};
use umbra_domain::{BreakerState, Mode, ReviewId};
use umbra_store::{
    StoreError,
    breakers::{BreakerAgent, BreakerFilter, BreakerRow},
    follow::Following,
    seek::{Page, Seek},
};

/// Most agents that time alone moves on in one page.
const MOST_DUE: i64 = 100;

/// What is recommended about an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Breaker)]
pub struct BreakerItem {
    /// The agent.
    pub agent: String,
    /// The strictest of its shadows': `open` to hold it back, `half_open` to let it try, `closed` to let it work.
    pub recommendation: BreakerState,
    /// Verified rejections in a row, by the shadow that has most.
    pub consecutive_rejections: u32,
    /// How many open it.
    pub threshold: u32,
    /// Since when; null where it was never anything but closed.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// Why, in sentences.
    pub reasons: Vec<String>,
    /// Whether somebody has acknowledged it since it opened.
    pub acknowledged: bool,
    /// When.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub acknowledged_at: Option<Timestamp>,
    /// Who.
    pub acknowledged_by: Option<String>,
    /// With what note.
    pub note: Option<String>,
    /// When it becomes half open, if it is open.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub half_open_at: Option<Timestamp>,
    /// Each shadow's part.
    pub shadows: Vec<ShadowBreaker>,
}

/// What one shadow recommends about an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct ShadowBreaker {
    /// The shadow.
    pub shadow: String,
    /// What it recommends.
    pub recommendation: BreakerState,
    /// Verified rejections in a row.
    pub consecutive_rejections: u32,
    /// Since when.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub since: Option<Timestamp>,
    /// The reviews that rejected, oldest first.
    #[schema(value_type = Vec<String>)]
    pub reviews: Vec<ReviewId>,
}

/// An agent's recommendation has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flows) struct Change {
    pub agent: String,
    pub before: BreakerState,
    pub after: BreakerState,
}

/// Logs and counts a change. An agent chooses its name, so no line has it: `GET /v1/breakers` does.
pub(super) fn announce(change: &Change) {
    metrics::counter!(metric::BREAKER_CHANGES, "to" => change.after.as_str()).increment(1);
    match change.after {
        BreakerState::Open => tracing::warn!("a breaker opened: GET /v1/breakers?recommendation=open names the agent"),
        other => tracing::info!(from = change.before.as_str(), to = other.as_str(), "a breaker moved on"),
    }
}

/// Says that a breaker has not been closed for too long.
pub(super) fn announce_long() {
    metrics::counter!(metric::BREAKER_ALERTS).increment(1);
    tracing::warn!(
        "a breaker has not been closed for longer than breaker.alert_after: GET /v1/breakers names the agent"
    );
}

impl Followers {
    /// Moves breakers on by what was said and by time; answers what changed.
    pub(super) async fn follow_breakers(
        &self,
        page: &mut Following,
        judged: &[Judged],
    ) -> Result<Vec<consequences::Change>, StoreError> {
        let models = self.rules.load().with_models();
        let public = judged.iter().filter(|one| one.is_public());
        let said: Vec<(&Judged, bool)> =
            public.filter_map(|one| Some((one, one.rejects(models.contains(&one.review.shadow))?))).collect();
        let mut agents: BTreeSet<String> = page.agents_to_try(MOST_DUE).await?.into_iter().collect();
        agents.extend(said.iter().map(|(one, _)| one.review.agent.clone()));
        let agents: Vec<String> = agents.into_iter().collect();
        let mut changes = Vec::new();
        if !agents.is_empty() {
            let limits = &self.settings.breaker;
            let now = page.now().await?;
            let (known, before) = page.hold_breakers(&agents).await?;
            let mut breakers = Breakers::read(&before)?;
            for (one, rejected) in said {
                breakers.add(one, rejected, now, limits);
            }
            let rows = breakers.rows(now, limits)?;
            let moved: Vec<&BreakerRow> = rows.iter().filter(|row| !before.contains(row)).collect();
            page.put_breakers(&moved).await?;
            let in_force = self.judging_shadows();
            for agent in known {
                let mine: Vec<&BreakerRow> =
                    rows.iter().filter(|row| row.agent == agent.agent && in_force.contains(&row.shadow)).collect();
                let after = mine.iter().map(|row| row.recommendation).max().unwrap_or_default();
                let troubled_since = mine.iter().filter_map(|row| row.troubled_since).min();
                if (agent.announced, agent.troubled_since) != (after, troubled_since) {
                    page.announced(&agent.agent, after, troubled_since).await?;
                }
                let BreakerAgent { agent, announced: before, .. } = agent;
                if before != after {
                    changes.push(consequences::Change::Breaker(Change { agent, before, after }));
                }
            }
        }
        let long = page.long_troubled(self.settings.alert_after, MOST_DUE).await?;
        changes.extend(long.into_iter().map(consequences::Change::BreakerStays));
        Ok(changes)
    }

    /// The shadows whose opinion opens breakers now: those in force that are not passive.
    fn judging_shadows(&self) -> Vec<String> {
        let rules = self.rules.load();
        let judging = rules.shadows.iter().map(|armed| &armed.shadow);
        let judging = judging.filter(|shadow| shadow.enabled && shadow.mode != Mode::Passive);
        judging.map(|shadow| shadow.name.clone()).collect()
    }

    /// What is recommended about an agent; one that was never judged is closed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn breaker(&self, agent: &str) -> Result<BreakerItem, StoreError> {
        let filter = BreakerFilter { agent: Some(agent.to_owned()), recommendation: None };
        let seek = Seek { from: None, descending: false, limit: 1 };
        let unknown = || BreakerAgent {
            agent: agent.to_owned(),
            announced: BreakerState::Closed,
            troubled_since: None,
            acknowledged_at: None,
            acknowledged_by: None,
            note: None,
        };
        let mut known = self.store.breakers().agents(&filter, &[], seek).await?;
        let known = known.items.pop().map_or_else(unknown, |(_, agent)| agent);
        let mut items = self.dressed(vec![known]).await?;
        let missing = || StoreError::Inconsistent { table: "breaker_agent", problem: "an agent was lost".into() };
        items.pop().ok_or_else(missing)
    }

    /// A page of agents that were ever judged, each with what is recommended about it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn breakers(&self, filter: &BreakerFilter, seek: Seek) -> Result<Page<BreakerItem>, StoreError> {
        let page = self.store.breakers().agents(filter, &self.judging_shadows(), seek).await?;
        let (numbers, agents): (Vec<i64>, Vec<BreakerAgent>) = page.items.into_iter().unzip();
        let items = self.dressed(agents).await?;
        Ok(Page { items: numbers.into_iter().zip(items).collect(), more: page.more })
    }

    /// Notes that somebody knows that an agent's breaker is open or half open; `None` where it is closed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn acknowledge_breaker(
        &self,
        agent: &str,
        by: Option<&str>,
        note: Option<&str>,
    ) -> Result<Option<BreakerItem>, StoreError> {
        if self.breaker(agent).await?.recommendation == BreakerState::Closed {
            return Ok(None);
        }
        self.store.breakers().acknowledge(agent, by, note).await?;
        self.breaker(agent).await.map(Some)
    }

    /// Closes an agent's breaker and forgets its rejections, those of events that are still under review among them.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn reset_breaker(&self, agent: &str) -> Result<BreakerItem, StoreError> {
        let mut reset = self.store.breakers().begin_reset(agent).await?;
        let (now, last) = (reset.now, reset.last);
        // As it stands while it is held: of several who reset it at a time, one has changed something.
        let in_force = self.judging_shadows();
        let mut before = BreakerState::Closed;
        for row in &mut reset.rows {
            if in_force.contains(&row.shadow) {
                before = before.max(standing(row, now).0);
            }
            let mut history = parsed(row)?;
            history.reset(now, last);
            *row = written(&row.agent, &row.shadow, &history, now, &self.settings.breaker)?;
        }
        let change = Change { agent: agent.to_owned(), before, after: BreakerState::Closed };
        let changed = (change.before != change.after).then_some(change);
        let notice = changed.clone().map(consequences::Change::Breaker);
        let message = notice.and_then(|notice| self.message_of(&notice, now));
        reset.done(agent, message.as_ref()).await?;
        if let Some(change) = changed {
            announce(&change);
            self.outbox.notify_one();
        }
        self.breaker(agent).await
    }

    async fn dressed(&self, agents: Vec<BreakerAgent>) -> Result<Vec<BreakerItem>, StoreError> {
        let names: Vec<String> = agents.iter().map(|agent| agent.agent.clone()).collect();
        let (mut rows, now) = self.store.breakers().of(&names).await?;
        let in_force = self.judging_shadows();
        rows.retain(|row| in_force.contains(&row.shadow));
        for row in &mut rows {
            (row.recommendation, row.since) = standing(row, now);
            row.half_open_at.take_if(|at| *at <= now);
        }
        let last: Vec<ReviewId> = rows.iter().filter_map(|row| row.rejected_by.last().copied()).collect();
        let words: HashMap<ReviewId, String> = self.store.breakers().rejections(&last).await?.into_iter().collect();
        let mut by_agent: BTreeMap<String, Vec<BreakerRow>> = BTreeMap::new();
        for row in rows {
            by_agent.entry(row.agent.clone()).or_default().push(row);
        }
        let limits = &self.settings.breaker;
        let dress = |agent: BreakerAgent| {
            let rows = by_agent.remove(&agent.agent).unwrap_or_default();
            item(agent, rows, &words, limits)
        };
        Ok(agents.into_iter().map(dress).collect())
    }
}

/// What a row recommends at a time, and since when: its own time may be over since anybody wrote it.
fn standing(row: &BreakerRow, now: Timestamp) -> (BreakerState, Option<Timestamp>) {
    match row.half_open_at.filter(|at| *at <= now) {
        Some(at) => (BreakerState::HalfOpen, Some(at)),
        None => (row.recommendation, row.since),
    }
}

fn item(agent: BreakerAgent, rows: Vec<BreakerRow>, words: &HashMap<ReviewId, String>, limits: &Limits) -> BreakerItem {
    let worst = rows.iter().max_by_key(|row| (row.recommendation, row.rejections));
    let (recommendation, since) = worst.map_or_else(Default::default, |row| (row.recommendation, row.since));
    // What was acknowledged is the last opening, not one before.
    let opened = match recommendation {
        BreakerState::Closed => None,
        BreakerState::HalfOpen => since.and_then(|since| since.checked_sub(limits.cool_off).ok()),
        BreakerState::Open => since,
    };
    let acknowledged_at = agent.acknowledged_at.filter(|at| opened.is_some_and(|opened| *at >= opened));
    BreakerItem {
        recommendation,
        consecutive_rejections: rows.iter().map(|row| row.rejections).max().unwrap_or(0),
        threshold: limits.threshold,
        since,
        reasons: rows.iter().filter_map(|row| reason(row, words)).collect(),
        acknowledged: acknowledged_at.is_some(),
        acknowledged_by: agent.acknowledged_by.filter(|_| acknowledged_at.is_some()),
        note: agent.note.filter(|_| acknowledged_at.is_some()),
        acknowledged_at,
        half_open_at: rows.iter().filter_map(|row| row.half_open_at).max(),
        shadows: rows.into_iter().map(Into::into).collect(),
        agent: agent.agent,
    }
}

fn reason(row: &BreakerRow, words: &HashMap<ReviewId, String>) -> Option<String> {
    let last = row.rejected_by.last()?;
    let rejections = if row.rejections == 1 { "rejection" } else { "rejections in a row" };
    let said = words.get(last).map(|words| format!(": {words}")).unwrap_or_default();
    Some(format!("{}: {} verified {rejections}, the last by {last}{said}", row.shadow, row.rejections))
}

impl From<BreakerRow> for ShadowBreaker {
    fn from(row: BreakerRow) -> Self {
        Self {
            shadow: row.shadow,
            recommendation: row.recommendation,
            consecutive_rejections: row.rejections,
            since: row.since,
            reviews: row.rejected_by,
        }
    }
}

/// The breakers of some agents, by agent and shadow.
struct Breakers(BTreeMap<(String, String), History>);

impl Breakers {
    fn read(rows: &[BreakerRow]) -> Result<Self, StoreError> {
        let mut histories = BTreeMap::new();
        for row in rows {
            histories.insert((row.agent.clone(), row.shadow.clone()), parsed(row)?);
        }
        Ok(Self(histories))
    }

    fn add(&mut self, one: &Judged, rejected: bool, now: Timestamp, limits: &Limits) {
        let review = &one.review;
        let history = self.0.entry((review.agent.clone(), review.shadow.clone())).or_default();
        let opinion = Opinion {
            order: one.order,
            event: one.event,
            review: review.id,
            rejected,
            content: breaker::content(&one.stored.event),
            received_at: review.created_at,
            ended_at: review.finished_at.unwrap_or(now),
        };
        history.add(opinion, limits);
    }

    fn rows(self, now: Timestamp, limits: &Limits) -> Result<Vec<BreakerRow>, StoreError> {
        let rows = self.0.into_iter();
        rows.map(|((agent, shadow), history)| written(&agent, &shadow, &history, now, limits)).collect()
    }
}

fn parsed(row: &BreakerRow) -> Result<History, StoreError> {
    serde_json::from_str(&row.history).map_err(|error| broken(&error))
}

fn written(
    agent: &str,
    shadow: &str,
    history: &History,
    now: Timestamp,
    limits: &Limits,
) -> Result<BreakerRow, StoreError> {
    let standing = history.standing(now, limits);
    let half_open_at = standing.half_open_at(limits);
    let Standing { recommendation, since, troubled_since, rejections, rejected_by, .. } = standing;
    Ok(BreakerRow {
        agent: agent.to_owned(),
        shadow: shadow.to_owned(),
        history: serde_json::to_string(history).map_err(|error| broken(&error))?,
        recommendation,
        since,
        half_open_at,
        troubled_since,
        rejections,
        rejected_by,
    })
}

fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::Inconsistent { table: "breaker", problem: error.to_string() }
}
