//! A tool's contract: what it does, takes and gives, and how it is answered where nothing may run.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::Effect;

/// What a tool promises, as an operator wrote it down.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolContract {
    /// `server.tool`, or the name of a tool without a server; a glob may stand for several.
    pub tool: String,
    /// Which edition this is; the audit keeps `tool@version`.
    pub version: u32,
    /// What calling it does.
    pub effect: Effect,
    /// Whether the arguments of a tool that reads are looked at.
    pub arguments: Arguments,
    /// JSON Schema of its arguments.
    pub input_schema: Option<Value>,
    /// JSON Schema of its result.
    pub output_schema: Option<Value>,
    /// A result that the tool's own documentation shows.
    pub example: Option<Value>,
    /// How it is answered without being run; the first that applies.
    pub responses: Vec<Response>,
    /// Errors that a run may ask to be shown now and then.
    pub faults: Vec<FaultRule>,
    /// What of a call that did not run can be read back in the same run.
    pub overlay: Option<Overlay>,
    /// When the contract is no longer believed.
    pub stale: Staleness,
    /// What happens to a live call when no decision can be stored.
    pub on_unavailable: OnUnavailable,
    /// Where the real thing can be tried without consequences.
    pub sandbox: Option<String>,
    /// Labels that a call of it adds to its session.
    pub taints: Vec<String>,
}

impl ToolContract {
    /// A contract that says what a tool does and nothing else.
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
            stale: Staleness::default(),
            on_unavailable: OnUnavailable::Block,
            sandbox: None,
            taints: Vec::new(),
        }
    }

    /// `tool@version`, as the audit keeps it.
    pub fn id(&self) -> String {
        format!("{}@{}", self.tool, self.version)
    }
}

/// One way to answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// When it applies, in CEL; always where absent.
    pub when: Option<String>,
    /// The result: JSON whose texts may hold `{{ CEL }}`.
    pub result: Value,
}

/// An error that is shown at a rate.
#[derive(Debug, Clone, PartialEq)]
pub struct FaultRule {
    /// Share of calls, 0 to 1.
    pub rate: f64,
    /// The error's code, such as `rate_limited`.
    pub error: String,
    /// The error in words.
    pub message: Option<String>,
    /// What the tool gives then; `{"error": ..., "message": ...}` where absent.
    pub result: Option<Value>,
}

/// What a call that did not run leaves to be read back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Overlay {
    /// A record that it stores.
    pub put: Option<Put>,
    /// A record that it removes.
    pub delete: Option<Delete>,
    /// Tools that read one record.
    pub reads: Vec<ReadBack>,
    /// Tools that list records.
    pub lists: Vec<ListBack>,
}

/// A record that is stored.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Put {
    /// Where it is kept.
    pub collection: String,
    /// Its key, in CEL over `args`, `tool` and `result`.
    pub key: String,
    /// The record, over `record` besides, which is what the run had stored there; the result where absent.
    pub value: Option<Value>,
    /// The record holds only the fields that change; the others stay what they are.
    pub partial: bool,
    /// Replacements within a record that is text, in CEL: a list of `{oldText, newText}`.
    pub edits: Option<String>,
    /// Key of the record that becomes this one, in CEL; nothing is stored where the run has none.
    pub from: Option<String>,
}

/// A record that is removed.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete {
    /// Where it is kept.
    pub collection: String,
    /// Its key, in CEL over `args`, `tool` and `result`.
    pub key: String,
}

/// A tool that reads one record.
#[derive(Debug, Clone, PartialEq)]
pub struct ReadBack {
    /// The tool, as its contract or its server names it.
    pub tool: String,
    /// Where it looks; the collection of `put` or `delete` where absent.
    pub collection: Option<String>,
    /// The key that a call asks for, in CEL over `args` and `tool`.
    pub key: String,
    /// Where the record stands in the tool's result, as `data.item`; the result itself where empty.
    pub at: String,
    /// What it gives, over `record` besides; the record where absent.
    pub result: Option<Value>,
    /// What it gives for a record that was removed; an error `not_found` where absent.
    pub on_missing: Option<Value>,
}

/// A tool that lists records.
#[derive(Debug, Clone, PartialEq)]
pub struct ListBack {
    /// The tool, as its contract or its server names it.
    pub tool: String,
    /// Where it looks; the collection of `put` or `delete` where absent.
    pub collection: Option<String>,
    /// Where the list stands in the result, as `data.items`; the result itself where empty.
    pub items: String,
    /// Field of an item that is its key; empty where items are lines of text.
    pub key: String,
    /// Where the result says that more pages follow, as `has_more`: what the run added comes with the last one.
    pub more: Option<String>,
    /// Condition for a record to be listed, in CEL over `args`, `tool`, `key` and `record`; none for all.
    pub when: Option<String>,
    /// Line of a record, over `args`, `tool`, `key` and `record`, in a result that is lines of text.
    pub line: Option<String>,
}

/// Live results in a row that must not fit a contract before it is stale.
pub const DEFAULT_MISMATCHES: u32 = 3;

/// When a contract is no longer believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Staleness {
    /// After so many live results in a row that do not fit it; [`DEFAULT_MISMATCHES`] unless set.
    pub live_mismatches: Option<u32>,
    /// When it is so old.
    pub max_age: Option<Duration>,
}

words! {
    /// What happens to a live call of this tool when no decision can be stored.
    #[derive(Default)]
    pub enum OnUnavailable {
        /// It is not executed.
        #[default]
        Block = "block",
        /// It is executed where the last known state was live, and audited to a local file first.
        Allow = "allow",
    }
}

words! {
    /// Whether the arguments of a call can make more of a tool that reads.
    #[derive(Default)]
    pub enum Arguments {
        /// They may: a call whose arguments are not understood as a read is none.
        #[default]
        LookedAt = "looked_at",
        /// They cannot, whatever they say: the operator vouches for it.
        Trusted = "trusted",
    }
}

/// What live results have shown of an edition of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractState {
    /// The tool, or the glob.
    pub tool: String,
    /// The edition.
    pub version: u32,
    /// When it was first in force.
    pub since: Timestamp,
    /// Live results that were held against it.
    pub results: i64,
    /// The last so many of them did not fit.
    pub misfits: i64,
    /// When the last one was reported.
    pub last_at: Option<Timestamp>,
    /// When the last one that fitted was reported.
    pub fit_at: Option<Timestamp>,
    /// What did not fit last. Repeats nothing of the result.
    pub misfit: Option<String>,
    /// Results since it no longer fits, as numbers in the audit, oldest first.
    pub recent: Vec<i64>,
    /// Since when it is not believed any more, and why; what is too old by now may not be noted yet.
    pub stale: Option<Stale>,
    /// When a person last said that it holds.
    pub confirmed_at: Option<Timestamp>,
}

/// That a contract is not believed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stale {
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub why: StaleWhy,
}

words! {
    /// Why a contract is not believed any more.
    pub enum StaleWhy {
        /// Live results in a row did not fit it.
        Misfits = "misfits",
        /// No live result has confirmed it for too long.
        Age = "age",
    }
}

/// What is wrong with a contract, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractFault {
    /// The key that holds it.
    pub key: &'static str,
    /// Which item of it, where it is a list.
    pub index: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl ContractFault {
    /// A fault of one key.
    pub fn of(key: &'static str, message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { key, index: None, message: message.into(), help: help.into() }
    }

    /// The same of one item.
    #[must_use]
    pub fn at(self, index: usize) -> Self {
        Self { index: Some(index), ..self }
    }
}
