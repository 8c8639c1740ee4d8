//! Tests with names of tools of public servers, and some ambiguous ones: no tool that writes is called a read, and few
//! that read are called otherwise. The vocabulary was written without them.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::{CallDeclarations, classify, effect_of};
use umbra_domain::{Effect, ToolName};

const SET: &str = include_str!("../../../../../tests/data/effects.jsonl");

#[derive(Deserialize)]
struct Row {
    server: String,
    name: String,
    effect: Effect,
}

#[test]
fn public_write_tools_are_no_reads_by_name_alone() {
    let rows: Vec<Row> = SET.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    let said = |row: &Row| classify(&ToolName::of(&row.server, &row.name), "", &Value::Null, false).effect;
    let name = |row: &&Row| format!("{}.{}", row.server, row.name);
    let (reads, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.effect == Effect::Read);
    let ran: Vec<String> = others.iter().filter(|row| said(row) == Effect::Read).map(name).collect();
    assert!(ran.is_empty(), "called read: {ran:?}");
    let stubbed: Vec<String> = reads.iter().filter(|row| said(row) > Effect::Read).map(name).collect();
    println!("{} of {} reads over-stubbed: {stubbed:?}", stubbed.len(), reads.len());
    assert!(stubbed.len() * 100 <= reads.len() * MOST_PERCENT, "{} of {}: {stubbed:?}", stubbed.len(), reads.len());
}

/// Largest share of reads that may be stubbed by their name alone, in percent.
const MOST_PERCENT: usize = 15;

const DRAWN: &str = include_str!("../../../../../tests/data/drawn_tools.jsonl");

#[derive(Deserialize)]
struct Drawn {
    server: String,
    name: String,
    effect: Effect,
    description: Option<String>,
    input_schema: Value,
    arguments: Map<String, Value>,
}

#[test]
fn no_public_write_call_runs_and_few_reads_are_stubbed() {
    let (mut ran, mut stubbed, mut reads) = (Vec::new(), Vec::new(), 0);
    for line in DRAWN.lines() {
        let Drawn { server, name, effect, description, input_schema, arguments } =
            serde_json::from_str(line).expect("a row");
        let tool = ToolName::of(server, name);
        let by_name = || classify(&tool, &description.unwrap_or_default(), &input_schema, false);
        let said = effect_of(None, None, CallDeclarations::default(), by_name).with_arguments(&arguments, &tool);
        reads += usize::from(effect == Effect::Read);
        match (effect == Effect::Read, said.effect == Effect::Read) {
            (false, true) => ran.push(tool.to_string()),
            (true, false) => stubbed.push(format!("{tool}: {}", said.why)),
            _ => {}
        }
    }
    assert!(ran.is_empty(), "called read: {ran:?}");
    assert_eq!(reads, 100);
    assert!(stubbed.len() <= MOST_PERCENT, "{}:\n{}", stubbed.len(), stubbed.join("\n"));
}
