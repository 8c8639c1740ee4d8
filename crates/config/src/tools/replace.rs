//! Replacement of one contract in a tools file: every other line stays as a person wrote it.

use super::{TOOL, TOOLS, write::write};
use crate::{
    fault::Faults,
    tree::{Node, NodeValue, parse},
};
use umbra_domain::contract::ToolContract;

/// Returns the text of a tools file with the contract of this tool replaced by `contract`. Comments within the old
/// contract are lost.
///
/// # Errors
/// The text is no YAML, has no contract of the tool, or has it in brackets; in words.
pub fn replace(text: &str, contract: &ToolContract) -> Result<String, String> {
    let tool = &contract.tool;
    let root =
        parse(0, text, &mut Faults::default()).ok_or("the file is not valid YAML: `umbra contracts lint` says why")?;
    let items = match root.get(TOOLS).map(|node| &node.kind) {
        Some(NodeValue::List(items)) => items.as_slice(),
        _ => &[],
    };
    let is_of_tool = |item: &&Node| item.get(TOOL).is_some_and(|named| named.kind == NodeValue::Text(tool.clone()));
    let item = items.iter().find(is_of_tool).ok_or_else(|| format!("the file has no contract of {tool}"))?;
    let inline = || format!("the contract of {tool} is written in brackets or comes from an alias: change it by hand");
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
