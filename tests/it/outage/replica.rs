//! A server that is paused during reviews: others make them, and it writes nothing late.

use std::time::Duration;

use futures_util::future::join_all;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use super::event;
use crate::support::{
    Umbra,
    judge::verdict,
    model_server::{Answer, ModelServer},
    sabotage, until,
};

const SHADOWS: &str = "
shadow_agents:
  - {name: one, model: judge, mode: review, watch: [{agent: '*', triggers: [error]}], cost_control: {cooldown: 0s}}
";

#[tokio::test]
async fn paused_server_writes_no_late_result_after_takeover() {
    let model = ModelServer::start(|seen| {
        let reply = Answer::Json(verdict(seen, "APPROVE", 90, &json!([])));
        Answer::Slow(Duration::from_secs(2), Box::new(reply))
    })
    .await;
    let settings = format!(
        "models:\n  judge: {{provider: openai, name: j, base_url: '{}'}}\nqueue: {{workers: 16}}\n",
        model.openai_url()
    );
    // Under sabotage no server takes over.
    let dead_after = if sabotage() { "10m" } else { "1s" };
    let start = || {
        Umbra::with()
            .shadows(SHADOWS)
            .settings(&settings)
            .env("UMBRA__QUEUE__HEARTBEAT", "200ms")
            .env("UMBRA__QUEUE__FENCE_AFTER", "600ms")
            .env("UMBRA__QUEUE__DEAD_AFTER", dead_after)
    };
    let paused = start().go().await;
    let events: Vec<Value> = (0..8).map(|n| event("a", n)).collect();
    join_all(events.iter().map(|event| paused.event(event))).await;
    until("the model to be asked", async || (model.count() >= 8).then_some(())).await;
    let process = Pid::from_raw(i32::try_from(paused.pid()).expect("a pid"));
    kill(process, Signal::SIGSTOP).expect("it pauses");
    let other = start().on(&paused.schema).go().await;
    until("the others to do them", async || (other.items("/v1/reviews?state=done").await.len() == 8).then_some(()))
        .await;
    let results = "SELECT count(*) FROM review_result";
    assert_eq!(other.schema.one::<i64>(results).await, 8);
    let before: String =
        other.schema.one("SELECT string_agg(xmin::text, ',' ORDER BY review_id) FROM review_result").await;
    kill(process, Signal::SIGCONT).expect("it goes on");
    until("it to find that its leases are gone", async || {
        let metrics = paused.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
        let fenced = metrics.lines().find_map(|line| line.strip_prefix("umbra_review_ends_total{end=\"fenced\"} "));
        fenced.is_some_and(|count| count != "0").then_some(())
    })
    .await;
    let after: String =
        other.schema.one("SELECT string_agg(xmin::text, ',' ORDER BY review_id) FROM review_result").await;
    assert_eq!((other.schema.one::<i64>(results).await, after), (8, before), "a result was written late");
}
