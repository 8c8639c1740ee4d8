//! Scores of agents' events, one row per event and review, and the baseline computed from them.

use std::time::Duration;

use jiff::Timestamp;
use jiff_sqlx::ToSqlx;

use super::{StoreError, aggregates::ReviewStore, follow::FollowerPage, sql, workers::interval};
use umbra_domain::{EventId, ReviewId, Reviewer};

/// Most scores in a baseline, the newest.
const MOST_SCORES: i64 = 100;

/// Agent, task type, shadow and reviewer of a score. Scores with different keys are not comparable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScoreKey {
    /// The agent.
    pub agent: String,
    /// The kind of task.
    pub task_type: Option<String>,
    /// The shadow.
    pub shadow: String,
    /// The reviewer: a model, or the built-in checks alone.
    pub reviewer: Reviewer,
}

/// Score of one event in one review.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// Agent, task type, shadow and reviewer.
    pub key: ScoreKey,
    /// The event.
    pub event: EventId,
    /// The review.
    pub review: ReviewId,
    /// Score, 0 to 100.
    pub score: u8,
    /// When the review ended.
    pub at: Timestamp,
}

/// Baseline of an agent's scores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreBaseline {
    /// Mean score.
    pub mean: f64,
    /// Standard deviation of the scores.
    pub spread: f64,
    /// Number of scores.
    pub count: u32,
}

impl FollowerPage {
    /// Stores scores, and deletes scores of the same agents that are older than `window`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn add_scores(&mut self, scores: &[Score], window: Duration) -> Result<(), StoreError> {
        if scores.is_empty() {
            return Ok(());
        }
        let column = |of: fn(&Score) -> &str| scores.iter().map(of).collect::<Vec<_>>();
        sql::execute(
            &mut *self.tx,
            "/* baselines.add */
             INSERT INTO agent_score (agent, task_type, shadow, reviewer, event_id, review_id, score, at)
             SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::uuid[], $6::uuid[], $7::int2[],
                                  $8::timestamptz[]) ON CONFLICT DO NOTHING",
            (
                column(|score| &score.key.agent),
                column(|score| score.key.task_type.as_deref().unwrap_or_default()),
                column(|score| &score.key.shadow),
                column(|score| score.key.reviewer.as_str()),
                scores.iter().map(|score| score.event.0).collect::<Vec<_>>(),
                scores.iter().map(|score| score.review.0).collect::<Vec<_>>(),
                scores.iter().map(|score| i16::from(score.score)).collect::<Vec<_>>(),
                scores.iter().map(|score| score.at.to_sqlx()).collect::<Vec<_>>(),
            ),
        )
        .await?;
        sql::execute(
            &mut *self.tx,
            "/* baselines.forget */
             DELETE FROM agent_score WHERE (review_id, event_id) IN (
                 SELECT review_id, event_id FROM agent_score WHERE agent = ANY($1) AND at < clock() - $2 LIMIT 1000)",
            (column(|score| &score.key.agent), interval(window)),
        )
        .await
    }
}

impl ReviewStore<'_> {
    /// Returns the baseline of an agent's newest scores within `window`; `None` if there are no scores.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn score_baseline(self, key: &ScoreKey, window: Duration) -> Result<Option<ScoreBaseline>, StoreError> {
        let (mean, spread, count): (Option<f64>, Option<f64>, i64) = sql::one(
            &self.0.work,
            "/* baselines.usual */
             SELECT avg(score)::float8, stddev_samp(score)::float8, count(*) FROM (
                 SELECT score FROM agent_score WHERE agent = $1 AND task_type = $2 AND shadow = $3 AND reviewer = $4
                     AND at > (SELECT clock()) - $5 ORDER BY at DESC LIMIT $6) newest",
            (
                &key.agent,
                key.task_type.as_deref().unwrap_or_default(),
                &key.shadow,
                key.reviewer.as_str(),
                interval(window),
                MOST_SCORES,
            ),
        )
        .await?;
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        Ok(mean.map(|mean| ScoreBaseline { mean, spread: spread.unwrap_or(0.0), count }))
    }
}
