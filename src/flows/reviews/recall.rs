//! Context of a reviewer beside the event: the agent's baseline, people's judgements of earlier findings, and open
//! lessons.

use crate::{
    flows::{active_configuration::ActiveConfiguration, followers::reflexions, reviews::Reviews},
    reflexion,
};
use umbra_domain::{Event, Hit, Reviewer, Shadow};
use umbra_review::{Baseline, JudgedFinding, Lesson};
use umbra_store::{StoreError, baselines::ScoreKey};

/// Most judged findings that are searched for those most like an event, of its agent and of other agents each.
const MOST_CASES: i64 = 50;
/// Most open lessons that are read.
const MOST_LESSONS: i64 = 3;

/// Context of a reviewer beside the event.
#[derive(Debug, Default)]
pub(super) struct ReviewerContext {
    pub baseline: Option<Baseline>,
    pub memory: Vec<String>,
}

impl Reviews {
    /// Returns the baseline of an event's agent: its usual scores by this shadow and kind of reviewer.
    pub(in crate::flows) async fn usual(
        &self,
        rules: &ActiveConfiguration,
        shadow: &Shadow,
        event: &Event,
    ) -> Result<Option<Baseline>, StoreError> {
        let key = ScoreKey {
            agent: event.agent.clone(),
            task_type: event.task_type.clone(),
            shadow: shadow.name.clone(),
            reviewer: if rules.has_model(shadow) { Reviewer::Model } else { Reviewer::Checks },
        };
        let usual = self.store.reviews().score_baseline(&key, self.settings.baseline.window).await?;
        Ok(usual.map(|usual| Baseline { mean: usual.mean, spread: usual.spread, count: usual.count }))
    }

    /// Returns reminders for a model: the judged findings most like the event, and open lessons.
    pub(super) async fn reminders(
        &self,
        rules: &ActiveConfiguration,
        shadow: &Shadow,
        event: &Event,
        hits: &[Hit],
    ) -> Result<Vec<String>, StoreError> {
        if !rules.has_model(shadow) {
            return Ok(Vec::new());
        }
        let judged = self.store.findings().judged_findings(&shadow.name, &event.agent, MOST_CASES).await?;
        let cases: Vec<JudgedFinding> = judged
            .into_iter()
            .map(|finding| JudgedFinding {
                was_right: finding.status != "false_positive",
                same_agent: finding.watched_agent == event.agent,
                rule: finding.rule,
                description: finding.description,
                quote: finding.evidence.map(|evidence| evidence.quote),
                note: finding.note,
            })
            .collect();
        let open = self.store.reflexions().list_open(&event.agent, event.task_type.as_deref(), MOST_LESSONS).await?;
        let lessons: Vec<Lesson> = open
            .into_iter()
            .map(|row| Lesson { text: reflexion::lesson(&reflexions::fault(&row)), description: row.description })
            .collect();
        Ok(umbra_review::select_reminders(event, hits, &cases, &lessons))
    }
}
