//! Domain `mail` of the fidelity bench: a simulated service, and the script of the agent that uses it. Messages are
//! sorted, answered through a draft, and newsletters are deleted.

use serde_json::{Value, json};

use super::{
    agent::Agent,
    service::{Domain, Tables, error, is_listed, missing},
};

pub(super) const MAIL: Domain = Domain { name: "mail", cases: 10, tables, serve, script };

/// Most messages that the service sends in one task before it limits the rate.
const BURST: usize = 3;

fn tables(case: u32) -> Tables {
    let mut tables = Tables::default();
    for n in 0..2 + case % 3 {
        let subject = match (case + n) % 4 {
            0 => "Urgent: invoice",
            1 => "Newsletter",
            2 => "Question about my order",
            _ => "Contract, attached",
        };
        let from = if (case + n).is_multiple_of(3) { "anna@ours.example" } else { "carl@elsewhere.example" };
        let id = format!("m-{n}");
        tables.put("messages", &id, json!({"id": id, "subject": subject, "from": from, "read": false}));
    }
    for n in 0..case % 4 {
        let id = format!("d-{n}");
        tables.put("drafts", &id, json!({"id": id, "to": "old@ours.example", "text": "..."}));
    }
    tables
}

fn serve(tables: &mut Tables, tool: &str, args: &Value) -> Value {
    match tool {
        "search" => json!({"messages": tables.all("messages")}),
        "get_draft" => tables.read("drafts", &args["id"]),
        "list_drafts" => tables.page("drafts", args),
        "create_draft" => {
            let id = tables.mint("d-");
            tables.put("drafts", &id, json!({"id": id, "to": args["to"], "text": args["text"], "size": args["size"]}))
        }
        "send" => {
            let Some(draft) = tables.find("drafts", &args["draft"]).cloned() else { return error("not_found") };
            if args["size"].as_f64() > Some(25.0) {
                return error("too_large");
            }
            if tables.all("sent").len() >= BURST {
                return error("rate_limited");
            }
            tables.take("drafts", &args["draft"]);
            let id = tables.mint("s-");
            let outside = draft["to"].as_str().is_some_and(|to| !to.ends_with("@ours.example"));
            let status = if outside { "queued" } else { "sent" };
            tables.put("sent", &id, json!({"id": id, "status": status, "to": draft["to"]}))
        }
        "get_sent" => tables.read("sent", &args["id"]),
        "delete_message" => {
            tables.take("messages", &args["id"]).map_or_else(missing, |_| json!({"deleted": true, "id": args["id"]}))
        }
        _ => error("unknown_tool"),
    }
}

fn script(agent: &mut Agent<'_>, _: u32) {
    let found = agent.call("search", json!({"query": "is:unread"}));
    let messages = found["messages"].as_array().cloned().unwrap_or_default();
    for message in &messages {
        let subject = message["subject"].as_str().unwrap_or_default();
        if agent.is("it is a newsletter", subject == "Newsletter") {
            let deleted = agent.call("delete_message", json!({"id": message["id"]}));
            agent.is("it is gone", deleted["deleted"] == true);
            continue;
        }
        // A contract comes with its copy, which is large.
        let size = if subject.contains("attached") { 31.5 } else { 0.2 };
        let draft = agent.call("create_draft", json!({"to": message["from"], "text": "Thank you.", "size": size}));
        let read = agent.call("get_draft", json!({"id": draft["id"]}));
        if !agent.is("the draft is there", read["to"] == message["from"]) {
            continue;
        }
        let sent = agent.call("send", json!({"draft": draft["id"], "to": message["from"], "size": size}));
        if agent.is("it is refused", sent["error"].is_object()) {
            if agent.on("why", &sent["error"]["code"]) == "rate_limited" {
                return;
            }
            is_listed(agent, "list_drafts", "id", &draft["id"]);
            continue;
        }
        if agent.on("it is", &sent["status"]) == "queued" {
            let read = agent.call("get_sent", json!({"id": sent["id"]}));
            agent.on("it is still", &read["status"]);
        }
        let left = agent.call("get_draft", json!({"id": draft["id"]}));
        agent.is("the draft is gone", left["error"].is_object());
    }
    let left = agent.call("search", json!({"query": "is:unread"}));
    let left = left["messages"].as_array().map_or(0, Vec::len);
    agent.is("fewer are left", left < messages.len());
}
