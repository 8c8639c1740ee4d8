//! Runs that stay in shadow and runs that end: reported wherever a person looks.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{with, write},
};

const REFUNDS: &str = "
tools:
  - tool: stripe.refund
    effect: destructive
    output_schema: {type: object, required: [id], properties: {id: {type: string}, amount: {type: number}}}
    responses: [{result: {id: \"{{ seq('shadow-tx-') }}\", amount: '{{ args.amount }}'}}]
    overlay: {put: {collection: refunds, key: result.id}, reads: [{tool: stripe.get_refund, key: args.id}]}
  - {tool: stripe.get_refund, effect: read}
";

fn refund(id: &str, place: &Value) -> Value {
    let call = json!({"call_id": id, "agent": "billing", "tool": {"server": "stripe", "name": "refund"},
        "arguments": {"amount": 20}});
    with(call, place)
}

async fn switch(umbra: &Umbra, scope: &Value, execution: &Value) -> Value {
    let changed = umbra.put("/v1/execution", &with(json!({"execution": execution, "reason": "t"}), scope)).await;
    assert_eq!(changed.status, 200, "{}", changed.text);
    changed.body
}

#[tokio::test]
async fn named_shadow_run_is_reported_everywhere_until_ended() {
    let umbra = Umbra::with().tools(REFUNDS).go().await;
    let (promo, nightly) = (json!({"scope": "agent", "value": "promo"}), json!({"run": "nightly"}));
    let call = |id: &str| with(write(id, "promo"), &with(json!({"stub_override": {"sent": true}}), &nightly));
    let effective = async |query: &str| umbra.get(&format!("/v1/execution/effective?{query}")).await;
    let gate = async || {
        let gate = umbra.get("/v1/gate?environment=production").await;
        gate["reasons"].as_array().into_iter().flatten().find(|reason| reason["rule"] == "run_in_shadow").cloned()
    };
    switch(&umbra, &promo, &json!("shadow")).await;
    assert_eq!(umbra.decide(&call("c1")).await["decision"], "stub");
    assert_eq!(gate().await, None, "the override is the reason");

    let lifted = switch(&umbra, &promo, &Value::Null).await;
    assert_eq!(lifted["runs_that_stay"], json!([{"agent": "promo", "run": "nightly"}]), "{lifted}");
    let warning = lifted["warnings"][0].as_str().unwrap_or_default();
    assert!(warning.contains("nightly of promo") && warning.contains("/end"), "{lifted}");
    assert_eq!(umbra.decide(&call("c2")).await["decision"], "stub");
    assert_eq!(effective("agent=promo").await["execution"], "live");
    for query in ["agent=promo&run=nightly", "run=nightly"] {
        let effective = effective(query).await;
        assert_eq!(
            (&effective["execution"], &effective["won"]["source"]),
            (&json!("shadow"), &json!("run")),
            "{query}"
        );
    }
    assert_eq!(effective("agent=another&run=nightly").await["execution"], "live");
    let reason = gate().await.unwrap_or_default();
    assert!(reason["subject"] == "nightly" && reason["detail"].to_string().contains("promo"), "{reason}");
    let runs = umbra.get("/v1/runs?in_shadow=true").await;
    let run = &runs["items"][0];
    assert_eq!(
        (&run["run"], &run["named"], &run["execution"], &run["stays_in_shadow"]),
        (&json!("nightly"), &json!(true), &json!("shadow"), &json!(true)),
        "{runs}"
    );

    let end = async |run: &str, body: Value| umbra.post(&format!("/v1/runs/{run}/end"), &body).await;
    assert_eq!(end("nightly", json!({"reason": " "})).await.status, 400);
    assert_eq!(end("nightli", json!({"reason": "released"})).await.status, 404);
    assert_eq!(end("nightly", json!({"agent": "another", "reason": "released"})).await.status, 404);
    let ended = end("nightly", json!({"agent": "promo", "reason": "released"})).await;
    assert_eq!(ended.body["ended"], json!([{"agent": "promo", "run": "nightly"}]), "{}", ended.text);
    assert_eq!(end("nightly", json!({"reason": "again"})).await.status, 404, "it is ended already");
    assert_eq!(effective("agent=promo&run=nightly").await["execution"], "live");
    assert_eq!(umbra.decide(&call("c3")).await["decision"], "execute");
    assert_eq!(gate().await, None);
    let said = umbra.audit("kind=execution&run=nightly").await;
    assert_eq!((&said[0]["change"], &said[0]["reason"]), (&json!("run_ended"), &json!("released")));

    // A new run of the name begins with the present execution.
    end("nightly", json!({"reason": "again"})).await;
    switch(&umbra, &promo, &json!("shadow")).await;
    assert_eq!(umbra.decide(&call("c4")).await["decision"], "stub");
    switch(&umbra, &promo, &Value::Null).await;
    assert_eq!(umbra.decide(&call("c5")).await["decision"], "stub");
    let verified = umbra.cli(&["audit", "verify"], None);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[tokio::test]
async fn unnamed_run_keeps_its_overlay_until_shadow_is_lifted() {
    let umbra = Umbra::with().tools(REFUNDS).go().await;
    let billing = json!({"scope": "agent", "value": "billing"});
    for (place, name) in
        [(json!({"session": "s-1"}), "s-1"), (json!({"run": "process-1", "default_run": true}), "process-1")]
    {
        let call = |id: &str| refund(&format!("{name}-{id}"), &place);
        let looked = json!({"tool": {"server": "stripe", "name": "get_refund"}, "arguments": {"id": "shadow-tx-2"}});
        assert_eq!(umbra.decide(&call("before")).await["decision"], "execute");
        switch(&umbra, &billing, &json!("shadow")).await;
        for n in 1..=2 {
            let stubbed = umbra.decide(&call(&format!("c{n}"))).await;
            assert_eq!(stubbed["stub"]["result"]["id"], format!("shadow-tx-{n}"), "{stubbed}");
        }
        let read = umbra.decide(&with(call("read"), &looked)).await;
        assert_eq!(read["stub"]["result"]["amount"], 20, "{read}");
        let row = &umbra.audit(&format!("call_id={name}-c1")).await[0];
        assert_eq!(row["run"], name, "{row}");
        let runs = umbra.get(&format!("/v1/runs?run={name}")).await;
        assert_eq!((&runs["items"][0]["named"], &runs["items"][0]["execution"]), (&json!(false), &json!("shadow")));

        let lifted = switch(&umbra, &billing, &Value::Null).await;
        assert_eq!(lifted["runs_that_end"], json!([{"agent": "billing", "run": name}]), "{lifted}");
        assert_eq!((&lifted["runs_that_stay"], &lifted["warnings"]), (&json!([]), &json!([])));
        assert_eq!(umbra.decide(&call("after")).await["decision"], "execute");
        assert_eq!(umbra.decide(&with(call("real"), &looked)).await["decision"], "execute");
        let effective = umbra.get(&format!("/v1/execution/effective?agent=billing&run={name}")).await;
        assert_eq!(effective["execution"], "live");
        switch(&umbra, &billing, &json!("shadow")).await;
        assert_eq!(umbra.decide(&call("anew")).await["stub"]["result"]["id"], "shadow-tx-1");
        switch(&umbra, &billing, &Value::Null).await;
    }
    let nameless = umbra.post("/v1/decide", &refund("odd", &json!({"default_run": true}))).await;
    assert_eq!((nameless.status.as_u16(), &nameless.body["errors"][0]["pointer"]), (400, &json!("/default_run")));
}

#[tokio::test]
async fn lifted_override_of_another_tool_ends_no_session_run() {
    let umbra = Umbra::with().tools(REFUNDS).go().await;
    let session = json!({"session": "s-1"});
    for tool in ["stripe.refund", "mail.*"] {
        switch(&umbra, &json!({"scope": "tool", "value": tool}), &json!("shadow")).await;
    }
    assert_eq!(umbra.decide(&refund("c1", &session)).await["stub"]["result"]["id"], "shadow-tx-1");
    assert_eq!(umbra.decide(&with(write("c2", "billing"), &json!({"session": "s-2"}))).await["decision"], "block");
    let lifted = switch(&umbra, &json!({"scope": "tool", "value": "mail.*"}), &Value::Null).await;
    assert_eq!(lifted["runs_that_end"], json!([]), "{lifted}");
    assert_eq!(umbra.decide(&refund("c3", &session)).await["stub"]["result"]["id"], "shadow-tx-2");
    assert_eq!(
        umbra.decide(&with(write("c4", "billing"), &session)).await["decision"],
        "execute",
        "it binds no other tool"
    );
}
