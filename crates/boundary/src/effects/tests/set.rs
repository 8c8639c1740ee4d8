//! Names of tools as public servers have them, and some that are ambiguous: none that writes is called a read, and few
//! that read are called otherwise. The vocabulary was written without them.

use serde::Deserialize;
use serde_json::Value;

use super::super::classify;
use umbra_domain::{Effect, ToolName};

const SET: &str = include_str!("../../../../../tests/data/effects.jsonl");

#[derive(Deserialize)]
struct Row {
    server: String,
    name: String,
    effect: Effect,
}

#[test]
fn names_of_public_servers_are_told_by_themselves() {
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

/// Share of reads that may be stubbed by their name alone.
const MOST_PERCENT: usize = 15;
