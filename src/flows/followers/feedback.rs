//! People's judgements of findings, and the precision of shadows that follows from them.

use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    findings::{Precision, Tally},
    flows::followers::Followers,
    telemetry::metric,
};
use umbra_domain::Shadow;
use umbra_store::{Store, StoreError, feedback::JudgedCount, findings::FindingItem};

/// Precision of a shadow's findings, as people judged them.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ShadowPrecision {
    /// Precision of all judged findings of the shadow, under any configuration.
    pub all: Precision,
    /// Precision of the findings by versions that look for the same as the one in force: model, criteria, checks and
    /// `flag_at` are the same. `umbra promote` goes by this.
    pub in_force: Precision,
    /// Precision by category.
    pub by_category: Vec<CategoryPrecision>,
    /// Precision by version, the newest last.
    pub by_version: Vec<VersionPrecision>,
}

/// Precision of the findings of a category.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct CategoryPrecision {
    /// The category.
    pub category: String,
    #[serde(flatten)]
    #[schema(inline)]
    #[expect(missing_docs, reason = "its parts are explained there")]
    pub precision: Precision,
}

/// Precision of a version of a shadow.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct VersionPrecision {
    /// Hash of the version's configuration.
    pub version: String,
    /// True if the version looks for the same as the one in force.
    pub like_in_force: bool,
    #[serde(flatten)]
    #[schema(inline)]
    #[expect(missing_docs, reason = "its parts are explained there")]
    pub precision: Precision,
}

impl ShadowPrecision {
    /// Sums up the judgements about a shadow; `counts` may have other shadows too.
    pub fn of(shadow: &Shadow, counts: &[JudgedCount]) -> Self {
        let counts = counts.iter().filter(|count| count.shadow == shadow.name);
        let like = |count: &JudgedCount| {
            serde_json::from_str::<Shadow>(&count.config).is_ok_and(|old| old.has_same_criteria(shadow))
        };
        let mut categories: Vec<(String, Tally)> = Vec::new();
        let mut versions: Vec<(String, bool, Tally)> = Vec::new();
        let (mut all, mut in_force) = (Tally::default(), Tally::default());
        for count in counts {
            let tally = Tally { right: count.right, wrong: count.wrong };
            let like = like(count);
            all += tally;
            if like {
                in_force += tally;
            }
            match categories.iter_mut().find(|(name, _)| *name == count.category) {
                Some((_, sum)) => *sum += tally,
                None => categories.push((count.category.clone(), tally)),
            }
            match versions.iter_mut().find(|(name, ..)| *name == count.version) {
                Some((.., sum)) => *sum += tally,
                None => versions.push((count.version.clone(), like, tally)),
            }
        }
        Self {
            all: all.precision(),
            in_force: in_force.precision(),
            by_category: categories
                .into_iter()
                .map(|(category, tally)| CategoryPrecision { category, precision: tally.precision() })
                .collect(),
            by_version: versions
                .into_iter()
                .map(|(version, like_in_force, tally)| VersionPrecision {
                    version,
                    like_in_force,
                    precision: tally.precision(),
                })
                .collect(),
        }
    }
}

impl Followers {
    /// Stores a person's judgement of a finding, and revises its reflexion and the precision of the shadow.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn judge_finding(
        &self,
        finding: &FindingItem,
        status: Option<&'static str>,
        note: Option<&str>,
    ) -> Result<(), StoreError> {
        self.store.findings().judge_finding(finding.id, status, note).await?;
        let Some(status) = status else { return Ok(()) };
        metrics::counter!(metric::FEEDBACK, "shadow" => finding.shadow.clone(),
            "category" => finding.category.clone(), "status" => status)
        .increment(1);
        self.revise_reflexion(finding.id).await?;
        show_precision(&self.store, &[&finding.shadow]).await
    }
}

/// Sets the gauges of judged findings of these shadows.
///
/// # Errors
/// The database does not answer.
pub async fn show_precision(store: &Store, shadows: &[&str]) -> Result<(), StoreError> {
    for count in store.findings().judged_counts(shadows).await? {
        for (right, n) in [("true", count.right), ("false", count.wrong)] {
            #[expect(clippy::cast_precision_loss, reason = "a gauge")]
            metrics::gauge!(metric::JUDGED_FINDINGS, "shadow" => count.shadow.clone(),
                "version" => count.version.clone(), "category" => count.category.clone(), "right" => right)
            .set(n as f64);
        }
    }
    Ok(())
}
