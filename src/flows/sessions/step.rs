//! What is kept of a step: what was asked, how things stood, what was answered, and by which rules. With it the step can
//! be taken again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Guarding, documents::parsed, judge::Scene};
use crate::flows::serialise::{to_json, to_value};
use umbra_domain::{Mark, sidecar::Since};
use umbra_sidecar::{
    document::{
        Document,
        revision::{Etag, Moved, moved},
    },
    guard::{Changed, Standing},
};
use umbra_store::{StoreError, documents::StoredDocument, sessions::Stepping};

/// How things stood when a step was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Situation {
    /// What clung to the session.
    pub taints: Vec<String>,
    /// The route that the agent was on.
    pub route: Option<String>,
    /// The modes that it was in.
    pub modes: Vec<String>,
    /// States of its documents.
    pub documents: Vec<DocumentAt>,
    /// Whether no rule about them was asked, such as where nobody knew what their files said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub without_documents: bool,
}

/// The state of a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentAt {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// Names its text.
    pub etag: String,
    /// Names its text when the last turn began.
    pub at_turn: String,
    /// Names the text that it began with.
    pub first: String,
}

impl Situation {
    /// How things stand before a step is judged; of documents only where the session was had.
    pub(super) fn of(scene: &Scene<'_>, step: Option<&Stepping>) -> Self {
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

/// A step as it is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// What was asked, redacted.
    pub asked: Value,
    /// How things stood.
    pub before: Situation,
    /// What stood in each part of what was asked and is not kept, in order: calls, results, the message.
    pub marks: Vec<Vec<Mark>>,
    /// What was answered.
    pub answered: Value,
    /// Names all that the answer was made of: what was asked, how things stood.
    pub inputs: String,
    /// Names the text of all rules.
    pub policy_version: String,
}

impl Recorded {
    /// A step under the rules in force.
    ///
    /// # Errors
    /// It cannot be serialised.
    pub fn new(
        asked: &impl Serialize,
        before: Situation,
        marks: Vec<Vec<Mark>>,
        answered: &impl Serialize,
        rules: &Guarding,
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

    /// As it is kept.
    ///
    /// # Errors
    /// It cannot be serialised.
    pub fn to_json(&self) -> Result<String, StoreError> {
        to_json("session_step.body", self)
    }
}

/// Names what an answer is made of.
///
/// # Errors
/// It cannot be serialised.
pub fn inputs_of(asked: &impl Serialize, before: &Situation, marks: &[Vec<Mark>]) -> Result<String, StoreError> {
    let text = to_json("session_step.inputs", &(asked, before, marks))?;
    Ok(blake3::hash(text.as_bytes()).to_hex().chars().take(32).collect())
}

/// A document with what it was before, for the rules.
pub struct Read {
    name: String,
    now: Option<Document>,
    at_turn: Option<Document>,
    first: Option<Document>,
}

impl Read {
    /// The documents of a session that rules are about: however large others are, no step takes longer for them.
    pub fn those_of(rules: &Guarding, documents: &[StoredDocument]) -> Vec<Self> {
        let read = |document: &StoredDocument| Self {
            name: document.name.clone(),
            now: parsed(&document.text, &document.format),
            at_turn: parsed(&document.at_turn, &document.format),
            first: parsed(&document.first, &document.format),
        };
        documents.iter().filter(|document| rules.guardrail.asks_for(&document.name)).map(read).collect()
    }
}

impl Read {
    /// It, for the rules.
    pub fn standing<'r>(&'r self, changed: &'r Changed<'r>) -> Standing<'r> {
        Standing { name: &self.name, document: self.now.as_ref(), changed }
    }

    /// Whether it, or a section of it, was changed in substance since.
    pub fn changed(&self, section: Option<&str>, since: Since) -> bool {
        let before = match since {
            Since::Turn => &self.at_turn,
            Since::Session => &self.first,
        };
        let (Some(before), Some(now)) = (before, &self.now) else { return self.now.is_some() };
        matches!(moved(before, now, section.unwrap_or_default()), Moved::Updated | Moved::Added)
    }
}
