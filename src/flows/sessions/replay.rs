//! A session once more: each step is judged again as it stood, by the rules in force now, and what comes out otherwise is
//! told. Rules alone are asked: models, tools and patterns may answer otherwise tomorrow, and are compared by nobody.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::{
    Guarding,
    documents::{entries, format_of, word},
    judge::{Judged, Part, Scene},
    step::{Recorded, inputs_of},
    words::Words,
};
use crate::ingest::{GuardRequest, MessageRequest, TurnRequest};
use umbra_boundary::tools::Tools;
use umbra_domain::{
    Objective, Session, SessionId, StepKind,
    session::chained,
    sidecar::{DocumentDue, SidecarVerdict},
};
use umbra_sidecar::document::revision::{Etag, replay};
use umbra_store::{Store, StoreError, documents::StoredDocument, seek::Seek, sessions::StoredStep};

/// Steps, or versions, of one read.
const PAGE: u32 = 500;

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
    /// Steps whose record was changed, or whose documents cannot be had back.
    pub unreadable: Vec<i32>,
    /// Steps that are missing: each the number of the first of a gap.
    pub missing: Vec<i32>,
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
    let Some((session, documents)) = store.sessions().get(id).await? else { return Ok(None) };
    let texts = texts(store, id, &documents).await?;
    let formats = documents.iter().map(|document| (document.name.clone(), document.format.clone())).collect();
    let mut told = Replay {
        session: id,
        steps: 0,
        rulings: 0,
        differences: Vec::new(),
        unreadable: Vec::new(),
        missing: Vec::new(),
        policy_versions: Vec::new(),
        policy_version: rules.guardrail.version().to_owned(),
    };
    let (mut after, mut chain) = (0, None);
    loop {
        let steps = store.sessions().session_steps(id, after, PAGE.into()).await?;
        if steps.is_empty() {
            if chain != session.chain && told.unreadable.is_empty() {
                told.missing.push(after + 1);
            }
            return Ok(Some(told));
        }
        for step in &steps {
            // Behind a gap nobody knows what the one before was called.
            let follows = step.number == after + 1;
            if !follows {
                told.missing.push(after + 1);
            }
            let should = || chained(chain.as_deref(), step.number, step.kind, &step.body);
            let is_whole = step.chain.as_ref().is_none_or(|kept| !follows || *kept == should());
            (after, chain) = (step.number, step.chain.clone());
            if is_whole {
                repeat(step, &session, (&texts, &formats), (rules, tools), &mut told);
            } else {
                told.unreadable.push(step.number);
            }
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
        let (mut from, mut more) = (None, true);
        while more {
            let page = store
                .sessions()
                .document_changes(id, &document.name, Seek { from, descending: false, limit: PAGE })
                .await?;
            let Some(entries) = entries(page.items.iter().map(|(_, change)| change)) else { break };
            from = page.items.last().map(|(version, _)| *version);
            more = page.more;
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
    let (Some(documents), true) = (
        documents,
        inputs_of(&recorded.asked, &recorded.before, &recorded.marks).is_ok_and(|inputs| inputs == recorded.inputs),
    ) else {
        told.unreadable.push(step.number);
        return;
    };
    if !told.policy_versions.contains(&recorded.policy_version) {
        told.policy_versions.push(recorded.policy_version.clone());
    }
    told.steps += 1;
    let mut scene = Scene {
        route: recorded.before.route.clone(),
        modes: recorded.before.modes.clone(),
        taints: recorded.before.taints.clone(),
        ..Scene::of((rules, tools), session, (!recorded.before.without_documents).then_some(&*documents))
    };
    let mut rulings = Vec::new();
    if session.has(Objective::TodoEnforcement) {
        rulings.extend(duties(step.kind, &recorded, &scene));
    }
    // Without that objective only who asks the guardrail itself is answered.
    if step.kind == StepKind::Guard || session.has(Objective::Guardrail) {
        let parts = parts(step.kind, &recorded, &mut scene).into_iter();
        rulings.extend(
            parts.map(|(part, then, now)| (part, said(&then), said(&serde_json::to_value(&now).unwrap_or_default()))),
        );
    }
    for (part, then, now) in rulings {
        told.rulings += 1;
        // What a model raised is not asked again.
        if then != now && !then.ends_with("(model)") {
            told.differences.push(Difference { step: step.number, part, then, now });
        }
    }
}

/// What was said of the documents when a turn began, or a message was told, and what is said now; nothing where neither has
/// anything to say.
fn duties(kind: StepKind, recorded: &Recorded, scene: &Scene<'_>) -> Option<(String, String, String)> {
    let part = match kind {
        StepKind::Turn => "turn",
        StepKind::Message => "documents",
        StepKind::Guard | StepKind::Close => return None,
    };
    let due = recorded.answered.get("documents_due")?;
    let due: Vec<DocumentDue> = serde_json::from_value(due.clone()).ok()?;
    let ruling = scene.turn();
    // A message is not ruled on for the documents: that they are due is told.
    let decision = |said: Option<&str>| if kind == StepKind::Turn { said.map(str::to_owned) } else { None };
    let then = in_short(decision(recorded.answered.get("decision").and_then(Value::as_str)), &due);
    let now = in_short(decision(Some(ruling.decision.as_str())), &ruling.due);
    let nothing = in_short(decision(Some(SidecarVerdict::Allow.as_str())), &[]);
    (then != nothing || now != nothing).then(|| (part.to_owned(), then, now))
}

/// `block, due: todo by all-done (block)`.
fn in_short(decision: Option<String>, due: &[DocumentDue]) -> String {
    let due: Vec<String> = due
        .iter()
        .map(|due| {
            let of = due.section.as_ref().map(|section| format!(" ({section})")).unwrap_or_default();
            format!("{}{of} by {} ({})", due.document, due.rule, due.verdict.as_str())
        })
        .collect();
    let due = (!due.is_empty()).then(|| format!("due: {}", due.join(", ")));
    let both: Vec<String> = decision.into_iter().chain(due).collect();
    if both.is_empty() { "nothing due".to_owned() } else { both.join(", ") }
}

/// What was said of each part of a step, and what is said now.
fn parts(kind: StepKind, recorded: &Recorded, scene: &mut Scene<'_>) -> Vec<(String, Value, Judged)> {
    let answered = |pointer: &str| recorded.answered.pointer(pointer).cloned().unwrap_or_default();
    let asked = recorded.asked.clone();
    let mut judge = |parts: &[Part<'_>]| scene.judge(parts, &recorded.marks, &mut Words::default()).into_iter();
    let named = |name: &'static str, list: &'static str, most: usize| {
        (0..most).map(move |at| (format!("{name} {}", at + 1), format!("/{list}/{at}")))
    };
    let mut parts: Vec<(String, Value, Judged)> = match kind {
        StepKind::Turn => {
            let Ok(asked) = serde_json::from_value::<TurnRequest>(asked) else { return Vec::new() };
            let places = named("call", "decisions", asked.planned_calls.len());
            places.zip(judge(&Part::of_turn(&asked))).map(|((part, at), now)| (part, answered(&at), now)).collect()
        }
        StepKind::Message => {
            let Ok(asked) = serde_json::from_value::<MessageRequest>(asked) else { return Vec::new() };
            let calls = named("call", "calls", asked.tool_calls.len());
            let results = named("result", "results", asked.results.len());
            let places = calls.chain(results).chain([("message".to_owned(), "/said".to_owned())]);
            places.zip(judge(&Part::of_message(&asked))).map(|((part, at), now)| (part, answered(&at), now)).collect()
        }
        StepKind::Guard => {
            let Ok(asked) = serde_json::from_value::<GuardRequest>(asked) else { return Vec::new() };
            let judged = judge(&Part::of_guard(&asked));
            judged.map(|now| ("guard".to_owned(), recorded.answered.clone(), now)).collect()
        }
        StepKind::Close => Vec::new(),
    };
    // Of a step that was not kept to its end nothing was said.
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
