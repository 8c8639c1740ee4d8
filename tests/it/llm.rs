//! The gateway against a model server on a real socket: its requests, the result of each fault, the worst cost, and
//! that it stops asking a provider that keeps failing.
#![expect(clippy::expect_used, reason = "a test may panic")]

use std::{collections::HashMap, time::Duration};

use secrecy::SecretString;
use serde_json::{Value, json};
use umbra_domain::{ModelKind, ModelSpec, NanoUsd, PricePerMtok, Prices, Provider};
use umbra_llm::{
    Charge, Failure, FailureKind, Finish, Gateway, GatewayError, OutboundPolicy, ProviderState, Request, Usage,
    builtin_models, cost,
};

use crate::support::model_server::{Answer, ModelServer, Wire};

const KEY: &str = "test-key-0123456789-abcdefghijklmnop";
const WIRES: [(Provider, Wire); 3] =
    [(Provider::Anthropic, Wire::Anthropic), (Provider::Openai, Wire::Openai), (Provider::Gemini, Wire::Gemini)];

fn spec(provider: Provider, base_url: String) -> ModelSpec {
    ModelSpec {
        alias: "judge".to_owned(),
        provider,
        kind: ModelKind::Chat,
        name: "small-1".to_owned(),
        base_url: Some(base_url),
        api_key_env: Some("JUDGE_KEY".to_owned()),
        prices: Some(Prices { input: PricePerMtok(1_000_000_000), output: PricePerMtok(5_000_000_000) }),
        max_output_tokens: 700,
        timeout: Duration::from_secs(5),
    }
}

fn model(provider: Provider, server: &ModelServer) -> ModelSpec {
    spec(provider, if provider == Provider::Openai { server.openai_url() } else { server.url() })
}

fn keys() -> HashMap<String, SecretString> {
    HashMap::from([("JUDGE_KEY".to_owned(), SecretString::from(KEY))])
}

fn gateway(spec: ModelSpec) -> Gateway {
    Gateway::new(vec![spec], &keys(), OutboundPolicy::default(), None).expect("a gateway")
}

fn request() -> Request {
    Request {
        system: "You review the work of agents.".to_owned(),
        user: "nonce=n-17 PLANTED PROMPT TEXT".to_owned(),
        schema_name: "verdict",
        schema: json!({"type": "object", "properties": {"score": {"type": "integer", "minimum": 0}}}),
        max_output_tokens: 5000,
        items: 1,
    }
}

async fn fail(gateway: &Gateway) -> Failure {
    gateway.call("judge", &request()).await.expect_err("a failure")
}

#[tokio::test]
async fn each_protocol_sends_its_request_and_reads_the_reply() {
    for (provider, wire) in WIRES {
        let server = ModelServer::start(|seen| {
            let nonce = seen.user.split_whitespace().find_map(|word| word.strip_prefix("nonce="));
            Answer::Metered { text: json!({"nonce": nonce}).to_string(), input: 42, output: 7 }
        })
        .await;
        let mut spec = model(provider, &server);
        spec.base_url = spec.base_url.map(|url| format!("{url}/"));
        let reply = gateway(spec).call("judge", &request()).await.expect("a reply");
        assert_eq!(serde_json::from_str::<Value>(&reply.text).expect("JSON"), json!({"nonce": "n-17"}));
        assert_eq!(reply.usage, Some(Usage { input_tokens: 42, output_tokens: 7 }));
        assert_eq!((reply.finish, reply.model.as_str()), (Finish::Stop, "small-1"));

        let seen = server.last();
        assert_eq!((seen.wire, seen.model.as_str()), (wire, "small-1"));
        let path = match provider {
            Provider::Anthropic => "/v1/messages",
            Provider::Gemini => "/v1beta/models/small-1:generateContent",
            _ => "/v1/chat/completions",
        };
        assert_eq!(seen.path, path);
        assert_eq!((&seen.system, &seen.user), (&request().system, &request().user));
        let narrowed = json!({"type": "object", "properties": {"score": {"type": "integer"}},
            "required": ["score"], "additionalProperties": false});
        assert_eq!(seen.schema, narrowed);
        assert_eq!(seen.headers["umbra-origin"], "review");
        let (header, expected) = match provider {
            Provider::Anthropic => ("x-api-key", KEY.to_owned()),
            Provider::Gemini => ("x-goog-api-key", KEY.to_owned()),
            _ => ("authorization", format!("Bearer {KEY}")),
        };
        assert_eq!(seen.headers[header], expected);
        let limit = match provider {
            Provider::Gemini => &seen.body["generationConfig"]["maxOutputTokens"],
            _ => &seen.body["max_tokens"],
        };
        assert_eq!(*limit, json!(700), "the model's own limit holds");
    }
}

#[tokio::test]
async fn finish_reasons_and_missing_token_counts_are_reported() {
    for (provider, _) in WIRES {
        let server = ModelServer::queue(vec![
            Answer::Truncated("{\"a".to_owned()),
            Answer::Refused,
            Answer::Uncounted("{}".to_owned()),
            Answer::Metered { text: "{}".to_owned(), input: 0, output: 0 },
        ])
        .await;
        let gateway = gateway(model(provider, &server));
        let mut finishes = Vec::new();
        let mut counted = Vec::new();
        for _ in 0..4 {
            let reply = gateway.call("judge", &request()).await.expect("a reply");
            finishes.push(reply.finish);
            counted.push(reply.usage.is_some());
        }
        assert_eq!(finishes, [Finish::Length, Finish::Refused, Finish::Stop, Finish::Stop]);
        assert_eq!(counted, [true, true, false, false], "nobody counts 0 tokens of a prompt");
    }
}

#[tokio::test]
async fn each_fault_has_its_kind_charge_and_wait() {
    let check = async |answer: Answer, kind, charge, wait: Option<u64>| {
        for (provider, _) in WIRES {
            let server = ModelServer::queue(vec![answer.clone()]).await;
            let mut spec = model(provider, &server);
            spec.timeout = Duration::from_millis(400);
            let failure = fail(&gateway(spec)).await;
            let label = format!("{provider:?} {answer:.120?}");
            assert_eq!((failure.kind, failure.charge), (kind, charge), "{label}");
            assert_eq!(failure.retry_after, wait.map(Duration::from_secs), "{label}");
            assert_eq!(server.count(), 1, "one attempt: {label}");
            let told = format!("{failure} {failure:?}");
            assert!(!told.contains("PLANTED") && !told.contains(KEY) && !told.contains("127.0.0.1"), "{told}");
        }
    };
    let status = |status| Answer::error(status, "some_error", "PLANTED-PROMPT-WORD-OF-MORE-THAN-20-LETTERS");
    check(status(400), FailureKind::BadRequest, Charge::None, None).await;
    check(status(401), FailureKind::Auth, Charge::None, None).await;
    check(status(403), FailureKind::Auth, Charge::None, None).await;
    check(status(404), FailureKind::NotFound, Charge::None, None).await;
    check(status(429), FailureKind::RateLimited, Charge::None, None).await;
    check(status(500), FailureKind::ServerError, Charge::None, None).await;
    check(status(529), FailureKind::Overloaded, Charge::None, None).await;
    let slow_down = Answer::error_with(429, &[("retry-after", "17")], "rate_limit_error", "slow down");
    check(slow_down, FailureKind::RateLimited, Charge::None, Some(17)).await;
    let spent = Answer::error(429, "insufficient_quota", "You exceeded your current quota");
    check(spent, FailureKind::SpendLimit, Charge::None, None).await;
    let echo = Answer::error(401, "authentication_error", &format!("bad key {KEY}"));
    check(echo, FailureKind::Auth, Charge::None, None).await;
    let elsewhere = vec![("location".to_owned(), "http://169.254.169.254/".to_owned())];
    check(Answer::Status(307, elsewhere, String::new()), FailureKind::Refused, Charge::None, None).await;
    check(Answer::Hang, FailureKind::Timeout, Charge::Unknown, None).await;
    check(Answer::Drop, FailureKind::Connect, Charge::Unknown, None).await;
    check(Answer::Raw("<html>PLANTED</html>".to_owned()), FailureKind::BadReply, Charge::None, None).await;
    check(Answer::Raw("{}".to_owned()), FailureKind::BadReply, Charge::Unknown, None).await;
    check(Answer::Text("x".repeat(1024 * 1024)), FailureKind::BadReply, Charge::Unknown, None).await;
}

#[tokio::test]
async fn slow_reply_within_the_timeout_is_accepted() {
    let slow = Answer::Slow(Duration::from_millis(150), Box::new(Answer::Json(json!({}))));
    let server = ModelServer::queue(vec![slow]).await;
    let reply = gateway(model(Provider::Openai, &server)).call("judge", &request()).await.expect("a reply");
    assert!(reply.latency >= Duration::from_millis(150));
}

#[tokio::test]
async fn refused_connection_costs_nothing() {
    let server = ModelServer::queue(vec![Answer::Hang]).await;
    let gone = model(Provider::Openai, &server);
    drop(server);
    // The listener closes when its task is dropped, which the runtime does next.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let failure = fail(&gateway(gone)).await;
    assert_eq!((failure.kind, failure.charge), (FailureKind::Connect, Charge::None));
}

#[tokio::test]
async fn an_alias_without_a_usable_model_runs_on_checks() {
    let gateway = Gateway::new(builtin_models(), &HashMap::new(), OutboundPolicy::default(), None).expect("a gateway");
    let why = |alias: &str| gateway.reviewer(alias).err();
    assert_eq!(why("haiku").as_deref(), Some("no key: ANTHROPIC_API_KEY is not set"));
    assert_eq!(why("local"), None);
    assert!(why("checks").is_some() && why("nobody").is_some());
    let failure = gateway.call("haiku", &request()).await.expect_err("no key");
    assert_eq!((failure.kind, failure.charge), (FailureKind::Auth, Charge::None));
    let states: Vec<_> = gateway.health().into_iter().map(|health| (health.aliases.join(","), health.state)).collect();
    let expected = [
        ("checks", ProviderState::Checks),
        ("flash", ProviderState::NoKey),
        ("haiku", ProviderState::NoKey),
        ("local", ProviderState::Ok),
        ("mini", ProviderState::NoKey),
    ];
    assert_eq!(states, expected.map(|(alias, state)| (alias.to_owned(), state)));

    let blank = HashMap::from([("GEMINI_API_KEY".to_owned(), SecretString::from(" "))]);
    let gateway = Gateway::new(builtin_models(), &blank, OutboundPolicy::default(), None).expect("a gateway");
    assert!(gateway.reviewer("flash").is_err());
}

#[tokio::test]
async fn model_without_api_key_env_sends_no_key() {
    for (provider, _) in WIRES {
        let server = ModelServer::queue(vec![Answer::Text("{}".to_owned())]).await;
        let open = ModelSpec { api_key_env: None, ..model(provider, &server) };
        gateway(open).call("judge", &request()).await.expect("a reply");
        let headers = server.last().headers;
        for name in ["authorization", "x-api-key", "x-goog-api-key", "api-key"] {
            assert!(!headers.contains_key(name), "{provider:?} {name}");
        }
    }
}

#[tokio::test]
async fn worst_case_bounds_the_tokens_and_cost_of_a_call() {
    let server = ModelServer::queue(vec![Answer::Text("{}".to_owned())]).await;
    let spec = model(Provider::Anthropic, &server);
    let gateway = gateway(spec.clone());
    let asked = Request { user: "¿qué? 你好 👋🏽 ".repeat(500), ..request() };
    let bytes = asked.prompt_bytes();
    assert!(bytes > asked.system.len() + asked.user.len());
    let worst = gateway.worst_case("judge", bytes, Some(asked.max_output_tokens), 1).expect("known");
    let usage = Usage { input_tokens: u64::try_from(bytes).expect("fits"), output_tokens: 700 };
    assert!(worst.tokens >= usage.input_tokens + usage.output_tokens);
    assert!(worst.usd >= cost(&spec, usage));
    let less = gateway.worst_case("judge", bytes, Some(10), 1).expect("known");
    assert_eq!(worst.tokens - less.tokens, 690);
    assert_eq!(gateway.worst_case("judge", usize::MAX, None, 1).and_then(|worst| worst.usd), Some(NanoUsd(i64::MAX)));
    assert_eq!(gateway.worst_case("nobody", 1, None, 1), None);

    gateway.call("judge", &asked).await.expect("a reply");
    let seen = server.last();
    let read = seen.system.len() + seen.user.len() + seen.schema.to_string().len();
    assert_eq!(read, bytes, "what is held for is what is sent");
}

#[tokio::test]
async fn failing_provider_is_paused_until_a_reload_with_a_new_key() {
    let server = ModelServer::queue(vec![Answer::error(500, "api_error", "down")]).await;
    let first = gateway(model(Provider::Anthropic, &server));
    for _ in 0..5 {
        assert_eq!(fail(&first).await.kind, FailureKind::ServerError);
    }
    server.set(|_| Answer::Text("{}".to_owned()));
    let failure = fail(&first).await;
    assert_eq!((failure.kind, failure.charge), (FailureKind::BreakerOpen, Charge::None));
    assert!(failure.retry_after.is_some_and(|rest| rest <= Duration::from_secs(30) && rest > Duration::from_secs(25)));
    assert_eq!(server.count(), 5, "nothing was sent");

    // The same endpoint under another alias, price and policy still fails.
    let renamed = ModelSpec { alias: "second".to_owned(), prices: None, ..model(Provider::Anthropic, &server) };
    let models = vec![model(Provider::Anthropic, &server), renamed];
    let policy = OutboundPolicy::new(["10.0.0.1".to_owned()]);
    let next = Gateway::new(models.clone(), &keys(), policy.clone(), Some(&first)).expect("a gateway");
    assert_eq!(next.call("second", &request()).await.expect_err("open").kind, FailureKind::BreakerOpen);
    let health = next.health();
    assert_eq!(health.len(), 1);
    assert_eq!((health[0].aliases.join(","), health[0].state), ("judge,second".to_owned(), ProviderState::Open));
    assert_eq!(health[0].consecutive_failures, 5);
    assert_eq!(health[0].last_error.as_deref(), Some("the provider answered 500: down"));
    assert!(health[0].retry_in_ms.is_some());
    assert_eq!(next.reviewer("judge"), Ok(()), "down is not gone");

    let other = HashMap::from([("JUDGE_KEY".to_owned(), SecretString::from("another"))]);
    let next = Gateway::new(models, &other, policy, Some(&next)).expect("a gateway");
    next.call("judge", &request()).await.expect("a new key is tried at once");
}

#[tokio::test]
async fn refused_key_opens_the_breaker_and_bad_requests_do_not() {
    let server = ModelServer::queue(vec![Answer::error(401, "authentication_error", "invalid x-api-key")]).await;
    let refused = gateway(model(Provider::Anthropic, &server));
    assert_eq!(fail(&refused).await.kind, FailureKind::Auth);
    let failure = fail(&refused).await;
    assert_eq!(failure.kind, FailureKind::BreakerOpen);
    assert!(failure.message.contains("invalid x-api-key"), "{failure}");
    assert_eq!(server.count(), 1);

    let server = ModelServer::queue(vec![Answer::error(400, "invalid_request_error", "bad")]).await;
    let healthy = gateway(model(Provider::Anthropic, &server));
    for _ in 0..10 {
        assert_eq!(fail(&healthy).await.kind, FailureKind::BadRequest);
    }
    assert_eq!(healthy.health()[0].state, ProviderState::Ok);
}

#[test]
fn invalid_models_keys_and_urls_make_no_gateway() {
    let build = |models: Vec<ModelSpec>, key: &str| {
        let keys = HashMap::from([("JUDGE_KEY".to_owned(), SecretString::from(key))]);
        Gateway::new(models, &keys, OutboundPolicy::default(), None).err().map(|error| {
            assert!(!format!("{error} {error:?}").contains(KEY));
            error
        })
    };
    let public = || spec(Provider::Openai, "http://models.example/v1".to_owned());
    assert!(build(vec![public()], KEY).is_none());
    assert!(matches!(build(vec![public(), public()], KEY), Some(GatewayError::Twice(_))));
    assert!(matches!(build(vec![public()], &format!("{KEY}\nx")), Some(GatewayError::Key { .. })));
    for url in ["http://169.254.169.254/v1", "http://10.0.0.1/v1", "http://[::ffff:127.0.0.1]/", "ftp://x/", "nonsense"]
    {
        let refused = build(vec![spec(Provider::Openai, url.to_owned())], KEY);
        assert!(matches!(refused, Some(GatewayError::Url { .. })), "{url}");
    }
}
