//! The sidecar beside a coding agent: advice with a prompt, and a turn that does not end before its documents are in
//! order.

use serde_json::json;

use super::claude;
use crate::support::Umbra;

const RULES: &str = "documents:
  - name: notes-first
    document: notes
    of: message
    needs: exists
    verdict: block
    reason: Write your findings into notes.
  - name: plan-first
    document: plan
    of: turn
    needs: exists
    verdict: warn
    reason: Plan before you start.
";

#[tokio::test]
async fn prompt_comes_with_due_documents_and_with_what_worked_before() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let pattern = json!({"agent": "claude-code", "task": "fix the date bug", "outcome": "succeeded",
        "tools": [{"server": "search", "name": "search_code"}, {"name": "Edit"}]});
    let recorded = umbra.post("/v1/patterns", &pattern).await;
    assert!(recorded.status.is_success(), "{}", recorded.text);
    let prompt = claude("UserPromptSubmit", &json!({"prompt": "fix the date bug"}));
    let answer = umbra.hook("claude-code", "observe", &prompt).await;
    let said = &answer["hookSpecificOutput"];
    let text = said["additionalContext"].as_str().unwrap_or_default();
    assert_eq!(said["hookEventName"], "UserPromptSubmit");
    assert!(text.contains("Plan before you start") && text.contains("search.search_code, Edit"), "{answer}");
    let sessions = umbra.items("/v1/sessions").await;
    assert_eq!((sessions.len(), &sessions[0]["agent"]), (1, &json!("claude-code")), "{sessions:?}");
    // A second prompt goes on in the same session.
    umbra.hook("claude-code", "observe", &prompt).await;
    assert_eq!(umbra.items("/v1/sessions").await.len(), 1);
}

#[tokio::test]
async fn end_of_a_turn_is_held_three_times_at_most_and_only_where_the_operator_asks() {
    let stop = claude("Stop", &json!({"last_assistant_message": "Done."}));
    for (setting, mode, held) in [("hold", "enforce", 3), ("hold", "observe", 0), ("advise", "enforce", 0)] {
        let umbra = Umbra::with().sidecar(RULES).settings(&format!("sidecar: {{hooks: {setting}}}\n")).go().await;
        umbra.hook("claude-code", mode, &claude("UserPromptSubmit", &json!({"prompt": "look into it"}))).await;
        let mut answers = Vec::new();
        for _ in 0..5 {
            answers.push(umbra.hook("claude-code", mode, &stop).await);
        }
        let blocks = answers.iter().filter(|answer| answer["decision"] == "block").count();
        assert_eq!(blocks, held, "{setting}, {mode}: {answers:?}");
        if held > 0 {
            assert!(answers[0]["reason"].as_str().is_some_and(|reason| reason.contains("findings into notes")));
            // The rulings of the sidecar are events, too.
            let events = umbra.events_of("claude-code").await;
            let ends = events.iter().filter(|event| event["metadata"]["hook"].is_object()).count();
            assert_eq!(ends, 1, "a held turn has not ended, and the same end is one event");
        }
    }
}

#[tokio::test]
async fn without_a_sidecar_file_a_prompt_has_no_answer_and_no_session() {
    let umbra = Umbra::with().go().await;
    let prompt = claude("UserPromptSubmit", &json!({"prompt": "fix the date bug"}));
    assert_eq!(umbra.hook("claude-code", "enforce", &prompt).await, json!({}));
    assert_eq!(umbra.items("/v1/sessions").await.len(), 0);
}
