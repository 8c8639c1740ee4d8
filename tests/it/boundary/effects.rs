//! In shadow no write runs because it is called a read: not by its description, nor by its name, nor with arguments
//! that say otherwise; the agent that a caller names makes no difference.

use serde_json::{Value, json};

use crate::support::{Umbra, boundary::with};

const TOOLS: &str = "tools:
  - {tool: db.report, effect: read}
  - {tool: ops.look, effect: read}
  - {tool: ops.plan, effect: read, arguments: trusted}
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
async fn tool_annotations_and_descriptions_do_not_make_a_call_a_read() {
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
    // Hidden characters in a name are refused.
    let hidden = json!({"server": "x", "name": "read_file\u{200b}delete"});
    assert_eq!(umbra.post("/v1/decide", &call("h1", &hidden, &json!({}))).await.status, 400);
    // A caller may name a server that the operator trusts: only the proxy knows the server.
    let named = json!({"server": "github", "name": "wetter", "description": "Get the weather", "annotations": hints});
    let decided = umbra.decide(&call("t1", &named, &json!({}))).await;
    assert_eq!((&decided["decision"], &decided["effect_source"]), (&json!("block"), &json!("unknown")), "{decided}");
    // A hint against the tool counts.
    let warned = json!({"server": "github", "name": "get_page", "annotations": {"readOnlyHint": false}});
    let decided = umbra.decide(&call("t2", &warned, &json!({}))).await;
    assert_eq!((&decided["effect"], &decided["effect_source"]), (&json!("write"), &json!("annotations")), "{decided}");
}

#[tokio::test]
async fn declared_read_needs_the_declare_scope_once_keys_exist() {
    let umbra = shadow().await;
    let overdue = json!({"server": "crm", "name": "overdue_invoices"});
    let declared = |id: &str, effect: &str| with(call(id, &overdue, &json!({})), &json!({"declared_effect": effect}));
    let decided = umbra.decide(&declared("d1", "read")).await;
    assert_eq!((&decided["decision"], &decided["effect_source"]), (&json!("execute"), &json!("declared")), "{decided}");
    assert_eq!(umbra.decide(&declared("d2", "write")).await["effect"], "write");
    let odd = umbra.post("/v1/decide", &declared("d3", "reads")).await;
    assert_eq!((odd.status.as_u16(), &odd.body["errors"][0]["pointer"]), (400, &json!("/declared_effect")));
    // An operator's declaration goes first, but not against the arguments.
    let looked = json!({"tool": {"server": "db", "name": "run"}, "arguments": {"sql": "DELETE FROM users"}});
    let raised = umbra.decide(&with(declared("d4", "read"), &looked)).await;
    assert_eq!((&raised["decision"], &raised["effect_source"]), (&json!("block"), &json!("arguments")), "{raised}");

    // With keys, the declared effect counts only with the scope.
    for (scopes, believed) in [("decide", false), ("decide,declare", true)] {
        let made = umbra.cli(&["keys", "create", "--name", "k", "--scope", scopes, "--json"], None);
        let made: Value = serde_json::from_slice(&made.stdout).unwrap_or_default();
        let bearer = format!("Bearer {}", made["key"].as_str().unwrap_or_default());
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        // A sample of a schema does not replace a possible read.
        let schema = json!({"tool": with(overdue.clone(), &json!({"output_schema": {"type": "array"}}))});
        let asked = with(declared(&format!("k-{believed}"), "read"), &schema).to_string().into_bytes();
        let decided = umbra.send(reqwest::Method::POST, "/v1/decide", &headers, Some(asked)).await.body;
        if believed {
            assert_eq!(decided["decision"], "execute", "{decided}");
            continue;
        }
        assert_eq!((&decided["decision"], &decided["reason"]), (&json!("block"), &json!("no_contract")), "{decided}");
        let detail = decided["detail"].as_str().unwrap_or_default();
        assert!(
            detail.contains("{tool: crm.overdue_invoices, effect: read}") && detail.contains("scope declare"),
            "{detail}"
        );
        let graver = with(call("k-up", &json!({"name": "get_page"}), &json!({})), &json!({"declared_effect": "write"}));
        let graver =
            umbra.send(reqwest::Method::POST, "/v1/decide", &headers, Some(graver.to_string().into_bytes())).await.body;
        assert_eq!((&graver["effect"], &graver["effect_source"]), (&json!("write"), &json!("declared")), "{graver}");
    }
}

#[tokio::test]
async fn executable_arguments_run_only_if_recognised_as_read_only() {
    let umbra = shadow().await;
    let tool = |server: &str, name: &str| json!({"server": server, "name": name});
    for (at, (tool, acts, looks)) in [
        (
            tool("web", "get_page"),
            json!({"url": "https://a.example/users/5?_method=DELETE"}),
            json!({"url": "https://a.example/users/5?page=2"}),
        ),
        (
            tool("web", "fetch"),
            json!({"url": "https://a.example/5", "headers": {"X-HTTP-Method-Override": "DELETE"}}),
            json!({"url": "https://a.example/5", "headers": {"accept": "text/html"}}),
        ),
        (tool("web", "fetch"), json!({"url": "gopher://a.example/_x"}), json!({"url": "https://a.example/x"})),
        (tool("es", "search"), json!({"path": "/logs/_delete_by_query"}), json!({"path": "/logs/_search", "size": 5})),
        (tool("mongo", "query"), json!({"query": "db['users'].drop()"}), json!({"query": "db.users.find({a: 1})"})),
        (tool("kusto", "query"), json!({"query": ".drop table T"}), json!({"query": ".show tables"})),
        (tool("db", "query"), json!({"sql": "select sweep(1)"}), json!({"sql": "select lower(name) from t"})),
        (tool("db", "query"), json!({"sql": "select * from t for update"}), json!({"sql": "select * from t"})),
        (tool("fs", "read"), json!({"args": ["rm", "-rf", "x"]}), json!({"args": ["cat", "x"]})),
        (tool("fs", "read"), json!({"path": "x", "mode": "w+"}), json!({"path": "x", "mode": "r"})),
        (tool("ldap", "search"), json!({"entry": "dn: cn=a\nchangetype: delete"}), json!({"entry": "dn: cn=a"})),
        (
            tool("calc", "get"),
            json!({"expression": "__import__('os').system('x')"}),
            json!({"expression": "max(a, 3) + round(b)"}),
        ),
        (tool("redis", "get"), json!({"command": "CONFIG SET dir x"}), json!({"command": "HGETALL a"})),
        // The operator declares these as reads.
        (tool("ops", "look"), json!({"command": "ls | xargs rm"}), json!({"command": "ls | xargs grep x"})),
        (tool("ops", "look"), json!({"command": "cat a > b"}), json!({"command": "cat a 2>/dev/null"})),
        (
            tool("ops", "look"),
            json!({"command": "curl -XDELETE https://a.example"}),
            json!({"command": "git log -n 3"}),
        ),
        (tool("db", "report"), json!({"sql": "vacuum into 'x'"}), json!({"sql": "select 1"})),
    ]
    .into_iter()
    .enumerate()
    {
        let decided = umbra.decide(&call(&format!("a{at}"), &tool, &acts)).await;
        assert_ne!(decided["decision"], "execute", "{tool} {acts}: {decided}");
        assert_eq!(decided["effect_source"], "arguments", "{tool} {acts}: {decided}");
        let detail = decided["detail"].as_str().unwrap_or_default();
        assert!(detail.contains("with these arguments the call is not a read: the argument /"), "{detail}");
        let decided = umbra.decide(&call(&format!("r{at}"), &tool, &looks)).await;
        assert_eq!(decided["decision"], "execute", "{tool} {looks}: {decided}");
    }
    // The operator may declare the arguments of a tool trusted as well.
    let plan = json!({"command": "terraform plan > plan.txt"});
    let vouched = umbra.decide(&call("v1", &tool("ops", "plan"), &plan)).await;
    assert_eq!((&vouched["decision"], &vouched["effect_source"]), (&json!("execute"), &json!("contract")), "{vouched}");
    assert_ne!(umbra.decide(&call("v2", &tool("ops", "look"), &plan)).await["decision"], "execute");
}

#[tokio::test]
async fn writing_arguments_override_the_read_effect_of_a_tool() {
    let umbra = shadow().await;
    let tool = |server: &str, name: &str| json!({"server": server, "name": name});
    for (at, (tool, arguments, pointer)) in [
        (tool("db", "query"), json!({"sql": "DELETE FROM users"}), "/sql"),
        (tool("web", "get_url"), json!({"url": "u", "method": "DELETE"}), "/method"),
        (tool("es", "search"), json!({"action": "delete_by_query"}), "/action"),
        (tool("mongo", "find"), json!({"pipeline": [{"$out": "c"}]}), "/pipeline/0/$out"),
        (tool("notes", "read_extra"), json!({"nested": {"sql": "DROP TABLE x"}}), "/nested/sql"),
        // The operator's declaration counts, but not against the arguments of the call.
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
    // Live it runs, with its real effect: rules on effects see it.
    umbra.put("/v1/execution", &json!({"scope": "global", "execution": "live", "reason": "tried"})).await;
    let live = with(call("l1", &tool("db", "query"), &json!({"sql": "DELETE FROM users"})), &json!({"run": "r2"}));
    let live = umbra.decide(&live).await;
    assert_eq!((&live["decision"], &live["effect"]), (&json!("execute"), &json!("destructive")), "{live}");
}
