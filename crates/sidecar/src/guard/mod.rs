//! What an agent is held to while it works. In: rules once, then moments of its session. Out: whether each may go on, which
//! rule says so, and why. Pure.
//!
//! 1. A [`Moment`] is a turn, a message, a call or a result, with who acts, and how the documents of the session stand.
//! 2. `calls` asks the rules about calls, those of the tools file and those of the sidecar file as one [`Policy`].
//! 3. `documents` asks what has to be in order before the agent goes on.
//! 4. `texts` runs the built-in checks on what is said, called with, or answered.
//! 5. [`Guardrail::model_rules`] names the rules in words whose answer can still change something. Who asks a model gives its
//!    word to [`Ruling::with_model`].
//!
//! The gravest verdict of the rules that match wins (block, warn, allow), so their order decides nothing but who is named. A
//! rule that is only tried (audit) moves what would hold, and nothing else. Doubt counts as a match: a condition that cannot
//! be evaluated, a document that is not there, a section whose title two have. A model raises and never lowers.
//!
//! No text of a moment is obeyed. Texts are matched against what the operator wrote, and none of them comes into an answer.

mod bound;
mod calls;
mod documents;
mod moment;
mod ruling;
#[cfg(test)]
mod tests;
mod texts;
mod words;

use std::collections::BTreeSet;

pub use moment::{Changed, Moment, Standing, Subject};
pub use ruling::with_model;

use self::bound::Bound;
use super::document::name::NameError;
use umbra_domain::{
    PolicyRule,
    sidecar::{DocumentRule, ModelRule, Ruling, SidecarRules, TextRule},
};
use umbra_policy::{BadRule, Policy};

/// Why rules cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum BadGuard {
    /// A pattern or a condition is none.
    #[error(transparent)]
    Rule(#[from] BadRule),
    /// Two rules have one name. What is refused or recorded by a name must be one rule's, over both files.
    #[error(
        "two rules are called {name:?}, in the sidecar file or in the tools file: choose another name for one of them"
    )]
    Twin {
        /// The name.
        name: String,
    },
    /// No document can be called so.
    #[error("rule {rule:?}: {document:?} is no document: {error}")]
    Document {
        /// The rule.
        rule: String,
        /// What it names.
        document: String,
        /// Why that is no name.
        error: NameError,
    },
}

/// Compiled rules.
#[derive(Debug)]
pub struct Guardrail {
    version: String,
    calls: Policy,
    documents: Bound<DocumentRule>,
    /// The documents that rules name, in small letters.
    named: BTreeSet<String>,
    texts: Bound<TextRule>,
    models: Bound<ModelRule>,
}

impl Guardrail {
    /// Compiles the rules of a sidecar file beside the policies of the tools file, which come first. Equal rules have one
    /// version.
    ///
    /// # Errors
    /// A name that two rules have, over both files; the first pattern, condition or document's name that is none.
    pub fn compile(rules: &SidecarRules, tool_policies: &[PolicyRule]) -> Result<Self, BadGuard> {
        let mut known = BTreeSet::new();
        for name in tool_policies.iter().map(|rule| rule.name.as_str()).chain(rules.names()) {
            if !known.insert(name) {
                return Err(BadGuard::Twin { name: name.to_owned() });
            }
        }
        let text = serde_json::to_string(&(tool_policies, rules)).unwrap_or_default();
        Ok(Self {
            version: blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect(),
            calls: Policy::compile(tool_policies.iter().chain(&rules.policies).cloned().collect())?,
            documents: documents::compile(&rules.documents)?,
            named: rules.documents.iter().map(|rule| rule.document.to_ascii_lowercase()).collect(),
            texts: Bound::compile(&rules.texts)?,
            models: Bound::compile(&rules.models)?,
        })
    }

    /// Names the text of all rules of both files: 16 hex digits.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The rules that are in force for an agent on a route in these modes, those of the tools file first.
    pub fn in_force(&self, agent: &str, route: Option<&str>, modes: &[String]) -> SidecarRules {
        SidecarRules {
            policies: self.calls.reaching(agent, route, modes).cloned().collect(),
            documents: self.documents.reaching(agent, route, modes),
            texts: self.texts.reaching(agent, route, modes),
            models: self.models.reaching(agent, route, modes),
        }
    }

    /// What the rules say of a moment, but for those in words.
    pub fn judge(&self, moment: &Moment<'_>) -> Ruling {
        let mut ruling = Ruling::default();
        calls::look(&self.calls, moment, &mut ruling);
        documents::look(&self.documents, moment, &mut ruling);
        texts::look(&self.texts, moment, &mut ruling);
        ruling
    }

    /// Whether any rule is about this document: others need not be read for a moment.
    pub fn asks_for(&self, document: &str) -> bool {
        self.named.contains(&document.to_ascii_lowercase())
    }

    /// Whether there is any rule in words.
    pub fn asks_models(&self) -> bool {
        !self.models.is_empty()
    }

    /// The rules in words that are about a moment and whose answer can change what was ruled so far: none where it is
    /// blocked already. To be asked anew with the ruling after each answer, where they are asked one by one.
    pub fn model_rules(&self, moment: &Moment<'_>, ruling: &Ruling) -> Vec<&ModelRule> {
        words::open(&self.models, moment, ruling)
    }
}
