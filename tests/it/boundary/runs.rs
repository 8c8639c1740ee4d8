//! Comparison of two runs of an agent, by the audit of both.

#![expect(clippy::expect_used, reason = "a test that cannot go on fails")]

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Umbra, server::Answered};

/// Makes a run of a billing agent: ids and times are new in each run. `then` may change its calls.
async fn run(umbra: &Umbra, agent: &str, run: &str, then: impl FnOnce(&mut Vec<(&'static str, Value)>)) {
    let minted = |n: u32| format!("{run}-{n}-5f6071");
    let mut calls = vec![
        ("get_customer", json!({"id": "cus_1"})),
        ("get_invoice", json!({"id": "inv_7", "trace": minted(1)})),
        (
            "refund",
            json!({"invoice": "inv_7", "amount": 49.99, "meta": {"idempotency_key": minted(2), "at": minted(3)}}),
        ),
        ("send_email", json!({"to": "a@example.com", "text": "Your refund is on its way.", "id": minted(4)})),
        ("close_ticket", json!({"id": "t-9"})),
    ];
    then(&mut calls);
    for (n, (tool, arguments)) in (0..).zip(calls) {
        let call_id = format!("{run}-{n}");
        let effect = if tool.starts_with("get") { json!({"readOnlyHint": true}) } else { json!({}) };
        let decided = umbra
            .decide(&json!({"call_id": call_id, "agent": agent, "run": run, "arguments": arguments,
                "tool": {"server": "desk", "name": tool, "annotations": effect}}))
            .await;
        assert_eq!(decided["decision"], "execute", "{decided}");
        let outcome = json!({"agent": agent, "status": "ok", "result": {"id": minted(9)}});
        assert_eq!(umbra.post(&format!("/v1/calls/{call_id}/outcome"), &outcome).await.status, 200);
    }
}

async fn ask(umbra: &Umbra, path: &str, headers: &[(&str, &str)]) -> Answered {
    umbra.send(Method::GET, &format!("/v1/runs/{path}"), headers, None).await
}

/// Returns the differences, and the summary.
async fn diff(umbra: &Umbra, path: &str) -> (Vec<Value>, Value) {
    let answered = ask(umbra, path, &[]).await;
    assert_eq!(
        (answered.status.as_u16(), &answered.headers["content-type"].to_str().unwrap_or_default()),
        (200, &"application/x-ndjson"),
        "{}",
        answered.text
    );
    let mut lines: Vec<Value> =
        answered.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    let summary = lines.pop().expect("a summary");
    assert_eq!(summary["kind"], "summary", "{summary}");
    (lines, summary)
}

#[tokio::test]
async fn a_changed_amount_is_found_and_equal_runs_have_no_difference() {
    let umbra = Umbra::with().go().await;
    for name in ["r1", "r1-again", "r1-third"] {
        run(&umbra, "billing", name, |_| {}).await;
    }
    run(&umbra, "billing", "r2", |calls| calls[2].1["amount"] = json!(499.99)).await;
    let (lines, summary) = diff(&umbra, "r1/diff/r2?baseline=r1-again").await;
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!(
        (&line["kind"], &line["tool"], &line["pointer"], &line["from"], &line["to"]),
        (&json!("arguments"), &json!("desk.refund"), &json!("/amount"), &json!(49.99), &json!(499.99)),
        "{line}"
    );
    assert_eq!((&line["a"]["call_id"], &line["b"]["position"]), (&json!("r1-2"), &json!(3)), "{line}");
    assert_eq!(
        (&summary["compared"], &summary["agreed"], &summary["agreement"], &summary["changing"], &summary["counts"]),
        (&json!(5), &json!(4), &json!(0.8), &json!(1), &json!({"arguments": 1})),
        "{summary}"
    );
    // Wilson, 4 of 5.
    assert_eq!((&summary["low"], &summary["high"]), (&json!(0.3755), &json!(0.9638)), "{summary}");
    assert_eq!(summary["noise"].as_array().map(Vec::len), Some(4), "{summary}");
    assert!(summary["recommendation"].as_str().is_some_and(|words| words.contains("look at those")), "{summary}");
    let (lines, summary) = diff(&umbra, "r1/diff/r1-third?baseline=r1-again").await;
    assert!(lines.is_empty() && summary["agreement"] == 1.0, "{lines:?} {summary}");
    // Without the noise of two equal runs, every minted id is a difference.
    let (lines, summary) = diff(&umbra, "r1/diff/r1-third").await;
    assert_eq!((lines.len(), &summary["agreed"]), (4, &json!(2)), "{lines:?}");
    assert!(summary["recommendation"].as_str().is_some_and(|words| words.contains("baseline")), "{summary}");
}

#[tokio::test]
async fn diff_reports_order_missing_extra_and_decision_changes() {
    let umbra = Umbra::with()
        .tools(
            "policies: [{name: large, tools: desk.refund, when: 'args.amount > 100.0', verdict: block, reason: much}]",
        )
        .go()
        .await;
    run(&umbra, "billing", "a", |_| {}).await;
    run(&umbra, "billing", "again", |_| {}).await;
    run(&umbra, "billing-v2", "b", |calls| {
        calls.swap(0, 1);
        calls.remove(4);
        calls.push(("archive_ticket", json!({"id": "t-9"})));
    })
    .await;
    let (lines, summary) = diff(&umbra, "a/diff/b?baseline=again").await;
    let told: Vec<_> = lines.iter().map(|line| (line["kind"].as_str(), line["tool"].as_str())).collect();
    let expected = [("order", "desk.get_invoice"), ("missing", "desk.close_ticket"), ("extra", "desk.archive_ticket")];
    let expected = expected.map(|(kind, tool)| (Some(kind), Some(tool)));
    let other = [(Some("order"), Some("desk.get_customer")), expected[1], expected[2]];
    assert!(told == expected || told == other, "{told:?}");
    assert!(lines[1].get("b").is_none() && lines[2]["b"]["agent"] == "billing-v2", "{lines:?}");
    assert_eq!((&summary["compared"], &summary["agreed"]), (&json!(6), &json!(3)), "{summary}");
    // A call that was blocked in one of them.
    let refund = |run: &str, amount: f64| {
        json!({"call_id": format!("{run}-x"), "agent": "billing", "run": run,
            "tool": {"server": "desk", "name": "refund"}, "arguments": {"amount": amount}})
    };
    assert_eq!(umbra.decide(&refund("small", 1.0)).await["decision"], "execute");
    assert_eq!(umbra.decide(&refund("large", 1000.0)).await["decision"], "block");
    let (lines, _) = diff(&umbra, "small/diff/large").await;
    let told: Vec<_> = lines.iter().map(|line| (&line["kind"], &line["from"], &line["to"])).collect();
    let expected = [
        (&json!("arguments"), &json!(1.0), &json!(1000.0)),
        (&json!("decision"), &json!("execute"), &json!("block: policy")),
    ];
    assert_eq!(told, expected);
}

#[tokio::test]
async fn comparison_is_json_on_request_and_refused_for_unknown_runs() {
    let mut umbra = Umbra::with().go().await;
    umbra.unchecked();
    run(&umbra, "billing", "r1", |_| {}).await;
    let answered = ask(&umbra, "r1/diff/r1", &[("accept", "application/json")]).await;
    assert_eq!(answered.headers["content-type"], "application/json", "{}", answered.text);
    assert_eq!((&answered.body["differences"], &answered.body["summary"]["agreed"]), (&json!([]), &json!(5)));
    for (path, status, word) in [
        ("r1/diff/r9", 404, "given as b"),
        ("r9/diff/r1", 404, "given as a"),
        ("r1/diff/r1?baseline=r9", 404, "given as baseline"),
        ("r1/diff/%00", 404, "given as b"),
        ("r1/diff/r1?baseline=r1", 400, "repetition"),
        ("r1/diff/r1?base=r1", 400, "unknown parameter"),
    ] {
        let refused = ask(&umbra, path, &[]).await;
        assert_eq!(refused.status.as_u16(), status, "{path}: {}", refused.text);
        assert!(refused.text.contains(word), "{path}: {}", refused.text);
    }
    umbra
        .schema
        .run(
            r#"INSERT INTO audit SELECT 1000 + n, gen_random_uuid(), clock(), 'decision', 'billing', NULL, 'long', n::text, 'pay',
                 '{"decision": "execute", "effect": "write", "execution": "live"}', NULL FROM generate_series(1, 5001) n"#,
        )
        .await;
    let refused = ask(&umbra, "r1/diff/long", &[]).await;
    assert_eq!((refused.status.as_u16(), &refused.body["code"]), (409, &json!("conflict")), "{}", refused.text);
    assert!(refused.text.contains("5000 calls"), "{}", refused.text);
}

#[tokio::test]
async fn each_agent_of_a_run_is_compared_with_itself() {
    let umbra = Umbra::with().go().await;
    for name in ["r1", "r2"] {
        run(&umbra, "billing", name, |calls| calls.retain(|(tool, _)| *tool == "close_ticket")).await;
    }
    let ask_about = |run: &str, agent: &str, id: &str| {
        json!({"call_id": format!("{run}-{agent}"), "agent": agent, "run": run,
            "tool": {"server": "desk", "name": "get_customer"}, "arguments": {"id": id}})
    };
    for (run, id) in [("r1", "x"), ("r2", "y")] {
        umbra.decide(&ask_about(run, "support", id)).await;
    }
    let (lines, summary) = diff(&umbra, "r1/diff/r2").await;
    assert_eq!((lines.len(), &summary["compared"], &lines[0]["a"]["agent"]), (1, &json!(2), &json!("support")));
}

#[tokio::test]
async fn diff_is_printed_as_a_table_and_marks_erased_arguments() {
    let umbra = Umbra::with().go().await;
    run(&umbra, "billing", "r1", |_| {}).await;
    run(&umbra, "billing", "r1-again", |_| {}).await;
    run(&umbra, "billing", "r2", |calls| calls[2].1["amount"] = json!(499.99)).await;
    let told = |args: &[&str]| {
        let output = umbra.cli(&[&["runs", "diff"], args].concat(), None);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, table, _) = told(&["r1", "r2", "--baseline", "r1-again"]);
    assert_eq!(code, Some(0));
    for word in
        ["arguments", "desk.refund", "/amount", "49.99", "499.99", "4 of 5 calls agree", "4 differences are noise"]
    {
        assert!(table.contains(word), "no {word}: {table}");
    }
    let (code, json, _) = told(&["r1", "r2", "--baseline", "r1-again", "--json", "--fail-on", "difference"]);
    let document: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((code, &document["differences"][0]["to"]), (Some(1), &json!(499.99)));
    assert_eq!(told(&["r1", "r1-again", "--baseline", "r2", "--fail-on", "difference"]).0, Some(0));
    let (code, _, complaint) = told(&["r1", "r9"]);
    assert!(code == Some(1) && complaint.contains("given as b"), "{complaint}");
    assert_eq!(told(&["r1", "r2", "--baseline", "r1"]).0, Some(2));
    let erased = umbra.cli(&["erase", "--agent", "billing", "--yes"], None);
    assert!(erased.status.success(), "{}", String::from_utf8_lossy(&erased.stderr));
    let (lines, summary) = diff(&umbra, "r1/diff/r2").await;
    assert!(lines.len() == 5 && lines.iter().all(|line| line["kind"] == "erased"), "{lines:?}");
    assert_eq!((&summary["compared"], &summary["agreement"]), (&json!(0), &Value::Null), "{summary}");
    assert!(summary["recommendation"].as_str().is_some_and(|words| words.contains("erased")), "{summary}");
}
