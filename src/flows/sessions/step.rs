//! Stored record of a step: request, state before, answer, and version of the rules. The step can be judged again from
//! it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{SidecarRulesInForce, documents::parsed, judge::EvaluationContext};
use crate::flows::serialise::{to_json, to_value};
use umbra_domain::{Mark, sidecar::Since};
use umbra_sidecar::{
    document::{
        Document,
        revision::{Etag, Moved, compare_section},
    },
    guard::{ChangeQuery, MomentDocument},
};
use umbra_store::{StoreError, documents::StoredDocument, sessions::LockedSession};

/// State on which a step was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSnapshot {
    /// Labels of the session.
    pub taints: Vec<String>,
    /// Route of the agent.
    pub route: Option<String>,
    /// Modes of the agent.
    pub modes: Vec<String>,
    /// States of the session's documents.
    pub documents: Vec<DocumentAt>,
    /// True if no rule about documents was asked, for instance because the content of their files was unknown.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_documents: bool,
}

/// State of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentAt {
    /// Name of the document.
    pub name: String,
    /// Version of the document.
    pub version: i32,
    /// Etag of the text.
    pub etag: String,
    /// Etag of the text when the last turn began.
    pub at_turn: String,
    /// Etag of the first text.
    pub first: String,
}

impl StateSnapshot {
    /// Returns the state before a step is judged; with documents only if the session was available.
    pub(super) fn of(scene: &EvaluationContext<'_>, step: Option<&LockedSession>) -> Self {
        let documents = step.map(|step| step.documents.as_slice()).unwrap_or_default();
        let documents = documents.iter().map(|document| DocumentAt {
            name: document.name.clone(),
            version: document.version,
            etag: Etag::of(&document.text).to_string(),
            at_turn: Etag::of(&document.at_turn).to_string(),
            first: Etag::of(&document.first).to_string(),
        });
        Self {
            taints: scene.taints.clone(),
            route: scene.route.clone(),
            modes: scene.modes.clone(),
            documents: documents.collect(),
            without_documents: scene.documents.is_none(),
        }
    }
}

/// A step as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Redacted request.
    pub asked: Value,
    /// State before the step.
    pub before: StateSnapshot,
    /// Marks of each part of the request as it was sent, in order: calls, results, the message.
    pub marks: Vec<Vec<Mark>>,
    /// Answer to the request.
    pub answered: Value,
    /// Digest of request, state and marks.
    pub inputs: String,
    /// Version of all rules, by their text.
    pub policy_version: String,
}

impl StepRecord {
    /// Returns the record of a step under the rules in force.
    ///
    /// # Errors
    /// It cannot be serialised.
    pub fn new(
        asked: &impl Serialize,
        before: StateSnapshot,
        marks: Vec<Vec<Mark>>,
        answered: &impl Serialize,
        rules: &SidecarRulesInForce,
    ) -> Result<Self, StoreError> {
        let asked = to_value("session_step.asked", asked)?;
        let inputs = inputs_of(&asked, &before, &marks)?;
        let policy_version = rules.guardrail.version().to_owned();
        let mut answered = to_value("session_step.answered", answered)?;
        for (key, text) in [("inputs", &inputs), ("policy_version", &policy_version)] {
            if let Some(place) = answered.get_mut(key) {
                *place = text.as_str().into();
            }
        }
        Ok(Self { asked, before, marks, answered, inputs, policy_version })
    }
}

/// Returns the digest of all that an answer is based on.
///
/// # Errors
/// It cannot be serialised.
pub fn inputs_of(asked: &impl Serialize, before: &StateSnapshot, marks: &[Vec<Mark>]) -> Result<String, StoreError> {
    let text = to_json("session_step.inputs", &(asked, before, marks))?;
    Ok(blake3::hash(text.as_bytes()).to_hex().chars().take(32).collect())
}

/// A document with its earlier states, parsed for the rules.
pub struct RuleDocument {
    name: String,
    now: Option<Document>,
    at_turn: Option<Document>,
    first: Option<Document>,
}

impl RuleDocument {
    /// Parses the documents of a session that rules are about; the size of other documents costs a step no time.
    pub fn those_of(rules: &SidecarRulesInForce, documents: &[StoredDocument]) -> Vec<Self> {
        let read = |document: &StoredDocument| Self {
            name: document.name.clone(),
            now: parsed(&document.text, &document.format),
            at_turn: parsed(&document.at_turn, &document.format),
            first: parsed(&document.first, &document.format),
        };
        documents.iter().filter(|document| rules.guardrail.asks_for(&document.name)).map(read).collect()
    }

    /// Returns the document as the rules take it.
    pub fn standing<'r>(&'r self, changed: &'r ChangeQuery<'r>) -> MomentDocument<'r> {
        MomentDocument { name: &self.name, document: self.now.as_ref(), changed }
    }

    /// True if the document, or a section of it, was changed in substance since then.
    pub fn changed(&self, section: Option<&str>, since: Since) -> bool {
        let before = match since {
            Since::Turn => &self.at_turn,
            Since::Session => &self.first,
        };
        let (Some(before), Some(now)) = (before, &self.now) else { return self.now.is_some() };
        matches!(compare_section(before, now, section.unwrap_or_default()), Moved::Updated | Moved::Added)
    }
}
