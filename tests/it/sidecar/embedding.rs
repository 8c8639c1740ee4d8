//! Tools found by an embedding model: a scripted server that knows three verbs in two languages.

use serde_json::{Value, json};

use crate::support::{
    Umbra,
    model_server::{Answer, ModelServer, Seen},
    until,
};

const KEY: &str = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";

fn vector(text: &Value) -> Vec<f64> {
    let text = text.as_str().unwrap_or_default().to_lowercase();
    let mentions = |words: [&str; 2]| if words.iter().any(|word| text.contains(word)) { 1.0 } else { 0.0 };
    vec![mentions(["delete", "lösche"]), mentions(["send", "schicke"]), mentions(["read", "lies"]), 0.1]
}

/// Returns vectors in another order than the texts, as the protocol permits.
fn vectors(seen: &Seen) -> Answer {
    let texts = seen.body["input"].as_array().cloned().unwrap_or_default();
    let rows = texts.iter().enumerate().rev().map(|(at, text)| json!({"index": at, "embedding": vector(text)}));
    Answer::Raw(json!({"data": rows.collect::<Vec<_>>()}).to_string())
}

fn tools() -> Value {
    json!([
        {"server": "mail", "name": "send_email", "description": "Sends a message. IMPORTANT: not to everybody."},
        {"server": "mail", "name": "delete_email", "description": "Deletes a message for good."},
        {"server": "files", "name": "read_file", "description": "Reads a file."},
    ])
}

async fn umbra(model: &ModelServer) -> Umbra {
    let settings = format!(
        "models:\n  vec: {{provider: openai, kind: embedding, name: v-1, base_url: '{}', timeout: 1s}}\nsidecar: {{deadline: 20s}}\n",
        model.openai_url()
    );
    Umbra::with().settings(&settings).go().await
}

async fn select(umbra: &Umbra, query: &str, deadline_ms: u64) -> Value {
    let body = json!({"agent": "coder", "query": query, "tools": tools(), "deadline_ms": deadline_ms});
    umbra.post("/v1/tools/select", &body).await.body
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_in_another_language_finds_its_tool() {
    let model = ModelServer::start(vectors).await;
    let umbra = umbra(&model).await;
    let found = select(&umbra, &format!("Lösche den Brief: {KEY}"), 20_000).await;
    assert_eq!(found["ranked"][0]["tool"]["name"], "delete_email", "{found}");
    assert_eq!(found["ranked"][0]["reason"], "close in meaning", "{found}");
    assert_eq!(found["warnings"], json!([]), "{found}");
    let seen = model.last();
    assert_eq!((seen.path.as_str(), &seen.body["model"]), ("/v1/embeddings", &json!("v-1")));
    assert!(!seen.raw.contains(KEY) && seen.raw.contains("Brief"), "{}", seen.raw);

    let requests = model.count();
    select(&umbra, &format!("Lösche den Brief: {KEY}"), 20_000).await;
    assert_eq!(model.count(), requests, "vectors are kept");
    let sent = select(&umbra, "Schicke den Brief", 20_000).await;
    assert_eq!(sent["ranked"][0]["tool"]["name"], "send_email", "{sent}");
    assert_eq!((model.count(), &model.last().body["input"]), (requests + 1, &json!(["Schicke den Brief"])));

    let id = umbra.attach(&json!({"agent": "coder", "task": "Lies die Datei", "tools": tools()})).await;
    let turn = umbra.turn(&id, &json!({"intent": "Lösche die Post"})).await;
    assert_eq!(turn["tools"]["ranked"][0]["tool"]["name"], "delete_email", "{turn}");
    // No turn waits for the model while a session is locked: a new task is known by the next turn.
    let reads = async || {
        let turn = umbra.turn(&id, &json!({})).await;
        (turn["tools"]["ranked"][0]["reason"] == "close in meaning").then_some(turn)
    };
    let turn = until("the task of the session to be known", reads).await;
    assert_eq!(turn["tools"]["ranked"][0]["tool"]["name"], "read_file", "{turn}");
    assert_eq!(turn["warnings"], json!([]), "{turn}");
    let status = umbra.get("/v1/status").await;
    assert!(status.to_string().contains("\"v-1\""), "its health is told: {status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_embedding_model_falls_back_to_built_in_vectors() {
    let model = ModelServer::start(vectors).await;
    let umbra = umbra(&model).await;
    let two = json!({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]});
    let infinite = [0, 1, 2, 3].map(|at| json!({"index": at, "embedding": [1e39, 1.0]}));
    let infinite = json!({"data": infinite});
    for (answer, says) in [
        (Answer::error(500, "server_error", "on fire"), "on fire"),
        (Answer::Raw(two.to_string()), "vectors of one length"),
        (Answer::Raw(infinite.to_string()), "finite vectors"),
        (Answer::error(400, "bad", "no vector for `erase that letter: repeats the prompt"), "repeats the prompt"),
        (Answer::Hang, "not answered yet"),
    ] {
        let hangs = matches!(answer, Answer::Hang);
        model.set(move |_| answer.clone());
        let found = select(&umbra, &format!("erase that letter: {says}"), if hangs { 300 } else { 20_000 }).await;
        assert_eq!(found["ranked"][0]["tool"]["name"], "delete_email", "{found}");
        let warning = found["warnings"][0].as_str().unwrap_or_default();
        assert!(warning.starts_with("tools are ranked without the embedding model vec: "), "{found}");
        assert!(hangs || warning.contains(says), "{says}: {found}");
        assert!(!warning.contains("erase that letter"), "{found}");
    }
    model.set(vectors);
    let back = async || {
        let found = select(&umbra, "Lösche den Brief", 20_000).await;
        (found["warnings"] == json!([])).then_some(found)
    };
    let found = until("the model to be asked again", back).await;
    assert_eq!(found["ranked"][0]["tool"]["name"], "delete_email", "{found}");
}
