//! A session once more: each step is judged again as it stood, by the rules in force now, and what comes out otherwise is
//! told. Rules alone are asked: models, tools and patterns may answer otherwise tomorrow, and are compared by nobody.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::{
    Guarding,
    documents::{entries, format_of, word},
    guard::{Judge, Judged},
    step::{Read, Recorded, inputs_of},
};
use crate::{
    boundary::tools::Tools,
    domain::{Session, SessionId, StepKind},
    ingest::{GuardRequest, MessageRequest, Subject, TurnRequest},
    sidecar::document::revision::{Etag, replay},
    store::{Store, StoreError, documents::StoredDocument, sessions::StoredStep},
};

/// Steps, or versions, of one read.
const PAGE: i64 = 500;

/// What is said otherwise now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Difference {
    /// The step, counted from 1.
    pub step: i32,
    /// What of it, such as `call 1` or `message`.
    pub part: String,
    /// What was said then: decision and rule.
    pub then: String,
    /// What is said now.
    pub now: String,
}

/// A session, judged again.
#[derive(Debug, Clone, Serialize)]
pub struct Replay {
    /// The session.
    pub session: SessionId,
    /// Steps that were judged again.
    pub steps: u32,
    /// Rulings in them.
    pub rulings: u32,
    /// What is said otherwise.
    pub differences: Vec<Difference>,
    /// Steps whose record is not what was hashed, or whose documents cannot be had back.
    pub unreadable: Vec<i32>,
    /// The rules then, each version once.
    pub policy_versions: Vec<String>,
    /// The rules now.
    pub policy_version: String,
}

/// Texts of a document by their etags.
type Texts = HashMap<(String, String), String>;

/// Judges a session again; `None` where there is none.
///
/// # Errors
/// The database does not answer.
pub async fn replay_session(
    store: &Store,
    rules: &Guarding,
    tools: &Tools,
    id: SessionId,
) -> Result<Option<Replay>, StoreError> {
    let Some((session, documents)) = store.session(id).await? else { return Ok(None) };
    let texts = texts(store, id, &documents).await?;
    let formats = documents.iter().map(|document| (document.name.clone(), document.format.clone())).collect();
    let mut told = Replay {
        session: id,
        steps: 0,
        rulings: 0,
        differences: Vec::new(),
        unreadable: Vec::new(),
        policy_versions: Vec::new(),
        policy_version: rules.guardrail.version().to_owned(),
    };
    let mut after = 0;
    loop {
        let steps = store.session_steps(id, after, PAGE).await?;
        let Some(last) = steps.last() else { return Ok(Some(told)) };
        after = last.number;
        for step in &steps {
            repeat(step, &session, (&texts, &formats), (rules, tools), &mut told);
        }
    }
}

/// Every text that the documents of a session had.
async fn texts(store: &Store, id: SessionId, documents: &[StoredDocument]) -> Result<Texts, StoreError> {
    let mut texts = Texts::new();
    for document in documents {
        let mut text = document.first.clone();
        let mut keep = |text: &str| {
            texts.insert((document.name.clone(), Etag::of(text).to_string()), text.to_owned());
        };
        keep(&text);
        let mut after = 0;
        loop {
            let changes = store.document_changes(id, &document.name, after, PAGE).await?;
            let (Some(last), Some(entries)) = (changes.last(), entries(&changes)) else { break };
            after = last.version;
            for entry in entries {
                let Ok(next) = replay(&text, [&entry]) else { break };
                text = next;
                keep(&text);
            }
        }
    }
    Ok(texts)
}

fn repeat(
    step: &StoredStep,
    session: &Session,
    (texts, formats): (&Texts, &HashMap<String, String>),
    (rules, tools): (&Guarding, &Tools),
    told: &mut Replay,
) {
    let recorded: Result<Recorded, _> = serde_json::from_str(&step.body);
    let Ok(recorded) = recorded else {
        told.unreadable.push(step.number);
        return;
    };
    let documents = documents_at(&recorded, texts, formats);
    let (Some(documents), true) =
        (documents, inputs_of(&recorded.asked, &recorded.before, &recorded.marks) == recorded.inputs)
    else {
        told.unreadable.push(step.number);
        return;
    };
    if !told.policy_versions.contains(&recorded.policy_version) {
        told.policy_versions.push(recorded.policy_version.clone());
    }
    told.steps += 1;
    let (documents, name) = (Read::all(&documents), session.id.to_string());
    let mut judge = Judge {
        rules,
        tools,
        agent: &session.agent,
        route: recorded.before.route.as_deref(),
        modes: &recorded.before.modes,
        session: Some(&name),
        documents: Some(&documents),
        taints: recorded.before.taints.clone(),
    };
    for (part, then, now) in parts(step.kind, &recorded, &mut judge) {
        told.rulings += 1;
        let (then, now) = (said(&then), said(&serde_json::to_value(&now).unwrap_or_default()));
        // What a model raised is not asked again.
        if then != now && !then.ends_with("(model)") {
            told.differences.push(Difference { step: step.number, part, then, now });
        }
    }
}

/// What was said of each part of a step, and what is said now.
fn parts(kind: StepKind, recorded: &Recorded, judge: &mut Judge<'_>) -> Vec<(String, Value, Judged)> {
    let answered = |pointer: &str| recorded.answered.pointer(pointer).cloned().unwrap_or_default();
    let mut parts = Vec::new();
    let mut gone = recorded.marks.iter();
    let mut marks = || gone.next().map_or(&[][..], Vec::as_slice);
    match kind {
        StepKind::Turn => {
            let Ok(asked) = serde_json::from_value::<TurnRequest>(recorded.asked.clone()) else { return parts };
            for (at, call) in asked.planned_calls.iter().enumerate() {
                let (then, now) = (answered(&format!("/decisions/{at}")), judge.call(call, marks()));
                parts.push((format!("call {}", at + 1), then, now));
            }
        }
        StepKind::Message => {
            let Ok(asked) = serde_json::from_value::<MessageRequest>(recorded.asked.clone()) else { return parts };
            for (at, call) in asked.tool_calls.iter().enumerate() {
                let (then, now) = (answered(&format!("/calls/{at}")), judge.call(call, marks()));
                parts.push((format!("call {}", at + 1), then, now));
            }
            for (at, result) in asked.results.iter().enumerate() {
                let then = answered(&format!("/results/{at}"));
                let now = judge.result(&result.tool, &result.content, marks());
                parts.push((format!("result {}", at + 1), then, now));
            }
            if let Some(content) = &asked.content {
                let ruling = judge.message(&asked.role, content, marks());
                parts.push(("message".to_owned(), answered("/said"), Judged { ruling, ..Judged::default() }));
            }
        }
        StepKind::Guard => {
            let Ok(asked) = serde_json::from_value::<GuardRequest>(recorded.asked.clone()) else { return parts };
            let now = match &asked.subject {
                Subject::Call(call) => judge.call(call, marks()),
                Subject::Message { role, content } => {
                    Judged { ruling: judge.message(role, content, marks()), ..Judged::default() }
                }
            };
            parts.push(("guard".to_owned(), recorded.answered.clone(), now));
        }
        StepKind::Close => {}
    }
    // Where the guardrail is no objective of the session, nothing was judged.
    parts.retain(|(_, then, _)| !then.is_null());
    parts
}

/// A ruling in short: `block by no-drop (rule)`.
fn said(ruling: &Value) -> String {
    let text = |key: &str| ruling.get(key).and_then(Value::as_str);
    let decision = text("decision").unwrap_or("allow");
    match (text("rule"), text("checked_by")) {
        (Some(rule), Some(by)) => format!("{decision} by {rule} ({by})"),
        (Some(rule), None) => format!("{decision} by {rule}"),
        _ => decision.to_owned(),
    }
}

/// The documents as they were when a step was taken; `None` where a text is not to be had.
fn documents_at(recorded: &Recorded, texts: &Texts, formats: &HashMap<String, String>) -> Option<Vec<StoredDocument>> {
    let at = |document: &super::step::DocumentAt| {
        let text = |etag: &String| texts.get(&(document.name.clone(), etag.clone())).cloned();
        let format = formats.get(&document.name).map_or("markdown", String::as_str);
        Some(StoredDocument {
            name: document.name.clone(),
            format: word(format_of(format)).to_owned(),
            version: document.version,
            first: text(&document.first)?,
            text: text(&document.etag)?,
            at_turn: text(&document.at_turn)?,
        })
    };
    recorded.before.documents.iter().map(at).collect()
}
