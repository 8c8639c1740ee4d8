//! CHECKED: where no model was due and the built-in checks found nothing, every answer says so and none says APPROVE.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{
    Umbra,
    judge::verdict,
    model_server::{Answer, ModelServer},
    until,
};

/// The alias has no key here: the shadow runs on the built-in checks.
const KEYLESS: &str = "
shadow_agents:
  - {name: keyless, model: haiku, mode: review, watch: [{agent: '*', triggers: [task_complete]}],
     cost_control: {cooldown: 0s}}
";
const FALSE_BUT_CLEAN: &str = "The capital of France is Berlin.";

fn event() -> Value {
    json!({"agent": "writer", "task_id": "t-1", "task": "name the capital of France", "output": FALSE_BUT_CLEAN,
        "triggers": ["task_complete"]})
}

#[tokio::test]
async fn event_without_a_model_review_is_checked_in_every_answer() {
    let umbra = Umbra::with().shadows(KEYLESS).go().await;
    let accepted = umbra.event(&event()).await;
    umbra.drain().await;
    let id = accepted["dispositions"][0]["review_id"].as_str().unwrap_or_default();
    let review = umbra.get(&format!("/v1/reviews/{id}")).await;
    assert_eq!(
        (&review["assessment"], &review["score"], &review["reviewer"]),
        (&json!("CHECKED"), &Value::Null, &json!("checks")),
        "{review}"
    );
    let advice = review["recommendation"].as_str().unwrap_or_default();
    assert!(advice.ends_with("No model judged relevance, facts and completeness."), "{review}");
    assert_eq!(umbra.items("/v1/reviews?assessment=CHECKED").await.len(), 1);
    assert_eq!(umbra.items("/v1/reviews?assessment=APPROVE").await.len(), 0);
    assert_eq!(umbra.items("/v1/observations").await[0]["assessment"], "CHECKED");
    assert_eq!(umbra.get("/v1/status").await["shadows"][0]["checked_today"], 1);
    let task = umbra.get("/v1/trajectories/t-1").await;
    assert_eq!((&task["assessment"], &task["coverage"]["checked"]), (&json!("CHECKED"), &json!(1)), "{task}");
    let metrics = umbra.send(Method::GET, "/metrics", &[], None).await.text;
    assert!(
        metrics.contains(r#"umbra_reviews_total{shadow="keyless",assessment="CHECKED",reviewer="checks"} 1"#),
        "{metrics}"
    );
    let page = umbra.send(Method::GET, &format!("/v1/reviews/{id}"), &[("accept", "text/markdown")], None).await;
    assert!(page.text.contains("\n- Assessment: CHECKED\n- Reviewer: built-in checks\n"), "{}", page.text);
    let sarif = umbra.get("/v1/findings.sarif").await;
    let note = &sarif["runs"][0]["invocations"][0]["toolExecutionNotifications"][0];
    assert!(note["message"]["text"].as_str().is_some_and(|text| text.contains("without a model: keyless.")), "{sarif}");
    let day = umbra.get("/v1/status").await["shadows"][0]["day"].clone();
    let path = format!("/v1/briefings/{}", day.as_str().unwrap_or_default());
    let totals = umbra.get(&path).await["totals"]["assessments"].clone();
    assert_eq!((&totals["CHECKED"], &totals["APPROVE"]), (&json!(1), &json!(0)), "{totals}");
    let page = umbra.send(Method::GET, &path, &[("accept", "text/markdown")], None).await.text;
    assert!(page.contains("- 1 review made by the built-in checks alone, which found nothing (CHECKED)."), "{page}");
}

#[tokio::test]
async fn command_line_shows_checked_and_fails_on_it_on_request() {
    let umbra = Umbra::with().shadows(KEYLESS).go().await;
    let review = |more: &[&str]| {
        let args = [&["review", "--target", "writer", "--trigger", "task_complete"], more].concat();
        let output = umbra.cli(&args, Some(FALSE_BUT_CLEAN));
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    for (more, code) in [
        (&[] as &[&str], 0),
        (&["--fail-on", "flag"], 0),
        (&["--fail-on", "inconclusive"], 0),
        (&["--fail-on", "checked"], 1),
        (&["--fail-on", "approve"], 2),
    ] {
        let (ended, text) = review(more);
        assert_eq!(ended, Some(code), "{more:?}: {text}");
        assert_eq!(text.starts_with("CHECKED  by keyless (built-in checks)"), code < 2, "{text}");
    }
    let status = umbra.cli(&["status"], None);
    let text = String::from_utf8_lossy(&status.stdout);
    assert!(text.contains("4 (4 checked, not judged)"), "{text}");
    let quiet = KEYLESS.replace("triggers: [task_complete]", "triggers: [error]");
    let shadows = umbra.file("quiet.yaml");
    std::fs::write(&shadows, quiet).expect("a file");
    let missed = json!({"agent": "writer", "output": "All three parts are complete.", "triggers": ["error"]});
    umbra.event(&missed).await;
    let batch = umbra.cli(&["batch", "--shadows", &shadows.display().to_string()], None);
    let (table, said) = (String::from_utf8_lossy(&batch.stdout), String::from_utf8_lossy(&batch.stderr));
    assert_eq!(batch.status.code(), Some(0), "{said}");
    assert!(table.contains("CHECKED rev_") && said.contains("1 CHECKED: only the built-in checks"), "{table}{said}");
}

#[tokio::test]
async fn model_reply_of_checked_is_inconclusive() {
    let model = ModelServer::start(|seen| Answer::Json(verdict(seen, "CHECKED", 90, &json!([])))).await;
    let settings = format!("models:\n  judge: {{provider: openai, name: j, base_url: '{}'}}\n", model.openai_url());
    let umbra = Umbra::with().shadows(&KEYLESS.replace("haiku", "judge")).settings(&settings).go().await;
    umbra.event(&event()).await;
    umbra.drain().await;
    let review = umbra.items("/v1/reviews").await.remove(0);
    assert_eq!((&review["assessment"], model.count()), (&json!("INCONCLUSIVE"), 2), "it is asked once more: {review}");
    assert!(review["notes"].to_string().contains("its `assessment` is not one of APPROVE"), "{review}");
}

#[tokio::test]
async fn stored_approval_of_the_checks_is_migrated_to_checked() {
    let mut umbra = Umbra::with().shadows(KEYLESS).go().await;
    umbra.event(&event()).await;
    umbra.drain().await;
    assert!(umbra.stop().success());
    // As the previous version wrote it.
    umbra.schema.run("UPDATE review_result SET assessment = 'APPROVE'").await;
    umbra.schema.run("DELETE FROM _sqlx_migrations WHERE description = 'checked'").await;
    umbra.schema.run("ALTER TABLE verdict DROP COLUMN decided_by").await;
    let umbra = Umbra::with().shadows(KEYLESS).on(&umbra.schema).go().await;
    let review = until("the review", async || umbra.items("/v1/reviews?state=done").await.into_iter().next()).await;
    assert_eq!(review["assessment"], "CHECKED", "{review}");
}
