//! Replay of a session: judges each stored step again by the rules in force now, and reports the differences. Rules
//! alone are asked; answers of models, tools and patterns may change, and are not compared.

use std::collections::HashMap;

use serde::Serialize;
use serde_json::Value;

use super::{
    SidecarRulesInForce,
    documents::{entries, format_of, word},
    judge::{EvaluationContext, GuardRuling, StepPart},
    model_answers::ModelAnswers,
    step::{StepRecord, inputs_of},
};
use crate::ingest::{GuardRequest, MessageRequest, TurnRequest};
use umbra_boundary::tools::Tools;
use umbra_domain::{
    Objective, Session, SessionId, StepKind,
    session::step_digest,
    sidecar::{DocumentDue, SidecarVerdict},
};
use umbra_sidecar::document::revision::{Etag, replay};
use umbra_store::{Store, StoreError, documents::StoredDocument, paging::Seek, sessions::StoredStep};

/// Steps, or versions, per read.
const PAGE: u32 = 500;

/// A ruling that differs now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RulingDifference {
    /// Number of the step, from 1.
    pub step: i32,
    /// Part of the step, such as `call 1` or `message`.
    pub part: String,
    /// Decision and rule at the time.
    pub then: String,
    /// Decision and rule now.
    pub now: String,
}

/// Result of a replay.
#[derive(Debug, Clone, Serialize)]
pub struct Replay {
    /// Id of the session.
    pub session: SessionId,
    /// Steps that were judged again.
    pub steps: u32,
    /// Rulings in these steps.
    pub rulings: u32,
    /// Rulings that differ.
    pub differences: Vec<RulingDifference>,
    /// Steps whose record was changed, or whose documents cannot be restored.
    pub unreadable: Vec<i32>,
    /// First number of each gap in the steps.
    pub missing: Vec<i32>,
    /// Versions of the rules at the time, each once.
    pub policy_versions: Vec<String>,
    /// Version of the rules now.
    pub policy_version: String,
}

/// Texts of documents, by name and etag.
type Texts = HashMap<(String, String), String>;

/// Judges a session again; `None` if there is none.
///
/// # Errors
/// The database does not answer.
pub async fn replay_session(
    store: &Store,
    rules: &SidecarRulesInForce,
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
            // Behind a gap, the chain value of the step before is unknown.
            let follows = step.number == after + 1;
            if !follows {
                told.missing.push(after + 1);
            }
            let should = || step_digest(chain.as_deref(), step.number, step.kind, &step.body);
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

/// Collects all texts that the documents of a session had.
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
                let Some(next) = replay(&text, [&entry]) else { break };
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
    (rules, tools): (&SidecarRulesInForce, &Tools),
    told: &mut Replay,
) {
    let recorded: Result<StepRecord, _> = serde_json::from_str(&step.body);
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
    let mut scene = EvaluationContext {
        route: recorded.before.route.clone(),
        modes: recorded.before.modes.clone(),
        taints: recorded.before.taints.clone(),
        ..EvaluationContext::of((rules, tools), session, (!recorded.before.without_documents).then_some(&*documents))
    };
    let mut rulings = Vec::new();
    if session.has_objective(Objective::TodoEnforcement) {
        rulings.extend(duties(step.kind, &recorded, &scene));
    }
    // Without that objective only questions to the guardrail itself are answered.
    if step.kind == StepKind::Guard || session.has_objective(Objective::Guardrail) {
        let parts = parts(step.kind, &recorded, &mut scene).into_iter();
        rulings.extend(
            parts.map(|(part, then, now)| (part, said(&then), said(&serde_json::to_value(&now).unwrap_or_default()))),
        );
    }
    for (part, then, now) in rulings {
        told.rulings += 1;
        // Models are not asked again, so rulings by them are not compared.
        if then != now && !then.ends_with("(model)") {
            told.differences.push(RulingDifference { step: step.number, part, then, now });
        }
    }
}

/// Returns the decision and due documents of a turn or message, then and now; `None` if nothing was or is due.
fn duties(kind: StepKind, recorded: &StepRecord, scene: &EvaluationContext<'_>) -> Option<(String, String, String)> {
    let part = match kind {
        StepKind::Turn => "turn",
        StepKind::Message => "documents",
        StepKind::Guard | StepKind::Close => return None,
    };
    let due = recorded.answered.get("documents_due")?;
    let due: Vec<DocumentDue> = serde_json::from_value(due.clone()).ok()?;
    let ruling = scene.turn();
    // A message carries no decision about documents, only the list of those that are due.
    let decision = |said: Option<&str>| if kind == StepKind::Turn { said.map(str::to_owned) } else { None };
    let then = in_short(decision(recorded.answered.get("decision").and_then(Value::as_str)), &due);
    let now = in_short(decision(Some(ruling.decision.as_str())), &ruling.due);
    let nothing = in_short(decision(Some(SidecarVerdict::Allow.as_str())), &[]);
    (then != nothing || now != nothing).then(|| (part.to_owned(), then, now))
}

/// Formats a decision and due documents: `block, due: todo by all-done (block)`.
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

/// Returns the ruling on each part of a step, then and now.
fn parts(
    kind: StepKind,
    recorded: &StepRecord,
    scene: &mut EvaluationContext<'_>,
) -> Vec<(String, Value, GuardRuling)> {
    let answered = |pointer: &str| recorded.answered.pointer(pointer).cloned().unwrap_or_default();
    let asked = recorded.asked.clone();
    let mut judge =
        |parts: &[StepPart<'_>]| scene.judge(parts, &recorded.marks, &mut ModelAnswers::default()).into_iter();
    let named = |name: &'static str, list: &'static str, most: usize| {
        (0..most).map(move |at| (format!("{name} {}", at + 1), format!("/{list}/{at}")))
    };
    let mut parts: Vec<(String, Value, GuardRuling)> = match kind {
        StepKind::Turn => {
            let Ok(asked) = serde_json::from_value::<TurnRequest>(asked) else { return Vec::new() };
            let places = named("call", "decisions", asked.planned_calls.len());
            places.zip(judge(&StepPart::of_turn(&asked))).map(|((part, at), now)| (part, answered(&at), now)).collect()
        }
        StepKind::Message => {
            let Ok(asked) = serde_json::from_value::<MessageRequest>(asked) else { return Vec::new() };
            let calls = named("call", "calls", asked.tool_calls.len());
            let results = named("result", "results", asked.results.len());
            let places = calls.chain(results).chain([("message".to_owned(), "/said".to_owned())]);
            places
                .zip(judge(&StepPart::of_message(&asked)))
                .map(|((part, at), now)| (part, answered(&at), now))
                .collect()
        }
        StepKind::Guard => {
            let Ok(asked) = serde_json::from_value::<GuardRequest>(asked) else { return Vec::new() };
            let judged = judge(&StepPart::of_guard(&asked));
            judged.map(|now| ("guard".to_owned(), recorded.answered.clone(), now)).collect()
        }
        StepKind::Close => Vec::new(),
    };
    // A step that was not kept to its end has no rulings.
    parts.retain(|(_, then, _)| !then.is_null());
    parts
}

/// Formats a ruling: `block by no-drop (rule)`.
fn said(ruling: &Value) -> String {
    let text = |key: &str| ruling.get(key).and_then(Value::as_str);
    let decision = text("decision").unwrap_or("allow");
    match (text("rule"), text("checked_by")) {
        (Some(rule), Some(by)) => format!("{decision} by {rule} ({by})"),
        (Some(rule), None) => format!("{decision} by {rule}"),
        _ => decision.to_owned(),
    }
}

/// Returns the documents as they were at a step; `None` if a text cannot be restored.
fn documents_at(
    recorded: &StepRecord,
    texts: &Texts,
    formats: &HashMap<String, String>,
) -> Option<Vec<StoredDocument>> {
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
