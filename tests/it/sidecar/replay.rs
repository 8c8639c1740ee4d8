//! A session judged again: the same by the same rules, different by others.

use serde_json::{Value, json};

use super::{RULES, tools};
use crate::support::Umbra;

#[tokio::test]
async fn replay_equals_the_session_and_reports_changed_rulings() {
    let umbra = Umbra::with().sidecar(RULES).go().await;
    let id = umbra
        .attach(&json!({"agent": "a", "tools": tools(), "documents": {"todo": "# Todo\n## Plan\n- [ ] one\n"}}))
        .await;
    let edit = json!({"tool": {"server": "files", "name": "edit_file"}, "arguments": {"path": "a"}});
    let drop_table = json!({"tool": {"server": "db", "name": "drop_table"}});
    umbra.turn(&id, &json!({"route": "edit", "planned_calls": [edit, drop_table]})).await;
    let edits = json!({"edits": [{"op": "append_item", "section": "plan", "text": "two"}]});
    let path = format!("/v1/sessions/{id}/documents/todo");
    assert_eq!(umbra.document("PATCH", &path, None, &edits).await.status.as_u16(), 200);
    umbra.turn(&id, &json!({"route": "edit", "planned_calls": [edit]})).await;
    umbra.message(&id, &json!({"role": "assistant", "content": "done", "tool_calls": [edit], "results": [{"tool": "files.edit_file", "content": "ok"}]})).await;
    umbra.post("/v1/guard", &json!({"session": id, "call": drop_table})).await;
    let by = |rules: &str, command: &[&str]| {
        let file = umbra.file("again.yaml");
        std::fs::write(&file, rules).unwrap_or_default();
        let name = file.display().to_string();
        let command = [&["sidecar"], command, &["--json"]].concat();
        let said = umbra.cli_in(&[("UMBRA__SIDECAR__PATH", &name)], &command, None);
        let told: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        (said.status.code(), told)
    };
    let again = |rules: &str| by(rules, &["replay", &id]);
    // Of all sessions, latest first: those that other rules would have judged differently.
    let other = umbra.attach(&json!({"agent": "b", "tools": tools()})).await;
    umbra.turn(&other, &json!({"planned_calls": [{"tool": "web.fetch"}]})).await;
    let (code, all) = by(RULES, &["backtest"]);
    let of = |all: &Value| -> Vec<(String, usize)> {
        let told = |one: &Value| {
            let differences = one["differences"].as_array().map_or(0, Vec::len);
            (one["session"].as_str().unwrap_or_default().to_owned(), differences)
        };
        all.as_array().map(|all| all.iter().map(told).collect()).unwrap_or_default()
    };
    assert_eq!((code, of(&all)), (Some(0), vec![(other.clone(), 0), (id.clone(), 0)]), "{all}");
    let (code, all) = by(&RULES.replace("web.fetch, verdict: allow", "web.fetch, verdict: warn"), &["backtest"]);
    assert_eq!((code, of(&all)), (Some(1), vec![(other, 1), (id.clone(), 0)]), "{all}");
    let (code, same) = again(RULES);
    assert_eq!(
        (code, &same["differences"], &same["unreadable"], &same["steps"]),
        (Some(0), &json!([]), &json!([]), &json!(4)),
        "{same}"
    );
    // In the first turn the plan was due as well.
    assert_eq!(same["rulings"], 8, "{same}");
    let (code, later) = again(&RULES.replace("since: session, verdict: block", "since: session, verdict: warn"));
    assert_eq!(code, Some(1), "{later}");
    let first = &later["differences"][0];
    assert_eq!(
        (&first["part"], &first["then"], &first["now"]),
        (
            &json!("turn"),
            &json!("block, due: todo (plan) by plan-first (block)"),
            &json!("warn, due: todo (plan) by plan-first (warn)")
        ),
        "{later}"
    );
    let (code, other) = again(&RULES.replace(
        "{name: no-drop, tools: db.drop_table, verdict: block",
        "{name: no-drop, tools: db.drop_table, verdict: warn",
    ));
    assert_eq!(code, Some(1), "{other}");
    let told: Vec<(&Value, &Value, &Value)> = other["differences"]
        .as_array()
        .map(|all| all.iter().map(|one| (&one["step"], &one["then"], &one["now"])).collect())
        .unwrap_or_default();
    // In the first turn the plan was due for every call: that still blocks.
    assert_eq!(
        told.last(),
        Some(&(&json!(4), &json!("block by no-drop (rule)"), &json!("warn by no-drop (rule)"))),
        "{other}"
    );
    // A question that names another route is judged on that one, now as then.
    umbra.post("/v1/guard", &json!({"session": id, "route": "answer", "call": edit})).await;
    let (code, same) = again(RULES);
    assert_eq!((code, &same["steps"]), (Some(0), &json!(5)), "{same}");
    // A step that was changed in the database is no record any more.
    umbra.schema.run("UPDATE sidecar_step SET body = replace(body, 'drop_table', 'list_table') WHERE number = 4").await;
    let (_, changed) = again(RULES);
    assert_eq!(changed["unreadable"], json!([4]), "{changed}");
    umbra.schema.run("UPDATE sidecar_step SET body = replace(body, 'block', 'allow') WHERE number = 1").await;
    umbra.schema.run("DELETE FROM sidecar_step WHERE number = 3").await;
    let (code, changed) = again(RULES);
    assert_eq!(
        (code, &changed["unreadable"], &changed["missing"]),
        (Some(1), &json!([1, 4]), &json!([3])),
        "{changed}"
    );
    umbra.schema.run("DELETE FROM sidecar_step WHERE number <> 2").await;
    let (_, changed) = again(RULES);
    assert_eq!(changed["missing"], json!([1, 3]), "{changed}");
}
