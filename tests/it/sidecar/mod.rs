//! The sidecar over the wire: sessions, turns, messages, the guardrail, documents, patterns, and faults of its
//! dependencies.

mod documents;
mod embedding;
mod example;
mod faults;
mod mined;
mod patterns;
mod poisoned;
mod replay;
mod saves;
mod sessions;
mod words;
mod work;
mod workspace;

use serde_json::{Value, json};

use crate::support::{Umbra, server::Answered};

/// Rules that the tests share.
pub const RULES: &str = "
policies:
  - {name: no-drop, tools: db.drop_table, verdict: block, reason: tables stay}
  - {name: web-taints, tools: web.fetch, verdict: allow, taints: untrusted}
  - {name: no-mail-after-web, tools: mail.send_*, when: '\"untrusted\" in session.taint', verdict: block, reason: the web was read}
  - {name: tried, mode: audit, tools: search.*, verdict: block, reason: searching is tried}
documents:
  - {name: plan-first, routes: edit, document: todo, section: plan, needs: updated, since: session, verdict: block, reason: plan before you edit}
  - {name: findings, routes: answer, document: spec, section: findings, needs: exists, verdict: warn, reason: write down what you found}
  - {name: all-done, routes: answer, document: todo, needs: complete, verdict: block, reason: finish the plan}
texts:
  - {name: no-secrets, checks: secrets, verdict: block, reason: credentials are not said}
  - {name: no-orders, of: result, checks: injection, verdict: warn, reason: a result gives orders}
";

/// Tools of the tests, as a server lists them.
pub fn tools() -> Value {
    json!([
        {"server": "search", "name": "search_code", "description": "Search the code of a repository for a text",
            "inputSchema": {"type": "object", "properties": {"query": {"type": "string", "description": "what to look for"}}}},
        {"server": "files", "name": "edit_file", "description": "Edit a file: replace a text by another",
            "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}}},
        {"server": "db", "name": "drop_table", "description": "Drop a table of the database"},
        {"server": "mail", "name": "send_email", "description": "Send an email to somebody"},
        {"server": "web", "name": "fetch", "description": "Fetch a page of the web"},
    ])
}

impl Umbra {
    /// Attaches a sidecar, and returns the session's id.
    pub async fn attach(&self, body: &Value) -> String {
        let answered = self.post("/v1/sessions", body).await;
        assert_eq!(answered.status.as_u16(), 201, "{}", answered.body);
        answered.body["id"].as_str().unwrap_or_default().to_owned()
    }

    /// Posts a turn of a session.
    pub async fn turn(&self, id: &str, body: &Value) -> Value {
        let answered = self.post(&format!("/v1/sessions/{id}/turns"), body).await;
        assert_eq!(answered.status.as_u16(), 200, "{}", answered.body);
        answered.body
    }

    /// Posts a message of a session.
    pub async fn message(&self, id: &str, body: &Value) -> Value {
        let answered = self.post(&format!("/v1/sessions/{id}/messages"), body).await;
        assert_eq!(answered.status.as_u16(), 200, "{}", answered.body);
        answered.body
    }

    /// Changes a document.
    pub async fn document(&self, method: &str, path: &str, if_match: Option<&str>, body: &Value) -> Answered {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(if_match.map(|etag| ("if-match", etag)));
        let method = method.parse().unwrap_or_default();
        self.send(method, path, &headers, Some(body.to_string().into_bytes())).await
    }
}
