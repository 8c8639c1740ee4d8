//! Tools whose texts try to act, over the wire: beside each of them a session gets the same answers as beside an honest
//! one.

use serde_json::{Value, json};

use super::tools;
use crate::support::Umbra;

/// Poisoned tools, one a line; the unit tests describe them (`crates/sidecar/src/tools/tests/poison.rs`).
const SET: &str = include_str!("../../data/poisoned_tools.jsonl");

const RULES: &str = "
policies:
  - {name: no-sending, tools: send_*, verdict: block, reason: nothing is sent from here}
  - {name: careful, tools: files.*, verdict: warn, reason: files are the user's}
documents:
  - {name: plan-first, routes: edit, document: todo, section: plan, needs: updated, since: session, verdict: warn, reason: plan before you edit}
";

/// Returns a poisoned tool as a server lists it, and an honest one of its name.
fn listed(row: &Value) -> [Value; 2] {
    let times = usize::try_from(row["times"].as_u64().unwrap_or(1)).unwrap_or(1);
    let description = row["description"].as_str().unwrap_or_default().repeat(times);
    let schema = row.get("honestSchema").cloned().unwrap_or(json!({"type": "object"}));
    let honest = row["honest"].as_str().unwrap_or("Does something else entirely.");
    let tool = |description: &str, schema: &Value| {
        json!({"server": row["server"], "name": row["name"], "description": description, "inputSchema": schema,
            "annotations": {"readOnlyHint": true}})
    };
    [tool(&description, &row["inputSchema"]), tool(honest, &schema)]
}

/// Returns all answers to a session with this tool beside the benign ones.
async fn told(umbra: &Umbra, tool: &Value) -> Vec<Value> {
    let mut all = tools().as_array().cloned().unwrap_or_default();
    all.push(tool.clone());
    let session = json!({"agent": "a", "tools": all, "documents": {"todo": "# Todo\n\n## Plan\n\n- [ ] one\n"}});
    let attached = umbra.post("/v1/sessions", &session).await;
    assert_eq!(attached.status.as_u16(), 201, "{}", attached.body);
    let id = attached.body["session"]["id"].as_str().unwrap_or_default().to_owned();
    let own = json!({"tool": {"server": tool["server"], "name": tool["name"]}, "arguments": {}});
    let planned = json!([{"tool": "search.search_code"}, {"tool": "mail.send_email", "arguments": {"to": "x@y.example"}},
        {"tool": "files.edit_file"}, own]);
    let mut said = vec![attached.body];
    for intent in ["search the code for the date bug", "edit the file", "fetch a page and send an email about it"] {
        said.push(
            umbra.turn(&id, &json!({"route": "edit", "intent": intent, "planned_calls": planned, "limit": 100})).await,
        );
        let select = json!({"session": id, "query": intent, "limit": 100});
        said.push(umbra.post("/v1/tools/select", &select).await.body);
    }
    for call in planned.as_array().into_iter().flatten() {
        said.push(umbra.post("/v1/guard", &json!({"session": id, "call": call})).await.body);
    }
    said.push(umbra.message(&id, &json!({"role": "assistant", "content": "Done.", "tool_calls": planned})).await);
    said.push(umbra.post(&format!("/v1/sessions/{id}/close"), &json!({})).await.body);
    said
}

/// Removes what distinguishes sessions from an answer: names and times, digests of tools and requests, the tool itself
/// where tools are listed in order, and the scores of other tools and the confidence, which are relative to all tools.
fn decided(mut answer: Value, tool: &Value) -> String {
    if let Some(session) = answer["session"].as_object_mut() {
        for name in ["id", "chain", "tools_digest", "opened_at", "seen_at", "closed_at"] {
            session.remove(name);
        }
    }
    if let Some(answer) = answer.as_object_mut() {
        answer.remove("inputs");
        answer.remove("id");
    }
    for path in ["", "/tools"] {
        if let Some(choice) = answer.pointer_mut(path).and_then(Value::as_object_mut) {
            choice.remove("confidence");
        }
        for list in ["ranked", "excluded"] {
            if let Some(Value::Array(all)) = answer.pointer_mut(&format!("{path}/{list}")) {
                all.retain(|one| one["tool"]["name"] != tool["name"] || one["tool"]["server"] != tool["server"]);
                for one in all.iter_mut().filter_map(Value::as_object_mut) {
                    one.remove("score");
                }
            }
        }
    }
    answer.to_string()
}

/// Returns the texts of a tool that no answer may contain: its description, and the names and descriptions of its
/// parameters.
fn texts(tool: &Value) -> Vec<String> {
    let parameters = tool["inputSchema"]["properties"].as_object().into_iter().flatten();
    let said = parameters.flat_map(|(name, one)| [Some(name.as_str()), one["description"].as_str()]);
    said.chain([tool["description"].as_str()]).flatten().map(ToOwned::to_owned).collect()
}

#[tokio::test]
async fn fifty_poisoned_tools_change_no_decision_and_are_never_repeated() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let mut count = 0;
    for line in SET.lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_default();
        let [poisoned, honest] = listed(&row);
        let (with, without) = (told(&umbra, &poisoned).await, told(&umbra, &honest).await);
        for (one, other) in with.iter().zip(&without) {
            assert_eq!(decided(one.clone(), &poisoned), decided(other.clone(), &poisoned), "{line:.200}");
        }
        let answers = with.iter().map(ToString::to_string).collect::<String>();
        for text in texts(&poisoned) {
            let chars: Vec<char> = text.chars().collect();
            for part in chars.windows(24.min(chars.len().max(1))).step_by(8).filter(|part| part.len() > 8) {
                let part: String = part.iter().collect();
                assert!(!answers.contains(&part), "{part:?} comes back: {line:.200}");
            }
        }
        // The rules hold.
        assert_eq!(
            (&with[1]["decisions"][1]["rule"], &with[1]["decisions"][1]["decision"]),
            (&json!("no-sending"), &json!("block"))
        );
        assert!(with.iter().all(|one| !one["ranked"].to_string().contains("send_email")), "{line:.200}");
        count += 1;
    }
    assert_eq!(count, 50);
}
