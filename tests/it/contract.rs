//! The wire contract: every endpoint that external programs rely on answers, and is in the OpenAPI document.

use reqwest::Method;
use serde_json::Value;

use crate::support::Umbra;

/// Method, path as in the document, and a concrete path.
const ENDPOINTS: &[(&str, &str, &str)] = &[
    ("POST", "/v1/events", "/v1/events"),
    ("POST", "/v1/events/batch", "/v1/events/batch"),
    ("POST", "/v1/traces", "/v1/traces"),
    ("POST", "/v1/logs", "/v1/logs"),
    ("POST", "/v1/metrics", "/v1/metrics"),
    ("GET", "/v1/events", "/v1/events"),
    ("GET", "/v1/events/{id}", "/v1/events/evt_0"),
    ("GET", "/v1/events/{id}/verdict", "/v1/events/evt_0/verdict"),
    ("POST", "/v1/reviews", "/v1/reviews"),
    ("POST", "/v1/reviews/batch", "/v1/reviews/batch"),
    ("GET", "/v1/reviews", "/v1/reviews"),
    ("GET", "/v1/reviews/{id}", "/v1/reviews/rev_0"),
    ("GET", "/v1/findings", "/v1/findings"),
    ("GET", "/v1/findings.sarif", "/v1/findings.sarif"),
    ("GET", "/v1/findings/{id}", "/v1/findings/fnd_0"),
    ("PATCH", "/v1/findings/{id}", "/v1/findings/fnd_0"),
    ("GET", "/v1/observations", "/v1/observations"),
    ("GET", "/v1/trajectories", "/v1/trajectories"),
    ("GET", "/v1/trajectories/{task_id}", "/v1/trajectories/t-1"),
    ("GET", "/v1/status", "/v1/status"),
    ("GET", "/v1/shadows", "/v1/shadows"),
    ("GET", "/v1/shadows/{name}", "/v1/shadows/security-shadow"),
    ("GET", "/v1/breakers", "/v1/breakers"),
    ("GET", "/v1/breakers/{agent}", "/v1/breakers/writer"),
    ("POST", "/v1/breakers/{agent}/acknowledge", "/v1/breakers/writer/acknowledge"),
    ("POST", "/v1/breakers/{agent}/reset", "/v1/breakers/writer/reset"),
    ("GET", "/v1/reflexions", "/v1/reflexions"),
    ("GET", "/v1/briefings/{date}", "/v1/briefings/latest"),
    ("GET", "/v1/reports/{iso_week}", "/v1/reports/latest"),
    ("GET", "/v1/skips", "/v1/skips"),
    ("GET", "/v1/webhooks/dead", "/v1/webhooks/dead"),
    ("POST", "/v1/webhooks/dead/{id}/resend", "/v1/webhooks/dead/msg_0/resend"),
    ("POST", "/v1/backtests", "/v1/backtests"),
    ("GET", "/v1/backtests/{id}", "/v1/backtests/bt_0"),
    ("GET", "/v1/contracts", "/v1/contracts"),
    ("POST", "/v1/contracts/lint", "/v1/contracts/lint"),
    ("POST", "/v1/contracts/infer", "/v1/contracts/infer"),
    ("GET", "/v1/drift", "/v1/drift"),
    ("GET", "/v1/gate", "/v1/gate"),
    ("POST", "/v1/admin/reload", "/v1/admin/reload"),
    ("GET", "/v1/admin/keys", "/v1/admin/keys"),
    ("POST", "/v1/admin/keys", "/v1/admin/keys"),
    ("DELETE", "/v1/admin/keys/{id}", "/v1/admin/keys/key_0"),
    ("POST", "/v1/decide", "/v1/decide"),
    ("POST", "/v1/hooks/{host}", "/v1/hooks/claude-code"),
    ("GET", "/v1/hooks", "/v1/hooks"),
    ("POST", "/v1/sessions", "/v1/sessions"),
    ("GET", "/v1/sessions", "/v1/sessions"),
    ("GET", "/v1/sessions/{id}", "/v1/sessions/ses_0"),
    ("GET", "/v1/sessions/{id}/policies", "/v1/sessions/ses_0/policies"),
    ("POST", "/v1/sessions/{id}/turns", "/v1/sessions/ses_0/turns"),
    ("POST", "/v1/sessions/{id}/messages", "/v1/sessions/ses_0/messages"),
    ("GET", "/v1/sessions/{id}/messages", "/v1/sessions/ses_0/messages"),
    ("POST", "/v1/sessions/{id}/close", "/v1/sessions/ses_0/close"),
    ("GET", "/v1/sessions/{id}/documents/{name}", "/v1/sessions/ses_0/documents/todo"),
    ("PUT", "/v1/sessions/{id}/documents/{name}", "/v1/sessions/ses_0/documents/todo"),
    ("PATCH", "/v1/sessions/{id}/documents/{name}", "/v1/sessions/ses_0/documents/todo"),
    ("GET", "/v1/sessions/{id}/documents/{name}/history", "/v1/sessions/ses_0/documents/todo/history"),
    ("POST", "/v1/guard", "/v1/guard"),
    (
        "POST",
        "/v1/gateways/litellm/beta/litellm_basic_guardrail_api",
        "/v1/gateways/litellm/beta/litellm_basic_guardrail_api",
    ),
    ("POST", "/v1/gateways/agentgateway", "/v1/gateways/agentgateway"),
    ("POST", "/v1/tools/select", "/v1/tools/select"),
    ("GET", "/v1/patterns", "/v1/patterns"),
    ("POST", "/v1/patterns", "/v1/patterns"),
    ("POST", "/v1/patterns/search", "/v1/patterns/search"),
    ("GET", "/livez", "/livez"),
    ("GET", "/readyz", "/readyz"),
    ("GET", "/metrics", "/metrics"),
];

/// Returns a path of the document with unknown ids in place of its parameters.
fn concrete(path: &str) -> String {
    let kinds = [
        ("findings", "fnd"),
        ("approvals", "apr"),
        ("reviews", "rev"),
        ("backtests", "bkt"),
        ("sessions", "ses"),
        ("webhooks", "whd"),
    ];
    let kind = kinds.iter().find(|(family, _)| path.contains(family)).map_or("x", |(_, kind)| kind);
    let parts = path.split('/').map(|part| match part {
        "{id}" => format!("{kind}_0197a3c1d2e47f00a1b2c3d4e5f60718"),
        "{host}" => "claude-code".to_owned(),
        part if part.starts_with('{') => "writer".to_owned(),
        part => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("/")
}

#[tokio::test]
async fn array_body_is_refused_where_an_object_is_expected() {
    let umbra = Umbra::with().go().await;
    let document: Value = serde_json::from_str(include_str!("../../openapi/umbra.json")).expect("JSON");
    let (mut asked, mut taken) = (0, Vec::new());
    for (path, operations) in
        document["paths"].as_object().expect("paths").iter().filter(|(path, _)| path.starts_with("/v1/"))
    {
        for (method, operation) in operations.as_object().into_iter().flatten() {
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let takes_nothing = method == "post" && operation["requestBody"].is_null();
            if !takes_nothing && (schema.is_null() || schema["type"] == "array" || schema["oneOf"].is_array()) {
                continue;
            }
            asked += 1;
            let verb = Method::from_bytes(method.to_ascii_uppercase().as_bytes()).expect("a method");
            for body in ["[]", " [null]"] {
                let headers = [("content-type", "application/json")];
                let answered = umbra.send(verb.clone(), &concrete(path), &headers, Some(body.into())).await;
                let said: Value = serde_json::from_str(&answered.text).unwrap_or_default();
                if answered.status != 400 || said["errors"][0]["pointer"] != "" {
                    taken.push(format!("{method} {path} {body}: {} {}", answered.status, answered.text));
                }
            }
        }
    }
    assert!(asked > 8 && taken.is_empty(), "{asked}: {taken:#?}");
}

#[tokio::test]
async fn every_endpoint_of_the_contract_answers_and_is_documented() {
    let umbra = Umbra::with().go().await;
    let document: Value = serde_json::from_str(include_str!("../../openapi/umbra.json")).expect("JSON");
    let mut missing = Vec::new();
    for (method, path, concrete) in ENDPOINTS {
        if document["paths"][path][method.to_ascii_lowercase()].is_null() {
            missing.push(format!("{method} {path} is not in openapi/umbra.json"));
        }
        let body = matches!(*method, "POST" | "PATCH" | "PUT").then(|| b"{}".to_vec());
        let headers = [("content-type", "application/json")];
        let verb = Method::from_bytes(method.as_bytes()).expect("a method");
        let answered = umbra.send(verb, concrete, &headers, body).await;
        let unrouted = answered.status == 405 || answered.text.contains("No resource is at");
        if unrouted || answered.status.is_server_error() {
            missing.push(format!("{method} {concrete}: {} {}", answered.status, answered.text));
        }
    }
    // Served beside the API, for people; the endless stream has a test of its own.
    for path in ["/", "/docs", "/docs/", "/openapi.json"] {
        let answered = umbra.send(Method::GET, path, &[], None).await;
        if answered.status != 200 {
            missing.push(format!("GET {path}: {}", answered.status));
        }
    }
    if document["paths"]["/v1/findings/stream"]["get"].is_null() {
        missing.push("GET /v1/findings/stream is not in openapi/umbra.json".into());
    }
    assert!(missing.is_empty(), "{missing:#?}");
}
