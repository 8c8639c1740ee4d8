//! Patterns: a task, the prompt and tools with which it was done, and the result. All texts in a pattern are an agent's
//! words, and are shown as data only.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NanoUsd, PatternId, ReviewId, ToolName};

words! {
    /// Result of a task that was done by a pattern.
    #[derive(PartialOrd, Ord, Default, ToSchema)]
    pub enum PatternOutcome {
        /// The task was done.
        #[default]
        Succeeded = "succeeded",
        /// The task was not done.
        Failed = "failed",
    }
}

words! {
    /// Source of a pattern, or of a report of its use.
    #[derive(PartialOrd, Ord, Default, ToSchema)]
    pub enum PatternSource {
        /// Reported by a client or by the agent.
        #[default]
        Recorded = "recorded",
        /// Mined from the steps of a task whose reviews approved it.
        Mined = "mined",
    }
}

words! {
    /// Status of a pattern.
    #[derive(PartialOrd, Ord, Default, ToSchema)]
    pub enum PatternStatus {
        /// Offered for similar tasks.
        #[default]
        Active = "active",
        /// Failed too often, and is not offered.
        Retired = "retired",
        /// The built-in checks found something that no pattern needs. Kept for people, and never offered.
        Quarantined = "quarantined",
    }
}

/// A way in which a task was done, as reported by a client.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPattern {
    /// Agent that did the task.
    #[schema(min_length = 1, max_length = 256)]
    pub agent: String,
    /// Kind of task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub task_type: Option<String>,
    /// Task, in words.
    #[schema(min_length = 1, max_length = 2048)]
    pub task: String,
    /// Prompt that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 8192)]
    pub prompt: Option<String>,
    /// Tools that were used, in order. A string is the name of a tool as well.
    #[serde(default, deserialize_with = "super::tool::named_or_in_parts")]
    #[schema(max_items = 50)]
    pub tools: Vec<ToolName>,
    /// Result of the task; success if absent.
    #[serde(default)]
    pub outcome: PatternOutcome,
    /// Remarks on the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048)]
    pub summary: Option<String>,
    /// Session in which the task was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub session: Option<String>,
    /// Id of the task, as events carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub task_id: Option<String>,
    /// Cost, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::money::dollars")]
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub cost_usd: Option<NanoUsd>,
    /// Duration, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

/// One more use of a known pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternUse {
    /// Result of the use.
    pub outcome: PatternOutcome,
    /// Source of the report.
    pub source: PatternSource,
    /// Cost, in nano-dollars.
    pub cost_usd: Option<NanoUsd>,
    /// Duration, in milliseconds.
    pub ms: Option<u64>,
}

/// Origin of a pattern: its first report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PatternProvenance {
    /// Recorded or mined.
    pub source: PatternSource,
    /// Reporter: the id of an API key, or the part of Umbra that mined the pattern.
    pub by: String,
    /// Session in which the task was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Id of the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Review that approved the mined task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "rev_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub review: Option<ReviewId>,
    /// Time of the report.
    pub at: Timestamp,
}

/// A way in which tasks were done, with its numbers of successes and failures.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pattern {
    /// Id of the pattern.
    #[schema(value_type = String, example = "pat_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: PatternId,
    /// Agent that did the task.
    pub agent: String,
    /// Kind of task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// Task, in words.
    pub task: String,
    /// Prompt that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Tools that were used, in order.
    pub tools: Vec<ToolName>,
    /// Remarks of the first report.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Origin of the pattern.
    pub provenance: PatternProvenance,
    /// Number of uses that succeeded.
    pub successes: u32,
    /// Number of uses that failed.
    pub failures: u32,
    /// Total cost of the uses that reported one, in dollars; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::money::dollars")]
    #[schema(value_type = Option<f64>)]
    pub cost_usd: Option<NanoUsd>,
    /// Total duration of the uses that reported one, in milliseconds; absent if none did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Status of the pattern.
    pub status: PatternStatus,
    /// Reason for which the pattern is not active, in Umbra's words; absent if it is active.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl NewPattern {
    /// Returns the report as a use of a pattern that is known already.
    pub fn used(&self, source: PatternSource) -> PatternUse {
        PatternUse { outcome: self.outcome, source, cost_usd: self.cost_usd, ms: self.ms }
    }
}

impl Pattern {
    /// Returns the number of uses.
    pub fn uses(&self) -> u64 {
        u64::from(self.successes) + u64::from(self.failures)
    }
}

impl fmt::Debug for NewPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewPattern")
            .field("tools", &self.tools.len())
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pattern")
            .field("id", &self.id)
            .field("tools", &self.tools.len())
            .field("successes", &self.successes)
            .field("failures", &self.failures)
            .field("status", &self.status)
            .field("reason", &self.reason)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{PatternOutcome, PatternSource, PatternStatus};

    #[test]
    fn enum_words_equal_their_json_form() {
        for one in PatternOutcome::ALL {
            assert_eq!(serde_json::to_value(one).ok(), Some(one.as_str().into()));
            assert_eq!(PatternOutcome::parse(one.as_str()), Some(one));
        }
        for one in PatternSource::ALL {
            assert_eq!(serde_json::to_value(one).ok(), Some(one.as_str().into()));
            assert_eq!(PatternSource::parse(one.as_str()), Some(one));
        }
        for one in PatternStatus::ALL {
            assert_eq!(serde_json::to_value(one).ok(), Some(one.as_str().into()));
            assert_eq!(PatternStatus::parse(one.as_str()), Some(one));
        }
        assert_eq!(PatternStatus::parse("gone"), None);
    }
}
