//! Mines a pattern from an approved task. In: the task, and its steps in order. Out: a pattern, or nothing.

use super::bounds::{self, can_be_found, faults};
use umbra_domain::{NanoUsd, NewPattern, PatternOutcome, ToolName};

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

/// A task that was approved as a whole, with texts as stored.
#[derive(Clone, Copy)]
pub struct ApprovedTask<'a> {
    /// Name of the agent.
    pub agent: &'a str,
    /// Kind of task.
    pub task_type: Option<&'a str>,
    /// Text of the task.
    pub task: &'a str,
    /// Session, if there was one.
    pub session: Option<&'a str>,
    /// Id of the task.
    pub task_id: Option<&'a str>,
    /// Total cost, in nano-dollars.
    pub cost_usd: Option<NanoUsd>,
    /// Duration, in milliseconds.
    pub ms: Option<u64>,
    /// Steps, in order.
    pub steps: &'a [MinedStep],
}

/// Returns the pattern of an approved task: the tools whose calls succeeded, in order, each once for calls in a row,
/// and the last summary. The pattern has no [`faults`], and can be found.
///
/// Returns `None` if no call succeeded, a step was rejected, a name is invalid, or the task took more tools than a
/// pattern may have (half of a way leads nowhere). Long texts are cut.
pub fn mine(of: &ApprovedTask<'_>) -> Option<NewPattern> {
    if of.steps.iter().any(|step| step.rejected) {
        return None;
    }
    let mut tools: Vec<ToolName> = Vec::new();
    let mut last = None;
    for tool in of.steps.iter().filter(|step| step.ok).filter_map(|step| step.tool.as_ref()) {
        let name = tool.joined();
        if last.as_ref() != Some(&name) {
            if tools.len() == bounds::TOOLS {
                return None;
            }
            tools.push(tool.clone());
            last = Some(name);
        }
    }
    let said = of.steps.iter().rev().filter_map(|step| step.summary.as_deref());
    let summary = said.map(str::trim).find(|summary| !summary.is_empty());
    let mined = NewPattern {
        agent: of.agent.to_owned(),
        task_type: of.task_type.map(str::to_owned),
        task: cut(of.task.trim(), bounds::TASK),
        prompt: None,
        tools,
        outcome: PatternOutcome::Succeeded,
        summary: summary.map(|summary| cut(summary, bounds::SUMMARY)),
        session: of.session.map(str::to_owned),
        task_id: of.task_id.map(str::to_owned),
        cost_usd: of.cost_usd,
        ms: of.ms,
    };
    (faults(&mined).is_empty() && can_be_found(&mined)).then_some(mined)
}

fn cut(text: &str, most: usize) -> String {
    text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned()
}
