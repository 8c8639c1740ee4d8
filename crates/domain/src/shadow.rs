//! Shadow: an observer with its watch rules, spending limits and criteria.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CheckName, Mode, NanoUsd, ReviewScope, Severity, Trigger, contract::is_default, verdict::VerdictRules};

/// Events that a shadow watches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchRule {
    /// Name or glob of the agent.
    pub agent: String,
    /// Triggers that match; `all` is written out here as every trigger.
    pub triggers: Vec<Trigger>,
    /// True if the rule said `all`: then it also matches events without any trigger.
    pub all: bool,
    /// Only events of this task type.
    pub task_type: Option<String>,
    /// Only events whose known cost is at least this.
    pub min_cost: Option<NanoUsd>,
    /// Only events whose metadata holds these values.
    pub metadata: Map<String, Value>,
    /// Agents (names or globs) left out.
    pub except: Vec<String>,
}

/// Limits on the spending of a shadow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostControl {
    /// Most reviews a local day.
    pub max_reviews_per_day: Option<u32>,
    /// Most reviews a local day for each agent.
    pub max_reviews_per_target_per_day: Option<u32>,
    /// Most money a local day.
    pub max_usd_per_day: Option<NanoUsd>,
    /// Most tokens a local day.
    pub max_tokens_per_day: Option<u64>,
    /// Tasks cheaper than this are not reviewed.
    pub skip_if_task_cost_below: Option<NanoUsd>,
    /// Least time between reviews of the same (shadow, agent, trigger).
    pub cooldown: Duration,
    /// Share of matching events that are reviewed, in millionths.
    pub sample_ppm: u32,
    /// Time zone of the calendar day: an IANA name.
    pub time_zone: String,
    /// True if a model above the cheap-model ceiling is allowed.
    pub allow_costly_model: bool,
    /// Rules by which small events of one agent share a review; `None` gives each event its own review.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchRules>,
}

/// Rules by which small events of one agent share a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRules {
    /// Most events in one review.
    pub max_events: u32,
    /// Most characters of the events' texts; a longer event is reviewed by itself.
    pub max_chars: u32,
    /// Longest time that the first event waits to be batched.
    pub max_wait: Duration,
}

words! {
    /// Marking of the reviewed data in a prompt, by which a model tells data from its instructions.
    #[derive(Default, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Datamark {
        /// No marks: only tags enclose the data.
        Off = "off",
        /// Each line begins with a mark of the call.
        #[default]
        Lines = "lines",
        /// Each line begins with a mark of the call, and a sign replaces each space.
        Words = "words",
    }
}

/// A shadow: an observer, as configured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shadow {
    /// Unique name of the shadow.
    pub name: String,
    /// Alias of the model that reviews.
    pub model: String,
    /// Mode of the shadow: the consequences that its findings may have.
    pub mode: Mode,
    /// Events that the shadow watches.
    pub watch: Vec<WatchRule>,
    /// Limits on the shadow's spending.
    pub cost_control: CostControl,
    /// Additional criteria, in words.
    pub criteria: Vec<String>,
    /// Built-in checks that run.
    pub checks: BTreeSet<CheckName>,
    /// Hosts that agents may reach: names, `*.` and a name, or addresses; `None` sets no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_hosts: Option<Vec<String>>,
    /// Least severity of findings that make FLAG (critical unless set).
    pub flag_at: Severity,
    /// Most characters of an event that a model is shown.
    pub max_input_chars: u32,
    /// Marking of the data in the prompt.
    #[serde(default, skip_serializing_if = "is_default")]
    pub datamark: Datamark,
    /// True if each call holds a planted fault; a reply that does not mention the fault does not count.
    #[serde(default = "default_canary", skip_serializing_if = "Clone::clone")]
    pub canary: bool,
    /// Scope of one review: an event, or a whole task.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scope: ReviewScope,
    /// Rules for the verdict of an active shadow.
    #[serde(default)]
    pub verdict: VerdictRules,
    /// True if the shadow runs.
    pub enabled: bool,
}

/// Returns the default of `canary`, for versions that were stored before the key existed.
fn default_canary() -> bool {
    true
}

impl Shadow {
    /// True if model, criteria, checks, allowed hosts and `flag_at` are equal: people's judgements of one shadow's
    /// findings then hold for the other's.
    pub fn has_same_criteria(&self, other: &Self) -> bool {
        (&self.model, &self.criteria, &self.checks, &self.allowed_hosts, self.flag_at)
            == (&other.model, &other.criteria, &other.checks, &other.allowed_hosts, other.flag_at)
    }

    /// Returns the version under which the shadow's reviews are filed: a hash of its whole configuration, in 16 hex
    /// digits, the same on every replica.
    pub fn version(&self) -> String {
        let canonical = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&canonical).to_hex().chars().take(16).collect()
    }
}

impl CostControl {
    /// Returns limits without cap, floor or cooldown, for every event.
    pub fn unlimited() -> Self {
        Self {
            max_reviews_per_day: None,
            max_reviews_per_target_per_day: None,
            max_usd_per_day: None,
            max_tokens_per_day: None,
            skip_if_task_cost_below: None,
            cooldown: Duration::ZERO,
            sample_ppm: 1_000_000,
            time_zone: "UTC".to_owned(),
            allow_costly_model: false,
            batch: None,
        }
    }
}

impl Shadow {
    /// Returns a shadow without limits that runs every check and watches nothing: the base of shadows in tests.
    pub fn plain() -> Self {
        Self {
            name: "plain".to_owned(),
            model: "haiku".to_owned(),
            mode: Mode::Review,
            watch: Vec::new(),
            cost_control: CostControl::unlimited(),
            criteria: Vec::new(),
            checks: CheckName::ALL.into(),
            allowed_hosts: None,
            flag_at: Severity::Critical,
            max_input_chars: 10_000,
            datamark: Datamark::default(),
            canary: true,
            scope: ReviewScope::Event,
            verdict: VerdictRules::default(),
            enabled: true,
        }
    }
}
