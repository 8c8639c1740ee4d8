//! Recorded calls as lines of JSON, and the contracts of their tools. Lines in; contracts out, and why there is none.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use super::infer::{Recorded, infer};
use crate::{contract::faults, effects::classify};
use umbra_domain::{Effect, ToolContract, ToolName};

/// Most bytes of a line.
pub const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;
/// Most tools, and most calls that are kept of each.
const MAX_TOOLS: usize = 1_000;
const MAX_CALLS: usize = 200;
/// Bytes of a tool's name.
const NAME_BYTES: usize = 256;

/// The calls of each tool, the latest of them.
#[derive(Debug, Default)]
pub struct Recordings(BTreeMap<String, Vec<Recorded>>);

/// A line that is no recorded call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct BadLine {
    /// In the line, from 1.
    pub column: usize,
    /// What is wrong, and what would be right.
    pub message: String,
}

/// A line of the file; others of its fields are of no use here.
#[derive(Debug, Deserialize)]
struct Line {
    tool: String,
    #[serde(default = "nothing")]
    args: Value,
    result: Value,
}

fn nothing() -> Value {
    json!({})
}

/// What calls show.
#[derive(Debug, Clone, PartialEq)]
pub struct Inferred {
    /// A contract of each tool that shows enough.
    pub contracts: Vec<ToolContract>,
    /// The other tools, each with why.
    pub left_out: Vec<(String, String)>,
}

impl Recordings {
    /// Takes a line; an empty one says nothing.
    ///
    /// # Errors
    /// It is no recorded call, or there are too many tools.
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
            bad(column, format!("this is no recorded call; {help}"))
        };
        // serde would take an array for the fields, in their order.
        if line.trim_ascii_start().first() == Some(&b'[') {
            return no_call(1);
        }
        let parsed: Line = match serde_json::from_slice(line) {
            Ok(parsed) => parsed,
            Err(error) => return no_call(error.column()),
        };
        let Line { tool, args, result } = parsed;
        if tool.is_empty() || tool.len() > NAME_BYTES || tool.contains(char::is_control) {
            return bad(1, format!("a tool's name has 1 to {NAME_BYTES} printable characters"));
        }
        if self.0.len() == MAX_TOOLS && !self.0.contains_key(&tool) {
            return bad(1, format!("more than {MAX_TOOLS} tools"));
        }
        self.add(tool, Recorded { args, result, agent: 0 });
        Ok(())
    }

    /// Takes a call, the latest of its tool.
    pub fn add(&mut self, tool: String, call: Recorded) {
        let recorded = self.0.entry(tool).or_default();
        if recorded.len() == MAX_CALLS {
            recorded.remove(0);
        }
        recorded.push(call);
    }

    /// The contract of each tool, as far as its calls show one. Without an effect each has that of its name.
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
