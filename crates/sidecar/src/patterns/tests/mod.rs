//! Tests of patterns: storage, counts and offers.

mod life;
mod poison;
mod search;
mod telling;

use jiff::Timestamp;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;
use umbra_domain::{
    NanoUsd, NewPattern, Pattern, PatternId, PatternOutcome, PatternProvenance, PatternSource, PatternStatus, ReviewId,
    ToolName,
};

/// Builds the pattern with this number, of the agent `worker`.
fn pattern(number: u128, task: &str, tools: &[&str], [successes, failures]: [u32; 2]) -> Pattern {
    let new =
        NewPattern { agent: "worker".to_owned(), task: task.to_owned(), tools: named(tools), ..NewPattern::default() };
    let begun =
        begin(PatternId(Uuid::from_u128(number)), ScreenedPattern { pattern: new, quarantine: None }, origin(0));
    Pattern { successes, failures, ..begun }
}

fn named(tools: &[&str]) -> Vec<ToolName> {
    tools.iter().map(|name| ToolName::bare(*name)).collect()
}

fn origin(second: i64) -> PatternProvenance {
    PatternProvenance {
        source: PatternSource::Recorded,
        by: "laptop".to_owned(),
        session: None,
        task_id: None,
        review: None,
        at: Timestamp::from_second(1_700_000_000 + second).unwrap(),
    }
}

const WORDS: [&str; 12] =
    ["mail", "send", "find", "delete", "money", "rain", "always", "choose", "file", "read", "list", "date"];

fn any_words(most: usize) -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 1..most).prop_map(|words| words.join(" "))
}

fn any_tools() -> impl Strategy<Value = Vec<ToolName>> {
    let one = (proptest::option::of(any_words(3)), any_words(3));
    proptest::collection::vec(one.prop_map(|(server, name)| ToolName { server, name }), 0..5)
}

fn any_text() -> impl Strategy<Value = Option<String>> {
    proptest::option::of(prop_oneof![any::<String>(), any_words(20)])
}

fn any_new() -> impl Strategy<Value = NewPattern> {
    let texts = (any::<String>(), any_text(), any_words(9), any_text(), any_text(), any_text(), any_text());
    let outcome = proptest::sample::select(PatternOutcome::ALL.to_vec());
    // Costs that may be posted; in JSON they are dollars, to the last billionth.
    let sums = (proptest::option::of(0..=1_000_000_000_000_000_i64), proptest::option::of(any::<u64>()));
    (texts, any_tools(), outcome, sums).prop_map(|(texts, tools, outcome, (cost, ms))| {
        let (agent, task_type, task, prompt, summary, session, task_id) = texts;
        let cost_usd = cost.map(NanoUsd);
        NewPattern { agent, task_type, task, prompt, tools, outcome, summary, session, task_id, cost_usd, ms }
    })
}

/// Any pattern of one of two agents, whose status and counts need not fit each other.
fn any_pattern() -> impl Strategy<Value = Pattern> {
    let life = (0..6_u32, 0..6_u32, proptest::sample::select(PatternStatus::ALL.to_vec()), any_text());
    let source = proptest::sample::select(PatternSource::ALL.to_vec());
    let origin = (source, any::<String>(), proptest::option::of(any::<u128>()), 0..4_000_000_000_000_i64);
    (any::<u128>(), any_new(), any::<bool>(), life, origin).prop_map(|(id, new, first, life, origin)| {
        let (source, by, review, at) = origin;
        let review = review.map(|id| ReviewId(Uuid::from_u128(id)));
        let at = Timestamp::from_microsecond(at).unwrap();
        let origin = PatternProvenance { source, by, session: None, task_id: None, review, at };
        let begun = begin(PatternId(Uuid::from_u128(id)), ScreenedPattern { pattern: new, quarantine: None }, origin);
        let (successes, failures, status, reason) = life;
        let agent = if first { "one" } else { "other" }.to_owned();
        Pattern { agent, successes, failures, status, reason, ..begun }
    })
}

proptest! {
    #[test]
    fn patterns_survive_a_json_round_trip(pattern in any_pattern(), new in any_new()) {
        let json = serde_json::to_string(&pattern).unwrap();
        prop_assert_eq!(serde_json::from_str::<Pattern>(&json).unwrap(), pattern);
        let json = serde_json::to_string(&new).unwrap();
        prop_assert_eq!(serde_json::from_str::<NewPattern>(&json).unwrap(), new);
    }

    #[test]
    fn debug_shows_no_text(pattern in any_pattern()) {
        let odd = Pattern { task: "xylophone".to_owned(), prompt: Some("xylophone".to_owned()), ..pattern };
        let shown = format!("{odd:?}");
        prop_assert!(!shown.contains("xylophone"));
    }
}
