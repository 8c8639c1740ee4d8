//! Contract of a tool: its effect, its schemas, and the answers of its stub.

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::Effect;

/// Contract of a tool, as an operator wrote it. Members that have their default are not serialised.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ToolContract {
    /// `server.tool`, or the name of a tool without a server; a glob matches several tools.
    pub tool: String,
    /// Version of the contract; the audit keeps `tool@version`.
    pub version: u32,
    /// Effect of a call.
    pub effect: Effect,
    /// Treatment of the arguments of a tool that reads.
    #[serde(skip_serializing_if = "is_default")]
    pub arguments: Arguments,
    /// JSON Schema of the arguments.
    #[serde(skip_serializing_if = "is_default")]
    pub input_schema: Option<Value>,
    /// JSON Schema of the result.
    #[serde(skip_serializing_if = "is_default")]
    pub output_schema: Option<Value>,
    /// Result shown in the tool's own documentation.
    #[serde(skip)]
    pub example: Option<Value>,
    /// Answers of the stub; the first that applies is used.
    #[serde(skip_serializing_if = "is_default")]
    pub responses: Vec<StubResponse>,
    /// Errors that stubs return now and then, if the run asks for them.
    #[serde(skip_serializing_if = "is_default")]
    pub faults: Vec<FaultRule>,
    /// Records of calls that did not run, for later reads in the same run.
    #[serde(skip_serializing_if = "is_default")]
    pub overlay: Option<Overlay>,
    /// Limits after which the contract is stale.
    #[serde(skip)]
    pub stale: StaleLimits,
    /// Handling of a live call when no decision can be stored.
    #[serde(skip_serializing_if = "is_default")]
    pub on_unavailable: OnUnavailable,
    /// Endpoint where the tool can be tried without consequences.
    #[serde(skip_serializing_if = "is_default")]
    pub sandbox: Option<String>,
    /// Labels that a call adds to its session.
    #[serde(skip_serializing_if = "is_default")]
    pub taints: Vec<String>,
}

impl ToolContract {
    /// Creates a contract that states the effect and nothing else.
    pub fn new(tool: impl Into<String>, effect: Effect) -> Self {
        Self {
            tool: tool.into(),
            version: 1,
            effect,
            arguments: Arguments::LookedAt,
            input_schema: None,
            output_schema: None,
            example: None,
            responses: Vec::new(),
            faults: Vec::new(),
            overlay: None,
            stale: StaleLimits::default(),
            on_unavailable: OnUnavailable::Block,
            sandbox: None,
            taints: Vec::new(),
        }
    }

    /// Returns `tool@version`, as the audit keeps it.
    pub fn id(&self) -> String {
        format!("{}@{}", self.tool, self.version)
    }
}

/// True for a value that need not be written.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// One answer of a stub.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StubResponse {
    /// Condition under which the answer applies, in CEL; always if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub when: Option<String>,
    /// Result: JSON whose strings may hold `{{ CEL }}`.
    pub result: Value,
}

/// Error that stubs return at a given rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FaultRule {
    /// Share of calls, 0 to 1.
    pub rate: f64,
    /// Code of the error, such as `rate_limited`.
    pub error: String,
    /// Message of the error.
    #[serde(skip_serializing_if = "is_default")]
    pub message: Option<String>,
    /// Result of the failed call; `{"error": ..., "message": ...}` if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub result: Option<Value>,
}

/// Records that calls which did not run leave behind, and the tools that read them back.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Overlay {
    /// Record that the call stores.
    #[serde(skip_serializing_if = "is_default")]
    pub put: Option<OverlayPut>,
    /// Record that the call removes.
    #[serde(skip_serializing_if = "is_default")]
    pub delete: Option<OverlayDelete>,
    /// Tools that read one record.
    #[serde(skip_serializing_if = "is_default")]
    pub reads: Vec<ReadBack>,
    /// Tools that list records.
    #[serde(skip_serializing_if = "is_default")]
    pub lists: Vec<ListBack>,
}

/// Record that a call stores.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct OverlayPut {
    /// Collection of the record.
    pub collection: String,
    /// Key of the record, in CEL over `args`, `tool` and `result`.
    pub key: String,
    /// Template over `args`, `tool`, `result` and `record`, the run's earlier record; the result if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub value: Option<Value>,
    /// True if the record holds only the fields that change; the other fields keep their values.
    #[serde(skip_serializing_if = "is_default")]
    pub partial: bool,
    /// Replacements within a record that is text, in CEL: a list of `{oldText, newText}`.
    #[serde(skip_serializing_if = "is_default")]
    pub edits: Option<String>,
    /// Key of the run's record that becomes this one, in CEL; nothing is stored if the run has no such record.
    #[serde(skip_serializing_if = "is_default")]
    pub from: Option<String>,
}

/// Record that a call removes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OverlayDelete {
    /// Collection of the record.
    pub collection: String,
    /// Key of the record, in CEL over `args`, `tool` and `result`.
    pub key: String,
}

/// Tool that reads one record.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadBack {
    /// Name of the tool, as in its contract or at its server.
    pub tool: String,
    /// Collection that is read; that of `put` or `delete` if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub collection: Option<String>,
    /// Key that a call asks for, in CEL over `args` and `tool`.
    pub key: String,
    /// Path of the record in the tool's result, such as `data.item`; the whole result if empty.
    #[serde(skip_serializing_if = "is_default")]
    pub at: String,
    /// Template of the tool's result, over `args`, `tool` and `record`; the record if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub result: Option<Value>,
    /// Template of the result for a removed record, over `args` and `tool`; an error `not_found` if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub on_missing: Option<Value>,
}

/// Tool that lists records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListBack {
    /// Name of the tool, as in its contract or at its server.
    pub tool: String,
    /// Collection that is listed; that of `put` or `delete` if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub collection: Option<String>,
    /// Path of the list in the result, such as `data.items`; the whole result if empty.
    #[serde(skip_serializing_if = "is_default")]
    pub items: String,
    /// Field that holds an item's key; empty if items are lines of text.
    #[serde(skip_serializing_if = "is_default")]
    pub key: String,
    /// Path of the field that announces more pages, such as `has_more`. The run's records come with the last page.
    #[serde(skip_serializing_if = "is_default")]
    pub more: Option<String>,
    /// Condition for a record to be listed, in CEL over `args`, `tool`, `key` and `record`; every record if absent.
    #[serde(skip_serializing_if = "is_default")]
    pub when: Option<String>,
    /// Line of a record in a result that is lines of text, over `args`, `tool`, `key` and `record`.
    #[serde(skip_serializing_if = "is_default")]
    pub line: Option<String>,
}

/// Consecutive mismatching live results after which a contract is stale, unless it sets another number.
pub const DEFAULT_MISMATCHES: u32 = 3;

/// Limits after which a contract is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StaleLimits {
    /// Consecutive live results that do not fit the contract; [`DEFAULT_MISMATCHES`] unless set.
    pub live_mismatches: Option<u32>,
    /// Time since a live result fitted, a person confirmed the contract, or its version came into force.
    pub max_age: Option<Duration>,
}

words! {
    /// Handling of a live call when no decision can be stored.
    #[derive(Default)]
    pub enum OnUnavailable {
        /// The call is not executed.
        #[default]
        Block = "block",
        /// The call is audited to a local file, then executed if the last known state was live.
        Allow = "allow",
    }
}

words! {
    /// Treatment of the arguments of a tool that reads.
    #[derive(Default)]
    pub enum Arguments {
        /// The arguments are examined: a call whose arguments are not understood as a read is no read.
        #[default]
        LookedAt = "looked_at",
        /// The arguments are ignored: the operator vouches that they never make the call more than a read.
        Trusted = "trusted",
    }
}

/// Live results observed against one version of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractState {
    /// Tool or glob of the contract.
    pub tool: String,
    /// Version of the contract.
    pub version: u32,
    /// Time at which the version came into force.
    pub since: Timestamp,
    /// Live results that were compared with the contract.
    pub results: i64,
    /// Consecutive results up to the latest that did not fit.
    pub misfits: i64,
    /// Time of the latest result.
    pub last_at: Option<Timestamp>,
    /// Time of the latest result that fitted.
    pub fit_at: Option<Timestamp>,
    /// Description of the latest mismatch, without any content of the result.
    pub misfit: Option<String>,
    /// Audit numbers of the results since the contract stopped fitting, oldest first.
    pub recent: Vec<i64>,
    /// Staleness, once it is noted; a contract that has just become too old may lack it.
    pub stale: Option<StaleSince>,
    /// Time at which a person last confirmed the contract.
    pub confirmed_at: Option<Timestamp>,
}

/// Time and reason at which a contract became stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StaleSince {
    /// Start of the staleness.
    pub since: Timestamp,
    /// Reason for the staleness.
    pub reason: StaleReason,
}

words! {
    /// Reason for which a contract is stale.
    pub enum StaleReason {
        /// Consecutive live results did not fit the contract.
        Misfits = "misfits",
        /// No live result has fitted the contract for too long.
        Age = "age",
    }
}

/// Fault in a contract, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractFault {
    /// Key that holds the fault.
    pub key: &'static str,
    /// Index of the faulty item, if the key holds a list.
    pub index: Option<usize>,
    /// Description of the fault.
    pub message: String,
    /// Remedy.
    pub help: String,
}

impl ContractFault {
    /// Creates a fault of one key.
    pub fn of(key: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { key, index: None, message: message.into(), help: help.into() }
    }

    /// Sets the index of the faulty item.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }
}
