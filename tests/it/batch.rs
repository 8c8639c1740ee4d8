//! Small events of one agent share a review: one unit, one call, and an assessment for each of them.
//!
//! `UMBRA_SABOTAGE=1` makes reviews forget the events that joined them, and the tests that count must fail.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{
    Schema, Umbra, judge,
    model_server::{Answer, ModelServer, Seen},
    sabotage, until,
};

fn shadows(batch: &str, more: &str) -> String {
    format!(
        "
shadow_agents:
  - {{name: small, model: judge, mode: passive, watch: [{{agent: '*', triggers: [task_complete]}}],
     cost_control: {{batch: {batch}{more}}}}}
"
    )
}

fn settings(model: &ModelServer) -> String {
    let url = model.openai_url();
    format!(
        "models:\n  judge: {{provider: openai, name: judge-1, base_url: '{url}', max_output_tokens: 800, timeout: 5s}}\n"
    )
}

/// Returns (nonce, text) of each event in a prompt, in order.
fn events_of(seen: &Seen) -> Vec<(String, String)> {
    let nonces = seen.user.lines().filter_map(|line| line.strip_prefix("The nonce of event ")?.split(" is ").nth(1));
    let texts = seen.user.split("\n# Event ").skip(1).map(ToOwned::to_owned);
    nonces.map(ToOwned::to_owned).zip(texts).collect()
}

fn item((nonce, text): &(String, String), assessment: &str, score: u8, findings: &Value) -> Value {
    let mut item = judge::item(nonce, text, assessment, score, findings);
    item["recommendation"] = json!(format!("So it is: {assessment}."));
    item
}

/// Approves every event of every batch.
fn approve(seen: &Seen) -> Answer {
    let items: Vec<Value> = events_of(seen).iter().map(|event| item(event, "APPROVE", 90, &json!([]))).collect();
    Answer::Json(json!({"events": items}))
}

fn small(n: usize) -> Value {
    json!({"id": format!("small-{n}"), "agent": "writer", "task_id": format!("t-{}", n % 3),
        "triggers": ["task_complete"], "output": format!("Part {n} of the report is complete.")})
}

/// Under sabotage, makes a review forget the events that joined it.
async fn forgetful(schema: &Schema) {
    if sabotage() {
        schema
            .run(
                "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN IF EXISTS (SELECT FROM review_event WHERE review_id = NEW.review_id) THEN RETURN NULL;
                      END IF; RETURN NEW; END';
                 CREATE TRIGGER forget BEFORE INSERT ON review_event FOR EACH ROW EXECUTE FUNCTION forget()",
            )
            .await;
    }
}

fn outcomes(dispositions: &[Value]) -> Vec<String> {
    dispositions.iter().map(|one| one["outcome"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn twenty_small_events_take_three_calls_and_three_units() {
    let model = ModelServer::start(approve).await;
    let umbra = Umbra::with()
        .shadows(&shadows("{max_events: 8, max_wait: 1s}", ", cooldown: 0s"))
        .settings(&settings(&model))
        .go()
        .await;
    forgetful(&umbra.schema).await;
    let mut dispositions = Vec::new();
    for n in 0..20 {
        dispositions.push(umbra.event(&small(n)).await["dispositions"][0].clone());
    }
    let queued = outcomes(&dispositions).iter().filter(|outcome| *outcome == "queued").count();
    let batched = outcomes(&dispositions).iter().filter(|outcome| *outcome == "batched").count();
    assert_eq!((queued, batched), (3, 17), "{dispositions:?}");
    umbra.drain().await;
    assert_eq!(model.count(), 3);
    assert_eq!(umbra.schema.one::<i64>("SELECT used FROM meter WHERE agent = '' AND trigger = ''").await, 3);
    let reviews = umbra.items("/v1/reviews?state=done").await;
    let sizes: Vec<usize> = reviews.iter().map(|review| review["assessments"].as_array().map_or(0, Vec::len)).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 20, "{reviews:?}");
    assert_eq!((sizes[0], sizes[1]), (8, 8), "full ones run at once");
    assert!(reviews.iter().all(|review| review["scope"] == "batch" && review["reviewer"] == "model"));
    let listed = umbra.items("/v1/events").await;
    for (n, disposition) in dispositions.iter().enumerate() {
        let replayed = umbra.event(&small(n)).await;
        assert_eq!(replayed["dispositions"][0], *disposition, "a replay says the same");
        let mut event = umbra.get(&format!("/v1/events/{}", replayed["id"].as_str().unwrap_or_default())).await;
        let findings = event.as_object_mut().and_then(|event| event.remove("findings"));
        assert_eq!(findings, Some(json!([])), "nothing was found in it");
        assert_eq!(listed.iter().find(|one| one["id"] == replayed["id"]), Some(&event), "the list tells as much");
        let own = &event["reviews"][0]["assessments"];
        assert_eq!(own.as_array().map(Vec::len), Some(1), "its own alone: {own}");
        assert_eq!((&own[0]["event_id"], &own[0]["assessment"]), (&replayed["id"], &json!("APPROVE")));
    }
    assert_eq!(umbra.items("/v1/reviews?task_id=t-2").await.len(), 3, "each holds an event of the task");
}

#[tokio::test]
async fn each_event_is_assessed_by_its_own_item_and_quotes_alone() {
    let model = ModelServer::start(|seen| {
        let quote = |text: &str| {
            json!([{"severity": "critical", "category": "factual", "description": "It is wrong.",
                "evidence_quote": text, "checklist_item": "consistent"}])
        };
        let items = events_of(seen).into_iter().filter_map(|event| {
            let text = &event.1;
            Some(if text.contains("Part 0") {
                item(&event, "FLAG", 5, &quote("Part 0 of the report"))
            } else if text.contains("Part 1") {
                // Text of another event proves nothing about this one.
                item(&event, "FLAG", 5, &quote("Part 0 of the report"))
            } else if text.contains("Part 2") {
                return None;
            } else if text.contains("Part 3") {
                item(&("0".repeat(32), event.1), "APPROVE", 99, &json!([]))
            } else {
                item(&event, "APPROVE", 80, &json!([]))
            })
        });
        let mut items: Vec<Value> = items.collect();
        let last = items.last().cloned().unwrap_or_default();
        // Two verdicts on the last event.
        items.push(last);
        Answer::Json(json!({"events": items}))
    })
    .await;
    let umbra =
        Umbra::with().shadows(&shadows("{max_events: 6, max_wait: 1h}", "")).settings(&settings(&model)).go().await;
    let mut ids = Vec::new();
    for n in 0..6 {
        ids.push(umbra.event(&small(n)).await["id"].clone());
    }
    umbra.drain().await;
    assert_eq!(model.count(), 2, "once for all, and once more for the one that is rejected without a quote of its own");
    let again = model.last().user;
    assert!(again.contains("Part 1") && !again.contains("Part 0") && !again.contains("Part 4"), "{again}");
    let reviews = umbra.items("/v1/reviews").await;
    let review = umbra.get(&format!("/v1/reviews/{}", reviews[0]["id"].as_str().unwrap_or_default())).await;
    let words: Vec<&str> =
        review["assessments"].as_array().into_iter().flatten().filter_map(|one| one["assessment"].as_str()).collect();
    assert_eq!(words, ["FLAG", "SUGGEST", "INCONCLUSIVE", "INCONCLUSIVE", "APPROVE", "INCONCLUSIVE"], "{review:#}");
    assert_eq!((&review["assessment"], &review["score"]), (&json!("FLAG"), &json!(5)), "the strictest and the lowest");
    assert_eq!(review["recommendation"], "So it is: FLAG.");
    assert_eq!(review["events"].as_array().map(Vec::len), Some(6));
    let findings = umbra.items("/v1/findings?mode=passive").await;
    let of = |event: &Value| findings.iter().find(|finding| finding["event_id"] == *event);
    let (first, second) = (of(&ids[0]), of(&ids[1]));
    assert_eq!(first.map(|f| (f["verified"].clone(), f["task_id"].clone())), Some((json!(true), json!("t-0"))));
    assert_eq!(second.map(|f| (f["verified"].clone(), f["task_id"].clone())), Some((json!(false), json!("t-1"))));
    assert_eq!(findings.len(), 2, "{findings:?}");
    let prompt = &model.seen()[0];
    assert!(prompt.system.contains("What one event says is no evidence about another"));
    let fences: std::collections::BTreeSet<&str> =
        prompt.user.lines().filter_map(|line| line.strip_prefix("The tag of its blocks is ")).collect();
    assert_eq!(fences.len(), 6, "a fence of its own for each");
    assert_eq!(prompt.body["max_completion_tokens"].as_u64().or(prompt.body["max_tokens"].as_u64()), Some(4_800));
}

#[tokio::test]
async fn character_limit_closes_a_batch_and_large_events_go_alone() {
    let model = ModelServer::start(|seen| {
        if events_of(seen).is_empty() {
            Answer::Json(crate::support::judge::verdict(seen, "APPROVE", 90, &json!([])))
        } else {
            approve(seen)
        }
    })
    .await;
    let umbra = Umbra::with()
        .shadows(&shadows("{max_events: 50, max_chars: 1000, max_wait: 1h}", ""))
        .settings(&settings(&model))
        .go()
        .await;
    let event = |agent: &str, chars: usize| json!({"agent": agent, "triggers": ["task_complete"], "output": "All is well. ".repeat(100)[..chars]});
    let mut outcome = Vec::new();
    for (agent, chars) in [("a", 400), ("b", 10), ("a", 1_001), ("a", 400), ("a", 400), ("a", 600), ("b", 20)] {
        outcome.push(umbra.event(&event(agent, chars)).await["dispositions"][0].clone());
    }
    assert_eq!(outcomes(&outcome), ["queued", "queued", "queued", "batched", "queued", "batched", "batched"]);
    until("the closed ones to be reviewed", async || {
        (umbra.items("/v1/reviews?state=done").await.len() == 3).then_some(())
    })
    .await;
    let open = umbra.items("/v1/reviews?state=queued").await;
    assert_eq!(open.len(), 1);
    assert_eq!((&open[0]["agent"], open[0]["events"].as_array().map(Vec::len)), (&json!("b"), Some(2)));
    assert_eq!(
        outcome[2]["review_id"],
        umbra
            .items("/v1/reviews?state=done")
            .await
            .iter()
            .find(|r| r["scope"] == "event")
            .map(|r| r["id"].clone())
            .unwrap_or_default()
    );
}

#[tokio::test]
async fn events_during_a_cooldown_join_the_next_batch() {
    let model = ModelServer::start(approve).await;
    let schema = Schema::fresh().await;
    let umbra = Umbra::with()
        .shadows(&shadows("{max_events: 3, max_wait: 10s}", ", cooldown: 1h, max_reviews_per_day: 2"))
        .settings(&settings(&model))
        .clock("2026-03-01T12:00:00Z")
        .on(&schema)
        .go()
        .await;
    let mut outcome = Vec::new();
    for n in 0..3 {
        outcome.push(umbra.event(&small(n)).await["dispositions"][0].clone());
    }
    until("the full one", async || (model.count() == 1).then_some(())).await;
    for n in 3..7 {
        outcome.push(umbra.event(&small(n)).await["dispositions"][0].clone());
    }
    assert_eq!(outcomes(&outcome), ["queued", "batched", "batched", "queued", "batched", "batched", "skipped"]);
    assert_eq!(outcome[6]["reason"], "cooldown", "it is full and waits for the cooldown");
    let run_at: String = schema.one("SELECT run_at::text FROM review WHERE state = 'queued'").await;
    assert!(run_at.starts_with("2026-03-01 13:00:00"), "{run_at}");
    schema.set_clock("2026-03-01T13:00:01Z").await;
    until("the next one", async || (model.count() == 2).then_some(())).await;
    umbra.drain().await;
    let last = umbra.event(&small(7)).await["dispositions"][0].clone();
    assert_eq!((&last["outcome"], &last["reason"]), (&json!("skipped"), &json!("daily_cap")));
    assert_eq!(schema.one::<i64>("SELECT sum(n)::bigint FROM skip_count").await, 2);
}

#[tokio::test]
async fn stop_closes_open_batches_for_review_by_another_process() {
    let model = ModelServer::start(approve).await;
    let schema = Schema::fresh().await;
    let start = async || {
        let shadows = shadows("{max_events: 8, max_wait: 24h}", "");
        Umbra::with().shadows(&shadows).settings(&settings(&model)).on(&schema).go().await
    };
    let mut first = start().await;
    for n in 0..5 {
        first.event(&small(n)).await;
    }
    assert!(first.stop().success());
    assert_eq!(model.count(), 0, "nothing was due");
    let second = start().await;
    second.drain().await;
    assert_eq!(model.count(), 1);
    let reviews = second.items("/v1/reviews?assessment=APPROVE").await;
    assert_eq!(reviews[0]["assessments"].as_array().map(Vec::len), Some(5), "{reviews:?}");
}

#[tokio::test]
async fn two_processes_and_kills_lose_no_event_of_a_batch() {
    let model = ModelServer::start(approve).await;
    let schema = Schema::fresh().await;
    let start = async || {
        let shadows = shadows("{max_events: 8, max_wait: 300ms}", ", cooldown: 0s");
        let settings = format!("{}queue: {{fence_after: 1s, dead_after: 2s}}\n", settings(&model));
        let start = Umbra::with().shadows(&shadows).settings(&settings).on(&schema);
        start.env("UMBRA__QUEUE__HEARTBEAT", "200ms").go().await
    };
    let mut servers = vec![start().await, start().await];
    forgetful(&schema).await;
    let total = 240;
    for (round, from) in (0..total).step_by(16).enumerate() {
        let posts: Vec<_> = (from..from + 16)
            .map(|n| {
                let servers = &servers;
                async move {
                    until("the event to be accepted", async || {
                        for server in [n % 2, (n + 1) % 2] {
                            let answer = servers[server].try_post("/v1/events", &small(n)).await;
                            if answer.is_some_and(|(status, _)| status == 202) {
                                return Some(());
                            }
                        }
                        None
                    })
                    .await;
                }
            })
            .collect();
        join_all(posts).await;
        if round % 4 == 3 {
            let mut next = start().await;
            std::mem::swap(&mut servers[round / 4 % 2], &mut next);
            next.kill();
            next.unchecked();
        }
    }
    servers[0].drain().await;
    assert_eq!(schema.one::<i64>("SELECT count(*) FROM event").await, 240);
    let assessed = "SELECT count(DISTINCT event_id) FROM review_assessment WHERE assessment = 'APPROVE'";
    assert_eq!(schema.one::<i64>(assessed).await, 240);
    let units: i64 = schema.one("SELECT used FROM meter WHERE agent = '' AND trigger = ''").await;
    assert_eq!(units, schema.one::<i64>("SELECT count(*) FROM review").await);
    assert!((30..120).contains(&units), "{units} units for 240 events: they have found company");
}
