//! Tables of what a rule matches, and the compiled look-up against a loop over rules that is too simple to be wrong.

use std::{collections::BTreeSet, time::Duration};

use proptest::{prelude::*, sample::subsequence};
use serde_json::{Map, Value, json};

use super::*;
use crate::domain::{
    CostControl, Mode, NanoUsd, Severity,
    Trigger::{All, CodeWritten, Error, SecurityRisk, TaskComplete},
    TriggerSource::{Declared, Derived},
    shadow::OnDoubt,
};

fn shadow(watch: Vec<WatchRule>) -> Shadow {
    Shadow {
        name: "watcher".into(),
        model: "haiku".into(),
        mode: Mode::Review,
        watch,
        cost_control: CostControl {
            max_reviews_per_day: None,
            max_reviews_per_target_per_day: None,
            max_usd_per_day: None,
            max_tokens_per_day: None,
            skip_if_task_cost_below: None,
            cooldown: Duration::ZERO,
            sample_ppm: 1_000_000,
            time_zone: "UTC".into(),
            allow_costly_model: false,
        },
        criteria: Vec::new(),
        checks: BTreeSet::new(),
        flag_at: Severity::Critical,
        max_input_chars: 1,
        enabled: true,
        verdict_within: Duration::from_secs(20),
        on_timeout: OnDoubt::Accept,
        on_inconclusive: OnDoubt::Accept,
    }
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

/// A rule as the configuration reads `triggers: [all]`.
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

/// Each match as (shadow, the pair's trigger, what cools).
fn answer(watcher: &Watcher, event: &Event, marks: &[TriggerMark]) -> Vec<(usize, Trigger, Vec<Trigger>)> {
    watcher.matches(event, marks).iter().map(|m| (m.shadow, m.trigger, m.matched().collect())).collect()
}

/// Asks twice: worked out, then remembered.
fn watches(rule: &WatchRule, event: &Event) -> bool {
    let watcher = compile(&[shadow(vec![rule.clone()])]);
    let [first, again] = [(); 2].map(|()| !watcher.matches(event, &[mark((Error, Declared))]).is_empty());
    assert_eq!(first, again, "{rule:?} and {}", event.agent);
    first
}

#[test]
fn a_pattern_is_a_name_or_a_glob() {
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
    ] {
        assert_eq!(watches(&rule(pattern, &[Error]), &event(agent)), expected, "{pattern} and {agent}");
    }
}

#[test]
fn a_pattern_that_is_no_glob_is_named() {
    for (agent, except, named) in [("team-[", "x", "team-["), ("*", "{a", "{a")] {
        let bad = WatchRule { except: vec![except.into()], ..rule(agent, &[Error]) };
        let error = Watcher::compile(&[shadow(vec![bad])]).expect_err("it is no glob");
        assert_eq!(error.pattern, named);
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[test]
fn except_leaves_agents_out() {
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
fn conditions_hold_for_the_event() {
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
fn triggers_are_matched_and_the_first_declared_one_names_the_pair() {
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
            Some((TaskComplete, &[CodeWritten, TaskComplete, Error])),
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
            Some((TaskComplete, &[CodeWritten, TaskComplete])),
        ),
    ] {
        let marks: Vec<_> = marks.iter().copied().map(mark).collect();
        let found = answer(&compile(&[shadow(vec![rule.clone()])]), &event("a"), &marks);
        let expected: Vec<_> = expected.into_iter().map(|(first, matched)| (0, first, matched.to_vec())).collect();
        assert_eq!(found, expected, "{rule:?} and {marks:?}");
    }
}

#[test]
fn a_shadow_matches_once_by_all_its_rules_together() {
    let strict = WatchRule { task_type: Some("other".into()), ..rule("a", &[SecurityRisk]) };
    let both = vec![rule("*", &[Error]), rule("a", &[CodeWritten]), strict];
    let turned = both.iter().rev().cloned().collect();
    let watcher = compile(&[shadow(vec![rule("b", &[Error])]), shadow(both), shadow(turned), shadow(vec![all("a")])]);
    let marks = [(SecurityRisk, Declared), (Error, Declared), (CodeWritten, Derived)].map(mark);
    let united = vec![CodeWritten, Error];
    assert_eq!(
        answer(&watcher, &event("a"), &marks),
        [(1, Error, united.clone()), (2, Error, united), (3, SecurityRisk, vec![CodeWritten, SecurityRisk, Error])],
    );
}

#[test]
fn a_disabled_shadow_matches_so_that_the_gate_can_say_so() {
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
        assert!(seen.lists.len() <= 3, "{} lists, but only three differ", seen.lists.len());
        most = most.max(seen.agents.len());
    }
    assert_eq!(most, REMEMBERED_AGENTS, "agents are remembered at all");
}

/// What a pattern without `**` matches, by its definition: alternatives written out, then character by character.
fn fits(pattern: &str, name: &str) -> bool {
    fn walk(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => (0..=name.len()).any(|skip| walk(rest, &name[skip..])),
            ([b'?', rest @ ..], [_, name @ ..]) => walk(rest, name),
            ([a, rest @ ..], [b, name @ ..]) => a == b && walk(rest, name),
            _ => false,
        }
    }
    match pattern.split_once('{').and_then(|(head, rest)| Some((head, rest.split_once('}')?))) {
        Some((head, (choices, tail))) => choices.split(',').any(|one| fits(&format!("{head}{one}{tail}"), name)),
        None => walk(pattern.as_bytes(), name.as_bytes()),
    }
}

/// A loop over all rules.
fn naive(shadows: &[Shadow], event: &Event, marks: &[TriggerMark]) -> Vec<(usize, Trigger, Vec<Trigger>)> {
    let mut found = Vec::new();
    for (position, shadow) in shadows.iter().enumerate() {
        let applying = shadow.watch.iter().filter(|rule| {
            let cost = event.task_cost_usd.or(event.cost_usd);
            fits(&rule.agent, &event.agent)
                && !rule.except.iter().any(|except| fits(except, &event.agent))
                && (rule.task_type.is_none() || rule.task_type == event.task_type)
                && !(rule.min_cost.is_some() && cost.is_some() && cost < rule.min_cost)
                && rule.metadata.iter().all(|(key, value)| event.metadata.get(key) == Some(value))
        });
        let applying: Vec<_> = applying.collect();
        if marks.is_empty() {
            found.extend(applying.iter().any(|rule| rule.all).then(|| (position, All, vec![All])));
            continue;
        }
        let named = |trigger: Trigger| {
            marks.iter().any(|mark| mark.name == trigger)
                && applying.iter().any(|rule| rule.triggers.contains(&trigger))
        };
        let by = |source| marks.iter().find(|mark| mark.source == source && named(mark.name));
        if let Some(first) = by(Declared).or_else(|| by(Derived)) {
            found.push((position, first.name, Trigger::NAMED.into_iter().filter(|t| named(*t)).collect()));
        }
    }
    found
}

fn pattern() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["*", "?", "a", "b", "-", ".", "/", "{a,b-}", "{.,ab,*}"]);
    let joined = prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat());
    joined.prop_filter("means something else", |pattern| {
        !pattern.replace(['{', '}', ',', '.', 'a', 'b'], "").contains("**")
    })
}

/// Names with everything that paths are made of. Only a last part of `..` is left out: there `globset` finds no
/// extension, so that a pattern which ends in a dot misses it.
fn name() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec!["a", "b", "-", ".", "/"]);
    let joined = prop::collection::vec(part, 1..5).prop_map(|parts| parts.concat());
    joined.prop_filter("no extension", |name| name.rsplit('/').next() != Some(".."))
}

prop_compose! {
    fn any_rule()(
        agent in prop_oneof![name(), pattern(), Just("*".to_owned())],
        triggers in subsequence(&Trigger::NAMED, 1..=4),
        all in prop::bool::weighted(0.2),
        task_type in prop::option::weighted(0.2, "[xy]"),
        min_cost in prop::option::weighted(0.2, 0..4_i64),
        repo in prop::option::weighted(0.2, "[xy]"),
        except in prop::collection::vec(prop_oneof![name(), pattern()], 0..2),
    ) -> WatchRule {
        let triggers = if all { Trigger::NAMED.to_vec() } else { triggers };
        let metadata = repo.into_iter().map(|repo| ("repo".to_owned(), Value::from(repo))).collect();
        WatchRule { agent, triggers, all, task_type, min_cost: min_cost.map(NanoUsd), metadata, except }
    }
}

prop_compose! {
    fn any_event()(
        agent in name(),
        names in subsequence(&Trigger::NAMED, 0..=4).prop_shuffle(),
        declared in prop::collection::vec(any::<bool>(), 4),
        task_type in prop::option::of("[xy]"),
        costs in (prop::option::of(0..4_i64), prop::option::of(0..4_i64)),
        repo in prop::option::of("[xy]"),
    ) -> (Event, Vec<TriggerMark>) {
        let sources = declared.into_iter().map(|declared| if declared { Declared } else { Derived });
        let marks = names.into_iter().zip(sources).map(mark).collect();
        let metadata = repo.into_iter().map(|repo| ("repo".to_owned(), Value::from(repo))).collect();
        let (task_cost_usd, cost_usd) = (costs.0.map(NanoUsd), costs.1.map(NanoUsd));
        (Event { agent, task_type, task_cost_usd, cost_usd, metadata, ..Event::default() }, marks)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]
    #[test]
    fn the_compiled_look_up_answers_as_a_loop_over_the_rules(
        watch in prop::collection::vec(prop::collection::vec(any_rule(), 1..4), 1..6),
        events in prop::collection::vec(any_event(), 1..12),
    ) {
        let shadows: Vec<Shadow> = watch.into_iter().map(shadow).collect();
        let watcher = compile(&shadows);
        for (event, marks) in events.iter().chain(&events) {
            prop_assert_eq!(answer(&watcher, event, marks), naive(&shadows, event, marks), "{} {:?}", event.agent, marks);
        }
    }
}
