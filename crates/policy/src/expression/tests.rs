//! Tests of expressions: values, refusals and budgets.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{EvalError, EvaluationScope, Expression};

fn value(source: &str, args: &Value) -> Result<Value, EvalError> {
    let mut scope = EvaluationScope::new();
    scope.set("args", args);
    Expression::compile(source).unwrap_or_else(|error| panic!("{source}: {error}")).value(&scope)
}

fn refused(source: &str) -> String {
    Expression::compile(source).map(|expression| expression.source().to_owned()).unwrap_err()
}

#[test]
fn values_keep_their_types() {
    let args = json!({
        "amount": 600, "price": 49.99, "one": 1.0, "big": u64::MAX, "name": "Ann", "on": true, "none": null,
        "tags": ["a", "b"], "nested": {"id": "x-1", "list": [{"n": 1}, {"n": 2}]}, "a-b": 7,
    });
    for (source, expected) in [
        ("args.amount", json!(600)),
        ("args.amount > 500.0", json!(true)),
        ("args.price > 50", json!(false)),
        ("args.one", json!(1.0)),
        ("args.big", json!(u64::MAX)),
        ("args.none", json!(null)),
        ("args.none == null", json!(true)),
        ("double(args.amount) * 1.5", json!(900.0)),
        ("args.name + '-' + string(args.amount)", json!("Ann-600")),
        ("args.on ? 'yes' : 'no'", json!("yes")),
        ("'b' in args.tags && !('c' in args.tags)", json!(true)),
        ("has(args.name) && !has(args.gone)", json!(true)),
        ("args['a-b'] + args.nested.list[1].n", json!(9)),
        ("args.nested.list.map(x, x.n * 10)", json!([10, 20])),
        ("args.nested.list.filter(x, x.n > 1)", json!([{"n": 2}])),
        ("args.nested.list.exists(x, x.n == 2) && args.tags.all(t, t.size() == 1)", json!(true)),
        ("{'id': args.nested.id, 'tags': args.tags}", json!({"id": "x-1", "tags": ["a", "b"]})),
        ("args.nested.id.matches('^x-[0-9]+$') && matches(args.name, 'nn')", json!(true)),
        ("size(args.tags) + size(args.name) + args.tags.size()", json!(7)),
        ("args.name.startsWith('A') || args.gone == 1", json!(true)),
        ("type(args.amount) == int", json!(true)),
    ] {
        assert_eq!(value(source, &args), Ok(expected), "{source}");
    }
}

#[test]
fn evaluation_error_is_never_false() {
    let args = json!({"amount": "a lot", "n": i64::MAX, "zero": 0, "list": [1], "secret": "hunter2"});
    let mut scope = EvaluationScope::new();
    scope.set("args", &args);
    for (source, words) in [
        ("args.gone > 5", "missing `gone`"),
        ("args[args.secret] == 1", "missing key"),
        ("nobody == 1", "`nobody`"),
        ("args.amount > 500.0", "does not take"),
        ("args.n + 1 > 0", "out of range"),
        ("args.n * args.n > 0", "out of range"),
        ("1 / args.zero == 1", "division by zero"),
        ("1 % args.zero == 1", "division by zero"),
        ("args.list[3] == 1", "beyond the end"),
        ("args.amount", "gives text"),
        ("args.list.map(x, x)", "gives a list"),
        ("int(args.secret) == 1", "`int`"),
        ("args.n + 1.5 > 0.0", "convert one"),
    ] {
        let error = Expression::compile(source).unwrap().holds(&scope).unwrap_err().to_string();
        assert!(error.contains(words), "{source}: {error}");
        assert!(!error.contains("hunter2"), "{source}: {error}");
    }
}

#[test]
fn invalid_expressions_are_refused_with_the_reason() {
    for (source, words) in [
        ("", "0 bytes"),
        ("args.amount = 5", "compare with =="),
        ("args.amount >", "line 1"),
        ("size(args", "line 1"),
        ("shell('rm')", "the functions: size, contains"),
        ("args.name.contain('x')", "function `contain` not found"),
        ("contains(args.name, 'x')", "write text.contains(value)"),
        ("args.map(x)", "list.map(x, value)"),
        ("args.name.matches(args.pattern)", "must be a literal"),
        ("args.name.matches('(a')", "not a regular expression"),
        ("args.name.matches('(?=a)')", "not a regular expression"),
        ("args.name.matches('((a{100}){100}){100}')", "too large"),
        ("Message{a: 1}.a", "messages are not supported"),
        (".args.a == 1", "begin with a dot"),
        ("args.?a", "line 1"),
        ("uuid('x')", "function `uuid` not found"),
        ("timestamp('2026-01-01T00:00:00Z') > args.at", "function `timestamp` not found"),
    ] {
        let error = refused(source);
        assert!(error.contains(words), "{source}: {error}");
    }
    let error = Expression::compile("'web' in session.taints").unwrap().expect_members("session", &["id", "taint"]);
    assert_eq!(error.unwrap_err(), "`session` has no `taints`; it has id, taint");
    let bound = Expression::compile("[{'taints': 1}].all(session, session.taints == 1)").unwrap();
    assert_eq!(bound.expect_members("session", &["id", "taint"]), Ok(()));
    let error = Expression::compile("agent == 'a' && arg.x == 1").unwrap().expect_variables(&["agent", "args"]);
    assert_eq!(error.unwrap_err(), "variable `arg` not found; the variables: agent, args");
    let loops = Expression::compile("args.all(k, k != x)").unwrap();
    assert_eq!(loops.variables().collect::<Vec<_>>(), ["args", "x"]);
}

#[test]
fn functions_of_a_scope_are_called_with_json() {
    let args = json!({"n": 2});
    let mut scope = EvaluationScope::new();
    scope.set("args", &args);
    scope.function("twice", |arguments| match arguments {
        [Value::Number(n)] => Ok(json!(n.as_i64().unwrap_or(0) * 2)),
        _ => Err("one number".to_owned()),
    });
    scope.function("flood", |_| Ok(json!("x".repeat(10_000))));
    let value = |source: &str| Expression::compile_with(source, &["twice", "flood"]).unwrap().value(&scope);
    assert_eq!(value("twice(args.n) + twice(3)"), Ok(json!(10)));
    assert_eq!(value("twice('a')").unwrap_err().to_string(), "`twice` cannot take this value");
    assert!(value("flood()").is_err());
    assert!(refused("twice(1)").contains("function `twice` not found"));
}

#[test]
fn loops_over_mappings_go_in_order_of_keys() {
    let args = json!({"zeta": 1, "alpha": 2, "mid": 3, "beta": 4, "omega": 5});
    for _ in 0..20 {
        let keys = value("args.map(k, k)", &args);
        assert_eq!(keys, Ok(json!(["alpha", "beta", "mid", "omega", "zeta"])));
    }
    assert_eq!(value("args.filter(k, args[k] > 3)", &args), Ok(json!(["beta", "omega"])));
    assert_eq!(value("{'b': 1, 'a': 2}.map(k, k)", &args), Ok(json!(["a", "b"])));
}

/// Tests texts that are deep, long or large, each in a thread with the stack size of a worker.
#[test]
fn deep_and_long_expressions_are_refused_at_compilation() {
    let repeat = |part: &str, n: usize| part.repeat(n);
    let bombs = [
        format!("{}1{}", repeat("(", 1_000), repeat(")", 1_000)),
        format!("{}1{}", repeat("[", 40), repeat("]", 40)),
        format!("1{}", repeat("+1", 2_000)),
        format!("args{}", repeat(".a", 1_900)),
        format!("args{}", repeat("[0]", 1_000)),
        format!("{}true", repeat("!", 3_000)),
        format!("{}1", repeat("-", 3_000)),
        format!("{}1", repeat("true?1:", 500)),
        format!("true{}", repeat("&&true", 600)),
        format!("args{}", repeat(".all(x,x)", 300)),
        format!("'{}'", repeat("x", 5_000)),
        repeat("a ", 2_000),
        repeat("{'a':", 100),
        repeat("\u{1f600}", 900),
    ];
    for bomb in bombs {
        let start = Instant::now();
        let shown: String = bomb.chars().take(20).collect();
        let work = move || Expression::compile(&bomb).map(drop);
        let done = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(work).unwrap().join().unwrap();
        assert!(done.is_err(), "{shown}");
        assert!(start.elapsed() < Duration::from_secs(5), "{shown}: {:?}", start.elapsed());
    }
}

#[test]
fn deepest_accepted_expressions_fit_a_small_stack() {
    let deep = [
        format!("{}1{} == 1", "(".repeat(30), ")".repeat(30)),
        format!("1{} > 0", " + 1".repeat(55)),
        format!("args{} == 1", ".a".repeat(40)),
        format!("{}args.b == 2{}", "[1].exists(x, ".repeat(8), ")".repeat(8)),
    ];
    let work = move || {
        let mut nested = json!(1);
        for _ in 0..40 {
            nested = json!({"a": nested});
        }
        nested["b"] = json!(2);
        for source in deep {
            let mut scope = EvaluationScope::new();
            scope.set("args", &nested);
            assert_eq!(Expression::compile(&source).unwrap().holds(&scope), Ok(true), "{source}");
        }
    };
    std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(work).unwrap().join().unwrap();
}

#[test]
fn costly_evaluations_are_refused_before_they_start() {
    let many: Vec<Value> = (0..2_000).map(|n| json!({"n": n, "tags": ["a", "b"]})).collect();
    let args = json!({"list": many, "text": "x".repeat(50_000), "words": vec!["word"; 1_000]});
    for source in [
        "args.list.all(x, args.list.exists(y, y.n == x.n + 1))",
        "args.list.map(x, args.list)",
        "args.list.map(x, args.text)",
        "args.text + args.text + args.text + args.text + args.text + args.text",
        "[[[args.text].map(x, x + x)[0]].map(x, x + x)[0]].map(x, x + x)[0]",
        "args.words.map(x, args.words).map(x, x.map(y, y))",
        "args.list.filter(x, args.text.matches('^(x+)+$')).size() > 0",
        "args.list.exists(x, 'z' in args.words)",
    ] {
        let start = Instant::now();
        assert_eq!(value(source, &args), Err(EvalError::Budget), "{source}");
        assert!(start.elapsed() < Duration::from_secs(1), "{source}: {:?}", start.elapsed());
    }
    // An evaluation that is linear in its input stays within the budget.
    for source in [
        "[args.text].map(x, x + x)",
        "args.list.all(x, x.n >= 0 && x.tags.exists(t, t == 'b'))",
        "args.list.filter(x, x.n > 1997).map(x, x.n)",
        "args.text.matches('^x+$')",
        "args.words.all(w, w.size() == 4)",
    ] {
        let start = Instant::now();
        assert!(value(source, &args).is_ok(), "{source}");
        assert!(start.elapsed() < Duration::from_secs(2), "{source}: {:?}", start.elapsed());
    }
}

#[test]
fn syntax_error_names_its_line() {
    let fault = Expression::compile("args.a == 1 &&\n  args.b ==== 2").unwrap_err();
    assert!(fault.contains("(line 2, column "), "{fault}");
}

proptest! {
    #[test]
    fn arbitrary_expressions_never_panic(source in "[a-z0-9 .()\\[\\]{}'\"+*/%!?:&|<>=,-]{0,60}") {
        let args = json!({"a": 1, "b": "x", "c": [1, 2]});
        let mut scope = EvaluationScope::new();
        scope.set("args", &args);
        scope.set("a", &args);
        if let Ok(expression) = Expression::compile(&source) {
            let _ = expression.value(&scope);
            let _ = expression.holds(&scope);
        }
    }

    #[test]
    fn json_values_pass_through_unchanged(
        text in ".{0,20}", whole in any::<i64>(), number in -1e300..1e300_f64,
        keys in prop::collection::vec("[a-z]{1,5}", 0..5)
    ) {
        let mut value = json!({"text": text, "whole": whole, "number": number, "list": [whole, text, null, true]});
        for key in keys {
            value[key.as_str()] = json!({"inner": [key]});
        }
        prop_assert_eq!(super::tests::value("args", &value), Ok(value.clone()));
    }
}
