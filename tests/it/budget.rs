//! Caps are exact: over four processes, one of them killed, and never a dollar too much.
//!
//! `UMBRA_SABOTAGE=1` makes the meters forget, or the releases, and each test here must fail.

#![expect(clippy::panic, reason = "a test that cannot go on fails")]

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::support::{
    Schema, Umbra, judge,
    model_server::{Answer, ModelServer},
    sabotage, until,
};

const EVENTS: usize = 1_000;

/// Starts `n` servers on one schema, whose meters forget under sabotage.
async fn replicas(n: usize, shadows: &str, settings: Option<&str>) -> (Schema, Vec<Umbra>) {
    let (schema, servers) = sound_replicas(n, shadows, settings).await;
    if sabotage() {
        schema
            .run(
                "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN NEW.used := OLD.used; NEW.held_usd := OLD.held_usd; RETURN NEW; END';
                 CREATE TRIGGER forget BEFORE UPDATE ON meter FOR EACH ROW EXECUTE FUNCTION forget()",
            )
            .await;
    }
    (schema, servers)
}

/// Starts `n` servers on one schema.
async fn sound_replicas(n: usize, shadows: &str, settings: Option<&str>) -> (Schema, Vec<Umbra>) {
    let schema = Schema::fresh().await;
    let mut servers = Vec::new();
    for _ in 0..n {
        let mut start = Umbra::with().shadows(shadows).on(&schema);
        if let Some(settings) = settings {
            start = start.settings(settings);
        }
        servers.push(start.go().await);
    }
    (schema, servers)
}

/// Posts events to the servers in turn, 32 at a time; one server is killed when half are sent, and its unanswered
/// events are sent to another one under the same id.
async fn post_with_a_kill(servers: &mut [Umbra], event: impl Fn(usize) -> Value) {
    for (round, first) in (0..EVENTS).step_by(32).enumerate() {
        let posts: Vec<_> = (first..(first + 32).min(EVENTS)).map(|n| post(servers, n, event(n))).collect();
        join_all(posts).await;
        if round == EVENTS / 64 {
            servers[1].kill();
        }
    }
}

async fn post(servers: &[Umbra], n: usize, mut event: Value) {
    event["id"] = json!(format!("event-{n}"));
    for attempt in 0..200 {
        let server = &servers[(n + attempt) % servers.len()];
        match server.try_post("/v1/events", &event).await {
            Some((status, _)) if status == 202 => return,
            Some((status, body)) if status != 503 => panic!("{status}: {body}"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    panic!("event {n} was never accepted");
}

/// Returns the numbers of matched pairs, of queued ones, and of those skipped for this reason.
async fn outcomes(schema: &Schema, reason: i16) -> (i64, i64, i64) {
    let count = |what: &'static str| async move {
        schema.one::<i64>(&format!("SELECT count(*) FROM event, unnest(outcomes) o WHERE {what}")).await
    };
    let skipped = schema.one(&format!("SELECT count(*) FROM event, unnest(outcomes) o WHERE o = {reason}")).await;
    (count("o = 0").await, skipped, count("true").await)
}

async fn drained(servers: &[Umbra]) {
    servers[0].drain().await;
}

#[tokio::test]
async fn daily_cap_is_exact_over_four_processes_and_a_kill() {
    let shadows = "
shadow_agents:
  - {name: capped, model: checks, mode: review, watch: [{agent: '*', triggers: [error]}],
     cost_control: {max_reviews_per_day: 50, cooldown: 0s}}
";
    let (schema, mut servers) = replicas(4, shadows, None).await;
    post_with_a_kill(&mut servers, |n| json!({"agent": format!("a{}", n % 7), "triggers": ["error"], "output": "x"}))
        .await;
    drained(&servers).await;
    assert_eq!(outcomes(&schema, 16).await, (50, 950, 1_000), "(queued, daily_cap, pairs)");
    assert_eq!(schema.one::<i64>("SELECT count(*) FROM review WHERE state = 'done'").await, 50);
    assert_eq!(schema.one::<i64>("SELECT sum(n)::bigint FROM skip_count").await, 950);
    assert_eq!(servers[0].items("/v1/skips?reason=daily_cap").await[0]["count"], 950);
    servers[1].unchecked();
}

#[tokio::test]
async fn cap_per_target_is_exact_over_four_processes() {
    let shadows = "
shadow_agents:
  - {name: fair, model: checks, mode: review, watch: [{agent: '*', triggers: [error]}],
     cost_control: {max_reviews_per_target_per_day: 7, cooldown: 0s}}
";
    let (schema, mut servers) = replicas(4, shadows, None).await;
    post_with_a_kill(&mut servers, |n| json!({"agent": format!("a{}", n % 5), "triggers": ["error"], "output": "x"}))
        .await;
    drained(&servers).await;
    assert_eq!(outcomes(&schema, 15).await, (35, 965, 1_000), "(queued, target_cap, pairs)");
    let per_agent = schema.rows("SELECT agent FROM review GROUP BY agent HAVING count(*) <> 7").await;
    assert_eq!(per_agent.len(), 0);
    servers[1].unchecked();
}

#[tokio::test]
async fn held_and_spent_money_fills_and_never_exceeds_the_cap() {
    let model = ModelServer::start(|seen| {
        let text = judge::verdict(seen, "APPROVE", 90, &json!([])).to_string();
        Answer::Slow(Duration::from_millis(5), Box::new(Answer::Metered { text, input: 900, output: 300 }))
    })
    .await;
    let settings = format!(
        "models:\n  judge: {{provider: openai, name: judge-1, base_url: '{}', input_usd_per_mtok: 1.0, \
         output_usd_per_mtok: 4.0, max_output_tokens: 500}}\n",
        model.openai_url()
    );
    let shadows = "
shadow_agents:
  - {name: thrifty, model: judge, mode: review, watch: [{agent: '*', triggers: [error]}],
     cost_control: {max_usd_per_day: 0.2, cooldown: 0s}}
";
    let (schema, servers) = replicas(2, shadows, Some(&settings)).await;
    // After each hold, records what all calls hold or have cost, by their rows: the meters are under test.
    schema
        .run(
            "CREATE TABLE committed (usd bigint NOT NULL);
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
                 'BEGIN INSERT INTO committed SELECT sum(coalesce(actual_usd, hold_usd)) FROM provider_call;
                  RETURN NULL; END';
             CREATE TRIGGER note AFTER INSERT ON provider_call FOR EACH STATEMENT EXECUTE FUNCTION note()",
        )
        .await;
    let cap = 200_000_000_i64;
    let worst_seen = async {
        let (mut worst, mut connection) = (0, schema.connect().await);
        // Reads for as long as anything is under way, on one connection: making one costs more than reading.
        until("the day's money to be spent", async || {
            let (now, waiting, refused): (i64, i64, i64) = sqlx::query_as(
                "SELECT (SELECT coalesce(max(held_usd + spent_usd), 0)::bigint FROM meter),
                        (SELECT count(*) FROM review WHERE state IN ('queued', 'running')),
                        (SELECT count(*) FROM event WHERE 18 = ANY(outcomes))",
            )
            .fetch_one(&mut connection)
            .await
            .expect("the shared Postgres answers");
            worst = worst.max(now);
            (waiting == 0 && refused > 0).then_some(())
        })
        .await;
        worst
    };
    let load = async {
        // Until the money is gone, and events are refused for it.
        for first in (0..).step_by(32) {
            let event = json!({"agent": "a", "triggers": ["error"], "output": "the tests pass"});
            join_all((first..first + 32).map(|n| post(&servers, n, event.clone()))).await;
            if schema.one::<i64>("SELECT count(*) FROM event WHERE 18 = ANY(outcomes)").await > 0 {
                break;
            }
        }
    };
    let (worst, ()) = tokio::join!(worst_seen, load);
    let committed: i64 = schema.one("SELECT max(usd) FROM committed").await;
    assert!(committed <= cap, "{committed} of {cap} nano-dollars were held or spent by the calls' rows");
    assert!(worst <= cap, "{worst} of {cap} nano-dollars were held or spent");
    let spent: i64 = schema.one("SELECT sum(spent_usd)::bigint FROM meter WHERE agent = ''").await;
    let call: i64 = schema.one("SELECT max(hold_usd) FROM provider_call").await;
    assert!(cap - spent < call, "{spent} of {cap} spent: another call of {call} had room");
    let by_rows: i64 = schema.one("SELECT sum(actual_usd)::bigint FROM provider_call").await;
    assert_eq!(by_rows, spent);
    assert_eq!(schema.one::<i64>("SELECT count(*) FROM provider_call WHERE state = 'sent'").await, 0);
}

#[tokio::test]
async fn returned_unit_is_noticed_by_a_process_with_a_spent_cap() {
    let refusal = Answer::error(401, "authentication_error", "invalid x-api-key");
    let model = ModelServer::start(move |_| Answer::Slow(Duration::from_secs(2), Box::new(refusal.clone()))).await;
    let settings =
        format!("models:\n  judge: {{provider: openai, name: judge-1, base_url: '{}'}}\n", model.openai_url());
    let shadows = "
shadow_agents:
  - {name: single, model: judge, mode: review, watch: [{agent: '*', triggers: [error]}],
     cost_control: {max_reviews_per_day: 1, cooldown: 0s}}
";
    let (schema, servers) = sound_replicas(2, shadows, Some(&settings)).await;
    if sabotage() {
        schema
            .run(
                "CREATE FUNCTION silence() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
                 CREATE TRIGGER silence BEFORE UPDATE ON feed FOR EACH ROW WHEN (OLD.name = 'release')
                 EXECUTE FUNCTION silence()",
            )
            .await;
    }
    let event = json!({"agent": "a", "triggers": ["error"], "output": "the tests pass"});
    let outcome = async |server: usize| servers[server].event(&event).await["dispositions"][0].clone();
    assert_eq!(outcome(0).await["outcome"], "queued");
    until("the unit to return", async || {
        // It is refused all the while, and soon from memory.
        outcome(1).await;
        (schema.one::<i64>("SELECT count(*) FROM review WHERE state = 'released'").await > 0).then_some(())
    })
    .await;
    until("the other process to notice", async || (outcome(1).await["outcome"] == "queued").then_some(())).await;
    drained(&servers).await;
}
