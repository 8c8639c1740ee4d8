//! Tests of reminders: the most alike, within a budget, and none that has nothing in common with the event.

use serde_json::Value;

use super::{event, hit};
use crate::{JudgedFinding, Lesson, select_reminders};
use umbra_domain::{CheckName, Event, Severity};

fn case(description: &str, quote: Option<&str>) -> JudgedFinding {
    JudgedFinding {
        was_right: false,
        same_agent: false,
        rule: "consistent".to_owned(),
        description: description.to_owned(),
        quote: quote.map(ToOwned::to_owned),
        note: None,
    }
}

fn told(event: &Event, cases: &[JudgedFinding]) -> Vec<String> {
    let lines = select_reminders(event, &[], cases, &[]);
    let finding = |line: &String| serde_json::from_str::<Value>(line).unwrap()["earlier_finding"].clone();
    lines.iter().map(|line| finding(line).as_str().unwrap().to_owned()).collect()
}

#[test]
fn similar_cases_come_first_and_unrelated_ones_are_left_out() {
    let cases = [
        case("half", Some("Sales went down in spring")),
        case("strange", Some("kubectl delete namespace")),
        case("whole", Some("Sales went up")),
        JudgedFinding { same_agent: true, ..case("whole, of the agent", Some("sales WENT up")) },
        case("The reason given for the rise in sales is unknown", None),
        case("third part", Some("reason sales elsewhere nowhere anywhere")),
    ];
    assert_eq!(
        told(&event(), &cases),
        ["whole, of the agent", "whole", "The reason given for the rise in sales is unknown"]
    );
    assert_eq!(told(&event(), &cases[1..2]), Vec::<String>::new());
    assert_eq!(told(&event(), &[cases[2].clone(), cases[2].clone()]), ["whole"], "told once");
}

#[test]
fn case_of_the_same_rule_counts_as_similar() {
    let mut strange = case("A key of a test.", Some("kubectl"));
    strange.rule = "secrets.some_rule".to_owned();
    let hits = [hit(CheckName::Secrets, Severity::Critical, "output", 0, 5)];
    let lines = select_reminders(&event(), &hits, &[strange], &[]);
    assert_eq!(
        lines,
        [
            r#"{"earlier_finding":"A key of a test.","people_said":"false_positive","quote":"kubectl","rule":"secrets.some_rule","same_agent":false}"#
        ]
    );
}

#[test]
fn lessons_come_first_and_total_length_is_bounded() {
    let lesson = |text: &str| Lesson { text: text.to_owned(), description: None };
    let lessons: Vec<Lesson> = ["one", "two", "three", "four"].map(lesson).into();
    let cases: Vec<JudgedFinding> =
        (0..9).map(|n| case(&format!("{n}{}", "\u{1}".repeat(900)), Some("Sales"))).collect();
    let lines = select_reminders(&event(), &[], &cases, &lessons);
    assert_eq!(
        lines[..3],
        [r#"{"recurring_fault":"one"}"#, r#"{"recurring_fault":"two"}"#, r#"{"recurring_fault":"three"}"#]
    );
    assert!(lines.len() > 3 && lines.iter().map(|line| line.len() + 1).sum::<usize>() <= 4_096);
}
