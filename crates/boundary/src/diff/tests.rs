//! Tests of comparing runs: differences, noise, and bounded and symmetric work whatever a run holds.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    MAX_CALLS, MAX_LISTED, Noise, Run, RunComparison, RunDifferenceKind,
    align::{Marks, align, common},
    diff, noise,
};
use umbra_domain::audit::{AuditKind, AuditPayload, AuditRecord, AuditRow};

/// A row of the audit.
fn row(seq: i64, kind: AuditKind, agent: &str, tool: &str, body: &Value, payload: Option<&Value>) -> AuditRecord {
    AuditRecord {
        row: AuditRow {
            seq,
            id: Uuid::nil(),
            at: Timestamp::UNIX_EPOCH,
            kind,
            agent: Some(agent.to_owned()),
            session: None,
            run: Some("r".to_owned()),
            call_id: Some(format!("c{seq}")),
            tool: Some(tool.to_owned()),
            body: body.to_string(),
            payload_mac: Some(Vec::new()),
            signature: None,
        },
        payload: payload.map(|payload| AuditPayload { salt: Vec::new(), body: payload.to_string() }),
    }
}

fn call(seq: i64, agent: &str, tool: &str, args: &Value) -> AuditRecord {
    let effect = if tool.starts_with("get") { "read" } else { "write" };
    let body = json!({"decision": "execute", "effect": effect, "execution": "live"});
    row(seq, AuditKind::Decision, agent, tool, &body, Some(&json!({"args": args, "explain": []})))
}

fn run(records: impl IntoIterator<Item = AuditRecord>) -> Run {
    let mut run = Run::default();
    records.into_iter().for_each(|record| run.add(&record));
    run
}

/// A run of one agent's calls.
fn calls(calls: &[(&str, Value)]) -> Run {
    run((1..).zip(calls).map(|(seq, (tool, args))| call(seq, "a", tool, args)))
}

fn is_equal(compared: &RunComparison) -> bool {
    compared.agreed == compared.calls
}

fn found(compared: &RunComparison) -> Vec<(RunDifferenceKind, String, String)> {
    let told = |difference: &super::RunDifference| {
        let values = [&difference.from, &difference.to].map(|value| value.clone().unwrap_or_default().to_string());
        (difference.kind, difference.pointer.clone().unwrap_or_default(), values.join(" -> "))
    };
    compared.differences.iter().map(told).collect()
}

fn compare(a: &Run, b: &Run) -> RunComparison {
    diff(a, b, &Noise::default())
}

#[test]
fn each_difference_kind_is_reported_with_its_position() {
    let (get, pay, mail) = (json!({"id": "c1"}), json!({"amount": 49.99, "to": "x"}), json!({"text": "thanks"}));
    let usual = calls(&[("get_customer", get.clone()), ("pay", pay.clone()), ("mail", mail.clone())]);
    let changed =
        calls(&[("get_customer", get.clone()), ("pay", json!({"to": "x", "amount": 499.99})), ("mail", mail.clone())]);
    let compared = compare(&usual, &changed);
    assert_eq!(found(&compared), [(RunDifferenceKind::Arguments, "/amount".to_owned(), "49.99 -> 499.99".to_owned())]);
    assert_eq!((compared.calls, compared.agreed, compared.changing), (3, 2, 1));
    let place = |difference: &super::RunDifference| {
        (difference.a.as_ref().map(|a| a.position), difference.b.as_ref().map(|b| b.position))
    };
    for (b, kind, places) in [
        (vec![("pay", &pay), ("get_customer", &get), ("mail", &mail)], RunDifferenceKind::Order, None),
        (vec![("get_customer", &get), ("mail", &mail)], RunDifferenceKind::Missing, Some((Some(2), None))),
        (
            vec![("get_customer", &get), ("get_customer", &get), ("pay", &pay), ("mail", &mail)],
            RunDifferenceKind::Extra,
            Some((None, Some(2))),
        ),
    ] {
        let b: Vec<(&str, Value)> = b.into_iter().map(|(tool, args)| (tool, args.clone())).collect();
        let compared = compare(&usual, &calls(&b));
        let [difference] = compared.differences.as_slice() else { panic!("{compared:?}") };
        assert_eq!(difference.kind, kind);
        assert!(places.is_none_or(|places| places == place(difference)), "{difference:?}");
        assert_eq!(compared.agreed + 1, compared.calls);
    }
}

#[test]
fn numbers_are_compared_by_value_and_without_tolerance() {
    for (a, b, differs) in [
        (json!(50), json!(50.0), false),
        (json!(0.1), json!(0.100_000_000_000_000_02), true),
        (json!(9_007_199_254_740_993_i64), json!(9_007_199_254_740_992.0), true),
        (json!("50"), json!(50), true),
        (json!(null), json!(0), true),
        (json!({"x": [1, 2]}), json!({"x": [1, 2, 3]}), true),
        (json!({"y": 1, "x": 2}), json!({"x": 2, "y": 1}), false),
    ] {
        let compared = compare(&calls(&[("pay", json!({"v": a}))]), &calls(&[("pay", json!({"v": b}))]));
        assert_eq!(is_equal(&compared), !differs, "{compared:?}");
    }
}

#[test]
fn decisions_and_outcomes_differ_but_stub_equals_execute() {
    let decided = |body: Value| run([row(1, AuditKind::Decision, "a", "pay", &body, Some(&json!({"args": {}})))]);
    let execute = decided(json!({"decision": "execute", "effect": "write", "execution": "live"}));
    let stub = decided(json!({"decision": "stub", "effect": "write", "execution": "shadow"}));
    let faulty =
        decided(json!({"decision": "stub", "effect": "write", "execution": "shadow", "fault": "rate_limited"}));
    let block = decided(json!({"decision": "block", "reason": "policy", "effect": "write", "execution": "live"}));
    assert!(is_equal(&compare(&execute, &stub)));
    let words = |from: &str, to: &str| format!("{} -> {}", json!(from), json!(to));
    assert_eq!(
        found(&compare(&execute, &block)),
        [(RunDifferenceKind::Decision, String::new(), words("execute", "block: policy"))]
    );
    assert_eq!(found(&compare(&stub, &faulty)), [(RunDifferenceKind::Outcome, String::new(), words("ok", "error"))]);
    // An outcome belongs to the call before it; an undelivered one counts as none.
    let outcome = |status: &str| {
        let mut came = row(1, AuditKind::Outcome, "a", "pay", &json!({"status": status}), None);
        came.row.seq = 2;
        let mut run = execute.clone();
        run.add(&came);
        run
    };
    assert_eq!(found(&compare(&outcome("ok"), &outcome("error"))).len(), 1);
    assert!(is_equal(&compare(&outcome("ok"), &outcome("undelivered"))));
    // A call that was asked about and then approved is one call.
    let mut approved =
        decided(json!({"decision": "ask", "reason": "approval_required", "effect": "write", "execution": "live"}));
    approved.add(&row(
        1,
        AuditKind::Decision,
        "a",
        "pay",
        &json!({"decision": "execute", "effect": "write", "execution": "live"}),
        Some(&json!({"args": {}})),
    ));
    assert!(approved.len() == 1 && is_equal(&compare(&execute, &approved)));
}

#[test]
fn only_differences_between_equal_runs_are_noise() {
    let one = |id: &str, amount: f64, more: usize| {
        let mut all = vec![("open", json!({"request": id, "amount": amount}))];
        all.extend((0..more).map(|_| ("get_weather", json!({}))));
        all.push(("close", json!({"request": id})));
        calls(&all)
    };
    let (a, again, b) = (one("u1", 49.99, 1), one("u2", 49.99, 2), one("u3", 499.99, 4));
    let known = noise(&a, &again);
    let compared = diff(&a, &b, &known);
    // Minted ids and one more call of the weather are noise; two more calls are not.
    let kinds: Vec<_> = found(&compared).into_iter().map(|(kind, pointer, _)| (kind, pointer)).collect();
    let expected =
        [(RunDifferenceKind::Arguments, "/amount"), (RunDifferenceKind::Extra, ""), (RunDifferenceKind::Extra, "")];
    assert_eq!(kinds, expected.map(|(kind, pointer)| (kind, pointer.to_owned())));
    assert!(diff(&a, &again, &known).differences.is_empty());
    let noisy: Vec<_> =
        compared.noise.iter().map(|one| (one.tool.as_str(), one.pointer.as_deref(), one.count)).collect();
    assert_eq!(noisy, [("close", Some("/request"), 1), ("open", Some("/request"), 1), ("get_weather", None, 1)]);
}

#[test]
fn agents_are_matched_by_name_or_as_a_single_successor() {
    let say = |seq, agent| call(seq, agent, "get_news", &json!({"by": seq % 2}));
    let a = run([say(1, "odd"), say(2, "even"), say(3, "odd")]);
    let b = run([say(2, "even"), say(1, "odd"), say(3, "odd")]);
    assert!(compare(&a, &b).differences.is_empty(), "who comes first is chance");
    let renamed = run([say(1, "odd-v2"), say(2, "even"), say(3, "odd-v2")]);
    assert!(compare(&a, &renamed).differences.is_empty());
    let strangers = run([say(1, "x"), say(2, "y"), say(3, "x")]);
    assert_eq!(compare(&a, &strangers).counts, [(RunDifferenceKind::Missing, 3), (RunDifferenceKind::Extra, 3)].into());
}

#[test]
fn erased_calls_are_reported_and_not_compared() {
    let usual = calls(&[("pay", json!({"amount": 1})), ("mail", json!({}))]);
    let mut gone = call(1, "a", "pay", &json!({}));
    gone.payload = None;
    let erased = run([gone, call(2, "a", "mail", &json!({}))]);
    for (a, b) in [(&usual, &erased), (&erased, &usual), (&erased, &erased)] {
        let compared = compare(a, b);
        assert_eq!(compared.counts, [(RunDifferenceKind::Erased, 1)].into());
        assert_eq!((compared.calls, compared.agreed), (1, 1));
    }
}

#[test]
fn large_values_are_hashed_and_listings_are_bounded() {
    let text = |c: char| calls(&[("mail", json!({"text": c.to_string().repeat(10_000)}))]);
    let compared = compare(&text('x'), &text('y'));
    let [difference] = compared.differences.as_slice() else { panic!("{compared:?}") };
    assert_eq!(difference.from.as_ref().map(|from| &from["bytes"]), Some(&json!(10_002)));
    let deep = |leaf: u8| calls(&[("mail", (0..100).fold(json!(leaf), |value, _| json!({"aaaaaaaaaa": value})))]);
    let compared = compare(&deep(1), &deep(2));
    assert!(found(&compared).iter().all(|(_, pointer, _)| pointer.len() < 500) && found(&compared).len() == 1);
    let wide = |n: usize| calls(&[("mail", json!({"ids": (0..MAX_LISTED + 5).map(|k| k * n).collect::<Vec<_>>()}))]);
    let compared = compare(&wide(1), &wide(2));
    assert_eq!(
        (compared.differences.len(), compared.counts[&RunDifferenceKind::Arguments]),
        (MAX_LISTED, MAX_LISTED as u64 + 4)
    );
}

/// Length of a longest common subsequence, by the textbook.
fn longest(a: &[u32], b: &[u32]) -> usize {
    let mut row = vec![0; b.len() + 1];
    for x in a {
        let mut before = 0;
        for (y, at) in b.iter().zip(1..) {
            let above = row[at];
            row[at] = if x == y { before + 1 } else { row[at].max(row[at - 1]) };
            before = above;
        }
    }
    row[b.len()]
}

#[test]
fn alignment_of_hostile_runs_accounts_for_every_call() {
    let of = |token: &dyn Fn(u32) -> u32| -> Vec<Marks> {
        let marks = |n| Marks { exact: token(n), shape: token(n), tool: token(n) };
        (0..u32::try_from(MAX_CALLS).expect("it fits")).map(marks).collect()
    };
    let sequences =
        [of(&|n| n), of(&|n| u32::MAX - n), of(&|_| 7), of(&|n| 7 + n % 2), of(&|n| n.wrapping_mul(n) % 64)];
    for a in &sequences {
        for b in &sequences {
            let aligned = align(a, b);
            assert_eq!(aligned.pairs.len() + aligned.moved.len() + aligned.missing.len(), a.len());
            assert_eq!(aligned.pairs.len() + aligned.moved.len() + aligned.extra.len(), b.len());
        }
    }
}

fn tokens() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(0..5_u32, 0..150)
}

fn some_run() -> impl Strategy<Value = Run> {
    let one = (0..3_u8, 0..3_u8, 0..3_u8, 0..2_u8);
    prop::collection::vec(one, 1..40).prop_map(|all| {
        run((1..).zip(all).map(|(seq, (agent, tool, value, shape))| {
            let args = if shape == 0 { json!({"v": value}) } else { json!({"v": value, "list": [value, 1]}) };
            call(seq, &format!("agent{agent}"), &format!("tool{tool}"), &args)
        }))
    })
}

/// Differences, without the order of the two runs.
fn turned(compared: &RunComparison) -> Vec<String> {
    let mut all: Vec<String> = compared
        .differences
        .iter()
        .map(|one| {
            let mut one = one.clone();
            std::mem::swap(&mut one.a, &mut one.b);
            std::mem::swap(&mut one.from, &mut one.to);
            one.kind = match one.kind {
                RunDifferenceKind::Missing => RunDifferenceKind::Extra,
                RunDifferenceKind::Extra => RunDifferenceKind::Missing,
                other => other,
            };
            format!("{one:?}")
        })
        .collect();
    all.sort();
    all
}

proptest! {
    #[test]
    fn a_longest_common_subsequence_is_found(a in tokens(), b in tokens()) {
        let pairs = common(&a, &b);
        prop_assert_eq!(pairs.len(), longest(&a, &b));
        prop_assert!(pairs.iter().all(|(at, bt)| a[*at] == b[*bt]));
        prop_assert!(pairs.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
    }

    #[test]
    fn a_run_does_not_differ_from_itself(a in some_run()) {
        let compared = compare(&a, &a);
        prop_assert!(compared.differences.is_empty() && is_equal(&compared), "{:?}", compared);
        prop_assert_eq!(compared.calls, a.len() as u64);
    }

    #[test]
    fn comparison_is_symmetric(a in some_run(), b in some_run()) {
        let (there, back) = (compare(&a, &b), compare(&b, &a));
        let mut plain: Vec<String> = there.differences.iter().map(|one| format!("{one:?}")).collect();
        plain.sort();
        prop_assert_eq!(plain, turned(&back));
        prop_assert_eq!((there.calls, there.agreed), (back.calls, back.agreed));
    }
}
