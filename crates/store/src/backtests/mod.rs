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
use super::{StoreError, aggregates::BacktestStore, calls::to_i64, transaction::begin, workers::interval};
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
        let done = sqlx::query(
            "/* backtests.file */
             WITH f AS (UPDATE feed SET last = last + 1 WHERE name = 'backtest'
                        AND (SELECT count(*) FROM backtest WHERE state <> 'done') < $12 RETURNING last)
             INSERT INTO backtest (id, seq, state, by_server, shadow, version, config, since, until, agent, max_events,
                                   max_usd, max_tokens, created_at)
             SELECT $1, f.last, 'planning', $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock() FROM f",
        )
        .bind(new.id.0)
        .bind(new.by_server)
        .bind(&new.shadow.name)
        .bind(new.shadow.version())
        .bind(config)
        .bind(new.since.to_sqlx())
        .bind(new.until.to_sqlx())
        .bind(new.agent)
        .bind(i32::try_from(new.max_events).unwrap_or(i32::MAX))
        .bind(new.max_usd.map(|usd| usd.0))
        .bind(new.max_tokens.map(to_i64))
        .bind(MAX_OPEN)
        .execute(&self.0.work)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Stores the forecast, which completes the plan; returns false if the backtest is no longer being planned.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn file_forecast(self, id: BacktestId, forecast: &Forecast) -> Result<bool, StoreError> {
        let text = serde_json::to_string(forecast).map_err(|error| broken(&error))?;
        let done = sqlx::query(
            "/* backtests.forecast */
             UPDATE backtest SET state = 'planned', forecast = $2 WHERE id = $1 AND state = 'planning'",
        )
        .bind(id.0)
        .bind(text)
        .execute(&self.0.work)
        .await?;
        Ok(done.rows_affected() > 0)
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
        let done = sqlx::query(
            "/* backtests.start */
             UPDATE backtest SET state = 'running', started_at = coalesce(started_at, clock()), failure = NULL,
                 max_usd = CASE WHEN max_usd IS NOT NULL OR max_tokens IS NULL THEN greatest(max_usd, $2) END,
                 max_tokens = CASE WHEN max_tokens IS NOT NULL OR max_usd IS NULL THEN greatest(max_tokens, $3) END
             WHERE id = $1 AND state IN ('planned', 'running', 'stopped')",
        )
        .bind(id.0)
        .bind(max_usd.map(|usd| usd.0))
        .bind(max_tokens.map(to_i64))
        .execute(&self.0.work)
        .await?;
        Ok(done.rows_affected() > 0)
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
        sqlx::query(hand_over).bind(id.0).execute(&self.0.work).await?;
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
        let claimed: Option<(Uuid, String, bool, bool)> = sqlx::query_as(
            "/* backtests.claim */
             UPDATE backtest SET worker = $2, heartbeat_at = clock() WHERE id = (
                 SELECT id FROM backtest WHERE state = 'running' AND CASE WHEN $1 IS NULL THEN by_server ELSE id = $1 END
                     AND (worker IS NULL OR heartbeat_at < clock() - $3)
                 ORDER BY seq LIMIT 1 FOR UPDATE SKIP LOCKED)
             RETURNING id, config, max_usd IS NOT NULL, max_tokens IS NOT NULL",
        )
        .bind(id.map(|id| id.0))
        .bind(worker)
        .bind(interval(dead_after))
        .fetch_optional(&mut *tx)
        .await?;
        let Some((id, config, usd, tokens)) = claimed else { return Ok(None) };
        sqlx::query(
            "/* backtests.orphans */
             WITH c AS (
                 UPDATE backtest_call SET state = 'unknown', actual_usd = hold_usd, actual_tokens = hold_tokens
                 WHERE backtest = $1 AND state = 'sent' RETURNING hold_usd, hold_tokens)
             UPDATE backtest SET held_usd = held_usd - s.usd, spent_usd = spent_usd + s.usd,
                 held_tokens = held_tokens - s.tokens, spent_tokens = spent_tokens + s.tokens
             FROM (SELECT coalesce(sum(hold_usd), 0)::bigint AS usd, coalesce(sum(hold_tokens), 0)::bigint AS tokens
                   FROM c) s WHERE id = $1",
        )
        .bind(id)
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        let shadow = serde_json::from_str(&config).map_err(|error| broken(&error))?;
        Ok(Some(BacktestClaim { id: BacktestId(id), worker, shadow, limits: (usd, tokens) }))
    }

    /// Renews the claim; returns false if it is lost.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn renew(self, claim: &BacktestClaim) -> Result<bool, StoreError> {
        let done = sqlx::query(
            "/* backtests.renew */
             UPDATE backtest SET heartbeat_at = clock() WHERE id = $1 AND worker = $2 AND state = 'running'",
        )
        .bind(claim.id.0)
        .bind(claim.worker)
        .execute(&self.0.control)
        .await?;
        Ok(done.rows_affected() > 0)
    }

    /// Ends a claim. The backtest is done if no event waits, stopped if there is a failure, and otherwise free for
    /// another process.
    ///
    /// # Errors
    /// The database does not answer: the claim expires.
    pub async fn leave(self, claim: &BacktestClaim, failure: Option<&str>) -> Result<(), StoreError> {
        sqlx::query(
            "/* backtests.leave */
             UPDATE backtest b SET worker = NULL, failure = $3,
                 state = CASE WHEN NOT w.waits THEN 'done' WHEN $3::text IS NOT NULL THEN 'stopped' ELSE 'running' END,
                 finished_at = CASE WHEN NOT w.waits THEN clock() END
             FROM (SELECT EXISTS (SELECT FROM backtest_item WHERE backtest = $1 AND outcome = 'waiting') AS waits) w
             WHERE b.id = $1 AND b.worker = $2 AND b.state = 'running'",
        )
        .bind(claim.id.0)
        .bind(claim.worker)
        .bind(failure)
        .execute(&self.0.work)
        .await?;
        Ok(())
    }

    /// Deletes a backtest; a process that runs it stops. Returns true if it existed.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete(self, id: BacktestId) -> Result<bool, StoreError> {
        let done = sqlx::query("/* backtests.delete */ DELETE FROM backtest WHERE id = $1");
        Ok(done.bind(id.0).execute(&self.0.control).await?.rows_affected() > 0)
    }

    /// Deletes plans that were not confirmed within a day; returns how many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn forget_plans(self) -> Result<u64, StoreError> {
        let done = sqlx::query(
            "/* backtests.forget */ DELETE FROM backtest
             WHERE state IN ('planning', 'planned') AND created_at < clock() - interval '1 day'",
        );
        Ok(done.execute(&self.0.control).await?.rows_affected())
    }
}

fn broken(error: &serde_json::Error) -> StoreError {
    StoreError::Inconsistent { table: "backtest", problem: error.to_string() }
}
