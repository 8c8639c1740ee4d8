//! Use case: a review, from its lease to its findings, and reviews of texts that are not events.

pub mod call_budget;
pub mod conversation;
pub mod recall;
pub mod review_input;
pub mod trial;
pub mod work;

use std::{sync::Arc, time::Duration};

use crate::flows::{active_configuration::RulesInForce, verdicts::Verdicts};
use umbra_config::Settings;
use umbra_domain::clock::Clock;
use umbra_review::Judgement;
use umbra_store::{Store, StoreError, installation::Installation};

/// Pause between attempts to store a result.
const BETWEEN_TRIES: Duration = Duration::from_secs(1);

/// Context of performing reviews. Cheap to clone.
#[derive(Clone)]
pub struct Reviews {
    /// The database.
    pub store: Store,
    /// The clock.
    pub clock: Clock,
    /// The configuration in force.
    pub rules: RulesInForce,
    /// Key of this installation's hashes.
    pub installation: Installation,
    /// Verdicts, which the end of a review may make due.
    pub verdicts: Verdicts,
    /// Settings in force since the start.
    pub settings: Arc<Settings>,
}

/// Repeats a write while the database is away or busy. If another worker took the lease meanwhile, the write reports
/// it.
async fn retry_while_unavailable<T, F>(mut storing: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    loop {
        match storing().await {
            Err(error) if error.is_transient() => tokio::time::sleep(BETWEEN_TRIES).await,
            stored => return stored,
        }
    }
}

/// Redacts a judgement's texts: a model may quote the event, whose text was redacted too.
pub(in crate::flows) fn redacted(mut judgement: Judgement) -> Judgement {
    let clean = |text: &mut String| umbra_checks::redact(text).as_str().clone_into(text);
    clean(&mut judgement.recommendation);
    judgement.findings.iter_mut().for_each(|finding| clean(&mut finding.description));
    judgement.notes.iter_mut().for_each(clean);
    judgement
}
