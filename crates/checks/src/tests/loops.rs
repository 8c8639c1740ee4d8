//! Tests of repeated calls, and of calls that only look alike.

use serde_json::{Value, json};

use crate::Loops;
use umbra_domain::{Event, Severity, ToolCall};

fn call(agent: &str, args: &Value, result: &str) -> Event {
    let tool = ToolCall {
        name: "search".to_owned(),
        args: args.clone(),
        result: Some(result.to_owned()),
        ..ToolCall::default()
    };
    Event { agent: agent.to_owned(), tool: Some(tool), ..Event::default() }
}

/// Returns the calls of one agent that complete a loop, with the severity. A call is its arguments and its result.
fn hits(calls: &[(&str, &str)]) -> Vec<(usize, Severity)> {
    let mut loops = Loops::default();
    let found = calls.iter().enumerate().filter_map(|(index, (args, result))| {
        Some((index, loops.observe(&call("a", &json!({"q": args}), result))?.severity))
    });
    found.collect()
}

#[test]
fn third_repeated_round_is_one_hit() {
    use Severity::{Info, Warning};
    let rounds = |calls: &[(&'static str, &'static str)], times| calls.repeat(times);
    assert_eq!(hits(&rounds(&[("x", "1")], 2)), []);
    assert_eq!(hits(&rounds(&[("x", "1")], 3)), [(2, Warning)]);
    assert_eq!(hits(&rounds(&[("x", "1")], 30)), [(2, Warning)], "one loop is one hit");
    assert_eq!(hits(&rounds(&[("x", "1"), ("y", "2")], 3)), [(5, Warning)]);
    assert_eq!(hits(&rounds(&[("x", "1"), ("y", "2"), ("z", "3"), ("w", "4")], 3)), [(11, Warning)]);
    assert_eq!(hits(&[("x", "1"), ("x", "2"), ("x", "3")]), [(2, Info)], "it may be waiting for something");
    let twice = [rounds(&[("x", "1")], 3), vec![("y", "2")], rounds(&[("x", "1")], 3)].concat();
    assert_eq!(hits(&twice), [(2, Warning), (6, Warning)]);
}

#[test]
fn differing_calls_agents_and_texts_are_no_loop() {
    assert_eq!(hits(&[("x", "1"), ("y", "1"), ("z", "1"), ("x", "1"), ("z", "1"), ("y", "1")]), []);
    let mut loops = Loops::default();
    for agent in ["a", "b", "c"] {
        assert_eq!(loops.observe(&call(agent, &json!({}), "1")), None, "each agent by itself");
    }
    let talk = Event { agent: "a".to_owned(), output: Some("again".to_owned()), ..Event::default() };
    assert!((0..9).all(|_| Loops::default().observe(&talk).is_none()));
}

#[test]
fn key_order_of_arguments_does_not_hide_a_loop() {
    let mut loops = Loops::default();
    let orders = [r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#, r#"{"a":1,"b":2}"#];
    let found = orders.map(|text| loops.observe(&call("a", &serde_json::from_str(text).unwrap(), "1")));
    let hit = found[2].as_ref().unwrap();
    assert_eq!((hit.rule.as_str(), hit.field.as_str(), hit.end), ("repeated_calls", "tool.name", 6));
    assert!(hit.description.contains("3 times in a row"));
}
