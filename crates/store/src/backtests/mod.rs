//! Backtests: a version of a shadow tried on stored events. One process runs one at a time, by a claim that it renews.
//! They touch no meter, feed of reviews, finding or call of a review.

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
    items::{Before, NewItem, Reviewed, Waiting},
    listed::{Item, ItemFilter},
    report::{AgentCount, Backtest, Budget, Difference, Outcomes, Spend},
    stored::{StoredRow, Stretch},
};
use super::{StoreError, aggregates::BacktestStore, calls::to_i64, transaction::begin, workers::interval};
use umbra_domain::{BacktestId, Forecast, NanoUsd, Shadow};

/// Backtests that may be unfinished at a time.
pub const MAX_OPEN: i64 = 20;

/// A backtest to be planned.
#[derive(Debug, Clone)]
pub struct NewBacktest<'a> {
    /// Its id.
    pub id: BacktestId,
    /// Whether a server is to run it.
    pub by_server: bool,
    /// The version to be tried.
    pub shadow: &'a Shadow,
    /// Events received from this time,
    pub since: Timestamp,
    /// and before this one.
    pub until: Timestamp,
    /// Of this agent.
    pub agent: Option<&'a str>,
    /// So many at most, the newest.
    pub max_events: u32,
    /// Most money that it may spend.
    pub max_usd: Option<NanoUsd>,
    /// Most tokens that it may spend.
    pub max_tokens: Option<u64>,
}

/// A backtest that this process runs, alone as long as it says so often enough.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The backtest.
    pub id: BacktestId,
    /// The token of the claim.
    pub worker: Uuid,
    /// The version that is tried.
    pub shadow: Shadow,
    /// Whether it may spend money, or tokens, within a limit.
    pub limits: (bool, bool),
}

impl BacktestStore<'_> {
    /// Files a backtest that is about to be planned; `false` where too many are unfinished.
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

    /// Files the forecast: the plan is complete. Answers whether the backtest still stands.
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

    /// Lets a planned or stopped backtest run, with a larger budget where one is given. Answers whether it runs now, or
    /// did already.
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

    /// The same, on whatever server is free: it is the servers' from now on.
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

    /// Claims a running backtest that nobody runs: this one, or, for a server, the oldest that was posted to one. Calls
    /// that the last one left open may have been made: they are charged at their hold.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn claim(
        self,
        id: Option<BacktestId>,
        worker: Uuid,
        dead_after: Duration,
    ) -> Result<Option<Claim>, StoreError> {
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
        Ok(Some(Claim { id: BacktestId(id), worker, shadow, limits: (usd, tokens) }))
    }

    /// Says that the claim is still in use; `false` where it is lost.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn renew(self, claim: &Claim) -> Result<bool, StoreError> {
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

    /// Ends a claim. Done where nothing waits; stopped where there is a failure; else another may go on at once.
    ///
    /// # Errors
    /// The database does not answer: the claim ends by itself.
    pub async fn leave(self, claim: &Claim, failure: Option<&str>) -> Result<(), StoreError> {
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

    /// Forgets a backtest; whoever runs it stops. Answers whether there was one.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete(self, id: BacktestId) -> Result<bool, StoreError> {
        let done = sqlx::query("/* backtests.delete */ DELETE FROM backtest WHERE id = $1");
        Ok(done.bind(id.0).execute(&self.0.control).await?.rows_affected() > 0)
    }

    /// Forgets backtests that nobody confirmed within a day; answers how many.
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
