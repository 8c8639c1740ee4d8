//! Domain `deployments` of the fidelity bench: a simulated service, and the script of the agent that uses it. A version
//! is deployed, watched until it is live, and rolled back if it fails.

use serde_json::{Value, json};

use super::{
    agent::Agent,
    service::{Domain, Tables, error},
};

pub(super) const DEPLOYMENTS: Domain = Domain { name: "deployments", cases: 12, tables, serve, script };

/// Most times that the agent checks whether a version runs.
const LOOKS: usize = 4;

fn tables(case: u32) -> Tables {
    Tables::default()
        .with(
            "services",
            "web",
            json!({"id": "web", "version": "1.4.0", "healthy": case != 5, "frozen": case % 6 == 3}),
        )
        .with("plans", "plan", json!({"id": "plan", "slow": case % 4 == 2, "bad": case == 7}))
        .with("flags", "new-cart", json!({"id": "new-cart", "on": case.is_multiple_of(2)}))
}

fn serve(tables: &mut Tables, tool: &str, args: &Value) -> Value {
    match tool {
        "get_service" => tables.read("services", &args["id"]),
        "get_flag" => tables.read("flags", &args["id"]),
        "set_flag" => {
            let Some(flag) = tables.find_mut("flags", &args["id"]) else { return error("not_found") };
            flag["on"] = args["on"].clone();
            flag.clone()
        }
        "deploy" => {
            let plan = tables.read("plans", &json!("plan"));
            if args["version"].as_str().is_none_or(|version| version.split('.').count() != 3) {
                return error("invalid_version");
            }
            let id = tables.mint("rel-");
            let left = u8::from(plan["slow"] == true);
            let release = json!({"id": id, "service": args["service"], "version": args["version"], "status": "rolling",
                "left": left, "bad": plan["bad"]});
            tables.put("releases", &id, release);
            json!({"id": id, "service": args["service"], "version": args["version"], "status": "rolling"})
        }
        "get_release" => {
            let Some(release) = tables.find_mut("releases", &args["id"]) else { return error("not_found") };
            let left = release["left"].as_u64().unwrap_or_default();
            let end = if release["bad"] == true { "failed" } else { "live" };
            release["status"] = json!(if left > 0 { "rolling" } else { end });
            release["left"] = json!(left.saturating_sub(1));
            json!({"id": release["id"], "version": release["version"], "status": release["status"]})
        }
        "rollback" => json!({"service": args["service"], "version": args["to"], "status": "rolled_back"}),
        "notify" => json!({"posted": true, "channel": args["channel"]}),
        _ => error("unknown_tool"),
    }
}

fn script(agent: &mut Agent<'_>, case: u32) {
    let service = agent.call("get_service", json!({"id": "web"}));
    if agent.is("deployments are frozen", service["frozen"] == true) {
        let told = agent.call("notify", json!({"channel": "ops", "text": "frozen"}));
        agent.is("it is posted", told["posted"] == true);
        return;
    }
    if !agent.is("the service is healthy", service["healthy"] == true) {
        let back = agent.call("rollback", json!({"service": "web", "to": "1.3.9"}));
        agent.on("it is", &back["status"]);
        let told = agent.call("notify", json!({"channel": "ops", "text": "rolled back"}));
        agent.is("it is posted", told["posted"] == true);
        return;
    }
    // The version was written down without its last part.
    let mut version = if case == 4 { "1.5" } else { "1.5.0" };
    let mut release = agent.call("deploy", json!({"service": "web", "version": version}));
    if agent.is("it is refused", release["error"].is_object()) {
        agent.on("why", &release["error"]["code"]);
        version = "1.5.0";
        release = agent.call("deploy", json!({"service": "web", "version": version}));
    }
    agent.on("it begins", &release["status"]);
    agent.is("it is the right version", release["version"] == version);
    let mut status = String::new();
    for _ in 0..LOOKS {
        let read = agent.call("get_release", json!({"id": release["id"]}));
        status = agent.on("the release", &read["status"]);
        if status != "rolling" {
            break;
        }
    }
    if status == "live" {
        let flag = agent.call("get_flag", json!({"id": "new-cart"}));
        if !agent.is("its flag is on", flag["on"] == true) {
            let set = agent.call("set_flag", json!({"id": "new-cart", "on": true}));
            agent.is("it is set", set["on"] == true);
            let read = agent.call("get_flag", json!({"id": "new-cart"}));
            agent.is("it stays set", read["on"] == true);
        }
    } else {
        let back = agent.call("rollback", json!({"service": "web", "to": "1.4.0"}));
        agent.on("it is", &back["status"]);
    }
    let told = agent.call("notify", json!({"channel": "ops", "text": status}));
    agent.is("it is posted", told["posted"] == true);
}
