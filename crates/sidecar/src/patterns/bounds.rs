//! Limits of posted patterns. In: a pattern as it came, before anything was taken out of it. Out: every fault, with its
//! place; none repeats a value.

use crate::word_stems::words;
use umbra_domain::{NanoUsd, NewPattern, ToolName, tool::plain_tool_name};

/// Longest name or label, in bytes, as in events.
const NAME: usize = 256;
/// Longest task, in bytes: a request, not its material.
pub(super) const TASK: usize = 2 * 1024;
/// Longest prompt, in bytes. Five thousand patterns are held in memory.
pub(super) const PROMPT: usize = 8 * 1024;
/// Longest summary, in bytes.
pub(super) const SUMMARY: usize = 2 * 1024;
/// Most tools: a longer way is not worth following again.
pub(super) const TOOLS: usize = 50;
/// Highest cost, a million dollars: more for one task is a mistake of units.
const COST: NanoUsd = NanoUsd(1_000_000_000_000_000);
/// Longest duration, a month, in milliseconds.
const MS: u64 = 31 * 24 * 60 * 60 * 1_000;

/// Fault of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternFault {
    /// Place, as a JSON pointer (RFC 6901); empty for the whole pattern.
    pub pointer: String,
    /// Kind of fault, in a word of the API: `missing`, `range` or `format`.
    pub code: &'static str,
    /// Explanation for a person: what is wrong, and what would be right.
    pub detail: String,
}

/// True if the task has a word to find it by.
pub fn can_be_found(new: &NewPattern) -> bool {
    words(&new.task).next().is_some()
}

/// Returns every fault of a pattern; none if it may be kept. At most two faults for each of its tools.
pub fn faults(new: &NewPattern) -> Vec<PatternFault> {
    let mut faults = PatternFaults(Vec::new());
    faults.text("/agent", Some(&new.agent), NAME);
    faults.required("/agent", &new.agent, "name the agent");
    faults.text("/task", Some(&new.task), TASK);
    faults.required("/task", &new.task, "give the task");
    for (pointer, text, most) in [
        ("/task_type", &new.task_type, NAME),
        ("/prompt", &new.prompt, PROMPT),
        ("/summary", &new.summary, SUMMARY),
        ("/session", &new.session, NAME),
        ("/task_id", &new.task_id, NAME),
    ] {
        faults.text(pointer, text.as_deref(), most);
    }
    if new.tools.is_empty() && new.prompt.as_deref().is_none_or(|prompt| prompt.trim().is_empty()) {
        faults.add("", "missing", "nothing to repeat: give the tools, or the prompt");
    }
    if new.tools.len() > TOOLS {
        faults.add("/tools", "range", &format!("may have {TOOLS} entries, has {}", new.tools.len()));
    }
    for (at, tool) in new.tools.iter().take(TOOLS).enumerate() {
        faults.tool(at, tool);
    }
    if new.cost_usd.is_some_and(|cost| !(NanoUsd::ZERO..=COST).contains(&cost)) {
        faults.add("/cost_usd", "range", "must be from 0 to 1000000 dollars");
    }
    if new.ms.is_some_and(|ms| ms > MS) {
        faults.add("/ms", "range", &format!("must be a whole number from 0 to {MS}"));
    }
    faults.0
}

struct PatternFaults(Vec<PatternFault>);

impl PatternFaults {
    fn add(&mut self, pointer: &str, code: &'static str, detail: &str) {
        self.0.push(PatternFault { pointer: pointer.to_owned(), code, detail: detail.to_owned() });
    }

    fn required(&mut self, pointer: &str, text: &str, what: &str) {
        if text.trim().is_empty() {
            self.add(pointer, "missing", &format!("required: {what}"));
        }
    }

    fn text(&mut self, pointer: &str, text: Option<&str>, most: usize) {
        let length = text.map_or(0, str::len);
        if length > most {
            self.add(pointer, "range", &format!("may have {most} bytes, has {length}"));
        }
    }

    fn tool(&mut self, at: usize, tool: &ToolName) {
        for (member, name) in [("server", tool.server.as_deref()), ("name", Some(tool.name.as_str()))] {
            let Some(name) = name else { continue };
            let pointer = format!("/tools/{at}/{member}");
            if name.is_empty() {
                self.add(&pointer, "missing", "required: the tool's name");
            } else if name.len() > NAME {
                self.text(&pointer, Some(name), NAME);
            } else if let Err(instead) = plain_tool_name(name) {
                self.add(&pointer, "format", instead);
            }
        }
    }
}
