//! `watch`: the events that a shadow looks at.

use serde_json::{Map, Value, json};

use super::{
    super::{
        fault::Faults,
        keys::{Keys, Shape},
        shape::{List, MappingShape, refuse, word},
        text::{agent_glob, printable},
        tree::{Node, NodeValue},
    },
    cost::usd,
};
use umbra_domain::{Trigger, WatchRule};

/// Declares one rule.
pub(super) fn declare(keys: &mut Keys<'_>) -> Option<WatchRule> {
    let agent = keys.required("agent", "An agent's name, or a glob such as \"*\" or writer-*.", agent_glob());
    let triggers = keys.required(
        "triggers",
        "Kinds of action that are reviewed; all means every kind, and events without a trigger.",
        List { len: 1..=8, single: true, item: word(&Trigger::NAMED, Trigger::as_str).or("all", Trigger::All) },
    );
    let task_type =
        keys.optional("task_type", "Task type of the events; every one unless set.", printable("a task type", 200));
    let min_cost = keys.optional("min_cost", "Least known cost of the events, in USD.", usd());
    let metadata = keys.or_default(
        "metadata",
        "Values that the metadata of the events must hold.",
        MappingShape { max: 32, key: metadata_key, value: Scalar },
    );
    let except = keys.or_default(
        "except",
        "Agents (names or globs) that are left out.",
        List { len: 0..=256, single: true, item: agent_glob() },
    );
    let words = triggers?;
    let all = words.contains(&Trigger::All);
    if all {
        keys.warn(
            "triggers",
            "`all` also reviews events without a trigger, which is costly",
            "name only the triggers that matter",
        );
    }
    let triggers = if all { Trigger::NAMED.to_vec() } else { distinct(words) };
    Some(WatchRule {
        agent: agent?,
        triggers,
        all,
        task_type,
        min_cost,
        metadata: metadata.into_iter().collect::<Map<String, Value>>(),
        except,
    })
}

/// Returns the triggers in the order of the file, each once.
fn distinct(words: Vec<Trigger>) -> Vec<Trigger> {
    let mut triggers: Vec<Trigger> = Vec::new();
    for trigger in words {
        if !triggers.contains(&trigger) {
            triggers.push(trigger);
        }
    }
    triggers
}

fn metadata_key(key: &str) -> Result<(), &'static str> {
    if (1..=200).contains(&key.chars().count()) { Ok(()) } else { Err("use 1 to 200 characters") }
}

/// Shape of a text, a number or a flag, read as JSON.
struct Scalar;

impl Shape for Scalar {
    type Value = Value;

    fn read(&mut self, node: &Node, faults: &mut Faults) -> Option<Value> {
        match &node.kind {
            NodeValue::Text(text) => Some(json!(text)),
            NodeValue::Flag(flag) => Some(json!(flag)),
            NodeValue::Whole(number) if i64::try_from(*number).is_ok() => Some(json!(i64::try_from(*number).ok())),
            NodeValue::Decimal(number) => Some(json!(number)),
            _ => refuse(node, "is not a single value", "write a text, a number, true or false", faults),
        }
    }

    fn schema(&mut self) -> Value {
        json!({"type": ["string", "number", "boolean"]})
    }
}
