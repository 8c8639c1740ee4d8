//! Counts for people: reviews, money and skips of a shadow's day.

use jiff::civil::Date;
use jiff_sqlx::ToSqlx;
use serde::Serialize;
use utoipa::ToSchema;

use super::{
    StoreError,
    aggregates::ShadowStore,
    sql::{self, record},
};
use umbra_domain::{NanoUsd, SkipReason};

/// Counts of a shadow's day so far.
#[derive(Debug, Clone, PartialEq)]
pub struct ShadowDay {
    /// The local day.
    pub day: Date,
    /// Reserved reviews, without the released.
    pub reviews: i64,
    /// Reviews by the built-in checks alone that found nothing.
    pub checked: i64,
    /// Money spent.
    pub spent: NanoUsd,
    /// Money held for calls that are under way.
    pub held: NanoUsd,
    /// Tokens spent.
    pub tokens: i64,
    /// Skips by reason, in order of precedence.
    pub skips: Vec<(SkipReason, i64)>,
}

/// Reviews of a shadow that ended within the last hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastHour {
    /// Reviews that ended.
    pub ended: i64,
    /// Reviews with a verdict of a model.
    pub judged: i64,
    /// The last failure, in words.
    pub failure: Option<String>,
}

record!(LastHour: ended, judged, failure);

/// Number of skips of a shadow for one reason on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct SkipView {
    /// Name of the shadow.
    pub shadow: String,
    /// Reason of the skips.
    pub reason: SkipReason,
    /// Local day of the shadow.
    pub day: Date,
    /// Number of skips.
    pub count: i64,
}

impl ShadowStore<'_> {
    /// Returns the counts of a shadow's day so far, in its own time zone.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn shadow_day(self, shadow: &str, zone: &str) -> Result<ShadowDay, StoreError> {
        let (day, reviews, checked): (Date, i64, i64) = sql::one(
            &self.0.read,
            "/* status.reviews */
             SELECT d.day, count(r.id), count(*) FILTER (WHERE x.assessment = 'CHECKED')
             FROM (SELECT (clock() AT TIME ZONE $2)::date AS day OFFSET 0) d
             LEFT JOIN review r ON r.shadow = $1 AND r.day = d.day AND r.state <> 'released'
             LEFT JOIN review_result x ON x.review_id = r.id GROUP BY d.day",
            (shadow, zone),
        )
        .await?;
        let money: Option<(NanoUsd, NanoUsd, i64)> = sql::optional(
            &self.0.read,
            "/* status.money */ SELECT spent_usd, held_usd, spent_tokens FROM meter
             WHERE shadow = $1 AND agent = '' AND trigger = '' AND day = $2",
            (shadow, day.to_sqlx()),
        )
        .await?;
        let skips: Vec<(Option<SkipReason>, i64)> = sql::all(
            &self.0.read,
            "/* status.skips */ SELECT reason, sum(n)::bigint FROM skip_count WHERE shadow = $1 AND day = $2
             GROUP BY reason ORDER BY reason",
            (shadow, day.to_sqlx()),
        )
        .await?;
        let (spent, held, tokens) = money.unwrap_or_default();
        let skips = skips.into_iter().filter_map(|(reason, n)| Some((reason?, n))).collect();
        Ok(ShadowDay { day, reviews, checked, spent, held, tokens, skips })
    }

    /// Counts the reviews of a shadow that ended within the last hour, without erased ones.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn last_hour(self, shadow: &str) -> Result<LastHour, StoreError> {
        sql::one(
            &self.0.read,
            "/* status.last_hour */
             SELECT count(*) AS ended,
                    count(*) FILTER (WHERE d.reviewer = 'model' AND d.assessment <> 'INCONCLUSIVE') AS judged,
                    (array_agg(r.failure ORDER BY r.finished_at DESC)
                        FILTER (WHERE r.failure IS NOT NULL))[1] AS failure
             FROM review r LEFT JOIN review_result d ON d.review_id = r.id
             WHERE r.shadow = $1 AND r.day >= (clock() - interval '1 day')::date
                 AND r.state NOT IN ('queued', 'running') AND r.finished_at > clock() - interval '1 hour'
                 AND r.reason IS DISTINCT FROM $2",
            (shadow, SkipReason::Erased.code()),
        )
        .await
    }

    /// Returns skips by shadow, reason and day, newest day first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn skips(
        self,
        shadow: Option<&str>,
        reason: Option<SkipReason>,
        days: (Option<Date>, Option<Date>),
        limit: i64,
    ) -> Result<Vec<SkipView>, StoreError> {
        let rows: Vec<(String, Option<SkipReason>, Date, i64)> = sql::all(
            &self.0.read,
            "/* status.skip_rows */ SELECT shadow, reason, day, sum(n)::bigint FROM skip_count
             WHERE ($1::text IS NULL OR shadow = $1) AND ($2::int2 IS NULL OR reason = $2)
               AND ($3::date IS NULL OR day >= $3) AND ($4::date IS NULL OR day <= $4)
             GROUP BY shadow, reason, day ORDER BY day DESC, shadow, reason LIMIT $5",
            (shadow, reason.map(SkipReason::code), days.0.map(ToSqlx::to_sqlx), days.1.map(ToSqlx::to_sqlx), limit),
        )
        .await?;
        let view =
            |(shadow, reason, day, count): (_, Option<_>, _, _)| Some(SkipView { shadow, reason: reason?, day, count });
        Ok(rows.into_iter().filter_map(view).collect())
    }

    /// Returns the server's version as text.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn server_version(self) -> Result<String, StoreError> {
        sql::one(&self.0.read, "SELECT current_setting('server_version')", ()).await
    }
}
