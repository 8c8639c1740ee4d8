//! The shipped example: agents that do their work can use it, others cannot; and the lists of tools that may be
//! offered.

use std::{fs, path::Path};

use serde_json::{Value, json};

use super::{RULES, tools};
use crate::support::Umbra;

/// Starts a server with the shipped sidecar file.
async fn with_the_example() -> Umbra {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/sidecar.example.yaml");
    Umbra::with().sidecar(&fs::read_to_string(file).unwrap_or_default()).go().await
}

#[tokio::test]
async fn researcher_must_record_findings_before_the_answer() {
    let umbra = with_the_example().await;
    // The route of the pattern's own parent, and one below it.
    for route in ["/research", "/research/prices"] {
        let attached = json!({"agent": "researcher-1", "task": "find the price", "route": route, "tools": tools(),
            "documents": {"notes": "# Notes\n\n## Findings\n"}});
        let id = umbra.attach(&attached).await;
        let search = json!({"tool": {"server": "search", "name": "search_code"}, "arguments": {"query": "price"}});
        let turn = umbra.turn(&id, &json!({"planned_calls": [search]})).await;
        assert_eq!(
            (&turn["decision"], &turn["decisions"][0]["decision"]),
            (&json!("allow"), &json!("allow")),
            "{turn}"
        );
        let found = json!({"role": "assistant", "content": "I look it up.", "tool_calls": [search],
            "results": [{"tool": "search.search_code", "content": "12 EUR"}]});
        assert_eq!(umbra.message(&id, &found).await["said"]["decision"], "allow");
        // Others may speak, the agent may not answer.
        let asks = json!({"role": "user", "content": "And?"});
        assert_eq!(umbra.message(&id, &asks).await["said"]["decision"], "allow");
        let answer = json!({"role": "assistant", "content": "It costs 12 EUR."});
        let held = umbra.message(&id, &answer).await;
        assert_eq!(
            (&held["said"]["decision"], &held["said"]["rule"]),
            (&json!("block"), &json!("findings-before-answers")),
            "{route}: {held}"
        );
        let path = format!("/v1/sessions/{id}/documents/notes");
        let headers = [("content-type", "text/markdown"), ("if-match", "*")];
        let text = "# Notes\n\n## Findings\n\n- It costs 12 EUR.\n";
        let put = umbra.send("PUT".parse().unwrap_or_default(), &path, &headers, Some(text.into())).await;
        assert_eq!(put.status.as_u16(), 200, "{}", put.text);
        assert_eq!(umbra.message(&id, &answer).await["said"]["decision"], "allow");
    }
    // A mail to a person goes out, one with a credential does not.
    for (text, decision) in [("Hello Anna.", "allow"), ("The key is AKIAQ7XJ3MZP4TVK2LWN.", "block")] {
        let call = json!({"tool": {"server": "mail", "name": "send_email"},
            "arguments": {"to": "anna.smith@gmail.com", "text": text}});
        let ruled = umbra.post("/v1/guard", &json!({"agent": "clerk", "call": call})).await.body;
        assert_eq!(ruled["decision"], decision, "{ruled}");
    }
}

#[tokio::test]
async fn each_tool_is_allowed_or_excluded_for_any_intent() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let id = umbra.attach(&json!({"agent": "a", "tools": tools()})).await;
    let names = |list: &Value| -> Vec<String> {
        let tools = list.as_array().into_iter().flatten();
        let name = |one: &Value| one.get("tool").unwrap_or(one)["name"].as_str().unwrap_or_default().to_owned();
        tools.map(name).collect()
    };
    let mut left = ["search_code", "edit_file", "send_email", "fetch"];
    left.sort_unstable();
    for (intent, ranked) in [("search the code", vec!["search_code"]), ("nothing of the kind", vec!["edit_file"])] {
        let turn = umbra.turn(&id, &json!({"intent": intent, "limit": 1})).await;
        let alone = umbra.post("/v1/tools/select", &json!({"session": id, "query": intent, "limit": 1})).await.body;
        for tools in [&turn["tools"], &alone] {
            let mut allowed = names(&tools["allowed"]);
            allowed.sort_unstable();
            assert_eq!(
                (names(&tools["ranked"]), allowed),
                (ranked.iter().map(ToString::to_string).collect(), left.iter().map(ToString::to_string).collect()),
                "{tools}"
            );
            assert_eq!(names(&tools["excluded"]), ["drop_table"], "{tools}");
        }
    }
    // Names that no tool has are reported; the others are included, in any spelling, except denied ones.
    let wanted = json!({"intent": "search the code", "limit": 1, "always_include": ["mail__send_email", "db.drop_table", "send_mail"]});
    let turn = umbra.turn(&id, &wanted).await;
    assert_eq!(names(&turn["tools"]["ranked"]), ["search_code", "send_email"], "{turn}");
    let warnings = turn["warnings"].to_string();
    assert!(warnings.contains("send_mail") && !warnings.contains("drop_table"), "{warnings}");
    // A label changes what may be offered.
    let fetched = json!({"role": "assistant", "tool_calls": [{"tool": {"server": "web", "name": "fetch"}}]});
    umbra.message(&id, &fetched).await;
    let turn = umbra.turn(&id, &json!({"intent": "search"})).await;
    assert_eq!(names(&turn["tools"]["excluded"]), ["drop_table", "send_email"], "{turn}");
}
