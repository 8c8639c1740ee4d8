//! Money of a backtest: held before each call and settled after it, within the backtest's own budget, under the lock of
//! its row.

use super::BacktestClaim;
use crate::{
    StoreError,
    aggregates::BacktestStore,
    calls::{HoldOutcome, MAX_CALLS, to_i64},
    sql,
    transaction::begin,
};
use umbra_domain::NanoUsd;

impl BacktestStore<'_> {
    /// Holds a call's worst case for one of the backtest's events. Held plus spent never exceeds the budget.
    ///
    /// # Errors
    /// The database does not answer: do not call.
    pub async fn hold(
        self,
        claim: &BacktestClaim,
        seq: i64,
        model: &str,
        worst: (NanoUsd, u64),
    ) -> Result<HoldOutcome, StoreError> {
        type Row = (i64, i64, i64, i64, Option<i64>, Option<i64>);
        let (usd, tokens) = (worst.0.0, to_i64(worst.1));
        let mut tx = begin(&self.0.work).await?;
        let row: Option<Row> = sql::optional(
            &mut *tx,
            "/* backtests.lock */
             SELECT held_usd, spent_usd, held_tokens, spent_tokens, max_usd, max_tokens FROM backtest
             WHERE id = $1 AND worker = $2 AND state = 'running' FOR UPDATE",
            (claim.id.0, claim.worker),
        )
        .await?;
        let Some((held_usd, spent_usd, held_tokens, spent_tokens, max_usd, max_tokens)) = row else {
            return Ok(HoldOutcome::Fenced);
        };
        let made: i64 = sql::one(
            &mut *tx,
            "/* backtests.made */ SELECT count(*) FROM backtest_call WHERE backtest = $1 AND seq = $2",
            (claim.id.0, seq),
        )
        .await?;
        if made >= MAX_CALLS {
            return Ok(HoldOutcome::NoCallsLeft);
        }
        let fits = |spent: i64, more: i64, cap: Option<i64>| cap.is_none_or(|cap| spent.saturating_add(more) <= cap);
        if !fits(spent_tokens, tokens, max_tokens) {
            return Ok(HoldOutcome::TokenCap);
        }
        if !fits(spent_usd, usd, max_usd) {
            return Ok(HoldOutcome::UsdCap);
        }
        if !fits(spent_usd.saturating_add(held_usd), usd, max_usd)
            || !fits(spent_tokens.saturating_add(held_tokens), tokens, max_tokens)
        {
            return Ok(HoldOutcome::Wait);
        }
        let n = i16::try_from(made + 1).unwrap_or(i16::MAX);
        sql::execute(
            &mut *tx,
            "/* backtests.hold */
             WITH b AS (UPDATE backtest SET held_usd = held_usd + $4, held_tokens = held_tokens + $5 WHERE id = $1)
             INSERT INTO backtest_call (backtest, seq, n, model, hold_usd, hold_tokens)
             VALUES ($1, $2, $3, $6, $4, $5)",
            (claim.id.0, seq, n, usd, tokens, model),
        )
        .await?;
        tx.commit().await?;
        Ok(HoldOutcome::Granted(n))
    }

    /// Settles a call, once, at its cost, but not above its hold. `None` is an unknown outcome, charged at the hold.
    ///
    /// # Errors
    /// The database does not answer: the hold stays until the backtest is claimed anew.
    pub async fn settle(
        self,
        claim: &BacktestClaim,
        seq: i64,
        n: i16,
        actual: Option<(NanoUsd, u64)>,
    ) -> Result<(), StoreError> {
        sql::execute(
            &self.0.work,
            "/* backtests.settle */
             WITH c AS (
                 UPDATE backtest_call SET state = CASE WHEN $4::bigint IS NULL THEN 'unknown' ELSE 'settled' END,
                     actual_usd = least(greatest(coalesce($4, hold_usd), 0), hold_usd),
                     actual_tokens = least(greatest(coalesce($5, hold_tokens), 0), hold_tokens)
                 WHERE backtest = $1 AND seq = $2 AND n = $3 AND state = 'sent'
                 RETURNING hold_usd, hold_tokens, actual_usd, actual_tokens)
             UPDATE backtest SET held_usd = held_usd - c.hold_usd, spent_usd = spent_usd + c.actual_usd,
                 held_tokens = held_tokens - c.hold_tokens, spent_tokens = spent_tokens + c.actual_tokens
             FROM c WHERE id = $1",
            (claim.id.0, seq, n, actual.map(|(usd, _)| usd.0), actual.map(|(_, tokens)| to_i64(tokens))),
        )
        .await
    }
}
