//! Hooks of coding agents: payloads in, answers and events out.

mod calls;
mod companion;
mod install;
mod recorded;
mod sessions;
mod shim;

use serde_json::{Value, json};

use crate::support::Umbra;

impl Umbra {
    /// Sends a payload as a hook does, and returns the answer.
    async fn hook(&self, host: &str, mode: &str, payload: &Value) -> Value {
        let answered = self.post(&format!("/v1/hooks/{host}?mode={mode}"), payload).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        answered.body
    }

    /// Returns the stored events of an agent, oldest first.
    async fn events_of(&self, agent: &str) -> Vec<Value> {
        let listed = self.get(&format!("/v1/events?agent={agent}&order=asc")).await;
        let mut events = Vec::new();
        for item in listed["items"].as_array().into_iter().flatten() {
            let id = item["id"].as_str().unwrap_or_default();
            events.push(self.get(&format!("/v1/events/{id}")).await);
        }
        events
    }
}

/// Payload of Claude Code for an event of a session.
fn claude(event: &str, more: &Value) -> Value {
    let mut payload = json!({"session_id": "s1", "prompt_id": "p1", "hook_event_name": event, "cwd": "/app"});
    for (name, value) in more.as_object().into_iter().flatten() {
        payload[name] = value.clone();
    }
    payload
}

/// Payload of Claude Code for a shell call.
fn bash(event: &str, id: &str, command: &str) -> Value {
    claude(event, &json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": command}}))
}
