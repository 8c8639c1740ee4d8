//! Claims and requests of a provider break no promise: caps hold against its own counts, patience against its waits,
//! and a failed review says its cost and reason.

use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::support::{
    Umbra, judge,
    model_server::{Answer, ModelServer, Seen},
    until,
};

fn shadows(caps: &str) -> String {
    format!(
        "
shadow_agents:
  - {{name: thrifty, model: judge, mode: review, watch: [{{agent: '*', triggers: [error]}}],
     cost_control: {{cooldown: 0s{caps}}}}}
"
    )
}

async fn with_model(model: &ModelServer, caps: &str) -> Umbra {
    with_shadows(model, &shadows(caps)).await
}

async fn with_shadows(model: &ModelServer, shadows: &str) -> Umbra {
    let settings = format!(
        "models:\n  judge: {{provider: openai, name: judge-1, base_url: '{}', input_usd_per_mtok: 1.0, \
         output_usd_per_mtok: 4.0, max_output_tokens: 500}}\n",
        model.openai_url()
    );
    Umbra::with().shadows(shadows).settings(&settings).go().await
}

fn event() -> Value {
    json!({"agent": "a", "triggers": ["error"], "output": "the tests pass"})
}

/// Returns a reply that approves, with these counts as its provider writes them.
fn counted(seen: &Seen, input: &Value, output: &Value) -> Answer {
    let text = judge::verdict(seen, "APPROVE", 90, &json!([])).to_string();
    Answer::Raw(
        json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "judge-1",
            "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
            "usage": {"prompt_tokens": input, "completion_tokens": output}})
        .to_string(),
    )
}

#[tokio::test]
async fn false_token_counts_of_a_provider_break_no_cap() {
    let claims = [
        (json!(1_000_000_000_000_000_u64), json!(300)),
        (json!(900), json!(u64::MAX)),
        (json!(u64::MAX), json!(u64::MAX)),
        (json!(-5), json!(-7)),
        (json!(1e300), json!(1)),
        // Fewer than the hold in total, yet more output than permitted, at the higher price.
        (json!(10), json!(9_000)),
    ];
    let model = ModelServer::start(|seen| counted(seen, &json!(1), &json!(1))).await;
    let umbra = with_model(&model, ", max_usd_per_day: 0.2, max_tokens_per_day: 300000").await;
    let schema = &umbra.schema;
    for (input, output) in claims {
        let what = format!("{input} read and {output} written");
        model.set(move |seen| counted(seen, &input, &output));
        let asked = model.count();
        umbra.event(&event()).await;
        umbra.drain().await;
        assert_eq!(model.count(), asked + 1, "{what}: what came before has spent the day");
        let money: i64 = schema.one("SELECT max(held_usd + spent_usd) FROM meter WHERE agent = ''").await;
        let tokens: i64 = schema.one("SELECT max(held_tokens + spent_tokens) FROM meter WHERE agent = ''").await;
        assert!((1..=200_000_000).contains(&money), "{what}: {money} nano-dollars of 200,000,000");
        assert!((1..=300_000).contains(&tokens), "{what}: {tokens} tokens of 300,000");
        let beyond = "SELECT count(*) FROM provider_call WHERE actual_usd > hold_usd OR actual_tokens > hold_tokens";
        assert_eq!(schema.one::<i64>(beyond).await, 0, "{what}");
    }
    // Each of these is charged at its hold.
    model.set(|seen| counted(seen, &json!(u64::MAX), &json!(u64::MAX)));
    let left: i64 = schema.one("SELECT 200000000 - max(spent_usd) FROM meter WHERE agent = ''").await;
    let call: i64 = schema.one("SELECT max(hold_usd) FROM provider_call").await;
    for _ in 0..=left / call {
        umbra.event(&event()).await;
        umbra.drain().await;
    }
    let refused = "SELECT count(*) FROM event WHERE 18 = ANY(outcomes)";
    assert_eq!(schema.one::<i64>(refused).await, 1, "the day's money ends where its holds do");
}

#[tokio::test]
async fn impossible_token_count_is_reported_and_bounded() {
    let model = ModelServer::start(|seen| counted(seen, &json!(1_000_000_000_000_000_u64), &json!(300))).await;
    let umbra = with_model(&model, "").await;
    umbra.event(&event()).await;
    umbra.drain().await;
    let reviews = umbra.items("/v1/reviews").await;
    let review = &reviews[0];
    assert!(review["notes"].to_string().contains("more tokens than the prompt and the output limit allow"), "{review}");
    let hold: i64 = umbra.schema.one("SELECT hold_tokens FROM provider_call").await;
    assert!(review["usage"]["input"].as_i64().is_some_and(|tokens| (1..=hold).contains(&tokens)), "{review}");
    assert_eq!(review["usage"]["output"], 300, "what may be true stays: {review}");
    assert!(review["cost_usd"].as_f64().is_some_and(|usd| usd < 0.2), "{review}");
    let metrics = umbra.send(reqwest::Method::GET, "/metrics", &[], None).await.text;
    assert!(metrics.contains("umbra_provider_excessive_usage_total{model=\"judge\"} 1"), "{metrics}");
    assert!(umbra.log().contains("more tokens than the call allowed"), "{}", umbra.log());
}

#[tokio::test]
async fn retry_after_beyond_the_patience_ends_the_review_at_once() {
    // Patience ends after half an hour.
    let wait = [("retry-after", "7200")];
    let model = ModelServer::start(move |_| Answer::error_with(429, &wait, "rate_limit_error", "slow down")).await;
    let umbra = with_model(&model, "").await;
    let id = umbra.event(&event()).await["id"].as_str().unwrap_or_default().to_owned();
    let disposition = until("the review to be given up", async || {
        let stored = umbra.get(&format!("/v1/events/{id}")).await;
        (stored["dispositions"][0]["outcome"] == "skipped").then(|| stored["dispositions"][0].clone())
    })
    .await;
    assert_eq!(disposition["reason"], "provider_unavailable");
    assert_eq!(model.count(), 1);
}

#[tokio::test]
async fn abandoned_review_is_listed_as_failed_with_its_reason() {
    let model = ModelServer::start(|_| Answer::error(401, "authentication_error", "invalid x-api-key")).await;
    let umbra = with_model(&model, "").await;
    let accepted = umbra.event(&event()).await;
    umbra.drain().await;
    let stored = umbra.get(&format!("/v1/events/{}", accepted["id"].as_str().unwrap_or_default())).await;
    let disposition = &stored["dispositions"][0];
    assert_eq!((&disposition["outcome"], &disposition["reason"]), (&json!("skipped"), &json!("provider_unavailable")));
    let mut review = umbra.get(&format!("/v1/reviews/{}", disposition["review_id"].as_str().unwrap_or_default())).await;
    assert_eq!((&review["state"], &review["reason"]), (&json!("failed"), &json!("provider_unavailable")), "{review}");
    assert!(review["failure"].as_str().is_some_and(|why| why.contains("401")), "{review}");
    assert!(review["notes"].to_string().contains("unit returned"), "{review}");
    assert_eq!(review.as_object_mut().and_then(|review| review.remove("findings")), Some(json!([])));
    for list in ["/v1/reviews", "/v1/reviews?state=failed", "/v1/reviews?agent=a"] {
        assert_eq!(umbra.items(list).await, std::slice::from_ref(&review), "{list}");
    }
    assert_eq!(umbra.items("/v1/reviews?state=done").await.len(), 0);
    // On demand, the same end is still a refusal.
    let body = json!({"target": "a", "trigger": "error", "output": "the tests pass"});
    assert_eq!(umbra.post("/v1/reviews", &body).await.status, 503);
}

#[tokio::test]
async fn html_reply_costs_nothing_and_returns_unit_and_cooldown() {
    let calls = AtomicU32::new(0);
    let model = ModelServer::start(move |seen| match calls.fetch_add(1, Ordering::Relaxed) {
        0 => Answer::Raw("<html><title>Sign in</title></html>".to_owned()),
        _ => Answer::Json(judge::verdict(seen, "APPROVE", 90, &json!([]))),
    })
    .await;
    let shadows = shadows(", max_reviews_per_day: 1").replace("cooldown: 0s", "cooldown: 2h");
    let umbra = with_shadows(&model, &shadows).await;
    let first = umbra.event(&event()).await;
    umbra.drain().await;
    let id = first["dispositions"][0]["review_id"].as_str().unwrap_or_default();
    let review = umbra.get(&format!("/v1/reviews/{id}")).await;
    assert_eq!((&review["state"], &review["cost_usd"]), (&json!("failed"), &json!(0.0)), "{review}");
    assert!(review["failure"].as_str().is_some_and(|why| why.contains("a web page")), "{review}");
    let spent: i64 = umbra.schema.one("SELECT sum(actual_usd + actual_tokens)::bigint FROM provider_call").await;
    assert_eq!(spent, 0, "nobody charges for a page");
    let second = umbra.event(&event()).await;
    assert_eq!(second["dispositions"][0]["outcome"], "queued", "neither cooldown nor cap holds it back: {second}");
    umbra.drain().await;
    let third = umbra.event(&event()).await;
    assert_eq!(third["dispositions"][0]["reason"], "cooldown", "a review that was made keeps both: {third}");
}

#[tokio::test]
async fn failed_review_reports_the_cost_of_uncertain_calls() {
    let refusal = Answer::error(401, "authentication_error", "invalid x-api-key");
    let model = ModelServer::queue(vec![Answer::Drop, refusal]).await;
    let umbra = with_model(&model, "").await;
    let accepted = umbra.event(&event()).await;
    umbra.drain().await;
    let id = accepted["dispositions"][0]["review_id"].as_str().unwrap_or_default();
    let review = umbra.get(&format!("/v1/reviews/{id}")).await;
    assert_eq!(review["state"], "failed", "{review}");
    let spent: i64 = umbra.schema.one("SELECT sum(actual_usd)::bigint FROM provider_call").await;
    let cost = review["cost_usd"].as_f64().unwrap_or_default();
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of a cent")]
    let nano = (cost * 1e9).round() as i64;
    assert!(spent > 0 && nano == spent, "{review}");
    assert_eq!(umbra.items("/v1/reviews?state=failed").await[0]["cost_usd"], review["cost_usd"]);
}
