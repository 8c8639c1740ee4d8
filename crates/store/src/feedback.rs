//! Counts of findings that people judged.

use super::{
    StoreError,
    aggregates::FindingStore,
    sql::{self, record},
};

/// Judged findings of one version of a shadow in one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedCount {
    /// The shadow.
    pub shadow: String,
    /// The hash of the shadow's configuration.
    pub version: String,
    /// The shadow's configuration, as JSON.
    pub config: String,
    /// The category.
    pub category: String,
    /// Confirmed or resolved.
    pub right: i64,
    /// False positives.
    pub wrong: i64,
}

record!(JudgedCount: shadow, version, config, category, right, wrong);

impl FindingStore<'_> {
    /// Counts judged findings of these shadows, by version (oldest first) and category.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn judged_counts(self, shadows: &[&str]) -> Result<Vec<JudgedCount>, StoreError> {
        sql::all(
            &self.0.read,
            "/* feedback.counts */
             SELECT v.name AS shadow, v.version, v.config, c.category, c.good AS right, c.wrong FROM (
                 SELECT coalesce(r.version, f.version) AS version, f.category,
                        count(*) FILTER (WHERE f.status <> 'false_positive') AS good,
                        count(*) FILTER (WHERE f.status = 'false_positive') AS wrong
                 FROM finding f LEFT JOIN review r ON r.id = f.review_id
                 WHERE f.shadow = ANY($1) AND f.status <> 'open' GROUP BY 1, 2) c
             JOIN shadow_version v ON v.id = c.version ORDER BY v.id, c.category",
            (shadows,),
        )
        .await
    }
}
