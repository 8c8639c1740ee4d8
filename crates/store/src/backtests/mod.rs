//! Backtests: a version of a shadow tried on stored events. A backtest is run by one process at a time, under a claim
//! that the process renews. Backtests touch no meter, feed of reviews, finding or provider call of a review.

mod items;
mod listed;
mod money;
mod report;
mod stored;

use std::time::Duration;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;
use uuid::Uuid;

pub use self::{
    items::{Before, ItemResult, NewItem, WaitingItem},
    listed::{Item, ItemFilter},
    report::{AgentCount, Backtest, Budget, Difference, Outcomes, Spend},
    stored::{FeedRange, StoredRow},
};
use super::{StoreError, aggregates::BacktestStore, calls::to_i64, sql, transaction::begin, workers::interval};
use umbra_domain::{BacktestId, Forecast, NanoUsd, Shadow};

/// Backtests that may be unfinished at a time.
pub const MAX_OPEN: i64 = 20;

/// A backtest to be planned.
#[derive(Debug, Clone)]
pub struct NewBacktest<'a> {
    /// Backtest id.
    pub id: BacktestId,
    /// True if a server is to run it; false for the command line.
    pub by_server: bool,
    /// The version to be tried.
    pub shadow: &'a Shadow,
    /// Start of the time of receipt, inclusive.
    pub since: Timestamp,
    /// End of the time of receipt, exclusive.
    pub until: Timestamp,
    /// Only events of this agent.
    pub agent: Option<&'a str>,
    /// Most events, the newest.
    pub max_events: u32,
    /// Most money that the backtest may spend.
    pub max_usd: Option<NanoUsd>,
    /// Most tokens that the backtest may spend.
    pub max_tokens: Option<u64>,
}

/// A backtest that this process runs, exclusively while it renews the claim in time.
#[derive(Debug, Clone)]
pub struct BacktestClaim {
    /// The backtest.
    pub id: BacktestId,
    /// The token of the claim.
    pub worker: Uuid,
    /// The version that is tried.
    pub shadow: Shadow,
    /// True for a limit on money, and true for a limit on tokens.
    pub limits: (bool, bool),
}

impl BacktestStore<'_> {
    /// Stores a backtest that is about to be planned; returns false if too many are unfinished.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file(self, new: &NewBacktest<'_>) -> Result<bool, StoreError> {
        let config = serde_json::to_string(new.shadow).map_err(|error| broken(&error))?;
        sql::changed(
            &self.0.work,
            "/* backtests.file */
             WITH f AS (UPDATE feed SET last = last + 1 WHERE name = 'backtest'
                        AND (SELECT count(*) FROM backtest WHERE state <> 'done') < $12 RETURNING last)
             INSERT INTO backtest (id, seq, state, by_server, shadow, version, config, since, until, agent, max_events,
                                   max_usd, max_tokens, created_at)
             SELECT $1, f.last, 'planning', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock() FROM f",
            (
                new.id.0,
                new.by_server,
                &new.shadow.name,
                new.shadow.version(),
                config,
                new.since.to_sqlx(),
                new.until.to_sqlx(),
                new.agent,
                i32::try_from(new.max_events).unwrap_or(i32::MAX),
                new.max_usd.map(|usd| usd.0),
                new.max_tokens.map(to_i64),
                MAX_OPEN,
            ),
        )
        .await
    }

    /// Stores the forecast, which completes the plan; returns false if the backtest is no longer being planned.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file_forecast(self, id: BacktestId, forecast: &Forecast) -> Result<bool, StoreError> {
        let text = serde_json::to_string(forecast).map_err(|error| broken(&error))?;
        sql::changed(
            &self.0.work,
            "/* backtests.forecast */
             UPDATE backtest SET state = 'planned', forecast = $2 WHERE id = $1 AND state = 'planning'",
            (id.0, text),
        )
        .await
    }

    /// Starts a planned or stopped backtest, with a larger budget if one is given; returns true if it runs now or ran
    /// already.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn start(
        self,
        id: BacktestId,
        max_usd: Option<NanoUsd>,
        max_tokens: Option<u64>,
    ) -> Result<bool, StoreError> {
        sql::changed(
            &self.0.work,
            "/* backtests.start */
             UPDATE backtest SET state = 'running', started_at = coalesce(started_at, clock()), failure = NULL,
                 max_usd = CASE WHEN max_usd IS NOT NULL OR max_tokens IS NULL THEN greatest(max_usd, $2) END,
                 max_tokens = CASE WHEN max_tokens IS NOT NULL OR max_usd IS NULL THEN greatest(max_tokens, $3) END
             WHERE id = $1 AND state IN ('planned', 'running', 'stopped')",
            (id.0, max_usd.map(|usd| usd.0), max_tokens.map(to_i64)),
        )
        .await
    }

    /// Starts the backtest on any free server, and hands it over to the servers for good.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn resume_on_server(
        self,
        id: BacktestId,
        max_usd: Option<NanoUsd>,
        max_tokens: Option<u64>,
    ) -> Result<bool, StoreError> {
        let hand_over = "/* backtests.hand_over */ UPDATE backtest SET by_server = true WHERE id = $1";
        sql::execute(&self.0.work, hand_over, (id.0,)).await?;
        self.start(id, max_usd, max_tokens).await
    }

    /// Claims a running backtest that no live process runs: the one with this id, or, without an id, the oldest that is
    /// for servers. Open calls of the previous claim may have been made, so they are charged at their holds.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn claim(
        self,
        id: Option<BacktestId>,
        worker: Uuid,
        dead_after: Duration,
    ) -> Result<Option<BacktestClaim>, StoreError> {
        let mut tx = begin(&self.0.work).await?;
        let claimed: Option<(BacktestId, String, bool, bool)> = sql::optional(
            &mut *tx,
            "/* backtests.claim */
             UPDATE backtest SET worker = $2, heartbeat_at = clock() WHERE id = (
                 SELECT id FROM backtest WHERE state = 'running'
                 AND CASE WHEN $1 IS NULL THEN by_server ELSE id = $1 END
                     AND (worker IS NULL OR heartbeat_at < clock() - $3)
                 ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING id, config, max_usd IS NOT NULL, max_tokens IS NOT NULL",
            (id.map(|id| id.0), worker, interval(dead_after)),
        )
        .await?;
        let Some((id, config, usd, tokens)) = claimed else { return Ok(None) };
        sql::execute(
            &mut *tx,
            "/* backtests.orphans */
             WITH c AS (
                 UPDATE backtest_call SET state = 'unknown', actual_usd = hold_usd, actual_tokens = hold_tokens
                 WHERE backtest = $1 AND state = 'sent' RETURNING hold_usd, hold_tokens)
             UPDATE backtest SET held_usd = held_usd - s.usd, spent_usd = spent_usd + s.usd,
                 held_tokens = held_tokens - s.tokens, spent_tokens = spent_tokens + s.tokens
             FROM (SELECT coalesce(sum(hold_usd), 0)::bigint AS usd, coalesce(sum(hold_tokens), 0)::bigint AS tokens
                   FROM c) s WHERE id = $1",
            (id.0,),
        )
        .await?;
        tx.commit().await?;
        let shadow = serde_json::from_str(&config).map_err(|error| broken(&error))?;
        Ok(Some(BacktestClaim { id, worker, shadow, limits: (usd, tokens) }))
    }

    /// Renews the claim; returns false if it is lost.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn renew(self, claim: &BacktestClaim) -> Result<bool, StoreError> {
        sql::changed(
            &self.0.control,
            "/* backtests.renew */
             UPDATE backtest SET heartbeat_at = clock() WHERE id = $1 AND worker = $2 AND state = 'running'",
            (claim.id.0, claim.worker),
        )
        .await
    }

    /// Ends a claim. The backtest is done if no event waits, stopped if there is a failure, and otherwise free for
    /// another process.
    ///
    /// # Errors
    /// The database does not answer: the claim expires.
    pub async fn leave(self, claim: &BacktestClaim, failure: Option<&str>) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* backtests.leave */
             UPDATE backtest b SET worker = NULL, failure = $3,
                 state = CASE WHEN NOT w.waits THEN 'done' WHEN $3::text IS NOT NULL THEN 'stopped' ELSE 'running' END,
                 finished_at = CASE WHEN NOT w.waits THEN clock() END
             FROM (SELECT EXISTS (SELECT FROM backtest_item WHERE backtest = $1 AND outcome = 'waiting') AS waits) w
             WHERE b.id = $1 AND b.worker = $2 AND b.state = 'running'",
            (claim.id.0, claim.worker, failure),
        )
        .await
    }

    /// Deletes a backtest; a process that runs it stops. Returns true if it existed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete(self, id: BacktestId) -> Result<bool, StoreError> {
        sql::changed(&self.0.control, "/* backtests.delete */ DELETE FROM backtest WHERE id = $1", (id.0,)).await
    }

    /// Deletes plans that were not confirmed within a day; returns how many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn forget_plans(self) -> Result<u64, StoreError> {
        sql::count(
            &self.0.control,
            "/* backtests.forget */ DELETE FROM backtest
             WHERE state IN ('planning', 'planned') AND created_at < clock() - interval '1 day'",
            (),
        )
        .await
    }
}

fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::Inconsistent { table: "backtest", problem: error.to_string() }
}
