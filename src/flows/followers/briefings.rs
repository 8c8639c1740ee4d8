//! Briefings and reports, composed of stored data: on demand for any time, and filed when a day or a week is over.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, civil::Date, tz::TimeZone};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    briefing::{Briefing, BriefingFacts, Period, compose, latest_day, latest_week},
    flows::{followers::Followers, rounds::pause, serialise::to_json},
};
use umbra_domain::notice::{Notice, NoticeKind};
use umbra_store::StoreError;

/// Most findings that are told in words.
const GRAVEST: i64 = 5;
/// Most agents that are listed.
const AGENTS: i64 = 50;
/// Most agents that are read of the periods before; more, since other agents may have led then.
const AGENTS_BEFORE: i64 = 1_000;
/// Most recurring faults that are listed.
const FAULTS: i64 = 20;
/// Pause between looks for the end of a day.
const BETWEEN_LOOKS: Duration = Duration::from_secs(5);

impl Followers {
    /// Returns the filed briefing or report of a period, else one of the present data; `None` for a period to come.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn briefing(&self, period: Period) -> Result<Option<Briefing>, StoreError> {
        let filed = self.store.briefings().filed(period.kind.as_str(), period.first).await?;
        // An erased briefing has an empty body: only the fact that it was filed is left.
        if let Some(body) = filed.filter(|body| !body.is_empty()) {
            let broken = |error| StoreError::Inconsistent { table: "briefing", problem: format!("{period}: {error}") };
            return serde_json::from_str(&body).map(Some).map_err(broken);
        }
        let now = self.store.now().await?;
        let today = self.zones().iter().map(|zone| now.to_zoned(zone.clone()).date()).max();
        if today.unwrap_or_else(|| now.to_zoned(TimeZone::UTC).date()) < period.first {
            return Ok(None);
        }
        self.compose(period, now).await.map(Some)
    }

    /// Returns the latest day that is over everywhere; on the first day of the installation that day, as far as it has
    /// come.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn latest_day(&self) -> Result<Period, StoreError> {
        let now = self.store.now().await?;
        let day = latest_day(now, &self.zones(), SignedDuration::ZERO);
        Ok(if day.last() < self.first_day(now).await? { day.next() } else { day })
    }

    /// Returns the latest week that is over everywhere; in the first week of the installation that week, as far as it
    /// has come.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn latest_week(&self) -> Result<Period, StoreError> {
        let now = self.store.now().await?;
        let week = latest_week(latest_day(now, &self.zones(), SignedDuration::ZERO));
        Ok(if week.last() < self.first_day(now).await? { week.next() } else { week })
    }

    /// Returns the first local day of this installation, in the westernmost time zone of its shadows.
    async fn first_day(&self, now: Timestamp) -> Result<Date, StoreError> {
        let began = self.store.briefings().installed_at().await?.unwrap_or(now);
        Ok(latest_day(began, &self.zones(), SignedDuration::ZERO).next().first)
    }

    /// Files the briefing of each day and the report of each week, `delay` after its end, until `stop`. If several
    /// processes run this, one of them files.
    pub async fn brief_until(self, stop: CancellationToken, delay: Duration) {
        let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::ZERO);
        let mut done: Vec<Period> = Vec::new();
        loop {
            match self.file_due(delay, &done).await {
                Ok(filed) => done = filed,
                Err(error) => tracing::warn!(%error, "a briefing could not be stored; trying again"),
            }
            if !pause(&stop, BETWEEN_LOOKS).await {
                return;
            }
        }
    }

    /// Files the periods that are due and not among the `done`; returns those that need no further look.
    async fn file_due(&self, delay: SignedDuration, done: &[Period]) -> Result<Vec<Period>, StoreError> {
        let now = self.store.now().await?;
        let day = latest_day(now, &self.zones(), delay);
        let due = [day, latest_week(day)];
        // A period that ended before the installation began is not filed.
        let first_day = self.first_day(now).await?;
        for period in due.iter().filter(|period| !done.contains(period) && period.last() >= first_day) {
            if self.store.briefings().filed(period.kind.as_str(), period.first).await?.is_none() {
                self.file(*period, now).await?;
            }
        }
        Ok(due.to_vec())
    }

    async fn file(&self, period: Period, now: Timestamp) -> Result<(), StoreError> {
        let briefing = self.compose(period, now).await?;
        let family = if period == Period::day(period.first) { "briefings" } else { "reports" };
        // Totals leave passive shadows out.
        let data = json!({
            "kind": briefing.kind, "period": briefing.period, "first": briefing.first, "last": briefing.last,
            "path": format!("/v1/{family}/{period}"), "totals": briefing.totals,
            "recurring_faults": briefing.recurring.len(),
        });
        let notice = Notice::new(NoticeKind::BriefingReady, now, None, data);
        let message = self.webhooks.load().address(&notice, self.clock.new_id());
        let body = to_json("briefing.body", &briefing)?;
        if self.store.briefings().file(period.kind.as_str(), period.first, &body, message.as_ref()).await? {
            tracing::info!(%period, "a briefing is stored");
            self.outbox.notify_one();
        }
        Ok(())
    }

    async fn compose(&self, period: Period, now: Timestamp) -> Result<Briefing, StoreError> {
        let (first, last) = (period.first, period.last());
        let earliest = period.before(period.kind.periods_before());
        let day_before = Period { first, ..Period::day(first) }.before(1);
        let in_force =
            self.rules.load().shadows.iter().map(|armed| (armed.shadow.name.clone(), armed.shadow.mode)).collect();
        let (agents, all_agents) = self.store.briefings().agent_counts(first, last, AGENTS).await?;
        let (agents_before, _) = self.store.briefings().agent_counts(earliest, day_before, AGENTS_BEFORE).await?;
        Ok(compose(&BriefingFacts {
            period,
            complete: latest_day(now, &self.zones(), SignedDuration::ZERO).first >= last,
            made_at: now,
            first_day: self.first_day(now).await?,
            gravest: self.store.briefings().gravest(first, last, GRAVEST).await?,
            in_force,
            shadows: self.store.briefings().shadow_counts(earliest, last).await?,
            skips: self.store.briefings().skip_counts(first, last).await?,
            agents,
            all_agents,
            agents_before,
            recurring: self.store.briefings().recurring(first, last, FAULTS).await?,
            breakers: self.store.briefings().troubled_agents(AGENTS).await?,
            feedback: self.store.briefings().feedback_counts(first, last).await?,
        }))
    }

    /// Returns the time zones of the shadows in force.
    fn zones(&self) -> Vec<TimeZone> {
        let rules = self.rules.load();
        let mut names: Vec<&str> =
            rules.shadows.iter().map(|armed| armed.shadow.cost_control.time_zone.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        // The zones were checked when the shadows were read.
        names.into_iter().filter_map(|name| TimeZone::get(name).ok()).collect()
    }
}
