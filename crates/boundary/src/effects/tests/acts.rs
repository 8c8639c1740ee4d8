//! Tests with calls of tools that are declared to read: everyday calls stay reads, and no call whose arguments act
//! does, in any class.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::EffectOf;
use umbra_domain::{Effect, EffectSource, ToolName};

const READS: &str = include_str!("../../../../../tests/data/reads.jsonl");
const ACTS: &str = include_str!("../../../../../tests/data/acts.jsonl");

/// Largest share of everyday reads that may be stubbed by their arguments, in percent: search words that are statements
/// as well.
const MOST_PERCENT: usize = 2;

#[derive(Deserialize)]
struct Row {
    class: Option<String>,
    server: Option<String>,
    name: Option<String>,
    /// `server.name`, or the name alone.
    tool: Option<String>,
    arguments: Map<String, Value>,
}

impl Row {
    fn tool(&self) -> ToolName {
        match (&self.tool, &self.server, &self.name) {
            (Some(tool), ..) => match tool.split_once('.') {
                Some((server, name)) => ToolName::of(server, name),
                None => ToolName::bare(tool),
            },
            (None, Some(server), Some(name)) => ToolName::of(server, name),
            _ => panic!("a row without a tool"),
        }
    }

    /// Rates the call if this source says that the tool reads.
    fn sent(&self, source: EffectSource) -> EffectOf {
        let said = EffectOf { effect: Effect::Read, source, why: "it is said".to_owned(), runs: false };
        said.with_arguments(&self.arguments, &self.tool())
    }
}

fn rows(text: &str) -> Vec<Row> {
    text.lines().map(|line| serde_json::from_str(line).expect("a row")).collect()
}

#[test]
fn everyday_reads_are_rarely_stubbed() {
    let rows = rows(READS);
    assert!(rows.len() >= 150, "{}", rows.len());
    let stubbed: Vec<String> = rows
        .iter()
        .map(|row| (row, row.sent(EffectSource::Classifier)))
        .filter(|(_, said)| said.effect > Effect::Read)
        .map(|(row, said)| format!("{} {:?}: {}", row.tool(), row.arguments, said.why))
        .collect();
    println!("{} of {} everyday reads over-stubbed", stubbed.len(), rows.len());
    assert!(
        stubbed.len() * 100 <= rows.len() * MOST_PERCENT,
        "{} of {}:\n{}",
        stubbed.len(),
        rows.len(),
        stubbed.join("\n")
    );
}

#[test]
fn calls_with_acting_arguments_are_never_reads() {
    let mut ran: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in rows(ACTS) {
        for source in [EffectSource::Classifier, EffectSource::Contract] {
            if row.sent(source).effect == Effect::Read {
                let class = row.class.clone().unwrap_or_default();
                ran.entry(class).or_default().push(format!("{} {:?}", row.tool(), row.arguments));
            }
        }
    }
    assert!(ran.is_empty(), "{ran:#?}");
}
