//! Profiles that list a part of their tools.

use serde_json::{Value, json};

use super::{
    SERVE,
    client::{Client, text},
    folder,
    http::{message, modern, names},
    scripted, settings,
};
use crate::support::Umbra;

const OURS: [&str; 2] = ["search_tools", "call_tool"];
/// The task "write down a note".
const TASK: &str = "/mcp/notes?task=write%20down%20a%20note";

/// Returns settings of the profile `notes` with limits of its list.
fn selecting(folder: &tempfile::TempDir, select: &str) -> String {
    settings(folder.path(), false, "") + &format!("      select: {select}\n")
}

async fn list(umbra: &Umbra, path: &str) -> Value {
    message(&modern(umbra, path, &[], "tools/list", json!({})).await)
}

async fn call(umbra: &Umbra, tool: &str, arguments: Value) -> Value {
    message(&modern(umbra, "/mcp/notes", &[], "tools/call", json!({"name": tool, "arguments": arguments})).await)
}

/// Returns the names of the tools that a search finds.
async fn found(umbra: &Umbra, arguments: Value) -> Vec<String> {
    let said = call(umbra, "search_tools", arguments).await;
    let tools = said["result"]["structuredContent"]["tools"].as_array().expect("tools");
    assert_eq!(
        serde_json::from_str::<Value>(&text(&said["result"])).ok().as_ref(),
        Some(&said["result"]["structuredContent"])
    );
    assert!(
        tools.iter().all(|tool| tool["inputSchema"]["type"] == "object" && tool["description"].is_string()),
        "{said}"
    );
    tools.iter().filter_map(|tool| tool["name"].as_str().map(ToOwned::to_owned)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn profile_with_select_lists_tools_that_fit_the_task() {
    let folder = folder();
    let select = "{limit: 2, always_include: [slow, \"files.get_p*\", no_such_tool]}";
    let umbra = Umbra::with().settings(&selecting(&folder, select)).go().await;
    let listed = list(&umbra, TASK).await;
    let seen = names(&listed);
    let always = ["get_progress", "slow"];
    assert!(seen.ends_with(&OURS.map(str::to_owned)), "{seen:?}");
    assert!(seen.contains(&"write_note".to_owned()) && always.iter().all(|tool| seen.contains(&(*tool).to_owned())));
    assert_eq!(seen.len(), 2 + always.len() + OURS.len(), "{seen:?}");
    assert_eq!(names(&list(&umbra, TASK).await), seen, "the order is stable");
    let says = listed["result"]["tools"][4]["description"].as_str().unwrap_or_default();
    assert!(says.contains(&format!("9 of the {} tools", scripted::TOOLS)), "{says}");
    // Without a task only the constant tools are listed.
    assert_eq!(names(&list(&umbra, "/mcp/notes").await), [&always[..], &OURS].concat());
    assert!(umbra.log().contains("no_such_tool"), "{}", umbra.log());

    let session = json!({"agent": "writer", "task": "write down a note"});
    let session = umbra.post("/v1/sessions", &session).await.body["session"]["id"].as_str().expect("an id").to_owned();
    assert_eq!(names(&list(&umbra, &format!("/mcp/notes?session={session}")).await), seen, "the task of the session");
    let theirs = list(&umbra, &format!("/mcp/notes?agent=other&session={session}")).await;
    assert_eq!(names(&theirs), [&always[..], &OURS].concat(), "not that of another agent");
    for task in ["", "%20", &"a".repeat(4097)] {
        let refused = modern(&umbra, &format!("/mcp/notes?task={task}"), &[], "tools/list", json!({})).await;
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert!(refused.text.contains("1 to 4096 bytes"), "{}", refused.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unlisted_tool_is_found_by_search_and_called_by_name() {
    let folder = folder();
    let tools = "policies:\n  - {name: no-storms, tools: [\"*_storm\"], verdict: block, reason: too loud}\n";
    let umbra = Umbra::with().settings(&selecting(&folder, "{limit: 0}")).tools(tools).go().await;
    assert_eq!(names(&list(&umbra, TASK).await), OURS);
    assert_eq!(found(&umbra, json!({"query": "write a note down", "limit": 1})).await, ["write_note"]);
    let all = found(&umbra, json!({"query": "reads a note and says very much", "limit": 50})).await;
    assert!(all.contains(&"get_garbage".to_owned()), "{all:?}");
    assert!(!all.contains(&"get_storm".to_owned()), "what is denied is not found: {all:?}");
    assert_eq!(found(&umbra, json!({"query": "qxzzy"})).await.len(), 0);

    let written = call(&umbra, "call_tool", json!({"name": "write_note", "arguments": {"name": "b"}})).await;
    assert_eq!((text(&written["result"]).as_str(), scripted::notes(folder.path()).len()), ("written", 2), "{written}");
    let read = call(&umbra, "read_note", json!({"name": "b"})).await;
    assert_eq!(text(&read["result"]), "written", "by its own name: {read}");
    let denied = call(&umbra, "call_tool", json!({"name": "get_storm"})).await;
    assert!(text(&denied["result"]).contains("too loud"), "{denied}");
    let audit = umbra.audit("kind=decision").await;
    let decided: Vec<&str> = audit.iter().filter_map(|row| row["tool"].as_str()).collect();
    assert_eq!(decided, ["files.write_note", "files.read_note", "files.get_storm"], "our own tools decide nothing");

    for (tool, arguments, says) in [
        ("search_tools", json!({}), "query"),
        ("search_tools", json!({"query": " "}), "blank"),
        ("search_tools", json!({"query": "a".repeat(4097)}), "4096 bytes"),
        ("search_tools", json!({"query": "a", "limit": 0}), "from 1 to 50"),
        ("search_tools", json!({"query": "a", "limit": 51}), "from 1 to 50"),
        ("search_tools", json!({"query": "a", "top": 5}), "top"),
        ("call_tool", json!({"arguments": {}}), "name"),
        ("call_tool", json!({"name": "read_note", "arguments": "{}"}), "an object"),
    ] {
        let said = call(&umbra, tool, arguments).await;
        assert_eq!(said["result"]["isError"], true, "{said}");
        assert!(text(&said["result"]).contains(says), "{says}: {said}");
    }
    for name in ["write_notes", "call_tool", "search_tools", ""] {
        let said = call(&umbra, "call_tool", json!({"name": name})).await;
        assert!(
            said["error"]["message"].as_str().is_some_and(|words| words.contains("search_tools")),
            "{name}: {said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn call_tool_in_shadow_writes_nothing() {
    let folder = folder();
    let umbra = Umbra::with().settings(&selecting(&folder, "{limit: 1}")).env("AGENT_SAFE_MODE", "1").go().await;
    let said = call(&umbra, "call_tool", json!({"name": "write_note", "arguments": {"name": "b"}})).await;
    assert!(text(&said["result"]).contains("no_contract"), "{said}");
    assert_eq!(scripted::notes(folder.path()), ["a.note"]);
    let read = call(&umbra, "call_tool", json!({"name": "list_notes"})).await;
    assert_eq!(read["result"]["structuredContent"], json!({"notes": ["a.note"]}), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_profile_with_few_tools_lists_them_all() {
    let folder = folder();
    let select = format!("{{limit: {}}}", scripted::TOOLS);
    let umbra = Umbra::with().settings(&selecting(&folder, &select)).go().await;
    assert_eq!(names(&list(&umbra, "/mcp/notes").await).len(), scripted::TOOLS);
    let said = call(&umbra, "search_tools", json!({"query": "write"})).await;
    assert!(said["error"]["message"].as_str().is_some_and(|words| words.contains("tool not found")), "{said}");
    for (wrong, says) in [
        ("{}", "limit"),
        ("{limit: 501}", "from 0 to 500"),
        ("{limit: 1, always_include: [\"a b\"]}", "without spaces"),
        ("{limit: 1, top: 1}", "top"),
    ] {
        std::fs::write(umbra.file("umbra.yaml"), selecting(&folder, wrong)).expect("a file");
        let checked = umbra.cli(&["check"], None);
        let said = String::from_utf8_lossy(&checked.stderr).into_owned() + &String::from_utf8_lossy(&checked.stdout);
        assert!(!checked.status.success() && said.contains(says), "{wrong}: {said}");
    }
    std::fs::write(umbra.file("umbra.yaml"), selecting(&folder, &select)).expect("a file");
}

#[tokio::test(flavor = "multi_thread")]
async fn select_options_choose_tools_over_standard_input() {
    let folder = folder();
    let umbra = Umbra::with().settings(&settings(folder.path(), false, "")).go().await;
    for is_modern in [false, true] {
        let args = [&SERVE[..], &["--select", "1", "--task", "write down a note"]].concat();
        let mut client = Client::start(&umbra, &[], &args, is_modern);
        let listed = client.ask("tools/list", json!({}));
        assert_eq!(names(&listed), [&["write_note"][..], &OURS].concat(), "{listed}");
        let found = client.call("search_tools", &json!({"query": "list the notes", "limit": 1}));
        assert_eq!(found["structuredContent"]["tools"][0]["name"], "list_notes", "{found}");
        let called = client.call("call_tool", &json!({"name": "read_note", "arguments": {"name": "a"}}));
        assert_eq!(text(&called), "hello", "{called}");
        assert!(client.leave());
    }
}
