//! Tests of derived triggers on a labelled set: events in the shapes of several runtimes, one a line, as
//! `{id, event, labels: {code_written, security_risk, error, task_complete}}`. A label is the expectation of a careful
//! reader: the action writes code; touches credentials, outside hosts, rights or data; failed; or ends a task.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::screen;
use umbra_domain::{Event, Trigger, TriggerSource};

const SET: &str = include_str!("../../../../tests/data/triggers.jsonl");

/// Least precision and recall for each trigger, in hundredths.
const FLOOR: usize = 95;

#[derive(Debug, Deserialize)]
struct Row {
    id: String,
    event: Event,
    labels: BTreeMap<String, u8>,
}

#[test]
fn derived_triggers_reach_the_precision_and_recall_floor() {
    let rows: Vec<Row> = SET.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= 300);
    let (mut wrong, mut faults) = (Vec::new(), Vec::new());
    for trigger in [Trigger::CodeWritten, Trigger::SecurityRisk, Trigger::Error] {
        let (mut right, mut derived, mut expected) = (0, 0, 0);
        for row in &rows {
            let wanted = row.labels[trigger.as_str()] == 1;
            let marks = screen(row.event.clone()).triggers;
            let mark = marks.iter().find(|mark| mark.name == trigger && mark.source == TriggerSource::Derived);
            assert!(mark.is_none_or(|mark| mark.why.ends_with('.')), "{}", row.id);
            right += usize::from(wanted && mark.is_some());
            derived += usize::from(mark.is_some());
            expected += usize::from(wanted);
            if wanted != mark.is_some() {
                wrong.push(format!("{} {} wanted {wanted}: {mark:?}", row.id, trigger.as_str()));
            }
        }
        assert!(expected >= 50, "{}", trigger.as_str());
        if right * 100 < derived * FLOOR || right * 100 < expected * FLOOR {
            faults.push(format!("{}: {right} right of {derived} derived and {expected} expected", trigger.as_str()));
        }
    }
    assert!(faults.is_empty(), "{faults:?}\n{}", wrong.join("\n"));
}
