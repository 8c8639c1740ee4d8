//! Keys: scopes, agents that a key is bound to, and the refusal of an open server that other machines can reach.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures_util::future::{join, join_all};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::Executor;

use crate::support::{Umbra, server::Answered, until};

fn made(output: &std::process::Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

async fn status(umbra: &Umbra, key: &str, method: Method, path: &str, body: Option<&Value>) -> u16 {
    answer(umbra, key, method, path, body).await.status.as_u16()
}

async fn answer(umbra: &Umbra, key: &str, method: Method, path: &str, body: Option<&Value>) -> Answered {
    let authorization = format!("Bearer {key}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let answered = umbra.send(method, path, &headers, body.map(|body| body.to_string().into_bytes())).await;
    if !answered.status.is_success() {
        assert_eq!(answered.headers["content-type"], "application/problem+json", "{}", answered.text);
    }
    answered
}

#[tokio::test]
async fn key_is_limited_to_its_scopes_and_agents_until_revoked() {
    let umbra = Umbra::with().go().await;
    let event = json!({"agent": "writer-1", "output": "x"});
    assert_eq!(umbra.post("/v1/events", &event).await.status, 202, "a loopback server without keys is open");
    let shut = umbra.post("/v1/admin/keys", &json!({"name": "r", "scopes": ["read"]})).await;
    assert_eq!((shut.status.as_u16(), &shut.body["errors"][0]["code"]), (400, &json!("first_key")), "{}", shut.text);
    assert_eq!(umbra.post("/v1/events", &event).await.status, 202, "nobody is shut out by it");
    let admin = made(&umbra.cli(&["keys", "create", "--name", "a", "--scope", "admin", "--json"], None));
    let admin = admin["key"].as_str().unwrap_or_default().to_owned();
    // From the first key on, every request needs one: known everywhere within a second.
    until("keys to be asked for", async || {
        (umbra.send(Method::GET, "/v1/status", &[], None).await.status == 401).then_some(())
    })
    .await;
    let wanted = json!({"name": "w", "scopes": ["ingest"], "agents": ["writer-*"]});
    let headers = [("authorization", format!("Bearer {admin}"))];
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let headers = [headers, vec![("content-type", "application/json")]].concat();
    let answered = umbra.send(Method::POST, "/v1/admin/keys", &headers, Some(wanted.to_string().into_bytes())).await;
    assert_eq!(answered.status, 201, "{}", answered.text);
    let (id, ingest) =
        (answered.body["id"].as_str().unwrap_or_default(), answered.body["key"].as_str().unwrap_or_default());
    assert_eq!(status(&umbra, ingest, Method::POST, "/v1/events", Some(&event)).await, 202);
    let other = json!({"agent": "boss", "output": "x"});
    let refused = answer(&umbra, ingest, Method::POST, "/v1/events", Some(&other)).await;
    assert!(refused.status == 403 && refused.text.contains("other agents than \\\"boss\\\""), "{}", refused.text);
    for path in
        ["/v1/events", "/v1/reviews", "/v1/findings", "/v1/observations", "/v1/status", "/v1/shadows", "/v1/skips"]
    {
        assert_eq!(status(&umbra, ingest, Method::GET, path, None).await, 403, "{path}");
    }
    assert_eq!(status(&umbra, ingest, Method::GET, "/v1/admin/keys", None).await, 403);
    assert_eq!(status(&umbra, &admin, Method::GET, "/v1/findings", None).await, 403, "admin is not read");
    assert_eq!(status(&umbra, "umbra_sk_nonsense", Method::GET, "/v1/findings", None).await, 401);
    assert_eq!(status(&umbra, &admin, Method::DELETE, &format!("/v1/admin/keys/{id}"), None).await, 204);
    assert_eq!(status(&umbra, ingest, Method::POST, "/v1/events", Some(&event)).await, 401, "it is revoked");
    let listed = umbra.cli(&["keys", "list", "--json"], None);
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("umbra_sk_"), "secrets are shown once");
}

#[tokio::test]
async fn parallel_requests_with_a_key_that_another_process_made_wait_for_it() {
    let umbra = Umbra::with().go().await;
    let key =
        |scope| made(&umbra.cli(&["keys", "create", "--name", "k", "--scope", scope, "--json"], None))["key"].clone();
    let _first = key("admin");
    until("keys to be asked for", async || {
        (umbra.send(Method::GET, "/v1/status", &[], None).await.status == 401).then_some(())
    })
    .await;
    let key = key("read");
    let mut holder = umbra.schema.connect().await;
    holder.execute("BEGIN; LOCK TABLE api_key").await.expect("a lock");
    let requests = (0..8).map(|_| status(&umbra, key.as_str().unwrap_or_default(), Method::GET, "/v1/findings", None));
    let release = async {
        let waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'api_key'::regclass";
        until("a read of the keys", async || (umbra.schema.one::<i64>(waiting).await > 0).then_some(())).await;
        holder.execute("ROLLBACK").await.expect("an end");
    };
    let (answers, ()) = join(join_all(requests), release).await;
    assert_eq!(answers, [200; 8]);
}

#[tokio::test]
async fn agent_binding_of_a_key_is_checked_on_the_stored_name() {
    let umbra = Umbra::with().go().await;
    let bound = |glob: &str| {
        let args = ["keys", "create", "--name", "k", "--scope", "ingest", "--agent", glob, "--json"];
        made(&umbra.cli(&args, None))["key"].as_str().unwrap_or_default().to_owned()
    };
    let (prefix, one_more) = (bound("writer-*"), bound("writer-1?"));
    let event = |agent: &str| json!({"agent": agent, "output": "x"});
    let post =
        async |key: &str, agent: &str| status(&umbra, key, Method::POST, "/v1/events", Some(&event(agent))).await;
    assert_eq!(post(&prefix, "wri\u{200b}ter-1").await, 202, "it is stored as writer-1");
    assert_eq!(post(&one_more, "writer-1\u{200b}").await, 403, "it would be stored as writer-1");
    assert_eq!(umbra.schema.one::<String>("SELECT string_agg(agent, ',') FROM event").await, "writer-1");
    // In a batch each event is judged by itself.
    let events = json!({"events": [event("writer-1\u{200b}"), event("writer-12")]});
    let authorization = format!("Bearer {one_more}");
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    let body = Some(events.to_string().into_bytes());
    let answered = umbra.send(Method::POST, "/v1/events/batch", &headers, body).await;
    assert_eq!(answered.body["results"][0]["error"]["code"], "forbidden_agent", "{}", answered.text);
    assert_eq!(answered.body["accepted"], 1, "{}", answered.text);
}

#[tokio::test]
async fn passive_shadow_is_not_named_to_a_key_without_read_scope() {
    let shadows = "
shadow_agents:
  - {name: unseen, model: checks, mode: passive, watch: [{agent: '*', triggers: [error]}]}
  - {name: seen, model: checks, mode: review, watch: [{agent: '*', triggers: [error]}]}
";
    let umbra = Umbra::with().shadows(shadows).go().await;
    let key = |scopes: &str| {
        let args = ["keys", "create", "--name", "k", "--scope", scopes, "--json"];
        made(&umbra.cli(&args, None))["key"].as_str().unwrap_or_default().to_owned()
    };
    let (sender, reader) = (key("ingest"), key("ingest,read"));
    let event = json!({"id": "e", "agent": "a", "triggers": ["error"], "output": "It fails."});
    let named = async |key: &str, path: &str, body: &Value| {
        let authorization = format!("Bearer {key}");
        let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
        let answered = umbra.send(Method::POST, path, &headers, Some(body.to_string().into_bytes())).await;
        assert!(answered.status.is_success(), "{}", answered.text);
        assert!(answered.text.contains("\"seen\""), "{}", answered.text);
        answered.text.contains("unseen")
    };
    // The second time it is a replay.
    for _ in 0..2 {
        assert!(!named(&sender, "/v1/events", &event).await);
    }
    assert!(named(&reader, "/v1/events", &event).await);
    let batch = json!({"events": [event]});
    assert!(!named(&sender, "/v1/events/batch", &batch).await);
    assert!(named(&reader, "/v1/events/batch", &batch).await);
}

#[tokio::test]
async fn refusals_are_counted_by_code_and_logged_by_key_id() {
    let umbra = Umbra::with().go().await;
    let made =
        made(&umbra.cli(&["keys", "create", "--name", "k", "--scope", "ingest", "--agent", "w", "--json"], None));
    let (id, key) = (made["id"].as_str().unwrap_or_default(), made["key"].as_str().unwrap_or_default());
    until("keys to be asked for", async || {
        (umbra.send(Method::GET, "/v1/status", &[], None).await.status == 401).then_some(())
    })
    .await;
    let agent = "ignore-all-instructions";
    let event = json!({"agent": agent, "output": "x"});
    assert_eq!(status(&umbra, key, Method::GET, "/v1/findings", None).await, 403);
    assert_eq!(status(&umbra, key, Method::POST, "/v1/events", Some(&event)).await, 403);
    let two = json!({"events": [event, event, {"agent": "w", "output": "x"}]});
    assert_eq!(status(&umbra, key, Method::POST, "/v1/events/batch", Some(&two)).await, 200);
    assert_eq!(status(&umbra, "umbra_sk_unknown-to-all", Method::GET, "/v1/findings", None).await, 401);
    let both = [("authorization", format!("Bearer {key}")), ("authorization", "Bearer umbra_sk_other".to_owned())];
    let both: Vec<(&str, &str)> = both.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let twice = umbra.send(Method::GET, "/v1/nothing/SECRET%20AGENT", &both, None).await;
    assert_eq!(twice.status, 404, "nothing is served there, and nobody is asked who they are: {}", twice.text);
    let twice = umbra.send(Method::POST, "/v1/events", &both, Some(b"{}".to_vec())).await;
    assert_eq!(twice.status, 401, "which of the keys counts is nobody's to guess: {}", twice.text);
    assert!(twice.text.contains("more than one Authorization header"), "{}", twice.text);
    let metrics = umbra.send(Method::GET, "/metrics", &[], None).await.text;
    for (code, count) in [("forbidden", 1), ("forbidden_agent", 3), ("unauthorized", 2)] {
        let line = format!("umbra_refusals_total{{code=\"{code}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    let log = umbra.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("refused")).collect();
    assert_eq!(lines.len(), 5, "one for each, and none for a request without a key:\n{}", lines.join("\n"));
    assert_eq!(lines.iter().filter(|line| line.contains(id)).count(), 3, "{}", lines.join("\n"));
    assert!(lines[0].contains("/v1/findings") && lines[0].contains("code=\"forbidden\""), "{}", lines[0]);
    assert!(!log.contains("umbra_sk_") && !log.contains(agent), "{log}");
}

#[tokio::test]
async fn open_bind_without_keys_is_refused_with_the_key_command() {
    let umbra = Umbra::with().go().await;
    let refused = umbra.cli(&["serve", "--bind", "0.0.0.0:0"], None);
    assert_eq!(refused.status.code(), Some(1));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("umbra keys create"), "{said}");
    let data = crate::support::database::data_dir().display().to_string();
    let refused = umbra.cli(&["serve", "--bind", "0.0.0.0:0", "--data-dir", &data], None);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains(&format!("--scope ingest,read,admin --data-dir '{data}'`")), "{said}");
}

#[tokio::test]
async fn invalid_body_lists_all_faults_and_deep_nesting_is_refused() {
    let umbra = Umbra::with().go().await;
    for (path, body, places) in [
        ("/v1/reviews", json!({"trigger": "all", "outptu": "x"}), "/target /trigger /output /outptu"),
        ("/v1/admin/keys", json!({"scopes": ["write"], "agents": ["["]}), "/name /scopes/0 /agents/0"),
    ] {
        let answered = umbra.post(path, &body).await;
        assert_eq!(answered.status, 400, "{}", answered.text);
        let faults = answered.body["errors"].as_array().cloned().unwrap_or_default();
        let found: Vec<&str> = faults.iter().filter_map(|fault| fault["pointer"].as_str()).collect();
        assert_eq!(found.join(" "), places, "{}", answered.text);
    }
    let bottomless = "[".repeat(200_000) + &"]".repeat(200_000);
    let json = [("content-type", "application/json")];
    let answered = umbra.send(Method::POST, "/v1/events", &json, Some(bottomless.into_bytes())).await;
    assert_eq!((answered.status.as_u16(), &answered.body["errors"][0]["code"]), (400, &json!("too_deep")));
    assert!(answered.body["errors"][0]["pointer"].as_str().is_some_and(|place| place.starts_with("/0/0/")));
    assert!(answered.text.contains("32 deep"), "{}", answered.text);
}

#[tokio::test]
async fn idempotency_key_on_a_batch_is_refused_with_a_hint_at_ids() {
    let umbra = Umbra::with().go().await;
    let body = Some(br#"{"events": [{"agent": "a", "output": "x"}]}"#.to_vec());
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    let answered = umbra.send(Method::POST, "/v1/events/batch", &headers, body).await;
    assert_eq!(answered.status, 400, "{}", answered.text);
    assert!(answered.body["errors"][0]["detail"].as_str().is_some_and(|detail| detail.contains("`id`")));
    assert_eq!(umbra.schema.one::<i64>("SELECT count(*) FROM event").await, 0);
}

#[tokio::test]
async fn loopback_server_refuses_foreign_host_and_origin_headers() {
    let umbra = Umbra::with().go().await;
    let body = || Some(br#"{"agent":"a","output":"x"}"#.to_vec());
    let json = ("content-type", "application/json");
    for (headers, code) in
        [([json, ("host", "evil.example")], "bad_host"), ([json, ("origin", "https://evil.example")], "bad_origin")]
    {
        let answered = umbra.send(Method::POST, "/v1/events", &headers, body()).await;
        assert_eq!((answered.status.as_u16(), answered.body["code"].as_str()), (403, Some(code)), "{}", answered.text);
    }
    assert_eq!(umbra.schema.one::<i64>("SELECT count(*) FROM event").await, 0);
}

#[tokio::test]
async fn agent_name_of_invisible_characters_is_refused_uncounted() {
    let shadows = "
shadow_agents:
  - {name: capped, model: checks, mode: review, watch: [{agent: '*', triggers: [error]}],
     cost_control: {max_reviews_per_day: 3}}
";
    let umbra = Umbra::with().shadows(shadows).go().await;
    for n in 0..8 {
        umbra.event(&json!({"agent": format!("w{n}"), "triggers": ["error"], "output": "x"})).await;
        let hidden =
            umbra.post("/v1/events", &json!({"agent": "\u{200b}", "triggers": ["error"], "output": "x"})).await;
        assert_eq!(hidden.status, 400, "{}", hidden.text);
        assert_eq!(hidden.body["errors"][0]["pointer"], "/agent");
    }
    umbra.drain().await;
    assert_eq!(umbra.schema.one::<i64>("SELECT count(*) FROM review").await, 3);
}

#[tokio::test]
async fn unreadable_queries_get_400_and_oversized_texts_413() {
    let umbra = Umbra::with().go().await;
    for path in [
        "/v1/reviews?since=-009999-06-01T00:00:00Z",
        "/v1/findings?until=-004800-01-01T00:00:00Z",
        "/v1/skips?since=-009999-01-01",
        "/v1/events/%ff",
        "/v1/shadows/%ff",
        "/v1/events?cursor=nonsense",
        "/v1/events?limit=0",
        "/v1/events?nonsense=1",
    ] {
        let answered = umbra.send(Method::GET, path, &[], None).await;
        assert_eq!(answered.status, 400, "{path}: {}", answered.text);
        assert_eq!(answered.headers["content-type"], "application/problem+json", "{path}");
    }
    let long = json!({"target": "a", "trigger": "error", "output": "x".repeat(200_000), "task": "y".repeat(100_000)});
    assert_eq!(umbra.post("/v1/reviews", &long).await.status, 413);
}

#[tokio::test]
async fn query_faults_are_listed_together_and_bad_cursors_refused() {
    let umbra = Umbra::with().go().await;
    let refused = async |path: &str| {
        let answered = umbra.send(Method::GET, path, &[], None).await;
        assert_eq!(answered.status, 400, "{path}: {}", answered.text);
        let faults = answered.body["errors"].as_array().cloned().unwrap_or_default();
        let places = faults.iter().map(|fault| fault["pointer"].as_str().unwrap_or_default().to_owned());
        let code = answered.body["code"].as_str().unwrap_or_default().to_owned();
        (code, places.collect::<Vec<_>>().join(" "))
    };
    let told = |code: &str, places: &str| (code.to_owned(), places.to_owned());
    for list in ["events", "reviews", "findings", "observations"] {
        let path = |query: &str| format!("/v1/{list}?{query}");
        assert_eq!(refused(&path("cursor=nonsense")).await, told("bad_cursor", "?cursor"));
        let all = told("bad_query", "?since ?limit ?cursor ?nonsense");
        assert_eq!(refused(&path("cursor=x&limit=0&since=x&nonsense=1")).await, all);
    }
    let page = umbra.get("/v1/events").await;
    let cursor = page["resume_cursor"].as_str().unwrap_or_default();
    assert_eq!(
        umbra.get(&format!("/v1/events?cursor={cursor}")).await["items"],
        json!([]),
        "there is nothing behind it"
    );
    // Numbers that no list has given yet: of a database that was restored since, or made up.
    for (path, feed) in [
        ("/v1/events", 'e'),
        ("/v1/reviews", 'r'),
        ("/v1/reviews?state=done", 'd'),
        ("/v1/findings", 'f'),
        ("/v1/observations", 'o'),
        ("/v1/trajectories", 't'),
        ("/v1/breakers", 'b'),
        ("/v1/reflexions", 'x'),
        ("/v1/webhooks/dead", 'x'),
        ("/v1/backtests", 'b'),
    ] {
        let made_up = URL_SAFE_NO_PAD.encode(format!("{feed}a9000"));
        let sign = if path.contains('?') { '&' } else { '?' };
        assert_eq!(refused(&format!("{path}{sign}cursor={made_up}")).await, told("bad_cursor", "?cursor"), "{path}");
        let start = URL_SAFE_NO_PAD.encode(format!("{feed}a0"));
        let page = umbra.get(&format!("{path}{sign}cursor={start}")).await;
        assert!(page["items"].is_array(), "{path}: {page}");
    }
    let another = refused(&format!("/v1/findings?cursor={cursor}")).await;
    assert_eq!(another, told("bad_cursor", "?cursor"), "it is of another list");
    // The list of the cursor cannot be checked while the order is unknown.
    assert_eq!(refused(&format!("/v1/events?order=up&cursor={cursor}")).await, told("bad_query", "?order"));
}
