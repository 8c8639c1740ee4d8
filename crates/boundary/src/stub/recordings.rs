//! Recorded calls as lines of JSON, and contracts inferred from them. In: lines. Out: contracts, and the tools without
//! one.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::infer::{RecordedResult, infer};
use crate::{contract::faults, effects::classify};
use umbra_domain::{Effect, ToolContract, ToolName};

/// Longest line, in bytes.
pub const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
/// Most tools, and most calls that are kept of each.
const MAX_TOOLS: usize = 1_000;
const MAX_CALLS: usize = 200;
/// Longest name of a tool, in bytes.
const NAME_BYTES: usize = 256;

/// Latest calls of each tool.
#[derive(Debug, Default)]
pub struct Recordings(BTreeMap<String, Vec<RecordedResult>>);

/// A line that is no recorded call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct BadLine {
    /// Column in the line, from 1.
    pub column: usize,
    /// Fault, with what to write instead.
    pub message: String,
}

/// Line of the file; its other fields are ignored.
#[derive(Debug, Deserialize)]
struct RecordingLine {
    tool: String,
    #[serde(default = "nothing")]
    args: Value,
    result: Value,
}

fn nothing() -> Value {
    json!({})
}

/// Contracts inferred from recorded calls.
#[derive(Debug, Clone, PartialEq)]
pub struct Inferred {
    /// Contracts of all tools with enough calls.
    pub contracts: Vec<ToolContract>,
    /// Other tools, each with the reason.
    pub left_out: Vec<(String, String)>,
}

impl Recordings {
    /// Adds a line; an empty one is ignored.
    ///
    /// # Errors
    /// The line is no recorded call, or there are too many tools.
    pub fn take(&mut self, line: &[u8]) -> Result<(), BadLine> {
        let bad = |column: usize, message: String| Err(BadLine { column, message });
        if line.len() > MAX_LINE_BYTES {
            return bad(1, format!("a line of more than {MAX_LINE_BYTES} bytes"));
        }
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let no_call = |column| {
            let help = "write {\"tool\": \"server.tool\", \"args\": {...}, \"result\": ...}";
            bad(column, format!("this line is not a recorded call; {help}"))
        };
        // serde would take an array for the fields, in their order.
        if line.trim_ascii_start().first() == Some(&b'[') {
            return no_call(1);
        }
        let parsed: RecordingLine = match serde_json::from_slice(line) {
            Ok(parsed) => parsed,
            Err(error) => return no_call(error.column()),
        };
        let RecordingLine { tool, args, result } = parsed;
        if tool.is_empty() || tool.len() > NAME_BYTES || tool.contains(char::is_control) {
            return bad(1, format!("a tool's name has 1 to {NAME_BYTES} printable characters"));
        }
        if self.0.len() == MAX_TOOLS && !self.0.contains_key(&tool) {
            return bad(1, format!("more than {MAX_TOOLS} tools"));
        }
        self.add(tool, RecordedResult { args, result, agent: 0 });
        Ok(())
    }

    /// Adds the latest call of a tool.
    pub fn add(&mut self, tool: String, call: RecordedResult) {
        let recorded = self.0.entry(tool).or_default();
        if recorded.len() == MAX_CALLS {
            recorded.remove(0);
        }
        recorded.push(call);
    }

    /// Infers the contract of each tool, if its calls suffice. Without `effect`, a tool has the effect of its name.
    pub fn infer(&self, effect: Option<Effect>) -> Inferred {
        let mut inferred = Inferred { contracts: Vec::new(), left_out: Vec::new() };
        for (tool, recorded) in &self.0 {
            let effect =
                effect.unwrap_or_else(|| classify(&ToolName::bare(tool.clone()), "", &Value::Null, false).effect);
            let contract = infer(tool, effect, recorded).and_then(|contract| {
                let fault = faults(&contract).into_iter().next();
                fault.map_or(Ok(contract), |fault| Err(fault.message))
            });
            match contract {
                Ok(contract) => inferred.contracts.push(contract),
                Err(why) => inferred.left_out.push((tool.clone(), why)),
            }
        }
        inferred
    }
}
