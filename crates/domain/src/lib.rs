//! Types of the product's concepts, named as in YAML, URLs and tables: data, and rules without input or output. Only
//! [`clock`] reads the system: the time, and random numbers for ids.

#[macro_use]
mod words;

pub mod approval;
pub mod audit;
pub mod backtest;
pub mod breaker;
pub mod call;
pub mod clock;
pub mod contract;
pub mod coverage;
pub mod decision;
pub mod declarations;
pub mod disposition;
pub mod effect;
pub mod event;
pub mod execution;
pub mod finding;
mod hex_bytes;
pub mod hit;
pub mod ids;
pub mod json;
pub mod key;
pub mod mode;
pub mod model;
pub mod money;
pub mod nearest;
pub mod notice;
pub mod pattern;
mod plain;
pub mod policy;
pub mod redacted;
pub mod review;
pub mod rule;
pub mod run;
pub mod session;
pub mod shadow;
pub mod share;
pub mod sidecar;
pub mod tool;
pub mod trajectory;
pub mod trigger;
pub mod verdict;

pub use approval::{ApprovalRow, ApprovalState};
pub use backtest::{AssessmentChange, BacktestState, Forecast, ItemOutcome};
pub use breaker::BreakerState;
pub use call::{Call, CallOutcome, DeclaredEffect, FlaggedCall, OutcomeStatus};
pub use contract::ToolContract;
pub use coverage::{Coverage, StepCoverage};
pub use decision::{Decision, StoredDecision};
pub use declarations::ToolDeclarations;
pub use disposition::{Disposition, Outcome, SkipReason};
pub use effect::{Effect, EffectOverride, EffectSource};
pub use event::{Event, FieldName, MOST_DURATION_MS, OutputForm, StoredEvent, TokenCount, ToolCall};
pub use execution::{ByExecution, Execution, Override, OverrideScope};
pub use finding::{Evidence, Finding, FindingCategory, FindingSource, FindingSubject, Severity};
pub use hex_bytes::HexBytes;
pub use hit::{CheckName, Hit, Mark};
pub use ids::{
    ApprovalId, BacktestId, DecisionId, DeliveryId, EventId, FindingId, KeyId, OverrideId, PatternId, ReflexionId,
    ReviewId, SessionId, WorkerId,
};
pub use mode::Mode;
pub use model::{ModelKind, ModelSpec, Prices, Provider};
pub use money::{NanoUsd, PricePerMtok};
pub use pattern::{NewPattern, Pattern, PatternOutcome, PatternProvenance, PatternSource, PatternStatus, PatternUse};
pub use plain::{plain, quoted};
pub use policy::{Guard, GuardVerdict, PolicyMode, PolicyRule};
pub use redacted::Redacted;
pub use review::{Assessment, ReviewScope, ReviewState, Reviewer};
pub use rule::{AllowList, AllowTarget, CheckRule, Checksum, MatchPlace, RuleFault, RuleFile, Sample, TextScope};
pub use run::RunRow;
pub use session::{Objective, Session, SessionState, ShownTool, StepKind};
pub use shadow::{BatchRules, CostControl, Datamark, Shadow, WatchRule};
pub use share::Share;
pub use tool::{ToolAnnotations, ToolName};
pub use trigger::{Trigger, TriggerMark, TriggerSource};
