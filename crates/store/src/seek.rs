//! Pages of a feed: by the number drawn at commit, so that a reader neither skips nor repeats.

use jiff::Timestamp;
use sqlx::{Postgres, QueryBuilder};

use super::{StoreError, aggregates::UpkeepStore};

umbra_domain::words! {
    /// What numbers the items of lists: a row of table `feed`.
    pub enum Feed {
        /// Events and reservations of reviews.
        Intake = "intake",
        /// Finished reviews, findings, and what follows from them.
        Result = "result",
        /// Dead letters.
        Dead = "dead",
        /// Backtests.
        Backtest = "backtest",
        /// The audit.
        Audit = "audit",
        /// Patterns.
        Pattern = "pattern",
        /// Sessions of the sidecar.
        Session = "session",
    }
}

impl UpkeepStore<'_> {
    /// The last number that an item of a feed can have by now.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn newest(self, feed: Feed) -> Result<i64, StoreError> {
        let last = sqlx::query_scalar("/* seek.newest */ SELECT last FROM feed WHERE name = $1").bind(feed.as_str());
        Ok(last.fetch_one(&self.0.read).await?)
    }
}

/// Where a page begins and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seek {
    /// Items beyond this number; `None` begins at the oldest, or in descending order at the newest.
    pub from: Option<i64>,
    /// Newest first.
    pub descending: bool,
    /// Items at most.
    pub limit: u32,
}

/// A page, and how to go on.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items, each with its number.
    pub items: Vec<(i64, T)>,
    /// Whether more stand behind the last.
    pub more: bool,
}

/// A span of time, either end open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// From this moment.
    pub since: Option<Timestamp>,
    /// Before this moment.
    pub until: Option<Timestamp>,
}

impl Seek {
    /// Adds the condition, the order and the limit to a query whose `WHERE` is open; `column` is the feed's number.
    pub(super) fn push(self, query: &mut QueryBuilder<Postgres>, column: &'static str) {
        if let Some(from) = self.from {
            query.push(format_args!(" AND {column} {} ", if self.descending { '<' } else { '>' })).push_bind(from);
        }
        let order = if self.descending { "DESC" } else { "ASC" };
        query.push(format_args!(" ORDER BY {column} {order} LIMIT ")).push_bind(i64::from(self.limit) + 1);
    }

    /// A page of items that come from several pages of this seek, any of which may go on.
    pub fn merge<T>(self, mut items: Vec<(i64, T)>, more: bool) -> Page<T> {
        items.sort_by_key(|(number, _)| if self.descending { -number } else { *number });
        let page = self.page(items);
        Page { more: page.more || more, ..page }
    }

    /// Cuts the one row too many that tells whether there is more.
    pub(super) fn page<T>(self, mut items: Vec<(i64, T)>) -> Page<T> {
        let limit = self.limit as usize;
        let more = items.len() > limit;
        items.truncate(limit);
        Page { items, more }
    }
}

/// Adds ` AND column = value` where there is a value.
pub(super) fn equals<'t, V>(query: &mut QueryBuilder<Postgres>, column: &'static str, value: Option<V>)
where
    V: sqlx::Encode<'t, Postgres> + sqlx::Type<Postgres>,
{
    if let Some(value) = value {
        query.push(format_args!(" AND {column} = ")).push_bind(value);
    }
}

/// Adds a span of time over a timestamp column.
pub(super) fn push_span(query: &mut QueryBuilder<Postgres>, column: &'static str, span: Span) {
    let bind = |at: Timestamp| jiff_sqlx::ToSqlx::to_sqlx(at);
    if let Some(since) = span.since {
        query.push(format_args!(" AND {column} >= ")).push_bind(bind(since));
    }
    if let Some(until) = span.until {
        query.push(format_args!(" AND {column} < ")).push_bind(bind(until));
    }
}
