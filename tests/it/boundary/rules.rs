//! Rules of a tools file that block, ask, warn or are audited; approvals; labels of a session; effects.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{read, with, write},
};

const TOOLS: &str = "
policies:
  - {name: large-refund, tools: ['stripe.*'], effects: [write, destructive], when: 'args.amount > 100.0', verdict: ask, reason: more than 100}
  - {name: no-drop, tools: db.drop_table, verdict: block, reason: tables stay}
  - {name: no-mail, mode: audit, tools: mail.send_email, verdict: block, reason: mail is tried}
  - {name: read-the-web, tools: web.fetch, verdict: allow, taints: untrusted}
  - {name: tainted, effects: [write, destructive], when: '\"untrusted\" in session.taint', verdict: block, reason: the web was read}
effects:
  - {tool: web.fetch, effect: read}
  - {tool: stripe.refund, effect: destructive}
";

fn refund(call_id: &str, amount: f64) -> Value {
    json!({"call_id": call_id, "agent": "billing", "tool": {"server": "stripe", "name": "refund"},
        "arguments": {"charge": "ch_1", "amount": amount}})
}

async fn answer(umbra: &Umbra, id: &Value, decision: &str) -> (u16, Value) {
    let path = format!("/v1/approvals/{}", id.as_str().unwrap_or_default());
    let answered = umbra.post(&path, &json!({"decision": decision, "reason": "seen"})).await;
    (answered.status.as_u16(), answered.body)
}

#[tokio::test]
async fn approval_covers_one_call_with_the_same_arguments() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    assert_eq!(umbra.decide(&refund("small", 20.0)).await["decision"], "execute");
    let asked = umbra.decide(&refund("a1", 499.99)).await;
    assert_eq!(
        (&asked["decision"], &asked["reason"], &asked["detail"]),
        (&json!("ask"), &json!("approval_required"), &json!("more than 100")),
        "{asked}"
    );
    let id = asked["approval"]["id"].clone();
    // Not answered yet: the same call waits for the same approval, under any id.
    assert_eq!(umbra.decide(&refund("a1", 499.99)).await["approval"]["id"], id);
    assert_eq!(umbra.decide(&refund("a2", 499.99)).await["approval"]["id"], id);
    let (status, approved) = answer(&umbra, &id, "approve").await;
    assert_eq!(
        (status, &approved["state"], &approved["rule"]),
        (200, &json!("approved"), &json!("large-refund")),
        "{approved}"
    );
    assert_eq!(answer(&umbra, &id, "deny").await.0, 409);
    // Another amount, another agent and another tool are other calls.
    let other = umbra.decide(&refund("b1", 500.0)).await;
    assert!(other["decision"] == "ask" && other["approval"]["id"] != id, "{other}");
    let other = umbra.decide(&with(refund("b2", 499.99), &json!({"agent": "somebody"}))).await;
    assert!(other["decision"] == "ask" && other["approval"]["id"] != id, "{other}");
    // Asked again by its own id, it runs; a second call does not.
    let runs = umbra.decide(&refund("a1", 499.99)).await;
    assert_eq!((&runs["decision"], &runs["replayed"]), (&json!("execute"), &json!(false)), "{runs}");
    assert_eq!(umbra.decide(&refund("a1", 499.99)).await["replayed"], true);
    let second = umbra.decide(&refund("a3", 499.99)).await;
    assert!(second["decision"] == "ask" && second["approval"]["id"] != id, "{second}");
    assert_eq!(answer(&umbra, &second["approval"]["id"], "deny").await.0, 200);
    let denied = umbra.decide(&refund("a3", 499.99)).await;
    assert_eq!((&denied["decision"], &denied["reason"]), (&json!("block"), &json!("approval_denied")), "{denied}");
    let said = umbra.audit("kind=approval").await;
    assert_eq!(said.iter().map(|row| &row["decision"]).collect::<Vec<_>>(), ["approve", "used", "deny"]);
    assert_eq!(answer(&umbra, &json!("apr_00000000000000000000000000000000"), "approve").await.0, 404);
}

#[tokio::test]
async fn expired_approval_permits_no_call() {
    let umbra = Umbra::with().tools(TOOLS).clock("2026-03-01T12:00:00Z").go().await;
    let asked = umbra.decide(&refund("a1", 499.99)).await;
    assert_eq!(asked["approval"]["expires_at"], "2026-03-01T13:00:00Z", "{asked}");
    let id = asked["approval"]["id"].clone();
    assert_eq!(answer(&umbra, &id, "approve").await.0, 200);
    umbra.schema.set_clock("2026-03-01T13:00:00Z").await;
    let late = umbra.decide(&refund("a1", 499.99)).await;
    assert!(late["decision"] == "ask" && late["approval"]["id"] != id, "{late}");
    umbra.schema.set_clock("2026-03-01T15:00:00Z").await;
    assert_eq!(answer(&umbra, &late["approval"]["id"], "approve").await.0, 409);
}

#[tokio::test]
async fn enforced_rule_blocks_and_audited_rule_only_reports() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    let drop = json!({"call_id": "d1", "agent": "a", "tool": {"server": "db", "name": "drop_table"}, "arguments": {}});
    let blocked = umbra.decide(&drop).await;
    assert_eq!(
        (&blocked["decision"], &blocked["reason"], &blocked["detail"]),
        (&json!("block"), &json!("policy"), &json!("tables stay")),
        "{blocked}"
    );
    let tried = umbra.decide(&write("m1", "a")).await;
    assert_eq!(
        (&tried["decision"], &tried["guard"]["verdict"], &tried["guard"]["would"], &tried["guard"]["rule"]),
        (&json!("execute"), &json!("allow"), &json!("block"), &json!("no-mail")),
        "{tried}"
    );
    let row = &umbra.audit("call_id=m1").await[0];
    assert_eq!(
        (&row["guard"]["would"], &row["guard"]["policy_version"]),
        (&json!("block"), &tried["guard"]["policy_version"]),
        "{row}"
    );
    // A condition that cannot be evaluated counts.
    let strange = with(refund("s1", 1.0), &json!({"arguments": {"amount": "much"}}));
    assert_eq!(umbra.decide(&strange).await["decision"], "ask");
}

#[tokio::test]
async fn session_labels_block_its_later_writes() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    let session = json!({"session": "s1"});
    assert_eq!(umbra.decide(&with(write("w1", "a"), &session)).await["decision"], "execute");
    let web = json!({"call_id": "f1", "agent": "a", "session": "s1", "tool": {"server": "web", "name": "fetch"}});
    assert_eq!(umbra.decide(&web).await["effect"], "read");
    let tainted = umbra.decide(&with(write("w2", "a"), &session)).await;
    assert_eq!((&tainted["decision"], &tainted["guard"]["rule"]), (&json!("block"), &json!("tainted")), "{tainted}");
    assert_eq!(umbra.decide(&with(read("r1", "a"), &session)).await["decision"], "execute");
    assert_eq!(umbra.decide(&with(write("w3", "a"), &json!({"session": "s2"}))).await["decision"], "execute");
}

#[tokio::test]
async fn faulty_tools_file_is_refused_and_rules_in_force_stay() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    let reload = async |text: &str| {
        std::fs::write(umbra.file("tools.yaml"), text).expect("a file");
        umbra.send(reqwest::Method::POST, "/v1/admin/reload", &[], None).await
    };
    let faulty = reload("policies: [{name: x, when: 'args.amount >', verdict: block}]").await;
    assert_eq!(
        (faulty.status.as_u16(), &faulty.body["errors"][0]["code"]),
        (409, &json!("bad_config")),
        "{}",
        faulty.text
    );
    assert_eq!(umbra.decide(&refund("a1", 499.99)).await["decision"], "ask");
    assert_eq!(reload("policies: [{name: none, tools: '*', verdict: block, reason: closed}]").await.status, 200);
    assert_eq!(umbra.decide(&refund("a2", 1.0)).await["detail"], "closed");
    let checked = umbra.cli(&["check"], None);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
