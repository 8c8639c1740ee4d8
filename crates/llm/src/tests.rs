//! Tests without a model server: waits, failures, schemas, prices, and the shapes on the wire.

use std::time::Duration;

use jiff::fmt::rfc2822;
use proptest::prelude::*;
use reqwest::{
    StatusCode, Url,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use super::{
    Charge, Failure, FailureKind, Finish, OutboundPolicy, Request, Usage, breaker::ProviderCallOutcome, builtin_models,
    check_url, cost, effort, failure::presentable, protocol, retry_after, schema,
};
use umbra_domain::{NanoUsd, Provider};

mod breaker;

mod outbound;

#[test]
fn retry_after_headers_are_parsed_to_a_wait() {
    let check = |headers: &[(&str, &str)], expected: Option<u64>| {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(HeaderName::try_from(*name).expect("a name"), HeaderValue::from_str(value).expect("a value"));
        }
        assert_eq!(retry_after::from_headers(&map), expected.map(Duration::from_millis), "{headers:?}");
    };
    check(&[], None);
    check(&[("retry-after", "2")], Some(2000));
    check(&[("retry-after", " 0 ")], Some(0));
    check(&[("retry-after", "1.5")], Some(1500));
    check(&[("retry-after", "-1")], None);
    check(&[("retry-after", "NaN")], None);
    check(&[("retry-after", "soon")], None);
    check(&[("retry-after", "1e300")], Some(86_400_000));
    check(&[("retry-after-ms", "250"), ("retry-after", "9")], Some(250));
    check(&[("retry-after-ms", "x"), ("retry-after", "9")], Some(9000));
    let (date, then) = ("Sat, 21 Nov 2026 10:00:00 GMT", "Sat, 21 Nov 2026 10:01:30 GMT");
    check(&[("date", date), ("retry-after", then)], Some(90_000));
    check(&[("date", then), ("retry-after", date)], Some(0));
    check(&[("retry-after", then)], None);
    assert!(rfc2822::parse(date).is_ok());
}

#[test]
fn http_status_and_body_decide_the_failure_kind() {
    use FailureKind::{Auth, BadRequest, NotFound, Overloaded, RateLimited, Refused, ServerError, SpendLimit, Timeout};

    let check = |status: u16, wait: Option<u64>, body: &str, kind: FailureKind, retryable: bool| {
        let status = StatusCode::from_u16(status).expect("a status");
        let failure = Failure::of_status(status, wait.map(Duration::from_secs), body.as_bytes(), None);
        assert_eq!((failure.kind, failure.kind.is_retryable()), (kind, retryable), "{status} {body}");
        assert_eq!(failure.charge, Charge::None);
        failure
    };
    for (status, kind) in [(400, BadRequest), (413, BadRequest), (422, BadRequest), (418, BadRequest), (404, NotFound)]
    {
        let outcome = check(status, None, "", kind, false).outcome();
        assert!(matches!(outcome, ProviderCallOutcome::CallerFault { .. }), "{status}");
    }
    for (status, kind) in [(401, Auth), (403, Auth), (402, SpendLimit)] {
        assert!(
            matches!(check(status, None, "", kind, false).outcome(), ProviderCallOutcome::AccessRefused { .. }),
            "{status}"
        );
    }
    for (status, kind) in [
        (408, Timeout),
        (429, RateLimited),
        (500, ServerError),
        (502, ServerError),
        (503, Overloaded),
        (529, Overloaded),
    ] {
        assert!(
            matches!(check(status, None, "not json", kind, true).outcome(), ProviderCallOutcome::Failed { .. }),
            "{status}"
        );
    }
    assert!(matches!(check(429, Some(3), "", RateLimited, true).outcome(), ProviderCallOutcome::CallerFault { .. }));
    check(307, None, "", Refused, false);

    let spent = [
        r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        r#"{"type":"error","error":{"type":"enforced_spend_limit_reached","message":"..."}}"#,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"Your spend limit is reached"}}"#,
        r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED"}}"#,
    ];
    for body in spent {
        check(429, None, body, SpendLimit, false);
        check(429, Some(1), body, RateLimited, true);
    }
    let gemini = r#"[{"error":{"code":429,"message":"You exceeded your current quota, check billing","status":"RESOURCE_EXHAUSTED",
        "details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"37.5s"}]}}]"#;
    let failure = check(429, None, gemini, RateLimited, true);
    assert_eq!(failure.retry_after, Some(Duration::from_millis(37_500)));
    let pace = r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#;
    check(429, None, pace, RateLimited, true);
    check(429, None, r#"{"type":"error","error":{"type":"overloaded_error"}}"#, Overloaded, true);
    check(400, None, r#"{"error":{"message":"Your credit balance is too low"}}"#, SpendLimit, false);
    let key = r#"{"error":{"code":400,"status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#;
    check(400, None, key, Auth, false);
    let failure = check(404, None, r#"{"error":"model 'x' not found, try pulling it first"}"#, NotFound, false);
    assert_eq!(failure.to_string(), "the provider answered 404: model 'x' not found, try pulling it first");
}

#[test]
fn presentable_messages_hold_no_keys() {
    let check = |message: &str, secret: Option<&str>, expected: &str| {
        assert_eq!(presentable(message, secret), expected);
    };
    check("Incorrect API key provided: sk-proj-abc.", None, "Incorrect API key provided: [cut].");
    check("key AIzaSyD1 is bad", None, "key [cut] is bad");
    check("token abcdefghijklmnopqrstu expired", None, "token [cut] expired");
    check("model abcdefghijklmnopqrst is unknown", None, "model abcdefghijklmnopqrst is unknown");
    check("key 'short/key' is bad", Some("short/key"), "key '[cut]' is bad");
    check("two\nlines\u{1b}[31m", None, "two lines [31m");
    assert_eq!(presentable(&"é ".repeat(500), None).chars().count(), 200);
}

proptest! {
    #[test]
    fn presentable_messages_hold_no_word_over_20_bytes(message in "[A-Za-z0-9_ .:-]{0,300}") {
        let shown = presentable(&message, None);
        for word in shown.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')) {
            prop_assert!(word.len() <= 20);
        }
    }
}

#[test]
fn schemas_are_narrowed_to_the_common_subset() {
    let given = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Verdict", "type": "object",
        "properties": {
            "score": {"type": "integer", "format": "uint8", "minimum": 0, "maximum": 100, "description": "0-100"},
            "title": {"type": ["string", "null"], "maxLength": 9, "default": null},
            "items": {"type": "array", "maxItems": 5, "items": {"$ref": "#/$defs/Item", "description": "x"}},
            "kind": {"oneOf": [{"const": "a", "title": "A"}, {"enum": ["b"]}]},
        },
        "required": ["score"],
        "$defs": {"Item": {"type": "object", "properties": {"q": {"type": "string", "pattern": "^x"}}}},
    });
    let expected = json!({
        "type": "object",
        "properties": {
            "score": {"type": "integer", "description": "0-100"},
            "title": {"type": ["string", "null"]},
            "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
            "kind": {"anyOf": [{"const": "a"}, {"enum": ["b"]}]},
        },
        "required": ["items", "kind", "score", "title"], "additionalProperties": false,
        "$defs": {"Item": {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false}},
    });
    let mut narrowed = schema::narrow(&given);
    if let Some(Value::Array(required)) = narrowed.get_mut("required") {
        required.sort_by_key(ToString::to_string);
    }
    assert_eq!(narrowed, expected);
    assert_eq!(schema::narrow(&narrowed), narrowed, "narrowing twice changes nothing");
}

#[test]
fn effort_is_requested_only_from_models_that_support_it() {
    let check = |ask: fn(&str) -> bool, yes: &[&str], no: &[&str]| {
        for name in yes {
            assert!(ask(name), "{name}");
        }
        for name in no {
            assert!(!ask(name), "{name}");
        }
    };
    check(
        effort::anthropic,
        &["claude-haiku-5-5", "claude-haiku-5-5-20261007", "claude-sonnet-5"],
        &["claude-haiku-4-5-20251001", "claude-3-5-haiku-latest", "claude-3-haiku-20240307", "haiku", "claude-"],
    );
    check(
        effort::openai,
        &["gpt-6-luna", "gpt-5-mini", "gpt-5.4-nano", "o4-mini", "o1"],
        &["gpt-4o-mini", "gpt-4.1-nano", "gpt-5-chat-latest", "gpt-oss:20b", "llama3.1:8b", "omni"],
    );
    check(
        effort::gemini,
        &["gemini-3.8-flash", "gemini-3-flash-preview"],
        &["gemini-2.5-flash", "gemini-3.5-flash-lite", "gemini-flash-latest"],
    );
}

#[test]
fn built_in_models_are_complete_and_cheap() {
    let models = builtin_models();
    let find = |alias: &str| models.iter().find(|model| model.alias == alias).expect("built in");
    assert_eq!(models.len(), 5);
    for (alias, env) in [("haiku", "ANTHROPIC_API_KEY"), ("mini", "OPENAI_API_KEY"), ("flash", "GEMINI_API_KEY")] {
        assert_eq!(find(alias).api_key_env.as_deref(), Some(env));
        assert!(find(alias).prices.is_some_and(|prices| prices.output.usd() > 0.0 && prices.output.usd() <= 5.0));
    }
    let local = find("local");
    assert_eq!((local.provider, local.api_key_env.as_deref()), (Provider::Openai, None));
    assert!(check_url(local.base_url.as_deref().expect("set"), &OutboundPolicy::default()).is_ok());
    assert_eq!(cost(local, Usage { input_tokens: 9_000_000, output_tokens: 9_000_000 }), Some(NanoUsd::ZERO));

    // $0.10 and $0.50 per million; five times that above 100,000 prompt tokens.
    let haiku = |input_tokens| cost(find("haiku"), Usage { input_tokens, output_tokens: 1000 }).expect("priced");
    assert_eq!(haiku(100_000), NanoUsd(10_000_000 + 500_000));
    assert_eq!(haiku(100_001), NanoUsd(50_000_500 + 2_500_000));
    let unpriced = umbra_domain::ModelSpec { prices: None, ..find("haiku").clone() };
    assert_eq!(cost(&unpriced, Usage::default()), None);
}

/// Text, tokens read and written, and the reason for the end.
type Read<'a> = (&'a str, Option<(u64, u64)>, Finish);

/// Reads whole answers from the providers' documentation.
#[test]
fn answers_are_parsed_to_text_usage_and_finish() {
    use Provider::{Anthropic, Gemini, Openai};

    let check = |provider, body: &Value, expected: Option<Read<'_>>| {
        let answer = protocol::of(provider).expect("a protocol").read(body);
        let found = answer.as_ref().map(|answer| {
            let usage = answer.usage.map(|usage| (usage.input_tokens, usage.output_tokens));
            (answer.text.as_str(), usage, answer.finish)
        });
        assert_eq!(found, expected, "{body}");
    };
    let anthropic = json!({"type": "message", "model": "m", "stop_reason": "end_turn", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "{\"a\":"}, {"type": "text", "text": "1}"}],
        "usage": {"input_tokens": 10, "output_tokens": 5, "cache_creation_input_tokens": 3, "cache_read_input_tokens": null}});
    check(Anthropic, &anthropic, Some(("{\"a\":1}", Some((13, 5)), Finish::Stop)));
    for (reason, finish) in
        [("max_tokens", Finish::Length), ("refusal", Finish::Refused), ("pause_turn", Finish::Other)]
    {
        check(Anthropic, &json!({"content": [], "stop_reason": reason}), Some(("", None, finish)));
    }
    check(Anthropic, &json!({"type": "error", "error": {"message": "x"}}), None);

    let openai = json!({"model": "m", "choices": [{"message": {"role": "assistant", "content": "{}"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 20, "completion_tokens_details": {"reasoning_tokens": 15}}});
    check(Openai, &openai, Some(("{}", Some((7, 20)), Finish::Stop)));
    let refusal = json!({"choices": [{"message": {"content": null, "refusal": "No."}, "finish_reason": "stop"}], "usage": {"odd": 1}});
    check(Openai, &refusal, Some(("", None, Finish::Refused)));
    check(Openai, &json!({"choices": []}), None);

    let gemini = json!({"candidates": [{"content": {"parts": [{"text": "hm", "thought": true}, {"text": "{}"}]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 2, "thoughtsTokenCount": 9}});
    check(Gemini, &gemini, Some(("{}", Some((4, 11)), Finish::Stop)));
    check(Gemini, &json!({"candidates": [{"finishReason": "SAFETY"}]}), Some(("", None, Finish::Refused)));
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 4}});
    check(Gemini, &blocked, Some(("", Some((4, 0)), Finish::Refused)));
    check(Gemini, &json!({"hello": "world"}), None);
}

#[test]
fn request_body_headers_and_url_follow_the_host() {
    let base = |text: &str| Url::parse(text).expect("a URL");
    let request = Request {
        system: "s".to_owned(),
        user: "u".to_owned(),
        schema_name: "verdict",
        schema: json!({"type": "object"}),
        max_output_tokens: 9,
        items: 1,
    };
    let openai = protocol::of(Provider::Openai).expect("a protocol");
    let body = |host: &str, model: &str| openai.body(&base(host), model, &request, json!({}), 9);
    let official = body("https://api.openai.com/v1", "gpt-6-luna");
    assert_eq!((&official["max_completion_tokens"], &official["reasoning_effort"]), (&json!(9), &json!("low")));
    let other = body("http://127.0.0.1:11434/v1", "gpt-6-luna");
    assert_eq!((&other["max_tokens"], other.get("max_completion_tokens")), (&json!(9), None));
    assert_eq!(other.get("reasoning_effort"), None);
    let key = secrecy::SecretString::from("k".to_owned());
    let headers = openai.headers(&base("https://x.openai.azure.com/openai/v1"), Some(&key)).expect("headers");
    assert_eq!(headers["api-key"], "k");
    assert!(!openai.headers(&base("https://evil-azure.com/"), Some(&key)).expect("headers").contains_key("api-key"));
    let urls = [
        (
            Provider::Openai,
            "https://x.openai.azure.com/openai/v1/?api-version=1",
            "https://x.openai.azure.com/openai/v1/chat/completions?api-version=1",
        ),
        (Provider::Anthropic, "http://127.0.0.1:1", "http://127.0.0.1:1/v1/messages"),
        (Provider::Gemini, "http://127.0.0.1:1/", "http://127.0.0.1:1/v1beta/models/a%2Fb:generateContent"),
    ];
    for (provider, from, to) in urls {
        assert_eq!(protocol::of(provider).expect("a protocol").url(&base(from), "a/b").as_str(), to);
    }
}
