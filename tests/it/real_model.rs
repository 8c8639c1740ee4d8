//! A real model reviews, over the `openai` and the `anthropic` protocol: opt-in, since it needs a server.
//!
//! `UMBRA_REAL_MODEL_URL` is a llama.cpp server that speaks both, such as `http://127.0.0.1:8090`; without it the test
//! is skipped. `UMBRA_REAL_MODEL_NAME` is the model. A small model cannot judge: its verdict is printed, not tested.
//! The test checks that its reply is read, counted and settled, and lowers no check.

#![expect(clippy::expect_used, clippy::disallowed_methods, reason = "a test that cannot go on fails")]

use std::time::Duration;

use serde_json::{Value, json};
use sqlx::Row;

use crate::support::Umbra;

/// Longest wait for one review: up to three calls of a model on two busy cores.
const DEADLINE: Duration = Duration::from_mins(8);

const SHADOWS: &str = "
shadow_agents:
  - {name: judge, model: real, mode: review, watch: [{agent: '*', triggers: [task_complete]}],
     cost_control: {cooldown: 0s}}
";

#[tokio::test]
async fn a_real_model_reviews_over_both_protocols() {
    let Some(url) = variable("UMBRA_REAL_MODEL_URL") else {
        println!("skipped: UMBRA_REAL_MODEL_URL is not set");
        return;
    };
    let url = url.trim_end_matches('/');
    let name = variable("UMBRA_REAL_MODEL_NAME").unwrap_or_else(|| "qwen2.5-coder".to_owned());
    for (provider, base) in [("openai", format!("{url}/v1")), ("anthropic", url.to_owned())] {
        let settings = format!(
            "models:\n  real: {{provider: {provider}, name: '{name}', base_url: '{base}', max_output_tokens: 400, timeout: 300s}}\n"
        );
        let umbra = Umbra::with().shadows(SHADOWS).settings(&settings).go().await;
        reviewed(&umbra, provider, "The report has three parts. Each part is complete.").await;
        let output = format!("Done. The bucket opens with aws_access_key_id = {}", live_key());
        let review = reviewed(&umbra, provider, &output).await;
        assert_eq!(review["assessment"], "FLAG", "{provider}: {review}");
        let event = umbra.get(&format!("/v1/events/{}", review["events"][0].as_str().unwrap_or_default())).await;
        assert!(event["output"].as_str().unwrap_or_default().contains("[secret:"), "{event}");
        assert!(!holding(&umbra, "The bucket opens").await.is_empty(), "the search finds what is stored");
        assert_eq!(holding(&umbra, &live_key()).await, Vec::<String>::new(), "{provider}: tables hold the key");
        assert!(!umbra.log().contains(&live_key()), "{provider}: the log holds the key");
        let calls = "SELECT count(*), count(*) FILTER (WHERE state = 'settled') FROM provider_call";
        let calls = umbra.schema.rows(calls).await;
        let (all, settled): (i64, i64) = (calls[0].get(0), calls[0].get(1));
        assert!(all >= 2 && all == settled, "{provider}: {settled} of {all} calls are settled");
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Returns a key that looks alive, put together here so that scanners of this repository are not alarmed.
fn live_key() -> String {
    ["AKIA", "Q3EGVZ7X", "KD2MWTLP"].concat()
}

/// Posts an output, waits until the model has reviewed it, and returns the review.
async fn reviewed(umbra: &Umbra, provider: &str, output: &str) -> Value {
    let event = json!({"agent": "writer", "task": "write a summary", "output": output, "triggers": ["task_complete"]});
    let accepted = umbra.event(&event).await;
    let id = accepted["dispositions"][0]["review_id"].as_str().expect("a review is queued").to_owned();
    let deadline = tokio::time::Instant::now() + DEADLINE;
    let review = loop {
        let review = umbra.get(&format!("/v1/reviews/{id}")).await;
        if matches!(review["state"].as_str(), Some("done" | "failed")) {
            break review;
        }
        assert!(tokio::time::Instant::now() < deadline, "{provider}: waited in vain for {review}");
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    println!("{provider}: {review:#}");
    let said = (&review["state"], &review["reviewer"], &review["model"]);
    assert_eq!(said, (&json!("done"), &json!("model"), &json!("real")), "{provider}: {review}");
    assert!(review["usage"]["input"].as_u64().unwrap_or(0) > 0, "{provider}: {review}");
    let assessments = ["APPROVE", "INCONCLUSIVE", "SUGGEST", "FLAG"];
    assert!(assessments.contains(&review["assessment"].as_str().unwrap_or_default()), "{provider}: {review}");
    review
}

/// Returns the tables of the schema that contain the text.
async fn holding(umbra: &Umbra, needle: &str) -> Vec<String> {
    let tables = format!("SELECT tablename::text FROM pg_tables WHERE schemaname = '{}'", umbra.schema.name);
    let mut found = Vec::new();
    for table in umbra.schema.rows(&tables).await.iter().map(|row| row.get::<String, _>(0)) {
        let holds = format!(
            "SELECT EXISTS (SELECT 1 FROM \"{table}\" t WHERE strpos(row_to_json(t)::text, '{needle}') > 0
             OR strpos(row_to_json(t)::text, encode('{needle}'::bytea, 'hex')) > 0)"
        );
        if umbra.schema.one(&holds).await {
            found.push(table);
        }
    }
    found
}
