//! Mines a pattern from an approved task. In: the task, and its steps in order. Out: a pattern, or nothing.

use super::bounds::{self, can_be_found, faults};
use umbra_domain::{NewPattern, ToolName};

/// One step of a task.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct MinedStep {
    /// The tool that was called, if one was.
    pub tool: Option<ToolName>,
    /// True if the step succeeded.
    pub ok: bool,
    /// True if a verdict, the boundary or a person rejected it.
    pub rejected: bool,
    /// Summary of the result.
    pub summary: Option<String>,
}

/// Completes the pattern of an approved task, with texts as stored: the tools whose calls succeeded, in order, each once
/// for calls in a row, and the last summary. The pattern has no [`faults`], and can be found.
///
/// Returns `None` if no call succeeded, a step was rejected, a name is invalid, or the task took more tools than a
/// pattern may have (half of a way leads nowhere). Long texts are cut.
pub fn mine(approved: NewPattern, steps: &[MinedStep]) -> Option<NewPattern> {
    if steps.iter().any(|step| step.rejected) {
        return None;
    }
    let mut tools: Vec<ToolName> = steps.iter().filter(|step| step.ok).filter_map(|step| step.tool.clone()).collect();
    tools.dedup_by_key(|tool| tool.joined());
    if tools.len() > bounds::TOOLS {
        return None;
    }
    let said = steps.iter().rev().filter_map(|step| step.summary.as_deref());
    let summary = said.map(str::trim).find(|summary| !summary.is_empty());
    let mined = NewPattern {
        task: cut(approved.task.trim(), bounds::TASK),
        tools,
        summary: summary.map(|summary| cut(summary, bounds::SUMMARY)),
        ..approved
    };
    (faults(&mined).is_empty() && can_be_found(&mined)).then_some(mined)
}

fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
}
