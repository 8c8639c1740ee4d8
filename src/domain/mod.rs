//! The nouns of the product, as the user meets them in YAML, URLs and tables.
//! Plain data and its rules; no input or output, nothing of the rooms.

pub mod disposition;
pub mod event;
pub mod finding;
pub mod hit;
pub mod ids;
pub mod key;
pub mod mode;
pub mod model;
pub mod money;
pub mod redacted;
pub mod review;
pub mod shadow;
pub mod trajectory;
pub mod trigger;
pub mod verdict;

pub use disposition::{Disposition, Outcome, SkipReason};
pub use event::{Event, FieldName, StoredEvent, TokenCount, ToolCall};
pub use finding::{Category, Evidence, Finding, Severity, Source};
pub use hit::{CheckName, Hit, Mark};
pub use ids::{EventId, FindingId, KeyId, ReviewId, WorkerId};
pub use mode::Mode;
pub use model::{ModelSpec, Prices, Provider};
pub use money::{NanoUsd, PricePerMtok};
pub use redacted::Redacted;
pub use review::{Assessment, ReviewScope, ReviewState, Reviewer};
pub use shadow::{BatchRules, CostControl, Shadow, WatchRule};
pub use trigger::{Trigger, TriggerMark, TriggerSource};
