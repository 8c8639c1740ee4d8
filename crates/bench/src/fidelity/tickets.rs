//! Domain `tickets` of the fidelity bench: a simulated service, and the script of the agent that uses it. A report
//! becomes a ticket, unless one exists, and is closed.

use serde_json::{Value, json};

use super::{
    agent::Agent,
    service::{Domain, Tables, error, is_listed},
};

pub(super) const TICKETS: Domain = Domain { name: "tickets", cases: 10, tables, serve, script };

fn tables(case: u32) -> Tables {
    let mut tables = Tables::default();
    for n in 0..case {
        let title = if n == 2 && case.is_multiple_of(3) { "Export fails" } else { "Something else" };
        let status = if n.is_multiple_of(2) { "open" } else { "closed" };
        let id = format!("t-{n}");
        tables.put("tickets", &id, json!({"id": id, "title": title, "status": status, "priority": "low"}));
    }
    tables
}

fn serve(tables: &mut Tables, tool: &str, args: &Value) -> Value {
    match tool {
        "search" => {
            let wanted = args["title"].as_str().unwrap_or_default();
            json!({"items": tables.all("tickets").into_iter().filter(|one| one["title"] == wanted).collect::<Vec<_>>()})
        }
        "list" => tables.page("tickets", args),
        "get" => tables.read("tickets", &args["id"]),
        "create" => {
            if args["title"].as_str().is_none_or(str::is_empty) {
                return error("invalid");
            }
            let id = tables.mint("t-");
            let priority = if args["customers"].as_u64() > Some(10) { "high" } else { "low" };
            let ticket = json!({"id": id, "title": args["title"], "status": "open", "priority": priority});
            tables.put("tickets", &id, ticket)
        }
        "update" => {
            let Some(ticket) = tables.find_mut("tickets", &args["id"]) else { return error("not_found") };
            if ticket["status"] == "closed" && args["status"] == "closed" {
                return error("already_closed");
            }
            ticket["status"] = args["status"].clone();
            ticket.clone()
        }
        "comment" => json!({"id": tables.mint("c-"), "ticket": args["ticket"], "text": args["text"]}),
        _ => error("unknown_tool"),
    }
}

fn script(agent: &mut Agent<'_>, case: u32) {
    let found = agent.call("search", json!({"title": "Export fails"}));
    let known = found["items"].as_array().and_then(|items| items.first()).cloned();
    agent.is("there is a ticket", known.is_some());
    let ticket = if let Some(known) = known {
        let comment = agent.call("comment", json!({"ticket": known["id"], "text": "It happened again."}));
        agent.is("the comment is on it", comment["ticket"] == known["id"]);
        known
    } else {
        let created = agent.call("create", json!({"title": "Export fails", "customers": case * 3}));
        agent.on("it is created", &created["status"]);
        if agent.on("its priority", &created["priority"]) == "high" {
            let comment = agent.call("comment", json!({"ticket": created["id"], "text": "Many are waiting."}));
            agent.is("the comment is on it", comment["ticket"] == created["id"]);
        }
        is_listed(agent, "list", "id", &created["id"]);
        created
    };
    for status in ["in_progress", "closed"] {
        let updated = agent.call("update", json!({"id": ticket["id"], "status": status}));
        if agent.is("it is refused", updated["error"].is_object()) {
            agent.on("why", &updated["error"]["code"]);
            continue;
        }
        agent.on("the ticket", &updated["status"]);
        let read = agent.call("get", json!({"id": ticket["id"]}));
        agent.on("and it stays", &read["status"]);
        agent.is("its title is the same", read["title"] == "Export fails");
    }
    // A customer asks to close an old ticket, too.
    let other = agent.call("get", json!({"id": "t-1"}));
    if !agent.is("there is an old one", other["error"].is_object()) {
        let closed = agent.call("update", json!({"id": "t-1", "status": "closed"}));
        agent.on("it was closed already", &closed["error"]["code"]);
    }
}
