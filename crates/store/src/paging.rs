//! Pages of a feed, by numbers drawn at commit, so that a reader neither skips nor repeats items.

use jiff::Timestamp;
use sqlx::{PgExecutor, Postgres, QueryBuilder};

use super::{
    StoreError,
    aggregates::UpkeepStore,
    sql::{self, Record},
};

umbra_domain::words! {
    /// A feed: a row of table `feed`, from which the items of lists draw their numbers.
    pub enum Feed {
        /// Events and reservations of reviews.
        Intake = "intake",
        /// Finished reviews, findings, verdicts, reflexions, and agents with breakers.
        Result = "result",
        /// Dead letters.
        Dead = "dead",
        /// Backtests.
        Backtest = "backtest",
        /// Rows of the audit.
        Audit = "audit",
        /// Patterns.
        Pattern = "pattern",
        /// Sessions of the sidecar.
        Session = "session",
    }
}

impl UpkeepStore<'_> {
    /// Returns the last number that an item of a feed can have by now.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn newest(self, feed: Feed) -> Result<i64, StoreError> {
        sql::one(&self.0.read, "/* seek.newest */ SELECT last FROM feed WHERE name = $1", (feed.as_str(),)).await
    }
}

/// Start, direction and length of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seek {
    /// Items beyond this number; `None` begins at the oldest, or in descending order at the newest.
    pub from: Option<i64>,
    /// True for newest first.
    pub descending: bool,
    /// Most items.
    pub limit: u32,
}

/// A page of items.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<T> {
    /// The items, each with its number.
    pub items: Vec<(i64, T)>,
    /// True if more items follow the last.
    pub more: bool,
}

/// Span of time; an end that is `None` is open.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Span {
    /// Start, inclusive.
    pub since: Option<Timestamp>,
    /// End, exclusive.
    pub until: Option<Timestamp>,
}

impl Seek {
    /// Adds the condition, the order and the limit to a query whose `WHERE` is open. `column` is the feed number.
    pub(super) fn push(self, query: &mut QueryBuilder<Postgres>, column: &'static str) {
        if let Some(from) = self.from {
            query.push(format_args!(" AND {column} {} ", if self.descending { '<' } else { '>' })).push_bind(from);
        }
        let order = if self.descending { "DESC" } else { "ASC" };
        query.push(format_args!(" ORDER BY {column} {order} LIMIT ")).push_bind(i64::from(self.limit) + 1);
    }

    /// Merges items of several pages into one page; `more` is true if any of those pages has more.
    pub fn merge<T>(self, mut items: Vec<(i64, T)>, more: bool) -> Page<T> {
        items.sort_by_key(|(number, _)| if self.descending { -number } else { *number });
        let page = self.page(items);
        Page { more: page.more || more, ..page }
    }

    /// Reads the page from a query whose `WHERE` is open. `column` is the feed number, which the query returns as `seq`.
    pub(super) async fn fetch<T: Record>(
        self,
        query: &mut QueryBuilder<Postgres>,
        column: &'static str,
        database: impl PgExecutor<'_>,
    ) -> Result<Page<T>, StoreError> {
        self.push(query, column);
        Ok(self.page(sql::numbered(database, query).await?))
    }

    /// Cuts the one row too many, which tells that there are more.
    pub(super) fn page<T>(self, mut items: Vec<(i64, T)>) -> Page<T> {
        let limit = self.limit as usize;
        let more = items.len() > limit;
        items.truncate(limit);
        Page { items, more }
    }
}

/// Adds ` AND column = value` if there is a value.
pub(super) fn equals<'t, V>(query: &mut QueryBuilder<Postgres>, column: &'static str, value: Option<V>)
where
    V: sqlx::Encode<'t, Postgres> + sqlx::Type<Postgres>,
{
    if let Some(value) = value {
        query.push(format_args!(" AND {column} = ")).push_bind(value);
    }
}

/// Adds the condition for a span of time on a timestamp column.
pub(super) fn push_span(query: &mut QueryBuilder<Postgres>, column: &'static str, span: Span) {
    let bind = |at: Timestamp| jiff_sqlx::ToSqlx::to_sqlx(at);
    if let Some(since) = span.since {
        query.push(format_args!(" AND {column} >= ")).push_bind(bind(since));
    }
    if let Some(until) = span.until {
        query.push(format_args!(" AND {column} < ")).push_bind(bind(until));
    }
}
