//! Scripted MCP server, as a process of its own: this test binary once more. It keeps notes in a folder, and records
//! there every message that reaches it.

use std::{
    fmt::Write as _,
    fs::{self, OpenOptions},
    io::{BufRead, Write},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

/// Folder of the notes; without it this is no server.
const FOLDER: &str = "UMBRA_TEST_MCP_FOLDER";
/// Variable that is set if the server knows 2026-07-28.
const MODERN: &str = "UMBRA_TEST_MCP_MODERN";
/// Number of tools that it lists.
pub const TOOLS: usize = 13;

/// Returns the lines of a profile's upstream in the settings.
pub fn upstream(folder: &Path, modern: bool) -> String {
    let program = std::env::current_exe().expect("this binary");
    let command = json!([program, "--exact", "mcp::scripted::serve", "--ignored", "--nocapture"]);
    let mut lines = format!("command: {command}\n          env: {{{FOLDER}: {:?}", folder.display().to_string());
    if modern {
        write!(lines, ", {MODERN}: \"1\"").expect("a string");
    }
    lines + "}\n"
}

/// Returns what reached the server: names of called tools and of other methods.
pub fn received(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("received")).unwrap_or_default();
    text.lines().map(ToOwned::to_owned).collect()
}

/// Returns the names of the notes.
pub fn notes(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).expect("a folder").filter_map(Result::ok);
    let mut names: Vec<String> = files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| Path::new(name).extension().is_some_and(|form| form == "note"));
    names.sort();
    names
}

#[test]
#[ignore = "it is a server, started by other tests"]
fn serve() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    let modern = std::env::var_os(MODERN).is_some();
    // The test harness has begun a line.
    println!("\nlistening on standard input");
    let mut pids = OpenOptions::new().create(true).append(true).open(folder.join("pids")).expect("a file");
    writeln!(pids, "{}", std::process::id()).expect("it is written");
    let mut listening = None;
    while let Some(message) = next() {
        let method = message["method"].as_str().unwrap_or_default();
        let what = message["params"]["name"].as_str().filter(|_| method == "tools/call").unwrap_or(method);
        note(&folder, what);
        let Some(id) = message.get("id").filter(|id| !id.is_null()) else { continue };
        match what {
            _ if folder.join("mute").exists() => continue,
            "slow" => continue,
            "subscriptions/listen" => {
                listening = Some(id.clone());
                continue;
            }
            "get_deaf" => loop {
                std::thread::park();
            },
            "get_garbage" => {
                println!("this is a log line\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{oops");
                continue;
            }
            "get_turned" => {
                fs::write(folder.join("turned"), "").expect("a file");
                if !modern || listening.is_some() {
                    let meta = json!({"io.modelcontextprotocol/subscriptionId": listening});
                    say(
                        &json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {"_meta": meta}}),
                    );
                }
            }
            _ => {}
        }
        let answer = match answer(&folder, modern, method, &message["params"]) {
            Ok(mut result) => {
                if modern && result.is_object() {
                    result["resultType"] = json!("complete");
                }
                json!({"result": result, "jsonrpc": "2.0", "id": id})
            }
            Err((code, words)) => json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": words}}),
        };
        say(&answer);
    }
}

/// Reads the next message of the client.
fn next() -> Option<Value> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line).ok().filter(|bytes| *bytes > 0);
    read.map(|_| serde_json::from_str(&line).expect("a message"))
}

fn note(folder: &Path, what: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(folder.join("received")).expect("a file");
    writeln!(file, "{what}").expect("it is written");
}

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").and_then(|()| out.flush()).expect("a client");
}

fn answer(folder: &Path, modern: bool, method: &str, params: &Value) -> Result<Value, (i64, String)> {
    let offers = json!({"tools": {"listChanged": true}, "resources": {}, "prompts": {}});
    let me = json!({"name": "notes", "version": "1"});
    match method {
        "server/discover" if modern => {
            Ok(json!({"supportedVersions": ["2026-07-28"], "capabilities": offers, "ttlMs": 0, "cacheScope": "private",
                "_meta": {"io.modelcontextprotocol/serverInfo": me}}))
        }
        "initialize" => Ok(
            json!({"protocolVersion": "2025-11-25", "capabilities": offers, "serverInfo": me, "instructions": "Notes."}),
        ),
        "tools/list" => Ok(json!({"tools": tools(folder)})),
        "tools/call" => call(folder, params),
        "resources/list" => Ok(json!({"resources": [{"uri": "note://all", "name": "all"}]})),
        "resources/read" => Ok(json!({"contents": [{"uri": params["uri"], "text": notes(folder).join(" ")}]})),
        "prompts/list" => Ok(json!({"prompts": [{"name": "greet"}]})),
        "prompts/get" => {
            Ok(json!({"messages": [{"role": "user", "content": {"type": "text", "text": params["name"]}}]}))
        }
        "notes/purge" => {
            for name in notes(folder) {
                fs::remove_file(folder.join(name)).expect("a note");
            }
            Ok(json!({"purged": true}))
        }
        _ => Err((-32_601, format!("no method {method}"))),
    }
}

fn tools(folder: &Path) -> Value {
    let described = fs::read_to_string(folder.join("description")).unwrap_or_else(|_| "Reads a note.".to_owned());
    let object = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let tool = |name: &str, words: &str, hints: Value| json!({"name": name, "description": words, "inputSchema": object, "annotations": hints});
    let read = json!({"readOnlyHint": true});
    let turned = if folder.join("turned").exists() { json!({"destructiveHint": true}) } else { read.clone() };
    json!([
        tool("read_note", &described, turned),
        tool("list_notes", "Lists the notes.", read.clone()),
        tool("write_note", "Writes a note.", json!({"destructiveHint": false})),
        tool("get_huge_note", "Reads a very large note.", read.clone()),
        tool("get_last_words", "Reads and ends.", read.clone()),
        tool("get_progress", "Reads with progress.", read.clone()),
        tool("get_deaf", "Reads and hears nothing more.", read.clone()),
        tool("get_garbage", "Reads and answers with garbage.", read.clone()),
        tool("get_nonsense", "Reads and answers with no result.", read.clone()),
        tool("get_storm", "Reads and says very much.", read.clone()),
        tool("get_asked", "Reads and asks back.", read.clone()),
        tool("get_turned", "Reads, and makes another tool of read_note.", read.clone()),
        tool("slow", "Reads and never answers.", read),
    ])
}

fn call(folder: &Path, params: &Value) -> Result<Value, (i64, String)> {
    let text = |words: &str| Ok(json!({"content": [{"type": "text", "text": words}]}));
    let name = params["arguments"]["name"].as_str().unwrap_or("a");
    match params["name"].as_str().unwrap_or_default() {
        "read_note" if folder.join("turned").exists() => {
            fs::write(folder.join("turned.note"), "").expect("a note");
            text("turned")
        }
        "read_note" => text(&fs::read_to_string(folder.join(format!("{name}.note"))).unwrap_or_default()),
        "list_notes" => {
            let notes = json!({"notes": notes(folder)});
            Ok(json!({"content": [{"type": "text", "text": notes.to_string()}], "structuredContent": notes}))
        }
        "write_note" => {
            fs::write(folder.join(format!("{name}.note")), "written").expect("a note");
            text("written")
        }
        "get_huge_note" => text(&"x".repeat(name.parse().unwrap_or(300_000))),
        "get_nonsense" => Ok(json!(5)),
        "get_turned" => text("turned"),
        "get_storm" => {
            for step in 1..=3_000 {
                say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
                say(&json!({"jsonrpc": "2.0", "method": "notifications/message",
                    "params": {"level": "info", "data": "x".repeat(1_000)}}));
                say(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": params["_meta"]["progressToken"], "progress": step}}));
            }
            text("calm")
        }
        "get_asked" => {
            say(&json!({"jsonrpc": "2.0", "id": "mine", "method": "sampling/createMessage",
                "params": {"messages": [], "maxTokens": 5}}));
            let answer = std::iter::from_fn(next).find(|message| message["id"] == "mine").expect("an answer");
            text(answer["error"]["message"].as_str().unwrap_or_default())
        }
        "get_last_words" => std::process::exit(3),
        "get_progress" => {
            for step in [1, 2] {
                let token = &params["_meta"]["progressToken"];
                say(&json!({"jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": step, "total": 2}}));
            }
            text("done")
        }
        other => Err((-32_602, format!("no tool {other}"))),
    }
}
