//! Breakers: moved on by reviews and by time, read by people and orchestrators, acknowledged and reset.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use jiff::Timestamp;

use crate::{
    breaker::{self, BreakerStatus, History, Opinion},
    flows::followers::{
        Followers,
        breaker_item::{BreakerItem, items, last_reviews, standing},
        consequences::{self, JudgedEvent},
    },
    flows::serialise::to_json,
    telemetry::metric,
};
use umbra_config::settings::Breaker;
use umbra_domain::{BreakerState, Mode};
use umbra_store::{
    StoreError,
    breakers::{BreakerAgent, BreakerFilter, BreakerRow, Signature},
    follow::FollowerPage,
    paging::{Page, Seek},
};

/// Most agents per page whose breakers move on by time alone.
const MOST_DUE: i64 = 100;

/// A change of an agent's recommendation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::flows) struct BreakerChange {
    pub before: BreakerState,
    pub breaker: BreakerItem,
}

/// Logs and counts a change. The log omits the agent's name, which the agent chose; `GET /v1/breakers` has it.
pub(super) fn announce(change: &BreakerChange) {
    metrics::counter!(metric::BREAKER_CHANGES, "to" => change.breaker.recommendation.as_str()).increment(1);
    match change.breaker.recommendation {
        BreakerState::Open => tracing::warn!("a breaker opened: GET /v1/breakers?recommendation=open names the agent"),
        other => {
            tracing::info!(from = change.before.as_str(), to = other.as_str(), "a breaker changed its recommendation");
        }
    }
}

/// Logs and counts that a breaker has not been closed for too long.
pub(super) fn announce_long() {
    metrics::counter!(metric::BREAKER_ALERTS).increment(1);
    tracing::warn!(
        "a breaker has not been closed for longer than breaker.alert_after: GET /v1/breakers names the agent"
    );
}

impl Followers {
    /// Moves breakers on by reviews and by time; returns the changes.
    pub(super) async fn follow_breakers(
        &self,
        page: &mut FollowerPage,
        judged: &[JudgedEvent],
    ) -> Result<Vec<consequences::ReportedChange>, StoreError> {
        let models = self.rules.load().with_models();
        let counting = judged.iter().filter(|one| one.review.mode.is_some_and(|mode| self.counts(mode)));
        let said: Vec<(&JudgedEvent, bool)> =
            counting.filter_map(|one| Some((one, one.rejects(models.contains(&one.review.shadow))?))).collect();
        let mut agents: BTreeSet<String> = page.agents_to_try(MOST_DUE).await?.into_iter().collect();
        agents.extend(said.iter().map(|(one, _)| one.review.agent.clone()));
        let agents: Vec<String> = agents.into_iter().collect();
        let mut changes = Vec::new();
        if !agents.is_empty() {
            let limits = &self.settings.breaker;
            let now = page.now().await?;
            let (known, before) = page.hold_breakers(&agents).await?;
            let mut histories: BTreeMap<(String, String), History> = BTreeMap::new();
            for row in &before {
                histories.insert((row.agent.clone(), row.shadow.clone()), parsed(row)?);
            }
            for (one, rejected) in said {
                let review = &one.review;
                let opinion = Opinion {
                    order: one.order,
                    event: one.event,
                    review: review.id,
                    rejected,
                    content: breaker::content(&one.stored.event),
                    received_at: review.created_at,
                    ended_at: review.finished_at.unwrap_or(now),
                };
                histories.entry((review.agent.clone(), review.shadow.clone())).or_default().add(opinion, limits);
            }
            let rows = histories.into_iter();
            let rows = rows.map(|((agent, shadow), history)| written(&agent, &shadow, &history, now, limits));
            let rows: Vec<BreakerRow> = rows.collect::<Result<_, _>>()?;
            let moved: Vec<&BreakerRow> = rows.iter().filter(|row| !before.contains(row)).collect();
            page.put_breakers(&moved).await?;
            let announced: HashMap<String, (BreakerState, Option<Timestamp>)> =
                known.iter().map(|one| (one.agent.clone(), (one.announced, one.troubled_since))).collect();
            for (breaker, troubled_since) in self.told(page, known, rows, now).await? {
                let (before, troubled_before) = announced.get(&breaker.agent).copied().unwrap_or_default();
                let after = breaker.recommendation;
                if (before, troubled_before) != (after, troubled_since) {
                    page.announced(&breaker.agent, after, troubled_since).await?;
                }
                if before != after {
                    changes.push(consequences::ReportedChange::Breaker(BreakerChange { before, breaker }));
                }
            }
        }
        let long = page.long_troubled(self.settings.breaker.alert_after, MOST_DUE).await?;
        if !long.is_empty() {
            let now = page.now().await?;
            let (known, rows) = page.hold_breakers(&long).await?;
            let told = self.told(page, known, rows, now).await?.into_iter();
            changes.extend(told.map(|(breaker, _)| consequences::ReportedChange::BreakerStays(breaker)));
        }
        Ok(changes)
    }

    /// Builds the breakers of agents whose rows a page holds, each with the time since which it has not been closed.
    async fn told(
        &self,
        page: &mut FollowerPage,
        agents: Vec<BreakerAgent>,
        mut rows: Vec<BreakerRow>,
        now: Timestamp,
    ) -> Result<Vec<(BreakerItem, Option<Timestamp>)>, StoreError> {
        let in_force = self.judging_shadows();
        rows.retain(|row| in_force.contains(&row.shadow));
        let mut troubled: HashMap<String, Timestamp> = HashMap::new();
        for (agent, since) in rows.iter().filter_map(|row| Some((&row.agent, row.troubled_since?))) {
            let first = troubled.entry(agent.clone()).or_insert(since);
            *first = since.min(*first);
        }
        let words = page.rejections(&last_reviews(&rows)).await?.into_iter().collect();
        let items = items(agents, rows, &words, now, &self.settings.breaker);
        let with_time = |item: BreakerItem| {
            let since = troubled.remove(&item.agent);
            (item, since)
        };
        Ok(items.into_iter().map(with_time).collect())
    }

    /// True if reviews of this mode move breakers.
    fn counts(&self, mode: Mode) -> bool {
        self.settings.breaker.modes.contains(&mode)
    }

    /// Returns the shadows whose reviews open breakers now: those in force whose mode counts.
    fn judging_shadows(&self) -> Vec<String> {
        let rules = self.rules.load();
        let judging = rules.shadows.iter().map(|armed| &armed.shadow);
        let judging = judging.filter(|shadow| shadow.enabled && self.counts(shadow.mode));
        judging.map(|shadow| shadow.name.clone()).collect()
    }

    /// Returns the breaker of an agent; closed for an agent that was never judged.
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
            reset: None,
        };
        let mut known = self.store.breakers().agents(&filter, &[], seek).await?;
        let known = known.items.pop().map_or_else(unknown, |(_, agent)| agent);
        let mut items = self.dressed(vec![known]).await?;
        let missing = || StoreError::Inconsistent { table: "breaker_agent", problem: "an agent was lost".into() };
        items.pop().ok_or_else(missing)
    }

    /// Returns a page of the agents that were ever judged, each with its breaker.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn breakers(&self, filter: &BreakerFilter, seek: Seek) -> Result<Page<BreakerItem>, StoreError> {
        let page = self.store.breakers().agents(filter, &self.judging_shadows(), seek).await?;
        let (numbers, agents): (Vec<i64>, Vec<BreakerAgent>) = page.items.into_iter().unzip();
        let items = self.dressed(agents).await?;
        Ok(Page { items: numbers.into_iter().zip(items).collect(), more: page.more })
    }

    /// Acknowledges an agent's breaker that is open or half open. Returns the breaker, and true if it had been
    /// acknowledged before; `None` if it is closed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn acknowledge_breaker(
        &self,
        agent: &str,
        signed: &Signature,
    ) -> Result<Option<(BreakerItem, bool)>, StoreError> {
        let Some(opened) = self.breaker(agent).await?.opened(&self.settings.breaker) else { return Ok(None) };
        let first = self.store.breakers().acknowledge(agent, opened, signed).await?;
        Ok(Some((self.breaker(agent).await?, !first)))
    }

    /// Closes an agent's breaker and forgets its rejections, including those of events that are still under review.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn reset_breaker(&self, agent: &str, signed: Signature) -> Result<BreakerItem, StoreError> {
        let mut reset = self.store.breakers().begin_reset(agent).await?;
        let (now, last) = (reset.now, reset.last);
        // Judged under the row lock: of several concurrent resets, one is the change.
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
        let known = reset.sign(agent, signed).await?;
        let closed = items(known, reset.rows.clone(), &HashMap::new(), now, &self.settings.breaker).pop();
        let changed =
            closed.filter(|_| before != BreakerState::Closed).map(|breaker| BreakerChange { before, breaker });
        let notice = changed.clone().map(consequences::ReportedChange::Breaker);
        let message = notice.and_then(|notice| self.message_of(&notice, now));
        reset.done(agent, message.as_ref()).await?;
        if let Some(change) = changed {
            announce(&change);
            self.outbox.notify_one();
        }
        self.know_breakers().await;
        self.breaker(agent).await
    }

    /// Builds the breakers of agents from their present rows.
    pub(super) async fn dressed(&self, agents: Vec<BreakerAgent>) -> Result<Vec<BreakerItem>, StoreError> {
        let names: Vec<String> = agents.iter().map(|agent| agent.agent.clone()).collect();
        let (mut rows, now) = self.store.breakers().of(&names).await?;
        let in_force = self.judging_shadows();
        rows.retain(|row| in_force.contains(&row.shadow));
        let words = self.store.breakers().rejections(&last_reviews(&rows)).await?.into_iter().collect();
        Ok(items(agents, rows, &words, now, &self.settings.breaker))
    }
}

fn parsed(row: &BreakerRow) -> Result<History, StoreError> {
    serde_json::from_str(&row.history)
        .map_err(|error| StoreError::Inconsistent { table: "breaker", problem: error.to_string() })
}

fn written(
    agent: &str,
    shadow: &str,
    history: &History,
    now: Timestamp,
    limits: &Breaker,
) -> Result<BreakerRow, StoreError> {
    let standing = history.standing(now, limits);
    let (half_open_at, stuck) = (standing.half_open_at(limits), standing.stuck());
    let BreakerStatus { recommendation, since, troubled_since, rejections, rejected_by, .. } = standing;
    Ok(BreakerRow {
        agent: agent.to_owned(),
        shadow: shadow.to_owned(),
        history: to_json("breaker.history", history)?,
        recommendation,
        since,
        half_open_at,
        troubled_since,
        rejections,
        stuck,
        rejected_by,
    })
}
