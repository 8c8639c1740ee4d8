//! What was done before: a task, the prompt and the tools that it was done with, and how that ended. All of its texts are an
//! agent's words: whoever is shown them is shown data.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{NanoUsd, PatternId, ReviewId, ToolName};

words! {
    /// How a task ended that was done in a way.
    #[derive(PartialOrd, Ord, Default, ToSchema)]
    pub enum PatternOutcome {
        /// It was done.
        #[default]
        Succeeded = "succeeded",
        /// It was not.
        Failed = "failed",
    }
}

words! {
    /// Who says that a task was done in a way.
    #[derive(PartialOrd, Ord, Default, ToSchema)]
    pub enum PatternSource {
        /// Somebody recorded it.
        #[default]
        Recorded = "recorded",
        /// It was taken from the steps of a task whose reviews approved it.
        Mined = "mined",
    }
}

words! {
    /// What becomes of a pattern.
    #[derive(PartialOrd, Ord, Default, ToSchema)]
    pub enum PatternStatus {
        /// It is offered for tasks like its own.
        #[default]
        Active = "active",
        /// It failed too often, and is not offered.
        Retired = "retired",
        /// The built-in checks saw in it what no pattern needs. It is kept for people, and never offered.
        Quarantined = "quarantined",
    }
}

/// A way in which a task was done once, as somebody tells it.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewPattern {
    /// Who did it.
    #[schema(min_length = 1, max_length = 256)]
    pub agent: String,
    /// The kind of task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub task_type: Option<String>,
    /// What was to be done.
    #[schema(min_length = 1, max_length = 2048)]
    pub task: String,
    /// The prompt that it was done with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 8192)]
    pub prompt: Option<String>,
    /// The tools that did it, in order; a text is a tool's name as well.
    #[serde(default, deserialize_with = "super::tool::named_or_in_parts")]
    #[schema(max_items = 50)]
    pub tools: Vec<ToolName>,
    /// How it ended: well, where it is not said.
    #[serde(default)]
    pub outcome: PatternOutcome,
    /// What is to be said of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 2048)]
    pub summary: Option<String>,
    /// The session in which it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub session: Option<String>,
    /// The task's id, as events carry it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub task_id: Option<String>,
    /// What it cost, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::money::dollars")]
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub cost_usd: Option<NanoUsd>,
    /// How long it took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
}

/// What came of doing a task in a known way once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PatternUse {
    /// How it ended.
    pub outcome: PatternOutcome,
    /// Who says so.
    pub source: PatternSource,
    /// What it cost, in nano-dollars.
    pub cost_usd: Option<NanoUsd>,
    /// How long it took, in milliseconds.
    pub ms: Option<u64>,
}

/// Where a pattern comes from: what was told of the first time that it was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PatternProvenance {
    /// Whether it was recorded or mined.
    pub source: PatternSource,
    /// Who told: the id of an API key, or what of ours mined it.
    pub by: String,
    /// The session in which it was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The task's id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The review that approved the task it was mined from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "rev_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub review: Option<ReviewId>,
    /// When.
    #[schema(value_type = String, format = DateTime)]
    pub at: Timestamp,
}

/// A way in which tasks were done, and how often that went well.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Pattern {
    /// Its id.
    #[schema(value_type = String, example = "pat_0197a3c1d2e47f00a1b2c3d4e5f60718")]
    pub id: PatternId,
    /// Who did it.
    pub agent: String,
    /// The kind of task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_type: Option<String>,
    /// What was to be done.
    pub task: String,
    /// The prompt that it was done with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The tools that did it, in order.
    pub tools: Vec<ToolName>,
    /// What was said of the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Where it comes from.
    pub provenance: PatternProvenance,
    /// How often it went well.
    pub successes: u32,
    /// How often it did not.
    pub failures: u32,
    /// What all these together cost, in dollars, as far as that was told; none where it never was.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "super::money::dollars")]
    #[schema(value_type = Option<f64>)]
    pub cost_usd: Option<NanoUsd>,
    /// How long they took together, in milliseconds, as far as that was told; none where it never was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// What became of it.
    pub status: PatternStatus,
    /// Why it is not active, in words of ours; none where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl NewPattern {
    /// What came of it, for a pattern that is known already.
    pub fn used(&self, source: PatternSource) -> PatternUse {
        PatternUse { outcome: self.outcome, source, cost_usd: self.cost_usd, ms: self.ms }
    }
}

impl Pattern {
    /// How often it was used.
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
    fn words_are_those_of_json() {
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
