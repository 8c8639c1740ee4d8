//! Domain `files` of the fidelity bench: a simulated service, and the script of the agent that uses it. A setting is
//! corrected, old logs are deleted, and a report is moved into the archive.

use serde_json::{Value, json};

use super::{
    agent::Agent,
    service::{Domain, Tables, error, missing},
};

pub(super) const FILES: Domain = Domain { name: "files", cases: 10, tables, serve, script };

fn tables(case: u32) -> Tables {
    let file = |path: &str, text: &str| json!({"path": path, "text": text, "bytes": text.len()});
    let mut tables = Tables::default();
    if !case.is_multiple_of(3) {
        let text = if case.is_multiple_of(2) { "level: debug" } else { "level: info" };
        tables.put("files", "app.yaml", file("app.yaml", text));
    }
    if case % 4 != 1 {
        tables.put("files", "report.md", file("report.md", "# Figures\nfinal"));
    }
    for n in 0..case % 5 {
        let path = format!("log-{n}.txt");
        tables.put("files", &path, file(&path, &"line\n".repeat(n as usize * 40)));
    }
    tables
}

fn serve(tables: &mut Tables, tool: &str, args: &Value) -> Value {
    match tool {
        "list" => {
            json!({"files": tables.all("files").iter().map(|file| json!({"path": file["path"], "bytes": file["bytes"]}))
            .collect::<Vec<_>>()})
        }
        "read" => tables.read("files", &args["path"]),
        "write" => {
            let (path, text) = (args["path"].as_str().unwrap_or_default(), args["text"].as_str().unwrap_or_default());
            if path.starts_with('/') {
                return error("outside");
            }
            tables.put("files", path, json!({"path": path, "text": text, "bytes": text.len()}));
            json!({"path": path, "bytes": text.len()})
        }
        "move" => {
            let Some(mut file) = tables.take("files", &args["from"]) else { return error("not_found") };
            file["path"] = args["to"].clone();
            tables.put("files", args["to"].as_str().unwrap_or_default(), file);
            json!({"from": args["from"], "path": args["to"]})
        }
        "delete" => tables.take("files", &args["path"]).map_or_else(missing, |_| json!({"deleted": args["path"]})),
        _ => error("unknown_tool"),
    }
}

fn script(agent: &mut Agent<'_>, case: u32) {
    let wanted = "level: info";
    let setting = agent.call("read", json!({"path": "app.yaml"}));
    let right = setting["text"] == wanted;
    if agent.is("there is no setting", setting["error"].is_object()) || !agent.is("the setting is right", right) {
        let written = agent.call("write", json!({"path": "app.yaml", "text": wanted}));
        agent.is("it is written", written["bytes"] == wanted.len());
        let again = agent.call("read", json!({"path": "app.yaml"}));
        agent.is("the setting is right now", again["text"] == wanted);
    }
    if case == 4 {
        let outside = agent.call("write", json!({"path": "/etc/app.yaml", "text": wanted}));
        agent.on("outside it is refused", &outside["error"]["code"]);
    }
    let listed = agent.call("list", json!({}));
    let files = listed["files"].as_array().cloned().unwrap_or_default();
    for file in files.iter().filter(|file| file["path"].as_str().is_some_and(|path| path.starts_with("log-"))) {
        if agent.is("the log is worth keeping", file["bytes"].as_u64() > Some(100)) {
            continue;
        }
        let deleted = agent.call("delete", json!({"path": file["path"]}));
        agent.is("it is deleted", deleted["deleted"] == file["path"]);
        let gone = agent.call("read", json!({"path": file["path"]}));
        agent.on("it is gone", &gone["error"]["code"]);
    }
    let listed = agent.call("list", json!({}));
    let has =
        |path: &str| listed["files"].as_array().is_some_and(|files| files.iter().any(|file| file["path"] == path));
    agent.is("the setting is listed", has("app.yaml"));
    if agent.is("there is a report", has("report.md")) {
        let moved = agent.call("move", json!({"from": "report.md", "to": "archive/report.md"}));
        agent.is("it has moved", moved["path"] == "archive/report.md");
        let old = agent.call("read", json!({"path": "report.md"}));
        agent.on("the old one", &old["error"]["code"]);
        let new = agent.call("read", json!({"path": "archive/report.md"}));
        if agent.is("the new one is there", new["path"] == "archive/report.md") {
            agent.is("it is final", new["text"].as_str().is_some_and(|text| text.contains("final")));
        }
    }
}
