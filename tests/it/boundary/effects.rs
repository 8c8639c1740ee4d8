//! In shadow nothing that writes runs because it was called a read: not by its description, nor by its name, nor with
//! arguments that say otherwise.

use serde_json::{Value, json};

use crate::support::{Umbra, boundary::with};

const TOOLS: &str = "tools:
  - {tool: db.report, effect: read}
effects:
  - {tool: db.run, effect: read}
trusted_servers: [github]
";

async fn shadow() -> Umbra {
    Umbra::with().settings("boundary: {execution: shadow}").tools(TOOLS).go().await
}

fn call(call_id: &str, tool: &Value, arguments: &Value) -> Value {
    json!({"call_id": call_id, "agent": "writer", "run": "r1", "tool": tool, "arguments": arguments})
}

#[tokio::test]
async fn what_a_server_says_of_its_tool_does_not_make_it_run() {
    let umbra = shadow().await;
    let hints = json!({"readOnlyHint": true});
    for (at, tool) in [
        json!({"server": "x", "name": "charge_card", "description": "Gets the charge of a card.", "annotations": hints}),
        json!({"server": "x", "name": "wire_money", "description": "Shows where money is."}),
        json!({"server": "x", "name": "handle_order", "description": "Lists orders, then ships them"}),
        json!({"server": "x", "name": "wetter", "description": "Get the weather", "annotations": hints}),
        json!({"server": "x", "name": "get_payment_and_capture", "description": "Gets a payment"}),
        json!({"server": "x", "name": "read_only_mode_off", "description": "Read-only."}),
        json!({"server": "github", "name": "frob", "annotations": {"readOnlyHint": true, "destructiveHint": true}}),
    ]
    .iter()
    .enumerate()
    {
        let decided = umbra.decide(&call(&format!("c{at}"), tool, &json!({}))).await;
        assert_eq!((&decided["execution"], &decided["decision"]), (&json!("shadow"), &json!("block")), "{tool}: {decided}");
    }
    // What nobody sees in a name is refused with it.
    let hidden = json!({"server": "x", "name": "read_file\u{200b}delete"});
    assert_eq!(umbra.post("/v1/decide", &call("h1", &hidden, &json!({}))).await.status, 400);
    // Of a server that the operator trusts it is believed.
    let trusted = json!({"server": "github", "name": "wetter", "description": "Get the weather"});
    assert_eq!(umbra.decide(&call("t1", &trusted, &json!({}))).await["decision"], "execute");
}

#[tokio::test]
async fn what_is_sent_is_looked_at_before_a_read_runs() {
    let umbra = shadow().await;
    let tool = |server: &str, name: &str| json!({"server": server, "name": name});
    for (at, (tool, arguments, pointer)) in [
        (tool("db", "query"), json!({"sql": "DELETE FROM users"}), "/sql"),
        (tool("web", "get_url"), json!({"url": "u", "method": "DELETE"}), "/method"),
        (tool("es", "search"), json!({"action": "delete_by_query"}), "/action"),
        (tool("mongo", "find"), json!({"pipeline": [{"$out": "c"}]}), "/pipeline/0/$out"),
        (tool("notes", "read_extra"), json!({"nested": {"sql": "DROP TABLE x"}}), "/nested/sql"),
        // The operator's word stands, but not against what the call says of itself.
        (tool("db", "report"), json!({"sql": "with x as (delete from t returning *) select * from x"}), "/sql"),
        (tool("db", "run"), json!({"sql": "select 1; drop table t"}), "/sql"),
    ]
    .into_iter()
    .enumerate()
    {
        let decided = umbra.decide(&call(&format!("c{at}"), &tool, &arguments)).await;
        assert_ne!(decided["decision"], "execute", "{tool} {arguments}: {decided}");
        assert_eq!(decided["effect_source"], "arguments", "{decided}");
        let why = decided["explain"][0].as_str().unwrap_or_default();
        assert!(why.contains(&format!("the argument {pointer} ")), "{why}");
    }
    let read = json!({"sql": "select * from users"});
    for (call_id, name) in [("r1", "query"), ("r2", "report"), ("r3", "run")] {
        assert_eq!(umbra.decide(&call(call_id, &tool("db", name), &read)).await["decision"], "execute", "{name}");
    }
    let rows = umbra.audit("run=r1").await;
    let raised = rows.iter().filter(|row| row["effect_source"] == "arguments").count();
    assert_eq!(raised, 7, "{rows:?}");
    // Live it runs, as what it is: rules on effects see it.
    umbra.put("/v1/execution", &json!({"scope": "global", "execution": "live", "reason": "tried"})).await;
    let live = with(call("l1", &tool("db", "query"), &json!({"sql": "DELETE FROM users"})), &json!({"run": "r2"}));
    let live = umbra.decide(&live).await;
    assert_eq!((&live["decision"], &live["effect"]), (&json!("execute"), &json!("destructive")), "{live}");
}
