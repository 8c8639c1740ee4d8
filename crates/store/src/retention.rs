//! Deletes old data: partitions of events as a whole; reviews with their rows, and counters, in batches.
//!
//! In: ages in days. Out: counts of deleted rows. Before the first row of a kind is deleted, table `retention` records
//! the day since which that kind is complete; the invariants check nothing older. One process at a time sweeps, under
//! an advisory lock of a connection of its own. Interrupted work is found again: a detached table by its name, a
//! pending detachment in the catalogue, rows by their age. Records of telemetry, and the calls that they tell of, go by
//! `otel.rs`, within days.

use std::time::Duration;

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use jiff_sqlx::ToSqlx;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::{StoreError, aggregates::UpkeepStore, pool::Connection, sql};
use umbra_domain::clock::first_id_at;

/// Most rows of a table that one transaction deletes.
const BATCH: i64 = 1_000;
/// Attempts at a partition whose locks are not available within a second, such as during a backup.
const TRIES: u32 = 3;
const BETWEEN_TRIES: Duration = Duration::from_millis(250);
/// Extra days for which reviews are kept. A review's events may be younger than the review, by the wait of its batch.
/// Its day and its calls' days may be later than the day of its id, by time zone and longest wait.
const SLACK_DAYS: i32 = 2;

/// Tables whose rows belong to a review by `review_id` and are deleted with it. A test compares them with the schema.
const OF_REVIEWS: [&str; 6] =
    ["review_event", "provider_call", "review_result", "review_assessment", "agent_score", "finding"];
/// Tables whose rows belong to an event by `event_id` and are deleted with the last of its reviews.
const OF_EVENTS: [&str; 1] = ["verdict"];

umbra_domain::words! {
    /// Kind of data with an age limit.
    pub enum RetentionKind {
        /// Events.
        Event = "event",
        /// Reviews and their rows.
        Review = "review",
        /// Daily counters.
        Count = "count",
    }
}

/// The exclusive right to delete old data; dropping it releases the lock.
pub struct RetentionLock {
    connection: Connection,
}

impl UpkeepStore<'_> {
    /// Takes the right to delete old data; returns `None` while another process has it.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn sweep(self) -> Result<Option<RetentionLock>, StoreError> {
        let mut connection = self.0.control.acquire().await?;
        // Closing the connection ends its time limits and its lock.
        connection.close_on_drop();
        for limit in ["SET lock_timeout = '1s'", "SET statement_timeout = '1min'"] {
            sql::execute(&mut connection, limit, ()).await?;
        }
        let ours: bool = sql::one(
            &mut connection,
            "SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '.retention', 0))",
            (),
        )
        .await?;
        Ok(ours.then_some(RetentionLock { connection }))
    }

    /// Returns the day since which all data of a kind is kept, and the first id that is kept; older rows may be gone.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn kept_since(self, kind: RetentionKind) -> Result<(Date, Uuid), StoreError> {
        sql::one(
            &self.0.read,
            "/* retention.since */ SELECT before, first_id FROM retention WHERE kind = $1",
            (kind.as_str(),),
        )
        .await
    }
}

impl RetentionLock {
    /// Drops the partitions of events received more than `days` ago; returns how many.
    ///
    /// # Errors
    /// The database does not answer, or the locks were not available: try again later.
    pub async fn drop_partitions(&mut self, days: u32) -> Result<u64, StoreError> {
        let before = self.day_before(days).await?;
        self.note(RetentionKind::Event, before, first_id_of(before)).await?;
        let (mut dropped, mut tries) = (0, 0);
        while let Some(partition) = self.oldest_partition(before).await? {
            match partition.take_off(&mut self.connection).await {
                Ok(()) => {
                    (dropped, tries) = (dropped + 1, 0);
                }
                Err(error) if tries + 1 < TRIES && error.is_transient() => {
                    tries += 1;
                    tokio::time::sleep(BETWEEN_TRIES).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(dropped)
    }

    /// Deletes a batch of reviews older than `days` with their rows, and of findings of looks; returns the number of
    /// deleted rows, 0 once none is left. Open reviews stay.
    ///
    /// # Errors
    /// The database does not answer, or the locks were not available: try again later.
    pub async fn delete_reviews(&mut self, days: u32) -> Result<u64, StoreError> {
        let before = self.day_before(days).await?;
        let first_id = first_id_of(before.checked_sub(SLACK_DAYS.days()).unwrap_or(Date::MIN));
        self.note(RetentionKind::Review, before, first_id).await?;
        sql::execute(&mut self.connection, "BEGIN", ()).await?;
        let ids: Vec<Uuid> = sql::all(
            &mut self.connection,
            "/* retention.reviews */ SELECT id FROM review
             WHERE id < $1 AND state NOT IN ('queued', 'running') ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED",
            (first_id, BATCH),
        )
        .await?;
        let events: Vec<Uuid> = sql::all(
            &mut self.connection,
            "/* retention.events */ SELECT event_id FROM review_event WHERE review_id = ANY($1)",
            (&ids,),
        )
        .await?;
        let mut deleted = delete_looks(&mut self.connection, first_id).await?;
        let by_review = OF_REVIEWS.map(|table| (table, "review_id"));
        for (table, column) in by_review.into_iter().chain([("review", "id")]) {
            let sql = format!("/* retention.{table} */ DELETE FROM {table} WHERE {column} = ANY($1)");
            deleted += sql::count(&mut self.connection, AssertSqlSafe(sql), (&ids,)).await?;
        }
        for table in OF_EVENTS {
            let sql = format!(
                "/* retention.{table} */ DELETE FROM {table} t WHERE t.event_id = ANY($1)
                 AND NOT EXISTS (SELECT FROM review_event e WHERE e.event_id = t.event_id)"
            );
            deleted += sql::count(&mut self.connection, AssertSqlSafe(sql), (&events,)).await?;
        }
        // A backtest is deleted with its items; one at a time, since it may have many.
        deleted += sql::count(
            &mut self.connection,
            "/* retention.backtests */ DELETE FROM backtest WHERE id IN (SELECT id FROM backtest
             WHERE id < $1 AND state IN ('done', 'stopped') LIMIT 1 FOR UPDATE SKIP LOCKED)",
            (first_id,),
        )
        .await?;
        sql::execute(&mut self.connection, "COMMIT", ()).await?;
        Ok(deleted)
    }

    /// Deletes a batch of the counters of days more than `days` ago; returns how many, 0 once none is left.
    ///
    /// # Errors
    /// The database does not answer, or the locks were not available: try again later.
    pub async fn delete_counts(&mut self, days: u32) -> Result<u64, StoreError> {
        let before = self.day_before(days).await?;
        self.note(RetentionKind::Count, before, first_id_of(before)).await?;
        let mut deleted = 0;
        for sql in [
            "/* retention.meters */ DELETE FROM meter WHERE ctid = ANY(ARRAY(SELECT ctid FROM meter
             WHERE trigger = '' AND day > 'epoch' AND day < $1 AND held_usd = 0 AND held_tokens = 0
             LIMIT $2 FOR UPDATE SKIP LOCKED))",
            "/* retention.skips */ DELETE FROM skip_count WHERE ctid = ANY(ARRAY(SELECT ctid FROM skip_count
             WHERE day < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))",
        ] {
            deleted += sql::count(&mut self.connection, sql, (before.to_sqlx(), BATCH)).await?;
        }
        Ok(deleted)
    }

    /// Deletes a batch of cooldowns that ended a day ago and hold nothing back any more; returns how many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete_cooldowns(&mut self) -> Result<u64, StoreError> {
        sql::count(
            &mut self.connection,
            "/* retention.cooldowns */ DELETE FROM meter WHERE ctid = ANY(ARRAY(SELECT ctid FROM meter
             WHERE trigger <> '' AND day = 'epoch' AND next_at < clock() - interval '1 day'
             LIMIT $1 FOR UPDATE SKIP LOCKED))",
            (BATCH,),
        )
        .await
    }

    /// Deletes a batch of the idempotency keys older than `hours`; returns how many.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete_keys(&mut self, hours: u32) -> Result<u64, StoreError> {
        let oldest = self.now().await?.checked_sub(i64::from(hours).hours()).unwrap_or(Timestamp::MIN);
        sql::count(
            &mut self.connection,
            "/* retention.keys */ DELETE FROM event_key WHERE ctid = ANY(ARRAY(SELECT ctid FROM event_key
             WHERE event_id < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))",
            (first_id_at(oldest), BATCH),
        )
        .await
    }

    /// Deletes a batch each of calls, runs, sessions, approvals and overrides that were last used, or expired, more
    /// than `days` ago, of costs of tasks, spooled repeats and sessions of hooks; returns how many. Their history stays
    /// in the audit.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete_calls(&mut self, days: u32) -> Result<u64, StoreError> {
        let tables = [
            ("call", "decided_at"),
            ("boundary_run", "updated_at"),
            ("boundary_session", "updated_at"),
            ("approval", "expires_at"),
            ("execution_override", "expires_at"),
            ("task_cost", "at"),
            ("spooled_repeat", "filed_at"),
            ("hook_session", "seen_at"),
            ("hook_call", "called_at"),
        ];
        self.delete_older(&tables, days).await
    }

    /// Deletes a batch of tools and calls that were last seen `days` ago, and of ranges that looks passed over then;
    /// returns the number of deleted rows.
    ///
    /// # Errors
    /// The database does not answer, or the locks were not available: try again later.
    pub async fn delete_tools(&mut self, days: u32) -> Result<u64, StoreError> {
        let tables = [
            ("tool_seen", "last_at"),
            ("unguarded_call", "last_at"),
            ("unexpected_call", "last_at"),
            ("check_backlog", "at"),
        ];
        self.delete_older(&tables, days).await
    }

    /// Deletes a batch of sessions that were not used for `days`, with their steps and documents, of unused sets of
    /// tools, of uses of patterns, and of records of deleted sessions.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn delete_sessions(&mut self, days: u32) -> Result<u64, StoreError> {
        let tables = [
            ("sidecar_session", "seen_at"),
            ("sidecar_tools", "seen_at"),
            ("pattern_use", "used_at"),
            ("sidecar_gone", "at"),
        ];
        self.delete_older(&tables, days).await
    }

    /// Deletes a batch of the rows of these tables whose time, in the column beside it, is more than `days` ago.
    async fn delete_older(&mut self, tables: &[(&str, &str)], days: u32) -> Result<u64, StoreError> {
        let oldest = self.now().await?.checked_sub((i64::from(days) * 24).hours()).unwrap_or(Timestamp::MIN);
        let mut gone = 0;
        for (table, at) in tables {
            let sql = format!(
                "/* retention.calls */ DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table}
                 WHERE {at} < $1 LIMIT $2 FOR UPDATE SKIP LOCKED))"
            );
            gone += sql::count(&mut self.connection, AssertSqlSafe(sql), (oldest.to_sqlx(), BATCH)).await?;
        }
        Ok(gone)
    }

    async fn now(&mut self) -> Result<Timestamp, StoreError> {
        sql::one(&mut self.connection, "SELECT clock()", ()).await
    }

    /// Returns the first day, in UTC, that is to be kept.
    async fn day_before(&mut self, days: u32) -> Result<Date, StoreError> {
        let today = self.now().await?.to_zoned(TimeZone::UTC).date();
        Ok(today.checked_sub(i64::from(days).days()).unwrap_or(Date::MIN))
    }

    /// Records, before anything is deleted, that rows before a day may be gone. The recorded day only moves forward.
    async fn note(&mut self, kind: RetentionKind, before: Date, first_id: Uuid) -> Result<(), StoreError> {
        sql::execute(
            &mut self.connection,
            "/* retention.note */ UPDATE retention SET before = greatest(before, $2), first_id = greatest(first_id, $3)
             WHERE kind = $1 AND (before < $2 OR first_id < $3)",
            (kind.as_str(), before.to_sqlx(), first_id),
        )
        .await
    }

    /// Returns the next partition to remove. One whose detachment was interrupted comes first, since it blocks the
    /// others.
    async fn oldest_partition(&mut self, before: Date) -> Result<Option<Partition>, StoreError> {
        let row: Option<(String, bool, bool)> = sql::optional(
            &mut self.connection,
            "/* retention.partitions */
             SELECT c.relname::text, i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false) AS pending
             FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND i.inhparent = 'event'::regclass
             WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
               AND c.relname ~ '^event_[0-9]{8}$' AND c.relname::text COLLATE \"C\" < $1
             ORDER BY pending DESC, c.relname LIMIT 1",
            (super::partitions::name_of(before),),
        )
        .await?;
        Ok(row.map(|(name, attached, pending)| Partition { name, attached, pending }))
    }
}

/// Deletes a batch of findings of looks with ids before `first_id` that no review has adopted, and of occurrences whose
/// finding is gone.
async fn delete_looks(connection: &mut Connection, first_id: Uuid) -> Result<u64, StoreError> {
    let mut deleted = 0;
    for sql in [
        "/* retention.looks */ DELETE FROM finding WHERE id = ANY(ARRAY(SELECT id FROM finding
         WHERE id < $1 AND review_id IS NULL ORDER BY id LIMIT $2 FOR UPDATE SKIP LOCKED))",
        "/* retention.occurrences */ DELETE FROM finding_occurrence WHERE ctid = ANY(ARRAY(
             SELECT o.ctid FROM finding_occurrence o WHERE o.finding_id < $1
                 AND NOT EXISTS (SELECT FROM finding f WHERE f.id = o.finding_id) LIMIT $2 FOR UPDATE SKIP LOCKED))",
    ] {
        deleted += sql::count(&mut *connection, sql, (first_id, BATCH)).await?;
    }
    Ok(deleted)
}

struct Partition {
    name: String,
    attached: bool,
    /// True if its detachment was interrupted.
    pending: bool,
}

impl Partition {
    /// Detaches the partition without blocking inserts and reads of other days, then drops it. Each step may be
    /// repeated.
    async fn take_off(&self, connection: &mut Connection) -> Result<(), StoreError> {
        let Self { name, attached, pending } = self;
        let detach = match (attached, pending) {
            (_, true) => Some(format!("ALTER TABLE event DETACH PARTITION {name} FINALIZE")),
            (true, false) => Some(format!("ALTER TABLE event DETACH PARTITION {name} CONCURRENTLY")),
            (false, false) => None,
        };
        for statement in detach.into_iter().chain([format!("DROP TABLE {name}")]) {
            sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut *connection).await?;
        }
        Ok(())
    }
}

fn first_id_of(day: Date) -> Uuid {
    first_id_at(super::partitions::start_of(day))
}
