//! Exports as bodies: encodings, keys, what is refused and how.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::{Value, json};

use super::{assembled, calls, capture};
use crate::support::{Schema, Umbra, until};

const PROTOBUF: [(&str, &str); 1] = [("content-type", "application/x-protobuf")];
const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[tokio::test]
async fn body_that_cannot_be_decoded_is_refused_and_metrics_are_dropped() {
    let umbra = Umbra::with().go().await;
    for (path, headers, body, status) in [
        ("/v1/traces", PROTOBUF, b"\xff\xff".as_slice(), 400),
        ("/v1/traces", JSON, b"{".as_slice(), 400),
        ("/v1/traces", JSON, br#"{"resourceLogs": [{}]}"#.as_slice(), 400),
        ("/v1/traces", JSON, br#"{"resourceSpans": []}"#.as_slice(), 200),
        ("/v1/logs", JSON, b"{}".as_slice(), 200),
        ("/v1/metrics", PROTOBUF, b"anything".as_slice(), 200),
        ("/v1/traces", [("content-type", "text/plain")], b"{}".as_slice(), 415),
    ] {
        let answered = umbra.send(Method::POST, path, &headers, Some(body.to_vec())).await;
        assert_eq!(answered.status.as_u16(), status, "{path} {:?}: {}", String::from_utf8_lossy(body), answered.text);
    }
}

#[tokio::test]
async fn single_bad_span_is_told_and_the_others_are_kept() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let span = |trace: &str, id: &str| {
        json!({"traceId": trace, "spanId": id, "name": "chat", "startTimeUnixNano": "1", "endTimeUnixNano": "2",
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
                {"key": "gen_ai.output.messages", "value": {"stringValue":
                    "[{\"role\": \"assistant\", \"parts\": [{\"type\": \"text\", \"content\": \"hello\"}]}]"}}]})
    };
    let spans =
        [span(&"0".repeat(32), "0102030405060708"), span("0102030405060708090a0b0c0d0e0f10", "0102030405060708")];
    let body = json!({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]});
    let answered = umbra.post("/v1/traces", &body).await;
    assert_eq!(answered.status, 200);
    assert_eq!(answered.body["partialSuccess"]["rejectedSpans"], 1, "{}", answered.text);
    assert!(answered.text.contains("trace id"), "{}", answered.text);
    assembled(&schema).await;
    let [event] = calls(&umbra).await.try_into().expect("one event");
    assert_eq!((&event["agent"], &event["output"]), (&json!("unknown_service"), &json!("hello")));
}

#[tokio::test]
async fn keys_of_other_products_are_no_keys_on_an_open_server_and_ours_count_in_each_form() {
    let umbra = Umbra::with().go().await;
    let body = &capture("langfuse-sdk").bodies[0];
    assert_eq!(umbra.export(body).await.0, 200, "an open server ignores the key of another product");
    let made =
        umbra.cli(&["keys", "create", "--name", "otel", "--scope", "ingest", "--agent", "billing-*", "--json"], None);
    let made: Value = serde_json::from_slice(&made.stdout).expect("a key");
    let key = made["key"].as_str().expect("a key").to_owned();
    until("keys to be asked for", async || (umbra.export(body).await.0 == 401).then_some(())).await;
    let basic = format!("Basic {}", STANDARD.encode(format!("pk:{key}")));
    for (name, value) in [("authorization", format!("Bearer {key}")), ("x-api-key", key), ("authorization", basic)] {
        let mut body = body.clone();
        body.headers.retain(|(name, _)| name != "authorization");
        body.headers.push((name.to_owned(), value));
        let answered = umbra.export(&body).await;
        assert_eq!(answered.0, 200, "{name}: {}", answered.1);
        assert!(answered.1.contains("limited to other agents"), "{name}: a span names another agent");
    }
}

#[tokio::test]
async fn status_says_where_content_is_missing_and_which_switch_brings_it() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    for name in ["claude-code", "genai-content-off-zero-code", "pydantic-ai"] {
        for body in &capture(name).bodies {
            assert_eq!(umbra.export(body).await.0, 200);
        }
        // What came so far is filed: content that comes later is taken off the count.
        assembled(&schema).await;
    }
    let status = umbra.get("/v1/status").await;
    let services = status["telemetry"].as_array().expect("services");
    let of = |scope: &str| {
        let found = services.iter().find(|service| service["scope"] == scope);
        found.map(|service| {
            [&service["model_calls"], &service["without_content"], &service["tool_calls"]].map(Value::as_i64)
        })
    };
    let counts = |models, without, tools| Some([Some(models), Some(without), Some(tools)]);
    assert_eq!(of("com.anthropic.claude_code.tracing"), counts(3, 0, 2), "{services:#?}");
    assert_eq!(of("opentelemetry.instrumentation.openai_v2"), counts(3, 3, 2), "{services:#?}");
    assert_eq!(of("pydantic-ai"), counts(3, 0, 2), "{services:#?}");
    let needs = status["needs"].as_array().expect("needs");
    let need = needs.iter().find(|need| need["kind"] == "telemetry").expect("a need");
    assert_eq!(
        need["problem"],
        "3 of 3 calls of models came without content (opentelemetry.instrumentation.openai_v2)"
    );
    let table = String::from_utf8(umbra.cli(&["status"], None).stdout).expect("text");
    let row = table.lines().find(|line| line.contains("opentelemetry.instrumentation.openai_v2")).expect("a row");
    assert_eq!(row.split_whitespace().skip(2).collect::<Vec<_>>(), ["3", "3", "2", "0", "0"], "{table}");
    assert!(need["remedy"].to_string().contains("CAPTURE_MESSAGE_CONTENT=true"), "{need}");
    assert!(umbra.log().contains("CAPTURE_MESSAGE_CONTENT=true") && !umbra.log().contains("OTEL_LOG_USER_PROMPTS"));
}
