//! Holds and settlements of model calls. A hold is a `provider_call` row, committed before bytes leave and settled
//! after the answer.

use jiff::civil::Date;
use jiff_sqlx::ToSqlx;

use super::{StoreError, aggregates::ReviewStore, jobs::Lease, sql, transaction::begin};
use umbra_domain::{NanoUsd, ReviewId};

/// Most calls that one review may make, over all its attempts.
pub const MAX_CALLS: i64 = 3;

/// A request to hold the worst-case cost of a call under the caps of the day.
#[derive(Debug, Clone, Copy)]
pub struct HoldRequest<'a> {
    /// The review that makes the call.
    pub review: ReviewId,
    /// The lease token.
    pub lease: Lease,
    /// Shadow whose meter is charged.
    pub shadow: &'a str,
    /// Time zone of the shadow's calendar day.
    pub zone: &'a str,
    /// The model's alias.
    pub model: &'a str,
    /// Worst-case cost in money and tokens.
    pub worst: (NanoUsd, u64),
    /// Caps of the day in money and tokens.
    pub caps: (Option<NanoUsd>, Option<u64>),
}

/// Outcome of a request for a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldOutcome {
    /// The call may be made; the number is its rank among the review's calls, from 1.
    Granted(i16),
    /// Other calls hold the rest of the budget: ask again when they are settled.
    Wait,
    /// The money of the day is spent.
    UsdCap,
    /// The tokens of the day are spent.
    TokenCap,
    /// The review has made its three calls.
    NoCallsLeft,
    /// The lease is lost: do nothing more.
    Fenced,
}

impl ReviewStore<'_> {
    /// Holds a call's worst-case cost on the local day of the call. Held plus spent never exceeds a cap.
    ///
    /// # Errors
    /// The database does not answer: do not call.
    pub async fn hold(self, hold: &HoldRequest<'_>) -> Result<HoldOutcome, StoreError> {
        let (usd, tokens) = (hold.worst.0.0, to_i64(hold.worst.1));
        let usd_cap = hold.caps.0.map_or(i64::MAX, |cap| cap.0);
        let token_cap = hold.caps.1.map_or(i64::MAX, to_i64);
        let mut tx = begin(&self.0.work).await?;
        // Meters are locked before reviews, as everywhere. With the review locked, a sweep that takes it over cannot
        // miss this call.
        let (held_usd, spent_usd, held_tokens, spent_tokens, day): (i64, i64, i64, i64, Date) = sql::one(
            &mut *tx,
            "/* calls.meter */
                 INSERT INTO meter (shadow, agent, trigger, day) SELECT $1, '', '', (clock() AT TIME ZONE $2)::date
                 ON CONFLICT (shadow, agent, trigger, day) DO UPDATE SET used = meter.used
                 RETURNING held_usd, spent_usd, held_tokens, spent_tokens, day",
            (hold.shadow, hold.zone),
        )
        .await?;
        let leased: Option<bool> = sql::optional(
            &mut *tx,
            "/* calls.lease */ SELECT true FROM review
             WHERE id = $1 AND worker = $2 AND attempt = $3 AND state = 'running' FOR UPDATE",
            (hold.review.0, hold.lease.worker.0, hold.lease.attempt),
        )
        .await?;
        if leased.is_none() {
            return Ok(HoldOutcome::Fenced);
        }
        let made: i64 = sql::one(
            &mut *tx,
            "/* calls.made */ SELECT count(*) FROM provider_call WHERE review_id = $1",
            (hold.review.0,),
        )
        .await?;
        if made >= MAX_CALLS {
            return Ok(HoldOutcome::NoCallsLeft);
        }
        let n = i16::try_from(made + 1).unwrap_or(i16::MAX);
        let fits = |spent: i64, more: i64, cap: i64| spent.saturating_add(more) <= cap;
        if !fits(spent_tokens, tokens, token_cap) {
            return Ok(HoldOutcome::TokenCap);
        }
        if !fits(spent_usd, usd, usd_cap) {
            return Ok(HoldOutcome::UsdCap);
        }
        if !fits(spent_usd.saturating_add(held_usd), usd, usd_cap)
            || !fits(spent_tokens.saturating_add(held_tokens), tokens, token_cap)
        {
            return Ok(HoldOutcome::Wait);
        }
        sql::execute(
            &mut *tx,
            "/* calls.hold */
             WITH m AS (
                 UPDATE meter SET held_usd = held_usd + $4, held_tokens = held_tokens + $5
                 WHERE shadow = $1 AND agent = '' AND trigger = '' AND day = $2
                 RETURNING day)
             INSERT INTO provider_call (review_id, n, shadow, day, model, hold_usd, hold_tokens)
             SELECT $3, $6, $1, day, $7, $4, $5 FROM m",
            (hold.shadow, day.to_sqlx(), hold.review.0, usd, tokens, n, hold.model),
        )
        .await?;
        tx.commit().await?;
        Ok(HoldOutcome::Granted(n))
    }

    /// Settles a call at its cost, but not above its hold: a provider's own count must not break a cap. `None` is an
    /// unknown outcome, charged at the hold. Only the first settlement of a call counts; a later one, such as by a
    /// process that was declared dead, changes nothing. Returns true if this one counted.
    ///
    /// # Errors
    /// The database does not answer: the hold stays until it is settled or the worker declared dead.
    pub async fn settle(self, review: ReviewId, n: i16, actual: Option<(NanoUsd, u64)>) -> Result<bool, StoreError> {
        sql::changed(
            &self.0.work,
            "/* calls.settle */
             WITH c AS (
                 UPDATE provider_call SET state = CASE WHEN $3::bigint IS NULL THEN 'unknown' ELSE 'settled' END,
                     actual_usd = greatest(least($3, hold_usd), 0),   -- `least` passes over a null
                     actual_tokens = greatest(least($4, hold_tokens), 0)
                 WHERE review_id = $1 AND n = $2 AND state = 'sent'
                 RETURNING shadow, day, hold_usd, hold_tokens, actual_usd, actual_tokens)
             UPDATE meter m SET held_usd = m.held_usd - c.hold_usd, spent_usd = m.spent_usd + c.actual_usd,
                 held_tokens = m.held_tokens - c.hold_tokens, spent_tokens = m.spent_tokens + c.actual_tokens
             FROM c WHERE (m.shadow, m.agent, m.trigger, m.day) = (c.shadow, '', '', c.day)",
            (review.0, n, actual.map(|(usd, _)| usd.0), actual.map(|(_, tokens)| to_i64(tokens))),
        )
        .await
    }
}

pub(super) fn to_i64(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX)
}
