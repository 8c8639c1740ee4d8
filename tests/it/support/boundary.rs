//! Calls of tools, as an agent's client makes them.

use serde_json::{Value, json};

use super::{Umbra, server::Answered};

/// Returns a call that only reads.
pub fn read(call_id: &str, agent: &str) -> Value {
    json!({"call_id": call_id, "agent": agent, "tool": {"server": "crm", "name": "get_customer", "annotations": {"readOnlyHint": true}},
        "arguments": {"id": "c1"}})
}

/// Returns a call that changes something.
pub fn write(call_id: &str, agent: &str) -> Value {
    json!({"call_id": call_id, "agent": agent, "tool": {"server": "mail", "name": "send_email"},
        "arguments": {"to": "a@example.com", "amount": 49.99}})
}

/// Adds these members to a call.
pub fn with(mut call: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().into_iter().flatten() {
        call[key] = value.clone();
    }
    call
}

impl Umbra {
    /// Decides; anything but 200 fails the test.
    pub async fn decide(&self, call: &Value) -> Value {
        let answered = self.post("/v1/decide", call).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        answered.body
    }

    /// Sends JSON by PUT.
    pub async fn put(&self, path: &str, body: &Value) -> Answered {
        let body = serde_json::to_vec(body).expect("JSON");
        self.send(reqwest::Method::PUT, path, &[("content-type", "application/json")], Some(body)).await
    }

    /// Returns the rows of the audit that match a query.
    pub async fn audit(&self, query: &str) -> Vec<Value> {
        let answered = self.send(reqwest::Method::GET, &format!("/v1/audit?{query}"), &[], None).await;
        assert_eq!(answered.status, 200, "{}", answered.text);
        answered.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
    }
}
