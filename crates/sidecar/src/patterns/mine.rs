//! A pattern from the steps of a task. In: a task whose reviews approved it, and its steps in order. Out: the way in which
//! it was done, or nothing where there is none to be had.

use super::bounds::{self, can_be_found, faults};
use umbra_domain::{NanoUsd, NewPattern, PatternOutcome, ToolName};

/// One step of a task.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Step {
    /// The tool that was called, if one was.
    pub tool: Option<ToolName>,
    /// Whether the step went well.
    pub ok: bool,
    /// Whether anybody rejected it: a verdict, the boundary, a person.
    pub rejected: bool,
    /// What it came to.
    pub summary: Option<String>,
}

/// A task that was approved as a whole, with texts as they are stored.
#[derive(Clone, Copy)]
pub struct Trajectory<'a> {
    /// Who did it.
    pub agent: &'a str,
    /// The kind of task.
    pub task_type: Option<&'a str>,
    /// What was to be done.
    pub task: &'a str,
    /// The session.
    pub session: Option<&'a str>,
    /// The task's id.
    pub task_id: Option<&'a str>,
    /// What all of it cost, in nano-dollars.
    pub cost_usd: Option<NanoUsd>,
    /// How long it took, in milliseconds.
    pub ms: Option<u64>,
    /// Its steps, in order.
    pub steps: &'a [Step],
}

/// The pattern of an approved task: the tools whose calls went well, in order, each once where it was called in a row, and
/// the last thing that was said of it. What it gives has no [`faults`], and can be found.
///
/// Nothing where no call went well, where anything was rejected, where it took more tools than a pattern may have (half of a
/// way leads nowhere), or where a name is none. Texts that are too long are cut.
pub fn mine(of: &Trajectory<'_>) -> Option<NewPattern> {
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
