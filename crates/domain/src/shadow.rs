//! An observer: what it watches, what it may spend, what it looks for.

use std::{collections::BTreeSet, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{CheckName, Mode, NanoUsd, ReviewScope, Severity, Trigger, verdict::VerdictRules};

/// Which events a shadow watches.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchRule {
    /// An agent's name or a glob.
    pub agent: String,
    /// Triggers it matches; `all` is written out here as every one.
    pub triggers: Vec<Trigger>,
    /// Whether the rule said `all`: then it also matches events that carry no trigger at all.
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

/// What a shadow may spend.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CostControl {
    /// Reviews a local day.
    pub max_reviews_per_day: Option<u32>,
    /// Reviews a local day for each agent.
    pub max_reviews_per_target_per_day: Option<u32>,
    /// Money a local day.
    pub max_usd_per_day: Option<NanoUsd>,
    /// Tokens a local day.
    pub max_tokens_per_day: Option<u64>,
    /// Tasks cheaper than this are not reviewed.
    pub skip_if_task_cost_below: Option<NanoUsd>,
    /// Between reviews of the same (shadow, agent, trigger).
    pub cooldown: Duration,
    /// Share of matching events, in millionths.
    pub sample_ppm: u32,
    /// Whose calendar day: an IANA name.
    pub time_zone: String,
    /// Whether a model above the cheap-model ceiling is allowed.
    pub allow_costly_model: bool,
    /// How small events of one agent share a review; `None`: each has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchRules>,
}

/// How small events of one agent share a review.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchRules {
    /// Most events in one review.
    pub max_events: u32,
    /// Most characters of their texts; an event that has more alone is reviewed by itself.
    pub max_chars: u32,
    /// Longest that the first of them waits for company.
    pub max_wait: Duration,
}

words! {
    /// How the reviewed data is marked in a prompt, so that a model tells it from its orders.
    #[derive(Default, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Datamark {
        /// Not at all: only tags stand around it.
        Off = "off",
        /// Each line begins with a mark of the call.
        #[default]
        Lines = "lines",
        /// So it does, and a sign stands for each space.
        Words = "words",
    }
}

impl Datamark {
    /// Whether it is the ordinary one.
    pub fn is_ordinary(&self) -> bool {
        *self == Self::default()
    }
}

/// An observer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shadow {
    /// Its unique name.
    pub name: String,
    /// The alias of the model that reviews.
    pub model: String,
    /// How far its opinion reaches.
    pub mode: Mode,
    /// What it watches.
    pub watch: Vec<WatchRule>,
    /// What it may spend.
    pub cost_control: CostControl,
    /// More things to check, in words.
    pub criteria: Vec<String>,
    /// Which built-in checks run.
    pub checks: BTreeSet<CheckName>,
    /// The hosts that agents may reach: names, `*.` and a name, or addresses; `None`: no others are reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_hosts: Option<Vec<String>>,
    /// Findings of this severity make FLAG (critical unless said otherwise).
    pub flag_at: Severity,
    /// Most characters of an event that a model is shown.
    pub max_input_chars: u32,
    /// How the data is marked in what the model is shown.
    #[serde(default, skip_serializing_if = "Datamark::is_ordinary")]
    pub datamark: Datamark,
    /// Whether each call holds a planted fault, without whose mention a reply does not count.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub canary: bool,
    /// What one of its reviews is of: an event, or a whole task.
    #[serde(default, skip_serializing_if = "ReviewScope::is_event")]
    pub scope: ReviewScope,
    /// How it comes to a verdict, where it is active.
    #[serde(default)]
    pub verdict: VerdictRules,
    /// Whether it runs at all.
    pub enabled: bool,
}

/// What a version that was stored before the key says.
fn yes() -> bool {
    true
}

impl Shadow {
    /// Whether it looks for the same as another, whatever it may spend or do with what it finds: then what people said
    /// of the one's findings holds for the other's.
    pub fn sees_like(&self, other: &Self) -> bool {
        (&self.model, &self.criteria, &self.checks, &self.allowed_hosts, self.flag_at)
            == (&other.model, &other.criteria, &other.checks, &other.allowed_hosts, other.flag_at)
    }

    /// The version under which its reviews are filed: a hash of everything that shapes what it does.
    /// 16 hex digits, the same on every replica.
    pub fn version(&self) -> String {
        let canonical = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&canonical).to_hex().chars().take(16).collect()
    }
}

impl CostControl {
    /// No cap, no floor, no cooldown, every event.
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
    /// A shadow without limits that runs every check and watches nothing: the base of shadows in tests.
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
