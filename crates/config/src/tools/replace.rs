//! Replacement of one contract in a tools file: every other line stays as a person wrote it.

use thiserror::Error;

use super::{TOOL, TOOLS, write::write};
use crate::{
    fault::Faults,
    tree::{Node, NodeValue, parse},
};
use umbra_domain::contract::ToolContract;

/// Reason why a contract cannot be replaced.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReplaceError {
    /// The text is no YAML.
    #[error("the file is not valid YAML: `umbra contracts lint` says why")]
    Unreadable,
    /// The tool has no contract there.
    #[error("the file has no contract of {0}")]
    Missing(String),
    /// The contract does not begin with a dash on a line of its own.
    #[error("the contract of {0} is written in brackets or comes from an alias: change it by hand")]
    Inline(String),
}

/// Returns the text of a tools file with the contract of this tool replaced by `contract`. Comments within the old
/// contract are lost.
///
/// # Errors
/// The text is no YAML, has no contract of the tool, or has it in brackets.
pub fn replace(text: &str, contract: &ToolContract) -> Result<String, ReplaceError> {
    let root = parse(0, text, &mut Faults::default()).ok_or(ReplaceError::Unreadable)?;
    let Some(NodeValue::List(items)) = root.get(TOOLS).map(|node| &node.kind) else {
        return Err(ReplaceError::Missing(contract.tool.clone()));
    };
    let is_of_tool = |item: &&Node| matches!(item.get(TOOL).map(|tool| &tool.kind), Some(NodeValue::Text(tool)) if *tool == contract.tool);
    let item = items.iter().find(is_of_tool).ok_or_else(|| ReplaceError::Missing(contract.tool.clone()))?;
    let inline = || ReplaceError::Inline(contract.tool.clone());
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let first = item.at.line.checked_sub(1).ok_or_else(inline)?;
    let indent = dash(lines.get(first).ok_or_else(inline)?).ok_or_else(inline)?;
    let is_within = |line: &&&str| line.trim().is_empty() || indentation(line) > indent;
    let below = lines.iter().skip(first + 1).take_while(is_within).count();
    let blank = lines[first + 1..=first + below].iter().rev().take_while(|line| line.trim().is_empty()).count();
    let last = first + below - blank;
    let written = write(std::slice::from_ref(contract));
    let new =
        written.lines().skip(1).map(|line| format!("{}{}\n", " ".repeat(indent), line.get(2..).unwrap_or_default()));
    let new: String = new.collect();
    Ok(format!("{}{new}{}", lines[..first].concat(), lines[last + 1..].concat()))
}

/// Returns the columns before the dash of an item; `None` where the line does not begin with a dash.
fn dash(line: &str) -> Option<usize> {
    line.trim_start().starts_with("- ").then(|| indentation(line))
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}
