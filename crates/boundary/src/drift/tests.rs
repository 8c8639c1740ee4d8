//! Tests of drift: contracts and live results, changes of behaviour, and matching of calls.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{
    behaviour::{Behaviour, ObservedCall, compare},
    bypass::{same_arguments, same_tool},
    contract::{CheckedResult, learn, misfit, propose, recorded, stale},
};
use crate::{
    contract::{Contracts, compile},
    stub::RecordedResult,
};
use umbra_domain::{
    Effect, ToolName,
    contract::{ContractState, StaleLimits, StaleReason, StubResponse, ToolContract},
};

fn contract(output: Option<Value>, results: &[Value]) -> ToolContract {
    let mut contract = ToolContract::new("pay.refund", Effect::Destructive);
    contract.output_schema = output;
    let last = results.len().saturating_sub(1);
    contract.responses = results
        .iter()
        .enumerate()
        .map(|(n, result)| StubResponse {
            when: (n < last).then(|| "args.amount > 500.0".to_owned()),
            result: result.clone(),
        })
        .collect();
    contract
}

fn held(contract: &ToolContract, result: &Value) -> Option<String> {
    match Contracts::compile(vec![contract.clone()]) {
        Ok(contracts) => misfit(&contracts, &ToolName::bare("pay.refund"), &json!({"amount": 20.0}), result),
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn live_results_are_checked_by_schema_and_shape() {
    let schema = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}});
    let typed = contract(Some(schema), &[json!({"id": "{{ seq('r-') }}", "amount": "{{ args.amount }}"})]);
    let plain = contract(None, &[json!({"pending": true}), json!({"id": "{{ seq('r-') }}", "lines": [{"n": 1}]})]);
    for (contract, result, misfits) in [
        (&typed, json!({"id": "x", "amount": 1, "more": []}), None),
        (&typed, json!({"id": "x"}), None),
        (&typed, json!({"id": 7}), Some("/id")),
        (&typed, json!({}), Some("the whole result")),
        (
            &typed,
            json!({"id": "x", "amount": "1"}),
            Some("/amount: the stub has a number, and the live result has a text"),
        ),
        (&typed, json!({"id": "x", "amount": null}), None),
        (&plain, json!({"id": "x", "lines": []}), None),
        (&plain, json!({"id": "x", "lines": [{"n": 2}, {"n": "3"}]}), Some("/lines/1/n")),
        (&plain, json!({"id": "x"}), Some("/lines: the stub has a list, and the live result has no such member")),
        // Another response shows this shape.
        (&plain, json!({"pending": false}), None),
        (&plain, json!("done"), Some("the whole result")),
    ] {
        let found = held(contract, &result);
        match misfits {
            None => assert_eq!(found, None, "{result}"),
            Some(words) => assert!(found.as_ref().is_some_and(|found| found.starts_with(words)), "{result}: {found:?}"),
        }
    }
}

#[test]
fn redacted_values_are_no_misfit() {
    let schema =
        json!({"type": "object", "properties": {"key": {"type": "string", "pattern": "^gh"}, "n": {"type": "number"}}});
    let contract = contract(Some(schema), &[json!({"key": "ghx", "n": 1})]);
    assert_eq!(held(&contract, &json!({"key": "[secret:github_token:3f]"})), None);
    assert!(held(&contract, &json!({"key": "[secret:github_token:3f]", "n": "x"})).is_some());
    // A tool without a contract has no mismatches.
    let other = Contracts::compile(vec![contract]).unwrap();
    assert_eq!(misfit(&other, &ToolName::bare("pay.other"), &json!({}), &json!(1)), None);
}

fn fresh() -> ContractState {
    ContractState {
        tool: "pay.refund".to_owned(),
        version: 1,
        since: Timestamp::UNIX_EPOCH,
        results: 0,
        misfits: 0,
        last_at: None,
        fit_at: None,
        misfit: None,
        recent: Vec::new(),
        stale: None,
        confirmed_at: None,
    }
}

fn after(hours: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_hours(hours)
}

#[test]
fn contract_stale_by_misfits_stays_stale_after_a_fit() {
    let contract = contract(None, &[json!({"id": "x"})]);
    let mut state = fresh();
    let mut say = |seq: i64, fits: bool| {
        let held = CheckedResult { seq, at: after(seq), misfit: (!fits).then(|| "/id: other".to_owned()) };
        (learn(&contract, &mut state, &held), state.misfits, state.recent.clone(), state.stale.is_some())
    };
    assert_eq!(say(1, false), (false, 1, vec![1], false));
    assert_eq!(say(2, true), (false, 0, vec![], false));
    assert_eq!(say(3, false), (false, 1, vec![3], false));
    assert_eq!(say(4, false), (false, 2, vec![3, 4], false));
    assert_eq!(say(5, false), (true, 3, vec![3, 4, 5], true));
    assert_eq!(say(6, true), (false, 0, vec![3, 4, 5, 6], true));
    for seq in 7..100 {
        say(seq, false);
    }
    assert_eq!(say(100, false).2.len(), super::contract::MOST_RECENT);
}

#[test]
fn staleness_by_age_counts_from_the_last_fit() {
    let mut contract = contract(None, &[json!({"id": "x"})]);
    let mut state = fresh();
    assert_eq!(stale(&contract, &state, after(9_999)), None);
    contract.stale = StaleLimits { live_mismatches: None, max_age: Some(Duration::from_hours(10)) };
    assert_eq!(stale(&contract, &state, after(9)), None);
    state.stale = stale(&contract, &state, after(11));
    assert_eq!(state.stale.map(|stale| (stale.since, stale.reason)), Some((after(10), StaleReason::Age)));
    learn(&contract, &mut state, &CheckedResult { seq: 1, at: after(12), misfit: None });
    assert_eq!(stale(&contract, &state, after(21)), None);
    assert!(stale(&contract, &state, after(22)).is_some());
    state.confirmed_at = Some(after(20));
    assert_eq!(stale(&contract, &state, after(22)), None);
}

#[test]
fn next_version_is_proposed_from_live_results() {
    let mut old = contract(Some(json!({"type": "object", "required": ["id"]})), &[json!({"id": "x"})]);
    old.taints = vec!["paid".to_owned()];
    let result = |n: i64| RecordedResult {
        args: json!({"amount": 20.5 + f64::from(i32::try_from(n).unwrap())}),
        result: json!({"refund": {"number": format!("rf-{n}00{n}")}, "amount": 20.5 + f64::from(i32::try_from(n).unwrap())}),
        agent: 0,
    };
    let results: Vec<RecordedResult> = (1..=4).map(result).collect();
    assert!(propose(&old, &results[..2]).unwrap_err().contains("2 live results"));
    let new = propose(&old, &results).unwrap();
    assert_eq!((new.version, new.effect, &new.taints), (2, Effect::Destructive, &old.taints));
    assert!(compile(new.clone()).is_ok());
    let contracts = Contracts::compile(vec![new]).unwrap();
    for one in &results {
        assert_eq!(misfit(&contracts, &ToolName::bare("pay.refund"), &one.args, &one.result), None);
    }
}

#[test]
fn only_successful_calls_with_a_result_are_recorded() {
    let (decision, ok) = (r#"{"args": {"a": 1}}"#, r#"{"outcome": {"status": "ok", "result": {"b": 2}}}"#);
    assert_eq!(
        recorded(decision, ok, 0),
        Some(RecordedResult { args: json!({"a": 1}), result: json!({"b": 2}), agent: 0 })
    );
    for outcome in [r#"{"outcome": {"status": "error", "error": "no"}}"#, r#"{"outcome": {"status": "ok"}}"#, "{}", "x"]
    {
        assert_eq!(recorded(decision, outcome, 0), None, "{outcome}");
    }
}

fn call(tool: &str, args: Value) -> ObservedCall {
    ObservedCall { tool: tool.to_owned(), within: Some("r".to_owned()), args }
}

/// A window of calls: `a` and `b` in turn, with an amount and a unit.
fn window(calls: usize, offset: usize) -> Vec<ObservedCall> {
    let made = |n: usize| {
        let (tool, n) = (if n.is_multiple_of(2) { "a" } else { "b" }, n + offset);
        let unit = if (n / 2).is_multiple_of(2) { "kg" } else { "g" };
        call(tool, json!({"amount": (n * 7919) % 101, "unit": unit, "note": format!("n{n}")}))
    };
    (0..calls).map(made).collect()
}

#[test]
fn equal_behaviour_in_unequal_windows_is_no_drift() {
    for (base, recent) in [(30, 30), (60, 1_000), (1_000, 60), (5_000, 5_000)] {
        let compared = compare(&window(base, 0), &window(recent, 50));
        assert_eq!(compared.drifted, Some(false), "{base} {recent}: {compared:?}");
        assert!(compared.mix.is_some_and(|mix| mix.divergence < 0.01));
    }
    let few = compare(&window(29, 0), &window(1_000, 0));
    assert!(few.drifted.is_none() && few.too_few.is_some_and(|why| why.contains("29")));
}

#[test]
fn each_kind_of_drift_is_detected_separately() {
    let base = window(400, 0);
    let changed = |change: &dyn Fn(usize, ObservedCall) -> ObservedCall| {
        let recent = window(400, 3).into_iter().enumerate().map(|(n, made)| change(n, made)).collect::<Vec<_>>();
        let Behaviour { mix, arguments, sequences, drifted, .. } = compare(&base, &recent);
        assert_eq!(drifted, Some(true));
        let mut pointers: Vec<String> = arguments.iter().map(|one| format!("{}{}", one.tool, one.pointer)).collect();
        pointers.sort();
        (mix.is_some_and(|mix| mix.drifted), pointers, sequences.is_some_and(|sequences| sequences.drifted))
    };
    let amount = changed(&|_, mut made| {
        made.args["amount"] = json!(made.args["amount"].as_f64().unwrap() + 40.0);
        made
    });
    assert_eq!(amount, (false, vec!["a/amount".to_owned(), "b/amount".to_owned()], false));
    let unit = changed(&|n, mut made| {
        if made.tool == "a" && !n.is_multiple_of(8) {
            made.args["unit"] = json!("lb");
        }
        made
    });
    assert_eq!(unit, (false, vec!["a/unit".to_owned()], false));
    let order =
        changed(&|n, made| ObservedCall { tool: if n % 4 < 2 { "a".to_owned() } else { "b".to_owned() }, ..made });
    assert_eq!((order.0, order.2), (false, true));
    let mix = changed(&|n, made| if n % 3 == 0 { call("c", json!({})) } else { made });
    assert!(mix.0 && mix.2, "{mix:?}");
}

#[test]
fn deep_and_wide_arguments_are_compared_within_bounds() {
    let deep = (0..100).fold(json!(1), |value, n| json!({ format!("k{n}"): value }));
    let wide: Value = (0..2_000).map(|n| (format!("k{n}"), json!(n))).collect::<serde_json::Map<_, _>>().into();
    let calls: Vec<ObservedCall> =
        (0..300).flat_map(|_| [call("a", deep.clone()), call("b", wide.clone()), call("c", json!([1, [2]]))]).collect();
    let compared = compare(&calls, &calls);
    assert_eq!((compared.drifted, compared.arguments_compared), (Some(false), 50));
}

#[test]
fn tools_match_by_alias_and_arguments_by_value() {
    for (seen, decided, same) in [
        ("mail.send", "mail.send", true),
        ("send", "mail.send", true),
        ("mail__send", "mail.send", true),
        ("mcp__mail__send", "mail.send", true),
        ("mcp__mailer__send", "mail.send", false),
        ("other.send", "mail.send", false),
        ("mail.send", "send", false),
        ("send", "send", true),
    ] {
        assert_eq!(same_tool(seen, decided), same, "{seen} {decided}");
    }
    for (seen, decided, same) in [
        (json!({"a": 1, "b": [1.0]}), json!({"b": [1], "a": 1}), true),
        (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
        (json!({"k": "Bearer [secret:x:1f]"}), json!({"k": "Bearer [secret:x:2e]"}), true),
        (json!({"k": "Bearer [secret:x:1f]"}), json!({"k": "plain"}), false),
        (json!(null), json!({}), true),
        (json!(null), json!({"a": 1}), false),
    ] {
        assert_eq!(same_arguments(&seen, &decided), same, "{seen} {decided}");
    }
}
