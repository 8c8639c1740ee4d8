//! OpenTelemetry exports of agents: spans and logs become records of model calls and tool calls ([`normalise`]), and
//! the records of a trace become calls, one for each true call ([`assemble`]). Pure.
//!
//! No case of a single framework: tables (`dialects/*.toml`) name the attributes of the known dialects, `message.rs`
//! reads any shape of chat messages, and what no table knows is judged by the facts that it brings.

mod agents;
mod assemble;
mod attributes;
mod decode;
mod dialect;
mod evaluation;
mod join;
mod json;
mod merge;
mod message;
mod normalise;
mod prompts;
mod record;
mod requests;
mod response;
mod switches;
#[cfg(test)]
mod tests;
mod tree;
mod wire;

pub use self::{
    assemble::{AssembledCall, CallKind, Trace, assemble},
    decode::{Encoding, Export, Signal, decode},
    evaluation::{Evaluation, evaluation_logs},
    join::is_unique,
    normalise::{Normalised, normalise},
    record::{Part, PartRole, Record, RecordKind, TokenUsage},
    response::response,
    switches::content_switch,
};
