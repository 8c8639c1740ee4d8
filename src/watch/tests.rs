//! Tests of the rules and triggers that match. A submodule compares random rules with a simple loop.

use serde_json::{Map, Value, json};

use super::*;
use umbra_domain::{
    NanoUsd,
    Trigger::{All, CodeWritten, Error, SecurityRisk, TaskComplete},
    TriggerSource::{Declared, Derived},
};

mod naive;

fn shadow(watch: Vec<WatchRule>) -> Shadow {
    Shadow { watch, ..Shadow::plain() }
}

fn rule(agent: &str, triggers: &[Trigger]) -> WatchRule {
    WatchRule {
        agent: agent.into(),
        triggers: triggers.to_vec(),
        all: false,
        task_type: None,
        min_cost: None,
        metadata: Map::new(),
        except: Vec::new(),
    }
}

/// Returns a rule as the configuration reads `triggers: [all]`.
fn all(agent: &str) -> WatchRule {
    WatchRule { all: true, ..rule(agent, &Trigger::NAMED) }
}

fn event(agent: &str) -> Event {
    Event { agent: agent.into(), ..Event::default() }
}

fn mark((name, source): (Trigger, TriggerSource)) -> TriggerMark {
    TriggerMark { name, source, why: String::new() }
}

fn compile(shadows: &[Shadow]) -> Watcher {
    Watcher::compile(shadows).expect("these are globs")
}

/// Returns each match as (shadow, trigger of the pair, triggers that cool down).
fn answer(watcher: &Watcher, event: &Event, marks: &[TriggerMark]) -> Vec<(usize, Trigger, Vec<Trigger>)> {
    watcher.matches(event, marks).iter().map(|m| (m.shadow, m.trigger, m.matched(marks))).collect()
}

/// Matches twice: computed, then remembered.
fn watches(rule: &WatchRule, event: &Event) -> bool {
    let watcher = compile(&[shadow(vec![rule.clone()])]);
    let [first, again] = [(); 2].map(|()| !watcher.matches(event, &[mark((Error, Declared))]).is_empty());
    assert_eq!(first, again, "{rule:?} and {}", event.agent);
    first
}

#[test]
fn agent_pattern_matches_as_name_or_glob() {
    for (pattern, agent, expected) in [
        ("writer", "writer", true),
        ("writer", "Writer", false),
        ("writer", "writer-1", false),
        ("writer", "a-writer", false),
        ("a.b", "a.b", true),
        ("a.b", "axb", false),
        ("*", "anything at/all", true),
        ("*", "..", true),
        ("writer-*", "writer-", true),
        ("writer-*", "writer-a/b", true),
        ("writer-*", "writer", false),
        ("*-agent", "research-agent", true),
        ("*-agent", "research-agent-2", false),
        ("{writer,coder}", "coder", true),
        ("{writer,coder}", "writercoder", false),
        ("{writer,coder}-*", "coder-7", true),
        ("team-?", "team-1", true),
        ("team-?", "team-12", false),
        ("team-[0-3]", "team-2", true),
        ("team-[0-3]", "team-4", false),
        (r"50\*", "50*", true),
        (r"50\*", "500", false),
        (r"wri\ter", "writer", true),
    ] {
        assert_eq!(watches(&rule(pattern, &[Error]), &event(agent)), expected, "{pattern} and {agent}");
    }
}

#[test]
fn invalid_glob_is_named_in_the_error() {
    for (agent, except, named) in [("team-[", "x", "team-["), ("*", "{a", "{a")] {
        let bad = WatchRule { except: vec![except.into()], ..rule(agent, &[Error]) };
        let error = Watcher::compile(&[shadow(vec![bad])]).expect_err("it is no glob");
        assert_eq!(error.glob(), Some(named));
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn excepted_agents_are_not_watched() {
    for (except, agent, expected) in [
        (&["writer"][..], "writer", false),
        (&["writer"], "writer-2", true),
        (&["x", "test-*"], "test-1", false),
        (&["x", "test-*"], "tester", true),
        (&["*"], "writer", false),
        (&[], "writer", true),
    ] {
        for pattern in ["*", agent] {
            let except = except.iter().map(ToString::to_string).collect();
            let rule = WatchRule { except, ..rule(pattern, &[Error]) };
            assert_eq!(watches(&rule, &event(agent)), expected, "{rule:?} and {agent}");
        }
    }
}

#[test]
fn conditions_match_task_type_cost_and_metadata() {
    let cost = |least| WatchRule { min_cost: Some(NanoUsd(least)), ..rule("a", &[Error]) };
    let task = |kind: &str| WatchRule { task_type: Some(kind.into()), ..rule("a", &[Error]) };
    let meta =
        |data: Value| WatchRule { metadata: data.as_object().cloned().unwrap_or_default(), ..rule("a", &[Error]) };
    let with_cost = |task: Option<i64>, own: Option<i64>| Event {
        task_cost_usd: task.map(NanoUsd),
        cost_usd: own.map(NanoUsd),
        ..event("a")
    };
    let with_task = |kind: &str| Event { task_type: Some(kind.into()), ..event("a") };
    let with_meta = |data: Value| Event { metadata: data.as_object().cloned().unwrap_or_default(), ..event("a") };
    for (rule, event, expected) in [
        (task("summary"), with_task("summary"), true),
        (task("summary"), with_task("summary2"), false),
        (task("summary"), event("a"), false),
        (cost(10), with_cost(Some(10), None), true),
        (cost(10), with_cost(Some(9), None), false),
        (cost(10), with_cost(None, Some(10)), true),
        (cost(10), with_cost(None, Some(9)), false),
        // The whole task's cost counts before the action's own.
        (cost(10), with_cost(Some(9), Some(99)), false),
        (cost(10), with_cost(Some(10), Some(1)), true),
        (cost(10), event("a"), true),
        (meta(json!({"repo": "x"})), with_meta(json!({"repo": "x", "more": 1})), true),
        (meta(json!({"repo": "x"})), with_meta(json!({"repo": "y"})), false),
        (meta(json!({"repo": "x"})), with_meta(json!({"REPO": "x"})), false),
        (meta(json!({"repo": "x"})), event("a"), false),
        (meta(json!({"repo": "x", "n": 1})), with_meta(json!({"repo": "x"})), false),
        (meta(json!({"repo": "x", "n": 1})), with_meta(json!({"repo": "x", "n": 1})), true),
        (meta(json!({"n": 1})), with_meta(json!({"n": "1"})), false),
        (meta(json!({"on": true})), with_meta(json!({"on": true})), true),
        (WatchRule { min_cost: Some(NanoUsd(5)), ..task("t") }, with_task("t"), true),
        (WatchRule { min_cost: Some(NanoUsd(5)), ..task("t") }, with_cost(Some(7), None), false),
    ] {
        assert_eq!(watches(&rule, &event), expected, "{rule:?} and {:?}", serde_json::to_value(&event));
    }
}

#[test]
fn triggers_match_and_declared_ones_come_first() {
    let none = None::<(Trigger, &[Trigger])>;
    for (rule, marks, expected) in [
        (rule("*", &[Error]), &[(Error, Derived)][..], Some((Error, &[Error][..]))),
        (rule("*", &[Error]), &[(TaskComplete, Declared)], none),
        (rule("*", &[Error]), &[], none),
        (rule("*", &Trigger::NAMED), &[], none),
        // Declared before derived, each in the event's order; not in the order of the rule.
        (
            rule("*", &[CodeWritten, Error, TaskComplete]),
            &[(TaskComplete, Declared), (Error, Declared), (CodeWritten, Derived)],
            Some((TaskComplete, &[TaskComplete, Error, CodeWritten])),
        ),
        (
            rule("*", &[SecurityRisk, CodeWritten]),
            &[(TaskComplete, Declared), (CodeWritten, Derived), (SecurityRisk, Derived)],
            Some((CodeWritten, &[CodeWritten, SecurityRisk])),
        ),
        (
            rule("*", &[SecurityRisk, CodeWritten]),
            &[(SecurityRisk, Derived), (CodeWritten, Declared)],
            Some((CodeWritten, &[CodeWritten, SecurityRisk])),
        ),
        (all("*"), &[], Some((All, &[All]))),
        (all("*"), &[(Error, Derived)], Some((Error, &[Error]))),
        (
            all("*"),
            &[(TaskComplete, Declared), (CodeWritten, Derived)],
            Some((TaskComplete, &[TaskComplete, CodeWritten])),
        ),
    ] {
        let marks: Vec<_> = marks.iter().copied().map(mark).collect();
        let found = answer(&compile(&[shadow(vec![rule.clone()])]), &event("a"), &marks);
        let expected: Vec<_> = expected.into_iter().map(|(first, matched)| (0, first, matched.to_vec())).collect();
        assert_eq!(found, expected, "{rule:?} and {marks:?}");
    }
}

#[test]
fn shadow_matches_once_with_triggers_of_all_its_rules() {
    let strict = WatchRule { task_type: Some("other".into()), ..rule("a", &[SecurityRisk]) };
    let both = vec![rule("*", &[Error]), rule("a", &[CodeWritten]), strict];
    let turned = both.iter().rev().cloned().collect();
    let watcher = compile(&[shadow(vec![rule("b", &[Error])]), shadow(both), shadow(turned), shadow(vec![all("a")])]);
    let marks = [(SecurityRisk, Declared), (Error, Declared), (CodeWritten, Derived)].map(mark);
    let united = vec![Error, CodeWritten];
    assert_eq!(
        answer(&watcher, &event("a"), &marks),
        [(1, Error, united.clone()), (2, Error, united), (3, SecurityRisk, vec![SecurityRisk, Error, CodeWritten])],
    );
}

#[test]
fn disabled_shadow_still_matches() {
    let disabled = Shadow { enabled: false, ..shadow(vec![rule("*", &[Error])]) };
    let found = answer(&compile(&[disabled]), &event("a"), &[mark((Error, Declared))]);
    assert_eq!(found, [(0, Error, vec![Error])]);
}

#[test]
fn many_agents_keep_memory_bounded_and_answers_right() {
    let rules = vec![rule("*", &[Error]), rule("agent-*7", &[CodeWritten]), rule("agent-12", &[TaskComplete])];
    let watcher = compile(&rules.into_iter().map(|rule| shadow(vec![rule])).collect::<Vec<_>>());
    let marks = [Error, CodeWritten, TaskComplete].map(|name| mark((name, Declared)));
    let expected = |i: usize| {
        let mut shadows = vec![0];
        shadows.extend((i % 10 == 7).then_some(1));
        shadows.extend((i == 12).then_some(2));
        shadows
    };
    let mut most = 0;
    for i in (0..=REMEMBERED_AGENTS).chain([12, 7, 17]) {
        let found: Vec<usize> =
            watcher.matches(&event(&format!("agent-{i}")), &marks).iter().map(|m| m.shadow).collect();
        assert_eq!(found, expected(i), "agent-{i}");
        let seen = watcher.seen.read().expect("nobody panicked");
        assert!(seen.agents.len() <= REMEMBERED_AGENTS, "{} agents", seen.agents.len());
        if i % 500 == 0 {
            let lists: HashSet<_> = seen.agents.values().chain(&seen.lists).map(Arc::as_ptr).collect();
            assert!(lists.len() <= 3, "{} lists are kept, but only three differ", lists.len());
        }
        most = most.max(seen.agents.len());
    }
    assert_eq!(most, REMEMBERED_AGENTS, "agents are remembered at all");
}
