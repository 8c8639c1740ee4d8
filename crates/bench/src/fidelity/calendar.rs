//! Domain `calendar` of the fidelity bench: a simulated service, and the script of the agent that uses it. A meeting is
//! put into a free hour, moved when a guest cannot come, and cancelled.

use serde_json::{Value, json};

use super::{
    agent::Agent,
    service::{Domain, Tables, error, missing},
};

pub(super) const CALENDAR: Domain = Domain { name: "calendar", cases: 10, tables, serve, script };

fn tables(case: u32) -> Tables {
    let mut tables = Tables::default();
    for hour in (9..17).filter(|hour| (hour * 7 + case) % 5 < case % 5) {
        let id = format!("e-{hour}");
        tables.put("events", &id, json!({"id": id, "hour": hour, "title": "busy", "status": "confirmed"}));
    }
    tables.put("rooms", "r-1", json!({"id": "r-1", "seats": 4 + case}));
    tables
}

fn taken(tables: &Tables, hour: &Value) -> bool {
    tables.all("events").iter().any(|event| event["hour"] == *hour && event["status"] != "cancelled")
}

fn serve(tables: &mut Tables, tool: &str, args: &Value) -> Value {
    match tool {
        "free_hours" => {
            let free: Vec<u32> = (9..17).filter(|hour| !taken(tables, &json!(hour))).collect();
            json!({"free": free})
        }
        "list_events" => json!({"events": tables.all("events")}),
        "get_event" => tables.read("events", &args["id"]),
        "get_room" => tables.read("rooms", &args["id"]),
        "create_event" => {
            if taken(tables, &args["hour"]) {
                return error("conflict");
            }
            let id = tables.mint("e-");
            let status = if args["guests"].as_u64() > Some(8) { "needs_approval" } else { "confirmed" };
            let event = json!({"id": id, "hour": args["hour"], "title": args["title"], "status": status});
            tables.put("events", &id, event)
        }
        "move_event" => {
            if taken(tables, &args["hour"]) {
                return error("conflict");
            }
            let Some(event) = tables.find_mut("events", &args["id"]) else { return error("not_found") };
            event["hour"] = args["hour"].clone();
            event.clone()
        }
        "delete_event" => tables.take("events", &args["id"]).map_or_else(missing, |_| json!({"deleted": true})),
        _ => error("unknown_tool"),
    }
}

fn script(agent: &mut Agent<'_>, case: u32) {
    let guests = 3 + case;
    let room = agent.call("get_room", json!({"id": "r-1"}));
    let seats = room["seats"].as_u64() >= Some(u64::from(guests));
    agent.is("the room is large enough", seats);
    let free = agent.call("free_hours", json!({}))["free"].as_array().cloned().unwrap_or_default();
    let Some(first) = free.first() else {
        agent.is("there is room", false);
        return;
    };
    agent.is("there is room", true);
    let event = agent.call("create_event", json!({"title": "Planning", "hour": first, "guests": guests}));
    if agent.is("it is refused", event["error"].is_object()) {
        return;
    }
    if agent.on("it is", &event["status"]) == "needs_approval" {
        let read = agent.call("get_event", json!({"id": event["id"]}));
        agent.on("it still is", &read["status"]);
    }
    let listed = agent.call("list_events", json!({}));
    let has =
        |list: &Value| list["events"].as_array().is_some_and(|all| all.iter().any(|one| one["id"] == event["id"]));
    agent.is("it is in the calendar", has(&listed) && !event["id"].is_null());
    // A guest cannot come so early.
    if let Some(later) = free.get(1).filter(|_| agent.is("it is to be later", case % 3 == 1)) {
        let moved = agent.call("move_event", json!({"id": event["id"], "hour": later, "title": "Planning"}));
        agent.is("it is later", moved["hour"] == *later);
        let read = agent.call("get_event", json!({"id": event["id"]}));
        agent.is("and stays so", read["hour"] == *later);
    }
    if agent.is("it is called off", case % 4 == 2) {
        let deleted = agent.call("delete_event", json!({"id": event["id"]}));
        agent.is("it is taken out", deleted["deleted"] == true);
        let listed = agent.call("list_events", json!({}));
        agent.is("it is in no list", !has(&listed));
    } else if case == 9 {
        // One read more than needed: is the hour taken?
        let free = agent.call("free_hours", json!({}))["free"].as_array().cloned().unwrap_or_default();
        agent.is("the hour is taken", !free.contains(first));
    }
}
