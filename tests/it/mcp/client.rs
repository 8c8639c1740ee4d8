//! Client over standard input and output that sends exactly the given messages.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin},
    sync::mpsc::{Receiver, channel},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};

use crate::support::{DEADLINE, Umbra};

/// Client of `umbra mcp`.
pub struct Client {
    child: Child,
    input: Option<ChildStdin>,
    said: Receiver<Value>,
    modern: bool,
    next: i64,
    /// Messages that were no awaited answer.
    pub aside: Vec<Value>,
}

impl Client {
    /// Starts the proxy and completes the handshake.
    pub fn start(umbra: &Umbra, env: &[(&str, &str)], args: &[&str], modern: bool) -> Self {
        let mut child = umbra.spawn(env, args);
        let output = child.stdout.take().expect("a pipe");
        let (tell, said) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if tell.send(serde_json::from_str(&line).expect("a message a line")).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take();
        let mut client = Self { child, input, said, modern, next: 0, aside: Vec::new() };
        if modern {
            let found = client.ask("server/discover", json!({}));
            assert_eq!(found["result"]["supportedVersions"][0].as_str().map(str::len), Some(10), "{found}");
        } else {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
            let agreed = client.ask("initialize", hello);
            assert_eq!(agreed["result"]["protocolVersion"], "2025-11-25", "{agreed}");
            client.tell("notifications/initialized", &json!({}));
        }
        client
    }

    /// Sends a notification.
    pub fn tell(&mut self, method: &str, params: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request; returns its id.
    pub fn send(&mut self, method: &str, mut params: Value) -> i64 {
        self.next += 1;
        if self.modern {
            for (key, value) in [
                ("protocolVersion", json!("2026-07-28")),
                ("clientInfo", json!({"name": "c", "version": "1"})),
                ("clientCapabilities", json!({})),
            ] {
                params["_meta"][format!("io.modelcontextprotocol/{key}")] = value;
            }
        }
        self.say(&json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params}));
        self.next
    }

    fn say(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("a pipe");
        writeln!(input, "{message}").and_then(|()| input.flush()).expect("it listens");
    }

    /// Sends a line as it is.
    pub fn write(&mut self, line: &str) {
        let input = self.input.as_mut().expect("a pipe");
        writeln!(input, "{line}").and_then(|()| input.flush()).expect("it listens");
    }

    /// Returns the next error that names no request.
    pub fn complaint(&mut self) -> Value {
        loop {
            let said = self.said.recv_timeout(DEADLINE).expect("a message");
            if said["error"].is_object() && said["id"].is_null() {
                return said["error"].clone();
            }
            self.aside.push(said);
        }
    }

    /// Returns the answer to a request.
    pub fn answer(&mut self, id: i64) -> Value {
        self.until(&json!(id))
    }

    /// Returns the answer to a request of any id.
    pub fn until(&mut self, id: &Value) -> Value {
        loop {
            let said = self.said.recv_timeout(DEADLINE).expect("an answer");
            if said["id"] == *id && said.get("method").is_none() {
                return said;
            }
            self.aside.push(said);
        }
    }

    /// Returns the next message of this method that is no answer.
    pub fn hear(&mut self, method: &str) -> Value {
        if let Some(index) = self.aside.iter().position(|said| said["method"] == method) {
            return self.aside.remove(index);
        }
        loop {
            let said = self.said.recv_timeout(DEADLINE).expect("a message");
            if said["method"] == method {
                return said;
            }
            self.aside.push(said);
        }
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Calls a tool; an answer that is no result fails the test.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let said = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(said["result"].is_object(), "{said}");
        assert_eq!(said["result"].get("resultType"), self.modern.then(|| json!("complete")).as_ref(), "{said}");
        said["result"].clone()
    }

    /// Stops the proxy by a signal while the client stays, and waits for its end.
    pub fn stop(mut self) -> bool {
        let id = i32::try_from(self.child.id()).expect("a pid");
        kill(Pid::from_raw(id), Signal::SIGTERM).expect("it is told");
        self.child.wait().expect("it ends").success()
    }

    /// Closes the input, and waits for the proxy's end.
    pub fn leave(mut self) -> bool {
        drop(self.input.take());
        self.child.wait().expect("it ends").success()
    }
}

/// Returns the text of a result.
pub fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}
