//! The audit keeps neither secrets nor numbers that identify people, whether recognized by their form or by the name of
//! their member.

use serde_json::json;

use crate::support::{
    Umbra,
    boundary::{with, write},
};

/// Secrets of which nothing may be kept.
const SECRETS: [&str; 14] = [
    "hunter2",
    "Zk9qX2vLm8Tr!",
    "swordfish",
    "s3same-open",
    "47118062",
    "dXNlcjpwYXNz",
    "correct horse",
    "Tr0ub4dor",
    "&3x",
    "0penTheD00r",
    "tr4ceme",
    "oneTime99",
    "inB0dy",
    "listed-key",
];

#[tokio::test]
async fn secrets_recognised_by_member_name_are_stored_nowhere() {
    let umbra = Umbra::with().go().await;
    let arguments = json!({
        "password": "hunter2",
        "db": {"Password": {"value": "Zk9qX2vLm8Tr!"}, "clientSecret": "swordfish"},
        "headers": {"x-api-key": "s3same-open", "authorization": "Basic dXNlcjpwYXNz"},
        "pin": 47_118_062,
        "tokens": {"access_token": "correct horse"},
        "env": ["DB_PASSWORD=Tr0ub4dor&3x"],
        "command": "DB_PASSWORD=Tr0ub4dor&3x ./migrate",
        "fields": [{"name": "api_key", "value": "0penTheD00r"}],
        "body": "{\"user\": \"bob\", \"password\": \"inB0dy\"}",
        "pairs": [["X-Api-Key", "listed-key"]],
        "to": "a@example.com", "max_tokens": 400, "next_page_token": "p2", "public_key": "ssh", "amount": 49.99,
    });
    let call = with(write("c1", "a"), &json!({"arguments": arguments, "traceparent": "tr4ceme"}));
    let first = umbra.decide(&call).await;
    assert_eq!(first["decision"], "execute");
    let outcome = json!({"agent": "a", "status": "ok", "result": {"session": {"token": "oneTime99"}, "id": "m1"}});
    assert_eq!(umbra.post("/v1/calls/c1/outcome", &outcome).await.status, 200);
    // Digests are of the original: another password is another call.
    let other = with(call.clone(), &json!({"arguments": {"password": "hunter3"}}));
    assert_eq!(umbra.post("/v1/decide", &other).await.status, 422);
    let shadow = json!({"scope": "global", "execution": "shadow", "reason": "rehearsal"});
    assert_eq!(umbra.put("/v1/execution", &shadow).await.status, 200);
    let stub = json!({"run": "r1", "stub_override": {"id": "m2", "secret": "swordfish", "otp": 47_118_062}});
    let stubbed = umbra.decide(&with(write("c2", "a"), &stub)).await;
    // The caller gets its own value back; the audit does not have it.
    assert_eq!(stubbed["stub"]["result"]["secret"], "swordfish", "{stubbed}");
    let rows = umbra.audit("kind=all").await;
    let args = &rows[0]["args"];
    for (pointer, kept) in [
        ("/to", json!("a@example.com")),
        ("/max_tokens", json!(400)),
        ("/next_page_token", json!("p2")),
        ("/public_key", json!("ssh")),
        ("/amount", json!(49.99)),
        ("/password", json!("[secret:generic_password]")),
        ("/headers/x-api-key", json!("[secret:generic_api_key]")),
        ("/fields/0/name", json!("api_key")),
    ] {
        assert_eq!(args.pointer(pointer), Some(&kept), "{pointer} of {args}");
    }
    assert!(args["body"].as_str().is_some_and(|body| body.contains("bob")), "{args}");
    assert!(rows[0]["traceparent"].is_null() && rows[1]["outcome"]["result"]["id"] == "m1", "{rows:?}");
    let tables =
        "SELECT string_agg(t, ' ') FROM (SELECT a::text t FROM audit a UNION ALL SELECT p::text FROM audit_payload p
        UNION ALL SELECT c::text FROM call c UNION ALL SELECT r::text FROM boundary_run r) x";
    let kept: String = umbra.schema.one(tables).await;
    let shown = rows.iter().map(ToString::to_string).collect::<String>();
    for secret in SECRETS {
        assert!(!kept.contains(secret) && !shown.contains(secret), "{secret} is kept: {shown}");
    }
}

#[tokio::test]
async fn only_a_valid_traceparent_is_stored() {
    let umbra = Umbra::with().go().await;
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let cases = [
        (parent, true),
        ("00-00000000000000000000000000000000-00f067aa0ba902b7-01", false),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", false),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", false),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7", false),
        ("letmein", false),
    ];
    for (n, (text, kept)) in cases.into_iter().enumerate() {
        umbra.decide(&with(write(&format!("c{n}"), "a"), &json!({"traceparent": text}))).await;
        let row = &umbra.audit(&format!("call_id=c{n}")).await[0];
        assert_eq!(row["traceparent"].as_str(), kept.then_some(text), "{row}");
    }
}

#[tokio::test]
async fn cards_accounts_and_national_numbers_are_not_in_the_audit() {
    const NUMBERS: [&str; 7] = [
        "4556737586899855",
        "4556 7375 8689 9855",
        "4242424242424242",
        "DE89370400440532013000",
        "IT60 X054 2811 1010 0000 0123 456",
        "536-90-4399",
        "44051401359",
    ];
    let tools = "tools:\n  - {tool: mail.send_email, effect: write, responses: [{result: {status: sent, echo: '{{ args.body }}'}}]}\n";
    let umbra = Umbra::with().tools(tools).go().await;
    let [plain, spaced, sample, iban, iban_spaced, ssn, pesel] = NUMBERS;
    let arguments = json!({
        "to": "anna@example.com",
        "body": format!("Card {plain}, or {spaced}. IBAN {iban}, {iban_spaced}. SSN {ssn}."),
        "card": 4_242_424_242_424_242_u64, "card_number": sample, "pesel": pesel, "order": "1234567890123456", "n": 17,
    });
    let call = with(write("c1", "a"), &json!({"arguments": arguments}));
    let decided = umbra.decide(&call).await;
    assert_eq!(decided["decision"], "execute", "{decided}");
    let shadow = with(write("c2", "rehearsal-1"), &json!({"arguments": arguments, "run": "r1"}));
    umbra
        .put("/v1/execution", &json!({"scope": "agent", "value": "rehearsal-1", "execution": "shadow", "reason": "t"}))
        .await;
    let stub = umbra.decide(&shadow).await;
    // The caller gets the original; the audit does not have it.
    assert!(stub["stub"]["result"]["echo"].as_str().is_some_and(|echo| echo.contains(plain)), "{stub}");
    let outcome = json!({"agent": "a", "status": "ok", "result": {"iban": iban, "id": "m1"}});
    assert_eq!(umbra.post("/v1/calls/c1/outcome", &outcome).await.status, 200);
    let audit = umbra.send(reqwest::Method::GET, "/v1/audit?kind=all", &[], None).await.text;
    for number in NUMBERS.into_iter().chain(["4242424242424242"]) {
        assert!(!audit.contains(number), "{number}: {audit}");
    }
    let first: serde_json::Value =
        audit.lines().next().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    for (pointer, kept) in [
        ("/args/card", json!("[personal:credit_card]")),
        ("/args/card_number", json!("[personal:credit_card]")),
        ("/args/pesel", json!("[personal:pl_pesel]")),
        ("/args/to", json!("anna@example.com")),
        ("/args/order", json!("1234567890123456")),
        ("/args/n", json!(17)),
    ] {
        assert_eq!(first.pointer(pointer), Some(&kept), "{pointer}: {first}");
    }
    assert!(audit.contains("[personal:iban]") && audit.contains("[personal:us_ssn]"), "{audit}");
}
