//! Statements with their parameters as one tuple, and rows read as values of `domain`.

use std::time::Duration;

use jiff::{Timestamp, civil::Date};
use serde::de::DeserializeOwned;
use sqlx::{
    Arguments, ColumnIndex, Decode, Encode, PgExecutor, Postgres, QueryBuilder, Row, SqlSafeStr, Type,
    error::BoxDynError,
    postgres::{PgArguments, PgRow},
    query::Query,
};
use uuid::Uuid;

use super::StoreError;
use umbra_domain::{
    Assessment, AssessmentChange, BacktestId, BacktestState, BreakerState, DeliveryId, Effect, EventId,
    FindingCategory, FindingId, FindingSource, FindingSubject, ItemOutcome, KeyId, Mode, NanoUsd, ReflexionId,
    ReviewId, ReviewScope, ReviewState, Reviewer, SessionId, Severity, SkipReason, StepKind, Trigger,
    audit::AuditKind,
    contract::StaleReason,
    verdict::{DecidedBy, VerdictState},
};

/// Value of a column.
pub(super) trait Column: Sized {
    /// Type of the column.
    type Stored: for<'r> Decode<'r, Postgres> + Type<Postgres>;

    /// Converts a stored value; `None` for a word or number that this version of Umbra does not know.
    fn known(stored: Self::Stored) -> Option<Self>;
}

/// Row of a result: one column, a tuple of columns in order, or a struct with columns by name ([`record`]).
pub(super) trait Record: Sized {
    /// Reads a row.
    fn read(row: &PgRow) -> Result<Self, sqlx::Error>;
}

/// Parameters of a statement, in the order of `$1`, `$2`, and so on.
pub(super) trait Parameters<'t> {
    /// Encodes the parameters.
    fn encode(self) -> Result<PgArguments, BoxDynError>;
}

/// Reads a column, by name or by position from 0.
pub(super) fn column<C: Column>(row: &PgRow, index: impl ColumnIndex<PgRow> + Copy) -> Result<C, sqlx::Error> {
    C::known(row.try_get(index)?).ok_or_else(|| sqlx::Error::ColumnDecode {
        index: format!("{index:?}"),
        source: "the value is unknown to this version of Umbra".into(),
    })
}

/// Reads a column that holds JSON as text; the default for null and for other text.
pub(super) fn json<T: DeserializeOwned + Default>(row: &PgRow, name: &str) -> Result<T, sqlx::Error> {
    let text: Option<String> = row.try_get(name)?;
    Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
}

/// Runs a statement.
pub(super) async fn execute(
    database: impl PgExecutor<'_>,
    sql: impl SqlSafeStr,
    parameters: impl Parameters<'_>,
) -> Result<(), StoreError> {
    count(database, sql, parameters).await.map(drop)
}

/// Runs a statement and returns true if it changed any row.
pub(super) async fn changed(
    database: impl PgExecutor<'_>,
    sql: impl SqlSafeStr,
    parameters: impl Parameters<'_>,
) -> Result<bool, StoreError> {
    Ok(count(database, sql, parameters).await? > 0)
}

/// Runs a statement and returns the number of rows that it changed.
pub(super) async fn count(
    database: impl PgExecutor<'_>,
    sql: impl SqlSafeStr,
    parameters: impl Parameters<'_>,
) -> Result<u64, StoreError> {
    Ok(statement(sql, parameters)?.execute(database).await?.rows_affected())
}

/// Runs a query and returns its rows, as a list, set or map.
pub(super) async fn all<T: Record, C: FromIterator<T>>(
    database: impl PgExecutor<'_>,
    sql: impl SqlSafeStr,
    parameters: impl Parameters<'_>,
) -> Result<C, StoreError> {
    records::<T, C>(&statement(sql, parameters)?.fetch_all(database).await?)
}

/// Runs a query and returns its first row, if there is one.
pub(super) async fn optional<T: Record>(
    database: impl PgExecutor<'_>,
    sql: impl SqlSafeStr,
    parameters: impl Parameters<'_>,
) -> Result<Option<T>, StoreError> {
    let row = statement(sql, parameters)?.fetch_optional(database).await?;
    Ok(row.as_ref().map(T::read).transpose()?)
}

/// Runs a query and returns its only row.
pub(super) async fn one<T: Record>(
    database: impl PgExecutor<'_>,
    sql: impl SqlSafeStr,
    parameters: impl Parameters<'_>,
) -> Result<T, StoreError> {
    Ok(T::read(&statement(sql, parameters)?.fetch_one(database).await?)?)
}

/// Runs a query that was put together, and returns its rows.
pub(super) async fn built<T: Record>(
    database: impl PgExecutor<'_>,
    query: &mut QueryBuilder<Postgres>,
) -> Result<Vec<T>, StoreError> {
    records::<T, _>(&query.build().fetch_all(database).await?)
}

/// Runs a query that was put together, and returns its rows, each with its number in a feed: column `seq`.
pub(super) async fn numbered<T: Record>(
    database: impl PgExecutor<'_>,
    query: &mut QueryBuilder<Postgres>,
) -> Result<Vec<(i64, T)>, StoreError> {
    let rows = query.build().fetch_all(database).await?;
    rows.iter().map(|row| Ok((column(row, "seq")?, T::read(row)?))).collect()
}

/// Returns the ids as a list parameter.
pub(super) fn uuids<'i, I: Copy + Into<Uuid> + 'i>(ids: impl IntoIterator<Item = &'i I>) -> Vec<Uuid> {
    ids.into_iter().map(|id| (*id).into()).collect()
}

fn statement<'t>(
    sql: impl SqlSafeStr,
    parameters: impl Parameters<'t>,
) -> Result<Query<'static, Postgres, PgArguments>, sqlx::Error> {
    Ok(sqlx::query_with(sql, parameters.encode().map_err(sqlx::Error::Encode)?))
}

fn records<T: Record, C: FromIterator<T>>(rows: &[PgRow]) -> Result<C, StoreError> {
    rows.iter().map(|row| T::read(row).map_err(Into::into)).collect()
}

/// Lists types of columns that are read as they are stored.
macro_rules! plain_columns {
    ($($type:ty),+) => { $(
        impl Column for $type {
            type Stored = Self;
            fn known(stored: Self) -> Option<Self> {
                Some(stored)
            }
        }
    )+ };
}

/// Lists types of columns with their stored form and the conversion from it.
macro_rules! columns {
    ($($type:ty: $stored:ty = $known:expr;)+) => { $(
        impl Column for $type {
            type Stored = $stored;
            fn known(stored: $stored) -> Option<Self> {
                let known: fn($stored) -> Option<Self> = $known;
                known(stored)
            }
        }
    )+ };
}

/// Lists types of ids, which are also read as lists.
macro_rules! id_columns {
    ($($type:ident),+) => { columns! { $(
        $type: Uuid = |id| Some($type(id));
        Vec<$type>: Vec<Uuid> = |ids| Some(ids.into_iter().map($type).collect());
    )+ } };
}

plain_columns!(bool, i16, i32, i64, f64, String, Vec<u8>, Uuid, Vec<String>, Vec<i16>, Vec<i32>, Vec<i64>);
id_columns!(BacktestId, DeliveryId, EventId, FindingId, KeyId, ReflexionId, ReviewId, SessionId);
columns! {
    Timestamp: jiff_sqlx::Timestamp = |at| Some(at.to_jiff());
    Date: jiff_sqlx::Date = |day| Some(day.to_jiff());
    Duration: f64 = |seconds| Some(Duration::try_from_secs_f64(seconds).unwrap_or_default());
    NanoUsd: i64 = |usd| Some(NanoUsd(usd));
    u32: i32 = |count| Some(u32::try_from(count).unwrap_or(0));
    u64: i64 = |count| Some(u64::try_from(count).unwrap_or(0));
    // Words, as text.
    Assessment: String = |word| Assessment::parse(&word);
    AssessmentChange: String = |word| AssessmentChange::parse(&word);
    AuditKind: String = |word| AuditKind::parse(&word);
    BacktestState: String = |word| BacktestState::parse(&word);
    BreakerState: String = |word| Some(BreakerState::parse(&word).unwrap_or_default());
    DecidedBy: String = |word| DecidedBy::parse(&word);
    Effect: String = |word| Effect::parse(&word);
    FindingCategory: String = |word| Some(FindingCategory::parse(&word).unwrap_or(FindingCategory::Custom));
    FindingSource: String = |word| Some(FindingSource::parse(&word).unwrap_or(FindingSource::Model));
    FindingSubject: String = |word| Some(FindingSubject::parse(&word).unwrap_or_default());
    ItemOutcome: String = |word| ItemOutcome::parse(&word);
    ReviewState: String = |word| ReviewState::parse(&word);
    Reviewer: String = |word| Reviewer::parse(&word);
    StaleReason: String = |word| StaleReason::parse(&word);
    StepKind: String = |word| StepKind::parse(&word);
    VerdictState: String = |word| Some(VerdictState::parse(&word).unwrap_or(VerdictState::Pending));
    // Numbers that stand for words.
    Mode: i16 = |rank| Mode::ALL.into_iter().find(|mode| mode.priority() == rank);
    ReviewScope: i16 = ReviewScope::from_code;
    Severity: i16 = |code| Some(Severity::from_code(code).unwrap_or(Severity::Critical));
    SkipReason: i16 = SkipReason::from_code;
    Trigger: i16 = Trigger::from_code;
}

/// Null and unknown values are `None`.
impl<C: Column> Column for Option<C> {
    type Stored = Option<C::Stored>;

    fn known(stored: Self::Stored) -> Option<Self> {
        Some(stored.and_then(C::known))
    }
}

impl<C: Column> Record for C {
    fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
        column(row, 0)
    }
}

/// Implements [`Record`] for a struct: its fields that are columns of the same name, and after `;` its other fields,
/// from the row.
macro_rules! record {
    ($type:ty: $($column:ident),+ $(,)?) => {
        $crate::sql::record! { $type, row: $($column),+; }
    };
    ($type:ty, $row:ident: $($column:ident),*; $($field:ident: $value:expr),* $(,)?) => {
        impl $crate::sql::Record for $type {
            fn read($row: &sqlx::postgres::PgRow) -> Result<Self, sqlx::Error> {
                Ok(Self {
                    $($column: $crate::sql::column($row, stringify!($column))?,)*
                    $($field: $value,)*
                })
            }
        }
    };
}

pub(super) use record;

impl Parameters<'_> for () {
    fn encode(self) -> Result<PgArguments, BoxDynError> {
        Ok(PgArguments::default())
    }
}

macro_rules! tuples {
    ($($type:ident $index:tt),+) => {
        impl<'t, $($type: Encode<'t, Postgres> + Type<Postgres>),+> Parameters<'t> for ($($type,)+) {
            fn encode(self) -> Result<PgArguments, BoxDynError> {
                let mut arguments = PgArguments::default();
                $(arguments.add(self.$index)?;)+
                Ok(arguments)
            }
        }

        impl<$($type: Column),+> Record for ($($type,)+) {
            fn read(row: &PgRow) -> Result<Self, sqlx::Error> {
                Ok(($(column::<$type>(row, $index)?,)+))
            }
        }
    };
}

tuples!(A 0);
tuples!(A 0, B 1);
tuples!(A 0, B 1, C 2);
tuples!(A 0, B 1, C 2, D 3);
tuples!(A 0, B 1, C 2, D 3, E 4);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11);
tuples!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12);
tuples!(
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10, L 11, M 12, N 13, O 14, P 15, Q 16, R 17, S 18, T 19, U 20,
    V 21, W 22, X 23, Y 24, Z 25
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_a_later_version_are_none_or_a_grave_default() {
        assert_eq!(<Option<Reviewer>>::known(Some("a new reviewer".to_owned())), Some(None));
        assert_eq!(Reviewer::known("a new reviewer".to_owned()), None);
        assert_eq!(Mode::known(99), None);
        assert_eq!(Severity::known(99), Some(Severity::Critical));
        assert_eq!(VerdictState::known("a new verdict".to_owned()), Some(VerdictState::Pending));
        assert_eq!((u32::known(-1), u64::known(-1)), (Some(0), Some(0)));
    }
}
