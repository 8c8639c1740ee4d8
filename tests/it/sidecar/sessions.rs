//! Sessions: their agents, their number, their end, and that they outlive a process.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{RULES, tools};
use crate::support::{Umbra, until};

#[tokio::test]
async fn session_continues_on_another_process_after_a_kill() {
    let mut first = Umbra::with().sidecar(RULES).go().await;
    let second = Umbra::with().sidecar(RULES).on(&first.schema).go().await;
    let id = first.attach(&json!({"agent": "a", "tools": tools(), "documents": {"todo": "# Todo\n"}})).await;
    let fetch = json!({"tool": {"server": "web", "name": "fetch"}});
    first.message(&id, &json!({"role": "assistant", "tool_calls": [fetch]})).await;
    first.unchecked();
    first.kill();
    let turn =
        second.turn(&id, &json!({"intent": "search the code", "planned_calls": [{"tool": "mail.send_email"}]})).await;
    assert_eq!((&turn["turn"], &turn["decisions"][0]["rule"]), (&json!(1), &json!("no-mail-after-web")), "{turn}");
    assert_eq!(turn["tools"]["ranked"][0]["tool"]["name"], "search_code", "{turn}");
    let seen = second.get(&format!("/v1/sessions/{id}")).await;
    assert_eq!(
        (&seen["messages"], &seen["turns"], &seen["taints"]),
        (&json!(1), &json!(1), &json!(["untrusted"])),
        "{seen}"
    );
}

#[tokio::test]
async fn sessions_per_agent_are_limited_and_idle_ones_closed() {
    let umbra = Umbra::with()
        .settings("sidecar: {max_sessions_per_agent: 2, idle_close: 10s}")
        .clock("2026-03-01T12:00:00Z")
        .go()
        .await;
    let id = umbra.attach(&json!({"agent": "a"})).await;
    umbra.attach(&json!({"agent": "a"})).await;
    let third = umbra.post("/v1/sessions", &json!({"agent": "a"})).await;
    assert_eq!((third.status.as_u16(), &third.body["code"]), (429, &json!("rate_limited")), "{}", third.body);
    umbra.attach(&json!({"agent": "b"})).await;
    umbra.schema.set_clock("2026-03-01T12:00:09Z").await;
    umbra.turn(&id, &json!({})).await;
    umbra.schema.set_clock("2026-03-01T12:00:11Z").await;
    // The used one goes on; the other ends by itself and makes room.
    until("a place", async || {
        let answered = umbra.post("/v1/sessions", &json!({"agent": "a"})).await;
        (answered.status.as_u16() == 201).then_some(())
    })
    .await;
    assert_eq!(umbra.get(&format!("/v1/sessions/{id}")).await["state"], "open");
    let ended =
        umbra.schema.rows("SELECT 1 FROM sidecar_session WHERE state = 'closed' AND body LIKE '%\"idle\"%'").await;
    assert!(!ended.is_empty());
}

#[tokio::test]
async fn session_limit_is_exact_and_open_sessions_are_listed() {
    let settings = "sidecar: {max_sessions_per_agent: 3}";
    let first = Umbra::with().settings(settings).go().await;
    let second = Umbra::with().settings(settings).on(&first.schema).go().await;
    let attach = async |umbra: &Umbra| umbra.post("/v1/sessions", &json!({"agent": "a"})).await.status.as_u16();
    let both = (0..6).flat_map(|_| [&first, &second]).map(attach);
    let answers = join_all(both).await;
    assert_eq!(answers.iter().filter(|status| **status == 201).count(), 3, "{answers:?}");
    // An agent that lost their ids finds them, and may close them.
    let listed = second.get("/v1/sessions?agent=a&state=open").await;
    let ids: Vec<&str> =
        listed["items"].as_array().into_iter().flatten().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids.len(), 3, "{listed}");
    for id in &ids {
        // An agent without an outcome sends no body.
        let closed =
            first.send("POST".parse().unwrap_or_default(), &format!("/v1/sessions/{id}/close"), &[], None).await;
        assert_eq!(closed.status.as_u16(), 200, "{}", closed.text);
    }
    assert_eq!(first.get("/v1/sessions?agent=a&state=open").await["items"], json!([]));
    // Page by page, in either direction, each once.
    for (order, wanted) in [("asc", ids.clone()), ("desc", ids.iter().rev().copied().collect())] {
        let (mut seen, mut next) = (Vec::new(), Some(String::new()));
        while let Some(cursor) = next {
            let page = first.get(&format!("/v1/sessions?agent=a&limit=2&order={order}{cursor}")).await;
            seen.extend(page["items"].as_array().cloned().unwrap_or_default());
            next = page["next_cursor"].as_str().map(|cursor| format!("&cursor={cursor}"));
        }
        let seen: Vec<&str> = seen.iter().filter_map(|one| one["id"].as_str()).collect();
        assert_eq!(seen, wanted, "{order}");
    }
    assert_eq!(first.post("/v1/sessions", &json!({"agent": "a"})).await.status.as_u16(), 201);
}

#[tokio::test]
async fn outcome_of_a_closed_session_counts_once() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let id = umbra.attach(&json!({"agent": "a", "task": "search the code for the date bug", "tools": tools()})).await;
    let search = json!({"tool": {"server": "search", "name": "search_code"}});
    umbra.message(&id, &json!({"role": "assistant", "tool_calls": [search]})).await;
    umbra.message(&id, &json!({"role": "tool", "results": [{"tool": "search.search_code", "content": "found"}]})).await;
    let close =
        async |body: Value| umbra.post(&format!("/v1/sessions/{id}/close"), &body).await.body["patterns"].clone();
    assert_eq!(close(json!({})).await, json!(0));
    assert_eq!(close(json!({"outcome": "succeeded"})).await, json!(1));
    assert_eq!(close(json!({"outcome": "succeeded"})).await, json!(0));
    // Closed sessions and unknown ones have different codes.
    let none = format!("ses_{}", "0".repeat(32));
    for (id, status, code) in [(id.as_str(), 409, "session_closed"), (none.as_str(), 404, "no_session")] {
        let turn = umbra.post(&format!("/v1/sessions/{id}/turns"), &json!({})).await;
        let put =
            umbra.document("PUT", &format!("/v1/sessions/{id}/documents/todo"), None, &json!({"text": "# T\n"})).await;
        for answered in [turn, put] {
            assert_eq!((answered.status.as_u16(), &answered.body["code"]), (status, &json!(code)), "{}", answered.body);
        }
    }
    // The next task is told apart from it, and its intent does not hide what fits the task.
    let next = umbra.attach(&json!({"agent": "a", "task": "search the code for the time bug"})).await;
    let turn = umbra.turn(&next, &json!({"intent": "read the manual"})).await;
    assert_eq!(turn["patterns"][0]["uses"], json!(1), "{turn}");
}

#[tokio::test]
async fn zero_deadline_is_ruled_from_memory_and_degrades_no_other() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let fetch = json!({"tool": "web.fetch"});
    let (hurried, other) = (umbra.attach(&json!({"agent": "a"})).await, umbra.attach(&json!({"agent": "b"})).await);
    umbra.message(&hurried, &json!({"role": "assistant", "tool_calls": [fetch]})).await;
    for _ in 0..20 {
        let asked = json!({"session": hurried, "deadline_ms": 0, "call": {"tool": "mail.send_email"}});
        let ruled = umbra.post("/v1/guard", &asked).await;
        assert_eq!((ruled.status.as_u16(), &ruled.body["rule"]), (200, &json!("no-mail-after-web")), "{}", ruled.body);
    }
    let turn = umbra.turn(&other, &json!({})).await;
    assert_eq!((&turn["degraded"], &turn["turn"]), (&json!(false), &json!(1)), "{turn}");
}

#[tokio::test]
async fn key_of_one_agent_cannot_reach_sessions_of_another() {
    let umbra = Umbra::with().go().await;
    let key = |agent: &str| {
        let made =
            umbra.cli(&["keys", "create", "--name", agent, "--scope", "ingest", "--agent", agent, "--json"], None);
        let made: Value = serde_json::from_slice(&made.stdout).unwrap_or_default();
        format!("Bearer {}", made["key"].as_str().unwrap_or_default())
    };
    let (ann, bob) = (key("ann"), key("bob"));
    let send = async |who: &str, method: &str, path: &str, body: Option<Value>| {
        let headers = [("authorization", who), ("content-type", "application/json")];
        let body = body.map(|body| body.to_string().into_bytes());
        umbra.send(method.parse().unwrap_or_default(), path, &headers, body).await
    };
    assert_eq!(send(&ann, "GET", "/v1/patterns?agent=ann", None).await.status.as_u16(), 200);
    assert_eq!(send(&bob, "GET", "/v1/patterns?agent=ann", None).await.status.as_u16(), 403);
    assert_eq!(send(&ann, "GET", "/v1/patterns", None).await.status.as_u16(), 403);
    let made = until("the key to be known", async || {
        let made =
            send(&ann, "POST", "/v1/sessions", Some(json!({"agent": "ann", "documents": {"todo": "# T\n"}}))).await;
        (made.status.as_u16() == 201).then_some(made)
    })
    .await;
    let id = made.body["session"]["id"].as_str().unwrap_or_default().to_owned();
    assert_eq!(send(&bob, "POST", "/v1/sessions", Some(json!({"agent": "ann"}))).await.status.as_u16(), 403);
    let document = format!("/v1/sessions/{id}/documents/todo");
    for (method, path, body) in [
        ("GET", format!("/v1/sessions/{id}"), None),
        ("GET", format!("/v1/sessions/{id}/policies"), None),
        ("POST", format!("/v1/sessions/{id}/turns"), Some(json!({}))),
        ("POST", format!("/v1/sessions/{id}/messages"), Some(json!({"role": "user"}))),
        ("POST", format!("/v1/sessions/{id}/close"), Some(json!({}))),
        ("GET", "/v1/sessions?agent=ann".to_owned(), None),
        ("GET", document.clone(), None),
        ("GET", format!("{document}/history"), None),
        ("PUT", document.clone(), Some(json!({"text": "x"}))),
        ("PATCH", document.clone(), Some(json!({"edits": [{"op": "append_text", "text": "x"}]}))),
        ("POST", "/v1/guard".to_owned(), Some(json!({"session": id, "call": {"tool": "x"}}))),
        ("POST", "/v1/tools/select".to_owned(), Some(json!({"session": id}))),
    ] {
        let foreign = send(&bob, method, &path, body.clone()).await.status.as_u16();
        assert_eq!(foreign, if path.contains('?') { 403 } else { 404 }, "{method} {path}");
        let own = send(&ann, method, &path, body).await.status.as_u16();
        assert!([200, 409, 412].contains(&own), "{method} {path}: {own}");
    }
}

#[tokio::test]
async fn policies_in_force_are_listed_and_client_formats_accepted() {
    let rules = format!("{RULES}  - {{name: elsewhere, agents: other, checks: pii, verdict: warn}}\n");
    let rules = rules.replace("policies:", "policies:\n  - {name: only-these, routes: narrow, except: [search.*, fetch], verdict: block, reason: not here}");
    let umbra = Umbra::with().sidecar(&rules).go().await;
    let id = umbra.attach(&json!({"agent": "a", "model": "small-1", "route": "narrow", "tools": tools()})).await;
    assert_eq!(umbra.get(&format!("/v1/sessions/{id}")).await["model"], "small-1");
    let policies = umbra.get(&format!("/v1/sessions/{id}/policies")).await;
    let names = |list: &str| -> Vec<&str> {
        policies["rules"][list].as_array().into_iter().flatten().filter_map(|rule| rule["name"].as_str()).collect()
    };
    assert_eq!(names("policies"), ["only-these", "no-drop", "web-taints", "no-mail-after-web", "tried"], "{policies}");
    assert_eq!((names("documents"), names("texts")), (vec![], vec!["no-secrets", "no-orders"]), "{policies}");
    // A call in the form of `tools/call`, a message as a text.
    let asked = json!({"agent": "a", "call": {"name": "db.drop_table", "arguments": {}}});
    let verdict = umbra.post("/v1/guard", &asked).await.body;
    assert_eq!(verdict["rule"], "no-drop", "{verdict}");
    // Without its invisible characters it would be another tool.
    for tool in ["db.drop_\u{1b}table", "db.list\u{200b}tables", "db.\u{9b}table"] {
        let verdict = umbra.post("/v1/guard", &json!({"agent": "a", "call": {"tool": tool}})).await.body;
        assert!(verdict["decision"] == "block" && verdict["reason"].to_string().contains("invisible"), "{verdict}");
    }
    let verdict = umbra.post("/v1/guard", &json!({"agent": "a", "message": "key: AKIAQ7XJ3MZP4TVK2LWN"})).await.body;
    assert_eq!(
        (&verdict["rule"], &verdict["inputs"].as_str().map(str::len)),
        (&json!("no-secrets"), &Some(32)),
        "{verdict}"
    );
    // Only the excepted tools are offered, and may be called.
    let planned: Vec<Value> = ["search_code", "web.fetch", "mail.send_email"].map(|tool| json!({"tool": tool})).into();
    let turn = umbra
        .turn(&id, &json!({"intent": "search the code, fetch a page, send an email", "planned_calls": planned}))
        .await;
    let said: Vec<&Value> = turn["decisions"].as_array().into_iter().flatten().map(|one| &one["decision"]).collect();
    assert_eq!(said, ["allow", "allow", "block"], "{turn}");
    let mut offered: Vec<&str> = turn["tools"]["ranked"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["tool"]["name"].as_str())
        .collect();
    offered.sort_unstable();
    assert_eq!(offered, ["fetch", "search_code"], "{turn}");
    assert!(turn["tools"]["excluded"][0]["reason"].as_str().is_some_and(|why| why.contains("only-these")), "{turn}");
    assert_eq!(turn["policy_version"], policies["policy_version"]);
    // A document as plain text.
    let path = format!("/v1/sessions/{id}/documents/notes");
    let put = async |media: &str, text: &[u8]| {
        let headers = [("content-type", media), ("if-none-match", "*")];
        umbra.send("PUT".parse().unwrap_or_default(), &path, &headers, Some(text.to_vec())).await
    };
    assert_eq!(put("text/markdown", b"# Notes\n\xff").await.status.as_u16(), 400);
    assert_eq!(put("text/html", b"<p>").await.status.as_u16(), 415);
    assert_eq!(put("text/markdown", b"# Notes\n\nA line.\n").await.status.as_u16(), 201);
    let read = umbra.send("GET".parse().unwrap_or_default(), &path, &[("accept", "text/markdown")], None).await;
    assert_eq!(read.text, "# Notes\n\nA line.\n");
}

#[tokio::test]
async fn session_with_ten_thousand_tools_finds_the_right_one() {
    let umbra = Umbra::with().go().await;
    let tool = |n: usize| {
        json!({"server": format!("s{}", n % 50), "name": format!("tool_{n}"),
            "description": format!("Does what number {n} is for. {}", "A long word on how. ".repeat(20)),
            "inputSchema": {"type": "object", "properties": {"path": {"type": "string", "description": "where"}}}})
    };
    let mut tools: Vec<Value> = (0..9_999).map(tool).collect();
    tools.push(json!({"server": "weather", "name": "forecast", "description": "The weather of the coming days"}));
    let id = umbra.attach(&json!({"agent": "a", "tools": tools})).await;
    assert_eq!(umbra.get(&format!("/v1/sessions/{id}")).await["tools"], 10_000);
    let turn = umbra.turn(&id, &json!({"intent": "will the weather hold?", "deadline_ms": 5_000})).await;
    assert_eq!(turn["tools"]["ranked"][0]["tool"]["name"], "forecast", "{turn}");
}

#[tokio::test]
async fn invalid_bodies_are_refused_with_the_pointer() {
    let umbra = Umbra::with().go().await;
    for (path, body, pointer) in [
        ("/v1/sessions", json!({}), "/agent"),
        ("/v1/sessions", json!({"agent": "a", "objective": []}), "/objective"),
        ("/v1/sessions", json!({"agent": "a", "objectives": ["world_peace"]}), "/objectives/0"),
        ("/v1/sessions", json!({"agent": "a", "tools": [{"description": "x"}]}), "/tools/0/name"),
        ("/v1/sessions", json!({"agent": "a", "documents": {"../x": "y"}}), "/documents/../x"),
        ("/v1/guard", json!({"agent": "a"}), "/call"),
        ("/v1/guard", json!({"call": {"tool": "x"}}), "/agent"),
        ("/v1/guard", json!({"agent": "a", "call": {"tool": 1}}), "/call/tool"),
        ("/v1/tools/select", json!({}), "/session"),
        ("/v1/patterns", json!({"agent": "a", "task": " "}), "/task"),
    ] {
        let refused = umbra.post(path, &body).await;
        let places: Vec<&Value> = refused.body["errors"]
            .as_array()
            .map(|all| all.iter().map(|one| &one["pointer"]).collect())
            .unwrap_or_default();
        assert!(refused.status.as_u16() == 400 && places.contains(&&json!(pointer)), "{path} {body}: {}", refused.body);
    }
}

#[tokio::test]
async fn session_stream_has_turns_directives_and_the_close() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let id = umbra.attach(&json!({"agent": "a", "tools": tools()})).await;
    umbra.turn(&id, &json!({"planned_calls": [{"tool": "db.drop_table"}]})).await;
    umbra.post(&format!("/v1/sessions/{id}/close"), &json!({})).await;
    // From the first step on; the stream ends with the session.
    let streamed = umbra
        .send(
            "GET".parse().unwrap_or_default(),
            &format!("/v1/sessions/{id}/messages"),
            &[("last-event-id", "0")],
            None,
        )
        .await;
    let events: Vec<&str> = streamed.text.lines().filter(|line| line.starts_with("event: ")).collect();
    assert_eq!(events, ["event: turn", "event: close"], "{}", streamed.text);
    assert!(streamed.text.contains("Do not call db.drop_table: tables stay."), "{}", streamed.text);
}

#[tokio::test]
async fn note_is_delivered_once_with_the_next_message_and_bounded() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let id = umbra.attach(&json!({"agent": "a", "tools": tools()})).await;
    let path = format!("/v1/sessions/{id}/notes");
    let note = json!({"text": "Use the key ghp_abcdefghijklmnopqrstuvwxyz0123456789 no more."});
    let noted = umbra.post(&path, &note).await;
    assert_eq!((noted.status.as_u16(), noted.body["notes"].as_array().map(Vec::len)), (200, Some(1)), "{}", noted.body);
    let told = umbra.message(&id, &json!({"role": "assistant", "content": "I go on."})).await;
    let said = told["warnings"][0].as_str().unwrap_or_default();
    assert!(said.starts_with("A person says: Use the key [secret:") && !said.contains("ghp_"), "{told}");
    for n in 0..16 {
        assert_eq!(umbra.post(&path, &json!({"text": format!("note {n}")})).await.status, 200);
    }
    assert_eq!(umbra.post(&path, &json!({"text": "one more"})).await.status, 409);
    for body in [json!({"text": " "}), json!({"text": "x".repeat(2_001)}), json!({"note": "x"}), json!({})] {
        assert_eq!(umbra.post(&path, &body).await.status, 400, "{body}");
    }
    umbra.post(&format!("/v1/sessions/{id}/close"), &json!({})).await;
    assert_eq!(umbra.post(&path, &json!({"text": "late"})).await.body["code"], "session_closed");
    let unknown = "/v1/sessions/ses_0197a3c1d2e47f00a1b2c3d4e5f60718/notes";
    assert_eq!(umbra.post(unknown, &json!({"text": "x"})).await.status, 404);
}
