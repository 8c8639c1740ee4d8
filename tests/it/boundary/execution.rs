//! Execution of calls: settings, variable, overrides, sub-runs, and sessions that cannot be rehearsed.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{read, with, write},
    until,
};

#[tokio::test]
async fn shadow_executes_reads_and_blocks_or_stubs_writes() {
    let umbra = Umbra::with().env("AGENT_SAFE_MODE", "True").go().await;
    let looked = umbra.decide(&read("c1", "writer")).await;
    assert_eq!((&looked["decision"], &looked["execution"]), (&json!("execute"), &json!("shadow")), "{looked}");
    let blocked = umbra.decide(&write("c2", "writer")).await;
    assert_eq!((&blocked["decision"], &blocked["reason"]), (&json!("block"), &json!("no_contract")), "{blocked}");
    let stub = json!({"stub_override": {"id": "m1", "sent": true}});
    let stubbed = umbra.decide(&with(write("c3", "writer"), &stub)).await;
    assert_eq!(
        (&stubbed["decision"], &stubbed["stub"]["result"]),
        (&json!("stub"), &json!({"id": "m1", "sent": true})),
        "{stubbed}"
    );
    let row = &umbra.audit("call_id=c3").await[0];
    assert_eq!(
        (&row["stub_response"]["id"], &row["stub_override"], &row["execution_source"]["name"]),
        (&json!("m1"), &json!(true), &json!("AGENT_SAFE_MODE"))
    );
}

#[tokio::test]
async fn override_applies_to_the_next_decision_of_every_server() {
    let start = || Umbra::with().settings("boundary: {execution: shadow, environment: staging}");
    let one = start().go().await;
    // Both servers have one key.
    let key = tempfile::TempDir::new().expect("a directory");
    std::fs::copy(one.file("audit/checkpoint-key"), key.path().join("checkpoint-key")).expect("a copy");
    let dir = key.path().display().to_string();
    let two = start().on(&one.schema).env("UMBRA__BOUNDARY__AUDIT__DIR", dir).go().await;
    let effective = async |umbra: &Umbra, query: &str| umbra.get(&format!("/v1/execution/effective?{query}")).await;
    assert_eq!(effective(&two, "agent=writer").await["won"]["source"], "settings");
    for (set, expected) in [
        (json!({"scope": "global", "execution": "live", "reason": "release"}), "live"),
        (json!({"scope": "environment", "value": "staging", "execution": "shadow", "reason": "drill"}), "shadow"),
        (json!({"scope": "agent", "value": "writ*", "execution": "live", "reason": "writer is trusted"}), "live"),
        (json!({"scope": "session", "value": "s1", "execution": "shadow", "reason": "rehearsal"}), "shadow"),
        (json!({"scope": "tool", "value": "mail.*", "execution": "live", "reason": "mail goes to a sandbox"}), "live"),
        (json!({"scope": "tool", "value": "mail.*", "execution": null, "reason": "sandbox is down"}), "shadow"),
    ] {
        let answered = one.put("/v1/execution", &set).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        let call = with(write(&set.to_string(), "writer"), &json!({"session": "s1"}));
        assert_eq!(two.decide(&call).await["execution"], expected, "after {set}");
        assert_eq!(effective(&two, "agent=writer&session=s1&tool=mail.send_email").await["execution"], expected);
    }
    let view = one.get("/v1/execution").await;
    assert_eq!(view["overrides"].as_array().map(Vec::len), Some(4), "{view}");
    let changes = one.audit("kind=execution").await;
    assert_eq!(changes.len(), 6);
    assert_eq!(
        (&changes[5]["change"], &changes[5]["reason"], &changes[0]["override"]["reason"]),
        (&json!("lifted"), &json!("sandbox is down"), &json!("release"))
    );
    let missing =
        one.put("/v1/execution", &json!({"scope": "tool", "value": "x", "execution": null, "reason": "r"})).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn override_ends_at_its_expiry() {
    let umbra = Umbra::with().clock("2026-03-01T12:00:00Z").go().await;
    let set =
        json!({"scope": "global", "execution": "shadow", "reason": "drill", "expires_at": "2999-01-01T00:00:00Z"});
    assert_eq!(umbra.put("/v1/execution", &set).await.status, 200);
    assert_eq!(umbra.decide(&read("c1", "a")).await["execution"], "shadow");
    umbra.schema.set_clock("2999-01-01T00:00:00Z").await;
    assert_eq!(umbra.decide(&read("c2", "a")).await["execution"], "live");
}

#[tokio::test]
async fn invalid_override_is_refused_with_all_faults() {
    let umbra = Umbra::with().go().await;
    for (body, pointers) in [
        (json!({"scope": "agent", "execution": "live", "reason": " "}), vec!["/value", "/reason"]),
        (
            json!({"scope": "global", "value": "x", "execution": "live", "reason": "r", "expires_at": "2020-01-01T00:00:00Z"}),
            vec!["/value", "/expires_at"],
        ),
        (
            json!({"scope": "global", "execution": "live", "reason": "r", "expires_at": "9999-12-31T23:59:59Z"}),
            vec!["/expires_at"],
        ),
        (json!({"scope": "global", "execution": "live", "reason": "r", "expires_at": "tomorrow"}), vec!["/expires_at"]),
        (json!({"scope": "tool", "value": "a[", "execution": "live", "reason": "r"}), vec!["/value"]),
        (json!({"scope": "tool", "value": "a", "execution": "dry", "reason": "r"}), vec!["/execution"]),
        (json!({"scope": "tool", "value": "a", "execution": "live"}), vec![""]),
    ] {
        let refused = umbra.put("/v1/execution", &body).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        let told: Vec<&str> =
            refused.body["errors"].as_array().into_iter().flatten().filter_map(|e| e["pointer"].as_str()).collect();
        assert_eq!(told, pointers, "{}", refused.text);
        let words: Vec<&str> =
            refused.body["errors"].as_array().into_iter().flatten().filter_map(|e| e["detail"].as_str()).collect();
        // Our own message, with the remedy.
        assert!(
            !told.contains(&"/expires_at") || words.iter().any(|said| said.contains("leave expires_at out")),
            "{words:?}"
        );
    }
    assert_eq!(umbra.get("/v1/execution").await["overrides"], json!([]));
}

#[tokio::test]
async fn sub_run_of_a_shadow_run_stays_in_shadow() {
    let umbra = Umbra::with().go().await;
    let set = async |execution: Value| {
        let body = json!({"scope": "session", "value": "s1", "execution": execution, "reason": "rehearsal"});
        assert_eq!(umbra.put("/v1/execution", &body).await.status, 200);
    };
    set(json!("shadow")).await;
    umbra.decide(&with(read("p1", "planner"), &json!({"run": "r0", "session": "s1"}))).await;
    let sub =
        |id: &str, run: &str| with(write(id, "worker"), &json!({"run": run, "parent_run": "r0", "session": "s2"}));
    let inherited = umbra.decide(&sub("w1", "r1")).await;
    assert_eq!((&inherited["execution"], &inherited["decision"]), (&json!("shadow"), &json!("block")), "{inherited}");
    set(Value::Null).await;
    // The run stays in shadow, also where it does not name its parent again; a new one is live.
    let later = with(write("w2", "worker"), &json!({"run": "r1", "session": "s2"}));
    assert_eq!(umbra.decide(&later).await["execution"], "shadow");
    assert_eq!(
        umbra.decide(&with(write("w3", "worker"), &json!({"run": "r2", "parent_run": "r1"}))).await["execution"],
        "shadow"
    );
    assert_eq!(umbra.decide(&with(write("w4", "worker"), &json!({"run": "r9"}))).await["execution"], "live");
    let effective = umbra.get("/v1/execution/effective?agent=worker&parent_run=r0").await;
    assert_eq!(
        (&effective["won"]["source"], &effective["won"]["name"]),
        (&json!("parent_run"), &json!("r0")),
        "{effective}"
    );
}

/// Returns a write of a run that another run started.
fn sub(id: &str, run: &str, parent: &str) -> Value {
    with(write(id, "worker"), &json!({"run": run, "parent_run": parent}))
}

#[tokio::test]
async fn sub_run_inherits_shadow_from_its_parent_at_decision_time() {
    let umbra = Umbra::with().go().await;
    // r0 in session s1 starts r1, and that starts r2: all are live.
    umbra.decide(&with(write("p1", "planner"), &json!({"run": "r0", "session": "s1"}))).await;
    for (id, run, parent) in [("a1", "r1", "r0"), ("b1", "r2", "r1")] {
        assert_eq!(umbra.decide(&sub(id, run, parent)).await["decision"], "execute");
    }
    // The session of r0 turns shadow: nothing below it runs any more, although r0 has not called since.
    let set = |execution: Value| json!({"scope": "session", "value": "s1", "execution": execution, "reason": "drill"});
    assert_eq!(umbra.put("/v1/execution", &set(json!("shadow"))).await.status, 200);
    for (id, run) in [("b2", "r2"), ("a2", "r1")] {
        let call = with(write(id, "worker"), &json!({"run": run}));
        let answer = umbra.decide(&call).await;
        assert_eq!((&answer["execution"], &answer["decision"]), (&json!("shadow"), &json!("block")), "{answer}");
        let source = &umbra.audit(&format!("call_id={id}")).await[0]["execution_source"];
        assert_eq!((&source["source"], &source["name"]), (&json!("parent_run"), &json!("r0")));
    }
    let effective = umbra.get("/v1/execution/effective?agent=worker&parent_run=r1").await;
    assert_eq!(effective["execution"], "shadow", "{effective}");
    // Both runs have seen it, and stay there.
    assert_eq!(umbra.put("/v1/execution", &set(Value::Null)).await.status, 200);
    assert_eq!(umbra.decide(&with(write("a3", "worker"), &json!({"run": "r1"}))).await["execution"], "shadow");
    // An independent run is live again.
    assert_eq!(umbra.decide(&with(write("c1", "worker"), &json!({"run": "r9"}))).await["execution"], "live");
}

#[tokio::test]
async fn writes_of_a_run_with_an_unknown_parent_are_blocked() {
    let umbra = Umbra::with().go().await;
    let refused = umbra.decide(&sub("w1", "r1", "r-misspelt")).await;
    assert_eq!((&refused["decision"], &refused["reason"]), (&json!("block"), &json!("unknown_parent")), "{refused}");
    assert!(refused["detail"].as_str().is_some_and(|detail| detail.contains("r-misspelt")), "{refused}");
    let looked = with(read("l1", "worker"), &json!({"run": "r1", "parent_run": "r-misspelt"}));
    assert_eq!(umbra.decide(&looked).await["decision"], "execute");
    let effective = umbra.send(reqwest::Method::GET, "/v1/execution/effective?parent_run=r-misspelt", &[], None).await;
    assert_eq!(effective.status, 404, "{}", effective.text);
    // Once it has made a call it is known.
    umbra.decide(&with(read("p1", "planner"), &json!({"run": "r-misspelt"}))).await;
    assert_eq!(umbra.decide(&sub("w2", "r1", "r-misspelt")).await["decision"], "execute");
    // Runs that started each other have no root, and a run that is too deep inherits nothing.
    umbra.decide(&with(read("p2", "planner"), &json!({"run": "x0"}))).await;
    assert_eq!(umbra.decide(&sub("x1", "x1", "x0")).await["decision"], "execute");
    assert_eq!(umbra.decide(&sub("x2", "x0", "x1")).await["decision"], "execute");
    assert_eq!(umbra.decide(&sub("x3", "x1", "x0")).await["decision"], "execute");
    umbra.decide(&with(read("d0", "planner"), &json!({"run": "d0"}))).await;
    for n in 1..=20 {
        let answer = umbra.decide(&sub(&format!("d{n}"), &format!("d{n}"), &format!("d{}", n - 1))).await;
        let expected = if n <= 16 { "execute" } else { "block" };
        assert_eq!(answer["decision"], expected, "{n} runs down: {answer}");
    }
}

#[tokio::test]
async fn shadow_run_executes_no_write_from_a_live_session() {
    let umbra = Umbra::with().go().await;
    let set = json!({"scope": "session", "value": "s1", "execution": "shadow", "reason": "rehearsal"});
    assert_eq!(umbra.put("/v1/execution", &set).await.status, 200);
    umbra.decide(&with(read("c1", "worker"), &json!({"run": "r1", "session": "s1"}))).await;
    for (id, session) in [("c2", Some("s2")), ("c3", None)] {
        let call = with(write(id, "worker"), &json!({"run": "r1", "session": session}));
        let answer = umbra.decide(&call).await;
        assert_eq!((&answer["execution"], &answer["decision"]), (&json!("shadow"), &json!("block")), "{answer}");
        let source = &umbra.audit(&format!("call_id={id}")).await[0]["execution_source"];
        assert_eq!((&source["source"], &source["name"]), (&json!("run"), &json!("r1")));
    }
    // An override of one tool does not put the run in shadow.
    let tool = json!({"scope": "tool", "value": "crm.*", "execution": "shadow", "reason": "its vendor is down"});
    assert_eq!(umbra.put("/v1/execution", &tool).await.status, 200);
    assert_eq!(umbra.decide(&with(read("d1", "worker"), &json!({"run": "r2"}))).await["execution"], "shadow");
    assert_eq!(umbra.decide(&with(write("d2", "worker"), &json!({"run": "r2"}))).await["decision"], "execute");
}

#[tokio::test]
async fn session_with_uninterceptable_tools_is_refused_shadow() {
    let umbra = Umbra::with().go().await;
    let declared = json!({"session": "s1", "uninterceptable": ["a shell of its own"]});
    assert_eq!(umbra.decide(&with(read("c1", "a"), &declared)).await["decision"], "execute", "live is its own affair");
    let refused = umbra
        .put("/v1/execution", &json!({"scope": "session", "value": "s1", "execution": "shadow", "reason": "r"}))
        .await;
    assert_eq!((refused.status.as_u16(), &refused.body["code"]), (409, &json!("conflict")), "{}", refused.text);
    assert!(refused.text.contains("a shell of its own"), "{}", refused.text);
    assert_eq!(
        umbra.put("/v1/execution", &json!({"scope": "global", "execution": "shadow", "reason": "r"})).await.status,
        200
    );
    for id in ["c2", "c3"] {
        // It need not be repeated.
        let call = with(if id == "c2" { read(id, "a") } else { write(id, "a") }, &json!({"session": "s1"}));
        let blocked = umbra.decide(&call).await;
        assert_eq!(
            (&blocked["decision"], &blocked["reason"]),
            (&json!("block"), &json!("uninterceptable")),
            "{blocked}"
        );
    }
    assert_eq!(umbra.decide(&with(read("c4", "a"), &json!({"session": "s2"}))).await["decision"], "execute");
}

#[tokio::test]
async fn reload_applies_boundary_settings_and_refuses_faulty_ones() {
    let umbra = Umbra::with().settings("boundary: {execution: live}").go().await;
    assert_eq!(umbra.decide(&read("c1", "a")).await["execution"], "live");
    let reload = async |text: &str| {
        std::fs::write(umbra.file("umbra.yaml"), text).expect("a file");
        umbra.send(reqwest::Method::POST, "/v1/admin/reload", &[], None).await.status.as_u16()
    };
    assert_eq!(reload("boundary: {execution: shadow}").await, 200);
    assert_eq!(umbra.decide(&read("c2", "a")).await["execution"], "shadow");
    // An unreadable file leaves the previous rules in force.
    assert_eq!(reload("boundary: {execution: sometimes}").await, 409);
    assert_eq!(umbra.decide(&read("c3", "a")).await["execution"], "shadow");
    std::fs::write(umbra.file("umbra.yaml"), "boundary: {execution: shadow}").expect("a file");
    until("the audit to have them", async || (umbra.audit("").await.len() == 3).then_some(())).await;
}
