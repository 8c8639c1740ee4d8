//! Names of tools, calls and sessions: rules apply to every spelling of a tool, and ids that look like secrets stay
//! distinct though they are hidden.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    boundary::{with, write},
    sabotage,
};

const TOOLS: &str = "
tools:
  - {tool: crm.get_and_lock, version: 1, effect: destructive, responses: [{result: {locked: true}}]}
policies:
  - {name: refunds, tools: stripe.process_refund, verdict: block, reason: nobody refunds}
  - {name: deletes, tools: 'files.delete_*', verdict: block, reason: files stay}
effects:
  - {tool: stripe.process_refund, effect: destructive}
";

/// Returns a call with an id of its own for each tool.
fn call(server: Option<&str>, name: &str) -> Value {
    let call_id = format!("{}/{name}", server.unwrap_or_default());
    let tool = server.map_or_else(|| json!({"name": name}), |server| json!({"server": server, "name": name}));
    json!({"call_id": call_id, "agent": "a", "tool": tool, "arguments": {}})
}

#[tokio::test]
async fn a_rule_holds_for_every_spelling_of_a_tool() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    let spelled = [
        (Some("stripe"), "process_refund"),
        (Some("stripe"), "Process_Refund"),
        (Some("Stripe"), "process-refund"),
        (Some("stripe"), "PROCESS REFUND"),
        (None, "stripe.process_refund"),
        (None, "Stripe.Process-Refund"),
        (None, "process_refund"),
        (None, "Process-Refund"),
        (Some("files"), "Delete-file"),
        (None, "delete_file"),
        (None, "files.DELETE_file"),
    ];
    for (server, name) in spelled {
        let answer = umbra.decide(&call(server, name)).await;
        assert_eq!((&answer["decision"], &answer["reason"]), (&json!("block"), &json!("policy")), "{name}: {answer}");
    }
    // Another tool is another tool.
    for (server, name) in [(Some("paypal"), "process_refund"), (None, "processes"), (Some("files"), "undelete_file")] {
        let answer = umbra.decide(&call(server, name)).await;
        assert_eq!(answer["decision"], "execute", "{name}: {answer}");
    }
    let shadow = json!({"scope": "tool", "value": "Mail.Send-Email", "execution": "shadow", "reason": "rehearsed"});
    assert_eq!(umbra.put("/v1/execution", &shadow).await.status, 200);
    for (server, name) in [(Some("mail"), "send_email"), (Some("MAIL"), "Send-Email"), (None, "send_email")] {
        let answer = umbra.decide(&call(server, name)).await;
        assert_eq!(answer["execution"], "shadow", "{name}: {answer}");
    }
    // A tool's contract counts for a call without a server, and never lowers the effect.
    for (server, name) in [(Some("CRM"), "get-and-lock"), (None, "get_and_lock")] {
        let answer = umbra.decide(&call(server, name)).await;
        assert_eq!(
            (&answer["effect"], &answer["effect_source"]),
            (&json!("destructive"), &json!("contract")),
            "{answer}"
        );
    }
}

/// Tool's name as clients write it, with a property of all of them.
struct Spelling {
    tool: Value,
    /// True if the spelling names the server.
    says_server: bool,
}

/// Returns every spelling of a tool, in several cases; under `UMBRA_SABOTAGE=1` one more that is another tool's.
fn spellings(server: &[&str], tool: &[&str]) -> Vec<Spelling> {
    let capital = |word: &&str| word[..1].to_uppercase() + &word[1..];
    let camel = |words: &[&str]| words[0].to_owned() + &words[1..].iter().map(capital).collect::<String>();
    let forms = |words: &[&str]| {
        let pascal: String = words.iter().map(capital).collect();
        let title = words.iter().map(capital).collect::<Vec<_>>().join("-");
        [words.join("_"), words.join("-"), words.join("_").to_uppercase(), camel(words), pascal, title]
    };
    let both: Vec<&str> = server.iter().chain(tool).copied().collect();
    let mut spelled = Vec::new();
    let mut add = |tool: Value, says_server| spelled.push(Spelling { tool, says_server });
    for server in forms(server) {
        for tool in forms(tool) {
            add(json!({"server": server, "name": tool}), true);
            add(json!({"server": format!("mcp__{server}"), "name": tool}), true);
            for glue in [".", "__", "/", ":"] {
                add(json!({"name": format!("{server}{glue}{tool}")}), true);
            }
            add(json!({"name": format!("mcp__{server}__{tool}")}), true);
            add(json!({"server": "mcp", "name": format!("{server}__{tool}")}), false);
            add(json!({"name": format!("mcp__proxy__{server}__{tool}")}), false);
            add(json!({"name": format!("{server}_{tool}")}), false);
        }
    }
    add(json!({"name": camel(&both)}), false);
    spelled.extend(forms(tool).map(|tool| Spelling { tool: json!({"name": tool}), says_server: false }));
    if sabotage() {
        spelled.push(Spelling { tool: json!({"server": "another", "name": tool.join("_")}), says_server: true });
    }
    spelled
}

#[tokio::test]
async fn restrictions_fit_any_spelling_and_permissions_need_a_server() {
    let tools = "
tools:
  - {tool: crm_two.drop_all_rows, version: 1, effect: destructive, responses: [{result: {dropped: 1}}]}
policies:
  - {name: pays, tools: bank_one.send_big_money, verdict: block, reason: nobody pays}
  - {name: mails, tools: 'mail_box.send_*', verdict: ask, reason: a person reads it}
effects:
  - {tool: crm_two.make_new_copy, effect: read}
";
    let umbra = Umbra::with().tools(tools).settings("boundary: {execution: live}").go().await;
    let shadow = |scope: &str, value: &str, execution: &str| json!({"scope": scope, "value": value, "execution": execution, "reason": "tried"});
    let set = shadow("tool", "files_three.keepFor_me", "shadow");
    assert_eq!(umbra.put("/v1/execution", &set).await.status, 200);
    let number = std::cell::Cell::new(0);
    let decide = async |tool: &Value| {
        number.set(number.get() + 1);
        umbra
            .decide(&json!({"call_id": format!("c{}", number.get()), "agent": "a", "tool": tool, "arguments": {}}))
            .await
    };
    for spelling in spellings(&["bank", "one"], &["send", "big", "money"]) {
        assert_eq!(decide(&spelling.tool).await["decision"], "block", "{}", spelling.tool);
    }
    for spelling in spellings(&["mail", "box"], &["send", "a", "letter"]) {
        assert_eq!(decide(&spelling.tool).await["decision"], "ask", "{}", spelling.tool);
    }
    for spelling in spellings(&["files", "three"], &["keep", "for", "me"]) {
        assert_eq!(decide(&spelling.tool).await["execution"], "shadow", "{}", spelling.tool);
    }
    for spelling in spellings(&["crm", "two"], &["drop", "all", "rows"]) {
        assert_eq!(decide(&spelling.tool).await["effect"], "destructive", "{}", spelling.tool);
    }
    // From here on all is shadow, but for two permissions.
    assert_eq!(
        umbra
            .put("/v1/execution", &json!({"scope": "global", "execution": "shadow", "reason": "rehearsed"}))
            .await
            .status,
        200
    );
    assert_eq!(umbra.put("/v1/execution", &shadow("tool", "disk_four.*", "live")).await.status, 200);
    for spelling in spellings(&["disk", "four"], &["spin", "the", "plate"]) {
        let live = decide(&spelling.tool).await["execution"] == "live";
        assert_eq!(live, spelling.says_server && !sabotage(), "{}", spelling.tool);
    }
    for spelling in spellings(&["crm", "two"], &["make", "new", "copy"]) {
        let read = decide(&spelling.tool).await["effect"] == "read";
        assert!(read || !spelling.says_server, "{}", spelling.tool);
    }
    // A tool of another server is another tool.
    for (server, tool) in [("paypal", "send_big_money"), ("bank", "send_big_money")] {
        let other = decide(&json!({"server": server, "name": tool})).await;
        assert_ne!(other["reason"], "policy", "{server}.{tool}: {other}");
    }
}

#[tokio::test]
async fn override_of_an_unknown_name_warns_with_the_nearest_name() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    umbra.decide(&with(write("c1", "rehearsal-1"), &json!({"tool": {"server": "mail", "name": "send_email"}}))).await;
    umbra.event(&json!({"agent": "reporter", "output": "x"})).await;
    let put = async |scope: &str, value: &str, execution: &str| {
        let set = json!({"scope": scope, "value": value, "execution": execution, "reason": "tried"});
        let answered = umbra.put("/v1/execution", &set).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        answered.body["warnings"].clone()
    };
    for (scope, value, execution) in [
        ("agent", "Rehearsal-*", "shadow"),
        ("agent", "reporter", "live"),
        ("tool", "mcp__mail__SendEmail", "shadow"),
        ("tool", "crm.get_and_*", "live"),
    ] {
        assert_eq!(put(scope, value, execution).await, json!([]), "{value}");
    }
    for (scope, value, execution, nearest) in [
        ("agent", "reportr", "shadow", "reporter"),
        ("agent", "Rehearsal-*", "live", "rehearsal-1"),
        ("tool", "mail.send_mail", "shadow", "mail.send_email"),
    ] {
        let warnings = put(scope, value, execution).await;
        let told = warnings[0].as_str().unwrap_or_default();
        assert!(told.starts_with(&format!("no {scope} seen so far")) && told.contains(nearest), "{value}: {warnings}");
    }
}

#[tokio::test]
async fn confusable_tool_and_server_names_are_refused() {
    let umbra = Umbra::with().tools(TOOLS).go().await;
    for name in
        ["process_refund ", "process_refund\n", "process_refund\u{200b}", "process\u{ad}_refund", "refund\u{301}"]
    {
        let refused = umbra.post("/v1/decide", &call(Some("stripe"), name)).await;
        assert_eq!(
            (refused.status.as_u16(), &refused.body["errors"][0]["pointer"]),
            (400, &json!("/tool/name")),
            "{name:?}: {}",
            refused.text
        );
        assert!(refused.text.contains("without control, invisible or combining characters"), "{}", refused.text);
    }
    let server = umbra.post("/v1/decide", &call(Some("stri\u{2060}pe"), "process_refund")).await;
    assert_eq!((server.status.as_u16(), &server.body["errors"][0]["pointer"]), (400, &json!("/tool/server")));
    let scope = json!({"scope": "tool", "value": "stripe.\u{200b}*", "execution": "shadow", "reason": "r"});
    assert_eq!(umbra.put("/v1/execution", &scope).await.status, 400);
    assert_eq!(umbra.audit("kind=all").await.len(), 0);
}

#[tokio::test]
async fn ids_that_look_like_secrets_stay_distinct_and_are_redacted() {
    let umbra = Umbra::with().go().await;
    let id = |n: u32| format!("ghp_{n}abcdefGHIJKLmnopqrstuvWXYZ01234567");
    // Two different calls: no id was reused.
    for n in [51, 52] {
        let first = umbra.decide(&with(write(&id(n), "a"), &json!({"arguments": {"n": n}}))).await;
        assert_eq!((&first["decision"], &first["replayed"]), (&json!("execute"), &json!(false)), "{first}");
        let again = umbra.decide(&with(write(&id(n), "a"), &json!({"arguments": {"n": n}}))).await;
        assert_eq!((&again["decision_id"], &again["replayed"]), (&first["decision_id"], &json!(true)));
    }
    let told = umbra.post(&format!("/v1/calls/{}/outcome", id(51)), &json!({"agent": "a", "status": "ok"})).await;
    assert_eq!(told.status, 200, "{}", told.text);
    // An override applies to the session that it names.
    for (scope, value, execution) in
        [("global", None, "shadow"), ("session", Some(id(61)), "live"), ("agent", Some(id(71)), "live")]
    {
        let set = json!({"scope": scope, "value": value, "execution": execution, "reason": "tried"});
        assert_eq!(umbra.put("/v1/execution", &set).await.status, 200, "{set}");
    }
    let run_as = async |n: &str, more: Value| {
        let answer = umbra.decide(&with(write(n, "a"), &more)).await;
        answer["execution"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(run_as("s1", json!({"session": id(61)})).await, "live");
    assert_eq!(run_as("s2", json!({"session": id(62)})).await, "shadow");
    assert_eq!(run_as("s3", json!({"agent": id(71)})).await, "live");
    assert_eq!(run_as("s4", json!({"agent": id(72)})).await, "shadow");
    let effective = umbra.get(&format!("/v1/execution/effective?session={}", id(61))).await;
    assert_eq!(effective["execution"], "live", "{effective}");
    // The audit is asked by the id, or by its shown form; a caller that sends the shown form is not its owner.
    let rows = umbra.audit(&format!("session={}", id(61))).await;
    let shown = rows[0]["session"].as_str().expect("a session").to_owned();
    assert!(rows.len() == 1 && shown.starts_with("[secret:") && !shown.contains("ghp_"), "{shown}");
    assert_eq!(umbra.audit(&format!("session={shown}")).await.len(), 1);
    assert_eq!(run_as("s5", json!({"session": shown})).await, "shadow");
    assert_eq!(run_as("s6", json!({"session": "[secret:github_token]"})).await, "shadow");
    // A sub-run inherits only from its own parent.
    let lift = json!({"scope": "global", "execution": null, "reason": "done"});
    assert_eq!(umbra.put("/v1/execution", &lift).await.status, 200);
    let rehearse = json!({"scope": "session", "value": "dry", "execution": "shadow", "reason": "rehearsal"});
    assert_eq!(umbra.put("/v1/execution", &rehearse).await.status, 200);
    assert_eq!(run_as("r1", json!({"session": "dry", "run": id(81)})).await, "shadow");
    assert_eq!(run_as("r2", json!({"run": id(82)})).await, "live");
    assert_eq!(run_as("r3", json!({"run": "below-81", "parent_run": id(81)})).await, "shadow");
    assert_eq!(run_as("r4", json!({"run": "below-82", "parent_run": id(82)})).await, "live");
    let kept: i64 = umbra
        .schema
        .one(
            "SELECT (SELECT count(*) FROM audit WHERE audit::text LIKE '%ghp_%')
                 + (SELECT count(*) FROM call WHERE call::text LIKE '%ghp_%')
                 + (SELECT count(*) FROM boundary_run r WHERE r::text LIKE '%ghp_%')
                 + (SELECT count(*) FROM boundary_session s WHERE s::text LIKE '%ghp_%')
                 + (SELECT count(*) FROM execution_override o WHERE o::text LIKE '%ghp_%')",
        )
        .await;
    assert_eq!(kept, 0);
}

#[tokio::test]
async fn password_in_a_url_used_as_an_id_is_not_stored() {
    let umbra = Umbra::with().go().await;
    for (n, id) in ["postgres://user:password@host", "postgres://u:PW@db/x"].iter().enumerate() {
        let call = with(write(id, "a"), &json!({"arguments": {"n": n}, "session": id}));
        let first = umbra.decide(&call).await;
        assert_eq!((&first["decision"], &first["replayed"]), (&json!("execute"), &json!(false)), "{first}");
        assert_eq!(umbra.decide(&call).await["replayed"], true, "the same id is the same call");
    }
    // Another password makes another id.
    let other = umbra.decide(&write("postgres://user:PASSWORD@host", "a")).await;
    assert_eq!(other["replayed"], false, "{other}");
    if sabotage() {
        let sql = "UPDATE call SET call_id = 'postgres://user:password@host' WHERE ctid = (SELECT min(ctid) FROM call)";
        umbra.schema.run(sql).await;
    }
    let kept: i64 = umbra
        .schema
        .one(
            "SELECT (SELECT count(*) FROM audit WHERE audit::text ~* ':(password|PW)@')
                 + (SELECT count(*) FROM call WHERE call::text ~* ':(password|PW)@')
                 + (SELECT count(*) FROM boundary_session s WHERE s::text ~* ':(password|PW)@')",
        )
        .await;
    assert_eq!(kept, 0);
    assert_eq!(umbra.audit("session=postgres://u:PW@db/x").await.len(), 1, "its owner finds it");
}
