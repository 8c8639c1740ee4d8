//! Daily partitions of `event`, by the time in event ids. They are made ahead, so that every insert finds its
//! partition.

use jiff::{Timestamp, ToSpan, civil::Date, tz::TimeZone};
use sqlx::AssertSqlSafe;

use super::{StoreError, aggregates::UpkeepStore, sql, transaction::begin};
use umbra_domain::clock::first_id_at;

/// Days ahead of today that have a partition.
const AHEAD_DAYS: i32 = 7;

impl UpkeepStore<'_> {
    /// Makes the partitions from yesterday (a clock may lag) to a week ahead; returns how many were missing. Safe from
    /// several processes at once. Uses `CREATE` then `ATTACH`, since `CREATE .. PARTITION OF` would lock inserts out.
    ///
    /// # Errors
    /// The database does not answer, or a lock was not available within a second or two: try again later.
    pub async fn make_partitions(self, now: Timestamp) -> Result<u32, StoreError> {
        let today = now.to_zoned(TimeZone::UTC).date();
        let mut made = 0;
        for offset in -1..=AHEAD_DAYS {
            if let Ok(day) = today.checked_add(offset.days()) {
                made += u32::from(self.make_partition(day).await?);
            }
        }
        Ok(made)
    }

    async fn make_partition(self, day: Date) -> Result<bool, StoreError> {
        let name = name_of(day);
        let attached = "SELECT EXISTS (SELECT FROM pg_inherits WHERE inhrelid = to_regclass($1))";
        if sql::one::<bool>(&self.0.control, attached, (&name,)).await? {
            return Ok(false);
        }
        let bound = |day: Date| first_id_at(start_of(day));
        let (from, to) = (bound(day), bound(day.tomorrow().unwrap_or(Date::MAX)));
        let mut tx = begin(&self.0.control).await?;
        sql::execute(
            &mut *tx,
            "SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '.partitions', 0))",
            (),
        )
        .await?;
        if sql::one::<bool>(&mut *tx, attached, (&name,)).await? {
            return Ok(false);
        }
        for statement in [
            format!("CREATE TABLE IF NOT EXISTS {name} (LIKE event INCLUDING ALL)"),
            format!("ALTER TABLE event ATTACH PARTITION {name} FOR VALUES FROM ('{from}') TO ('{to}')"),
        ] {
            sql::execute(&mut *tx, AssertSqlSafe(statement), ()).await?;
        }
        tx.commit().await?;
        Ok(true)
    }
}

/// Returns the name of a day's partition.
pub(super) fn name_of(day: Date) -> String {
    format!("event_{}", day.strftime("%Y%m%d"))
}

/// Returns the start of a day in UTC.
pub(super) fn start_of(day: Date) -> Timestamp {
    day.to_zoned(TimeZone::UTC).map_or(Timestamp::MIN, |zoned| zoned.timestamp())
}
