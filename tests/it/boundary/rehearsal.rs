//! A rehearsal from an agent's view: byte-identical repetition, and simulated writes that can be read back.

#![expect(clippy::expect_used, clippy::panic, reason = "a test that cannot go on fails")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use umbra_boundary::overlay::{OverlayMerge, merge};

use crate::support::{
    Umbra,
    boundary::with,
    model_server::{Answer, ModelServer},
    server::client,
};

const MINTING: &str = "
tools:
  - tool: orders.place
    effect: write
    output_schema: {type: object, required: [id], properties: {id: {type: string}, number: {type: string}, at: {type: string}}}
    responses:
      - result: {id: \"{{ uuid('ord_') }}\", number: \"{{ seq('no-') }}\", at: '{{ now() }}', qty: '{{ args.qty }}'}
    faults: [{rate: 0.3, error: rate_limited, message: Too many requests}]
    overlay: {put: {collection: orders, key: result.number}, reads: [{tool: orders.get, key: args.number}],
      lists: [{tool: orders.list, items: data, key: number}]}
  - {tool: orders.get, effect: read}
  - {tool: orders.list, effect: read}
";

/// Returns the bytes of all answers of a run, without the names of the call itself.
async fn answers(umbra: &Umbra, run: &str, more: &Value) -> Vec<String> {
    let mut answers = Vec::new();
    for n in 0..40 {
        let call_id = format!("{run}-call-{n}");
        let (tool, arguments) = match n % 4 {
            0 | 1 => ("place", json!({"qty": n, "note": "two of them"})),
            2 => ("get", json!({"number": format!("no-{}", n / 4)})),
            _ => ("list", json!({})),
        };
        let call = json!({"call_id": call_id, "agent": "buyer", "run": run, "arguments": arguments,
            "tool": {"server": "orders", "name": tool}});
        let answered = umbra.post("/v1/decide", &with(call, more)).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        let id = answered.body["decision_id"].as_str().unwrap_or_default();
        let seq = format!("\"audit_seq\":{}", answered.body["audit_seq"]);
        assert!(!id.is_empty() && answered.text.contains(&seq), "{}", answered.text);
        answers.push(answered.text.replace(id, "").replace(&call_id, "").replace(&seq, ""));
    }
    answers
}

#[tokio::test]
async fn stub_fallback_applies_only_without_a_contract() {
    let tools =
        "tools:\n  - {tool: log.write, effect: write, output_schema: {type: 'null'}, responses: [{result: null}]}\n";
    let umbra = Umbra::with().settings("boundary: {execution: shadow}").tools(tools).go().await;
    let call = |id: &str, tool: &str, more: &Value| {
        with(json!({"call_id": id, "agent": "a", "tool": {"name": tool}, "arguments": {}}), more)
    };
    let own = |result: Value| json!({"stub_fallback": {"result": result}});
    for (id, result) in [("f1", json!({"status": "sent"})), ("f2", Value::Null)] {
        let stubbed = umbra.decide(&call(id, "send_fax", &own(result.clone()))).await;
        assert_eq!(
            (&stubbed["decision"], &stubbed["stub"]["is_fallback"]),
            (&json!("stub"), &json!(true)),
            "{stubbed}"
        );
        assert_eq!((&stubbed["stub"]["result"], stubbed["stub"].get("result").is_some()), (&result, true));
        let rows = umbra.audit(&format!("call_id={id}")).await;
        assert_eq!((rows.len(), &rows[0]["stub_response"]), (1, &result));
    }
    let said = umbra.decide(&call("n1", "log.write", &own(json!("mine")))).await;
    assert_eq!((&said["stub"]["result"], &said["stub"]["is_fallback"]), (&Value::Null, &json!(false)), "{said}");
    let schema = json!({"tool": {"name": "send_fax", "output_schema": {"type": "string"}}});
    let misfit = umbra.decide(&with(call("f3", "send_fax", &own(json!(5))), &schema)).await;
    assert_eq!(misfit["reason"], "invalid_stub", "{misfit}");
    let odd = umbra.post("/v1/decide", &call("f4", "send_fax", &json!({"stub_fallback": "sent"}))).await;
    assert_eq!((odd.status.as_u16(), &odd.body["errors"][0]["pointer"]), (400, &json!("/stub_fallback")));
    let nothing = "tools:\n  - {tool: log.write, effect: write, responses: [{result: null}]}\n";
    let linted = umbra
        .send(
            reqwest::Method::POST,
            "/v1/contracts/lint",
            &[("content-type", "application/yaml")],
            Some(nothing.as_bytes().to_vec()),
        )
        .await;
    assert!(linted.text.contains("no output_schema allows null"), "{}", linted.text);
}

#[tokio::test]
async fn repeated_run_with_the_same_seed_is_equal_to_the_byte() {
    let umbra = Umbra::with().settings("boundary: {execution: shadow}").tools(MINTING).go().await;
    let seeded = |seed: &str| json!({"seed": seed, "faults": true});
    let first = answers(&umbra, "r1", &seeded("one")).await;
    let second = answers(&umbra, "r2", &seeded("one")).await;
    assert_eq!(first, second);
    let whole = first.concat();
    for minted in ["ord_", "no-1", "2026-01-01T00:00:0", "rate_limited", "\"merge\"", "\"decision\":\"stub\""] {
        assert!(whole.contains(minted), "nothing of {minted}: {whole}");
    }
    let other = answers(&umbra, "r3", &seeded("two")).await;
    assert_ne!(first, other);
    // Faults come only on request; without a seed a run has one of its own.
    assert!(!answers(&umbra, "r4", &json!({"seed": "one"})).await.concat().contains("rate_limited"));
    assert_ne!(answers(&umbra, "r5", &json!({})).await, answers(&umbra, "r6", &json!({})).await);
}

const NOTES: &str = "
tools:
  - tool: notes.create
    effect: write
    input_schema: {type: object, required: [title, text], properties: {title: {type: string, minLength: 1}, text: {type: string}}}
    output_schema: {type: object, required: [id, title, text], properties: {id: {type: string}}}
    responses: [{result: {id: \"{{ seq('n-shadow-') }}\", title: '{{ args.title }}', text: '{{ args.text }}'}}]
    overlay:
      put: {collection: notes, key: result.id}
      reads: [{tool: notes.get, key: args.id, on_missing: {error: not_found}}]
      lists: [{tool: notes.list, items: data, key: id}]
  - tool: notes.delete
    effect: destructive
    responses: [{result: {deleted: '{{ args.id }}'}}]
    overlay: {delete: {collection: notes, key: args.id}}
  - {tool: notes.get, effect: read}
  - {tool: notes.list, effect: read}
";

type Notes = Arc<Mutex<BTreeMap<String, Value>>>;

/// Starts a small service of notes over HTTP, with one note in it.
async fn backend() -> (ModelServer, Notes) {
    let old = json!({"id": "n-0", "title": "old", "text": "from before"});
    let notes: Notes = Arc::new(Mutex::new(BTreeMap::from([("n-0".to_owned(), old)])));
    let kept = Arc::clone(&notes);
    let server = ModelServer::start(move |request| {
        let mut notes = kept.lock().expect("a lock");
        let args = &request.body;
        let id = args["id"].as_str().unwrap_or_default().to_owned();
        let missing = json!({"error": "not_found"});
        let answer = match request.path.as_str() {
            "/create" => {
                let id = format!("n-{}", notes.len() + 1);
                let note = json!({"id": id, "title": args["title"], "text": args["text"]});
                notes.insert(id, note.clone());
                note
            }
            "/get" => notes.get(&id).cloned().unwrap_or(missing),
            "/list" => json!({"data": notes.values().collect::<Vec<_>>()}),
            "/delete" => notes.remove(&id).map_or(missing, |_| json!({"deleted": id})),
            other => panic!("{other} is no path of notes"),
        };
        Answer::Raw(answer.to_string())
    })
    .await;
    (server, notes)
}

/// Client of an agent: it asks the boundary, and does as decided.
struct Client<'u> {
    umbra: &'u Umbra,
    backend: &'u ModelServer,
    run: &'u str,
    calls: u32,
}

impl Client<'_> {
    async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.calls += 1;
        let call_id = format!("{}-{}", self.run, self.calls);
        let call = json!({"call_id": call_id, "agent": "clerk", "run": self.run, "session": self.run,
            "arguments": arguments, "tool": {"server": "notes", "name": tool}});
        let answer = self.umbra.decide(&call).await;
        if answer["decision"] == "stub" {
            return answer["stub"]["result"].clone();
        }
        assert_eq!(answer["decision"], "execute", "{answer}");
        let sent = client().post(format!("{}/{tool}", self.backend.url())).json(&arguments).send().await;
        let result: Value = sent.expect("it answers").json().await.expect("JSON");
        let outcome = json!({"agent": "clerk", "status": "ok", "result": result});
        assert_eq!(self.umbra.post(&format!("/v1/calls/{call_id}/outcome"), &outcome).await.status, 200);
        match serde_json::from_value::<OverlayMerge>(answer["merge"].clone()) {
            Ok(more) => merge(result, &more),
            Err(_) => result,
        }
    }
}

/// Returns the observations of an agent that creates, lists, reads and deletes; ids are left out.
async fn script(mut notes: Client<'_>) -> Vec<String> {
    let mut seen = Vec::new();
    let titles = |list: &Value| {
        let items = list["data"].as_array().cloned().unwrap_or_default();
        let mut titles: Vec<String> =
            items.iter().map(|note| note["title"].as_str().unwrap_or_default().to_owned()).collect();
        titles.sort();
        titles.join(",")
    };
    seen.push(titles(&notes.call("list", json!({})).await));
    let first = notes.call("create", json!({"title": "first", "text": "a"})).await;
    let second = notes.call("create", json!({"title": "second", "text": "b"})).await;
    assert_ne!(first["id"], second["id"]);
    seen.push(titles(&notes.call("list", json!({})).await));
    let read = notes.call("get", json!({"id": first["id"]})).await;
    seen.push(format!("{} {} {}", read["title"], read["text"], read["id"] == first["id"]));
    for id in [&second["id"], &json!("n-0")] {
        let deleted = notes.call("delete", json!({"id": id})).await;
        seen.push(format!("deleted {}", deleted["deleted"] == *id));
        seen.push(notes.call("get", json!({"id": id})).await.to_string());
    }
    seen.push(titles(&notes.call("list", json!({})).await));
    seen
}

#[tokio::test]
async fn agent_sees_in_shadow_the_same_results_as_live() {
    let umbra = Umbra::with().tools(NOTES).go().await;
    let shadow = json!({"scope": "session", "value": "rehearsed", "execution": "shadow", "reason": "rehearsal"});
    assert_eq!(umbra.put("/v1/execution", &shadow).await.status, 200);
    let (backend_live, notes_live) = backend().await;
    let live = script(Client { umbra: &umbra, backend: &backend_live, run: "live", calls: 0 }).await;
    let (backend_shadow, notes_shadow) = backend().await;
    let before = notes_shadow.lock().expect("a lock").clone();
    let rehearsed = script(Client { umbra: &umbra, backend: &backend_shadow, run: "rehearsed", calls: 0 }).await;
    assert_eq!(live, rehearsed);
    assert_eq!(live[1], "first,old,second", "{live:?}");
    assert_eq!(live.last().map(String::as_str), Some("first"), "{live:?}");
    // Live it did all that; the rehearsal only sent lists, and reads of notes that it had not written itself.
    assert_eq!(notes_live.lock().expect("a lock").len(), 1);
    assert_eq!(*notes_shadow.lock().expect("a lock"), before);
    let asked: Vec<String> = backend_shadow.seen().into_iter().map(|request| request.path).collect();
    assert_eq!(asked, ["/list", "/list", "/list"]);
    // Compared, they are one run.
    let compared =
        umbra.send(reqwest::Method::GET, "/v1/runs/live/diff/rehearsed", &[("accept", "application/json")], None).await;
    let kinds = &compared.body["summary"]["counts"];
    assert!(
        kinds.get("missing").is_none() && kinds.get("extra").is_none() && kinds.get("decision").is_none(),
        "{kinds}"
    );
}
