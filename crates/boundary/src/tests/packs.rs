//! Tests of packs: contracts of well-known servers, against the lists of tools that those servers gave.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    contract::faults,
    overlay::{OverlayAnswer, merge},
    stub::{RunState, SharedMint, StubError, sample},
    tools::{CallInput, Tools, begin},
};
use umbra_config::tools::{ToolsFileValidators, load, packs};
use umbra_domain::{Call, Effect, EffectSource, ToolDeclarations, ToolName};

/// A tool of a server that a pack is for.
#[derive(Deserialize)]
struct Listed {
    server: String,
    tool: String,
    input_schema: Value,
}

/// Tools that a pack leaves to the classifier: their answers do not follow from their arguments.
const LEFT_OUT: [&str; 8] = [
    "browser_drop",
    "browser_evaluate",
    "browser_run_code_unsafe",
    "browser_tabs",
    "create_filter",
    "create_filter_from_template",
    "download_attachment",
    "update_label",
];

fn rules() -> ToolsFileValidators<'static> {
    ToolsFileValidators { contract: &faults, condition: &|_| Ok(()) }
}

fn tools(file: &str) -> Tools {
    let file = load("tools.yaml", file, rules()).map_or_else(|_| ToolDeclarations::default(), |loaded| loaded.value);
    Tools::compile(file, packs(rules()).unwrap_or_else(|report| panic!("{report}"))).unwrap()
}

fn call(server: &str, tool: &str, arguments: Value) -> Call {
    let Value::Object(arguments) = arguments else { panic!("no arguments") };
    Call {
        call_id: "c".to_owned(),
        seed: Some("seed".to_owned()),
        by_proxy: true,
        server_name: Some(server.to_owned()),
        ..Call::new("a".to_owned(), ToolName::of("mcp", tool), arguments)
    }
}

/// A run of a server's tools in shadow.
struct Rehearsal<'a> {
    tools: &'a Tools,
    server: &'a str,
    state: RunState,
}

impl<'a> Rehearsal<'a> {
    fn of(tools: &'a Tools, server: &'a str) -> Self {
        let state = begin(&call(server, "t", json!({})), Timestamp::UNIX_EPOCH);
        Self { tools, server, state }
    }

    fn writes(&mut self, tool: &str, arguments: Value) -> Result<Value, StubError> {
        let call = call(self.server, tool, arguments);
        assert_ne!(self.tools.effect(&call).effect, Effect::Read, "{tool}");
        let args = Value::Object(call.arguments.clone());
        let given = CallInput { call: &call, args: &args, recorded: &[] };
        self.tools.stub(given, &mut self.state).map(|stub| stub.result)
    }

    /// Returns the result of a read that runs and gives `live`.
    fn reads(&mut self, tool: &str, arguments: Value, live: Value) -> Value {
        let call = call(self.server, tool, arguments);
        assert_eq!(self.tools.effect(&call).effect, Effect::Read, "{tool}");
        let args = Value::Object(call.arguments.clone());
        let given = CallInput { call: &call, args: &args, recorded: &[] };
        match self.tools.remembered(given, &mut self.state).unwrap() {
            OverlayAnswer::Live => live,
            OverlayAnswer::Stub(stub) => stub.result,
            OverlayAnswer::Merge(merged) => merge(live, &merged),
        }
    }
}

#[test]
fn every_listed_tool_is_a_read_or_has_a_stub() {
    let tools = tools("");
    let mut left_out = Vec::new();
    for line in include_str!("../../../../tests/data/pack_tools.jsonl").lines() {
        let Listed { server, tool, input_schema } = serde_json::from_str(line).unwrap();
        let mint = SharedMint::of(&RunState::seeded("arguments", None));
        let arguments = sample(&input_schema, &Value::Object(Map::new()), &mint).unwrap();
        let call = call(&server, &tool, arguments);
        if tools.contract(&call).is_none() {
            left_out.push(tool);
            continue;
        }
        let rated = tools.effect(&call);
        let args = Value::Object(call.arguments.clone());
        let mut state = begin(&call, Timestamp::UNIX_EPOCH);
        let stub = tools.stub(CallInput { call: &call, args: &args, recorded: &[] }, &mut state);
        let is_answered = stub.as_ref().is_ok_and(|stub| !stub.result.is_null());
        let reads = rated.effect == Effect::Read || rated.source == EffectSource::Arguments;
        assert!(reads || is_answered, "{server} {tool} {args}: {stub:?}");
    }
    left_out.sort();
    assert_eq!(left_out, LEFT_OUT);
}

#[test]
fn rehearsed_writes_edits_and_moves_of_files_are_read_back() {
    let tools = tools("");
    let mut run = Rehearsal::of(&tools, "secure-filesystem-server");
    let text = |content: &str| json!({"content": content});
    let written = run.writes("write_file", json!({"path": "/d/new.txt", "content": "one\ntwo\nthree"})).unwrap();
    assert_eq!(written, text("Successfully wrote to /d/new.txt"));
    let gone = json!({"error": "ENOENT"});
    let read = |run: &mut Rehearsal<'_>, path: &str| run.reads("read_text_file", json!({"path": path}), gone.clone());
    assert_eq!(read(&mut run, "/d/x/../new.txt"), text("one\ntwo\nthree"));
    assert_eq!(run.reads("read_text_file", json!({"path": "/d/new.txt", "tail": 1}), json!(1)), text("three"));
    let edits = json!([{"oldText": "two", "newText": "2"}]);
    run.writes("edit_file", json!({"path": "/d/new.txt", "edits": edits, "dryRun": true})).unwrap();
    assert_eq!(read(&mut run, "/d/new.txt"), text("one\ntwo\nthree"), "a dry run edits nothing");
    let diff = run.writes("edit_file", json!({"path": "/d/new.txt", "edits": edits})).unwrap();
    assert!(diff["content"].as_str().is_some_and(|diff| diff.contains("-two\n+2\n")), "{diff}");
    assert_eq!(read(&mut run, "/d/new.txt"), text("one\n2\nthree"));
    let absent = run.writes("edit_file", json!({"path": "/d/new.txt", "edits": edits})).unwrap_err();
    assert!(absent.to_string().contains("not in the record"), "{absent}");
    run.writes("move_file", json!({"source": "/d/new.txt", "destination": "/e/c.txt"})).unwrap();
    assert_eq!(read(&mut run, "/e/c.txt"), text("one\n2\nthree"));
    assert!(read(&mut run, "/d/new.txt")["error"].is_string());
    // A live file is read with the edits that did not reach it.
    for (old, new) in [("was", "is"), ("is there", "is here")] {
        run.writes("edit_file", json!({"path": "/d/a", "edits": [{"oldText": old, "newText": new}]})).unwrap();
    }
    let live = run.reads("read_file", json!({"path": "/d/a"}), text("what was there"));
    assert_eq!(live, text("what is here"));
}

#[test]
fn rehearsed_files_and_folders_are_listed_in_their_folder() {
    let tools = tools("");
    let mut run = Rehearsal::of(&tools, "secure-filesystem-server");
    run.writes("create_directory", json!({"path": "/d/sub"})).unwrap();
    run.writes("write_file", json!({"path": "/d/sub/x", "content": "x"})).unwrap();
    run.writes("write_file", json!({"path": "/d/new", "content": "x"})).unwrap();
    run.writes("move_file", json!({"source": "/d/old", "destination": "/e/old"})).unwrap();
    let mut list = |path: &str, live: &str| {
        run.reads("list_directory", json!({"path": path}), json!({"content": live}))["content"].clone()
    };
    assert_eq!(list("/d/", "[FILE] a\n[FILE] old"), "[FILE] a\n[FILE] new\n[DIR] sub");
    assert_eq!(list("/d/sub", "there is none"), "[FILE] x");
    assert_eq!(list("/f", "[FILE] b"), "[FILE] b");
}

#[test]
fn rehearsed_issues_and_messages_are_listed_where_posted() {
    let tools = tools("");
    let mut run = Rehearsal::of(&tools, "github-mcp-server");
    let repo = json!({"owner": "o", "repo": "r", "title": "Bug"});
    let issue = run.writes("create_issue", repo.clone()).unwrap();
    let number = issue["number"].as_i64().unwrap();
    assert!(number > 900_000, "{issue}");
    let get = json!({"owner": "o", "repo": "r", "issue_number": number});
    assert_eq!(run.reads("get_issue", get, json!({}))["title"], "Bug");
    let mut list = |repo: &str| {
        let listed =
            run.reads("list_issues", json!({"owner": "o", "repo": repo}), json!([{"number": 1, "state": "open"}]));
        listed.as_array().map(Vec::len)
    };
    assert_eq!((list("r"), list("other")), (Some(2), Some(1)));
    run.writes("update_issue", json!({"owner": "o", "repo": "r", "issue_number": 1, "state": "closed"})).unwrap();
    let live = run.reads(
        "get_issue",
        json!({"owner": "o", "repo": "r", "issue_number": 1}),
        json!({"number": 1, "state": "open"}),
    );
    assert_eq!(live, json!({"number": 1, "state": "closed"}));
    let mut run = Rehearsal::of(&tools, "Slack MCP Server");
    let posted = run.writes("slack_post_message", json!({"channel_id": "C1", "text": "hi"})).unwrap();
    assert_eq!((&posted["ok"], &posted["channel"]), (&json!(true), &json!("C1")));
    let history = |run: &mut Rehearsal<'_>, channel: &str| {
        run.reads("slack_get_channel_history", json!({"channel_id": channel}), json!({"ok": true, "messages": []}))["messages"]
            .as_array()
            .map(Vec::len)
    };
    assert_eq!((history(&mut run, "C1"), history(&mut run, "C2")), (Some(1), Some(0)));
}

#[test]
fn pack_applies_to_its_server_only_and_yields_to_the_operator() {
    let tree = |server: &str| call(server, "directory_tree", json!({"path": "/"}));
    let tools_alone = tools("");
    assert_eq!(tools_alone.effect(&tree("secure-filesystem-server")).effect, Effect::Read);
    assert_ne!(tools_alone.effect(&tree("other")).effect, Effect::Read);
    let unnamed = Call { server_name: None, ..tree("") };
    assert_ne!(tools_alone.effect(&unnamed).effect, Effect::Read);
    let graver = tools("effects:\n  - {tool: mcp.directory_tree, effect: destructive}\n");
    assert_eq!(graver.effect(&tree("secure-filesystem-server")).effect, Effect::Destructive);
    let own = tools("tools:\n  - {tool: mcp.write_file, effect: write, responses: [{result: own}]}\n");
    let mut run = Rehearsal::of(&own, "secure-filesystem-server");
    assert_eq!(run.writes("write_file", json!({"path": "/a", "content": "x"})).unwrap(), "own");
    // A statement that does more than read is no read, whatever the pack says of its tool.
    let query = |sql: &str| tools_alone.effect(&call("example-servers/postgres", "query", json!({"sql": sql}))).effect;
    assert_eq!((query("select 1"), query("delete from t")), (Effect::Read, Effect::Destructive));
}
