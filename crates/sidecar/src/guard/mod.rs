//! Guardrail of an agent at work. In: rules once, then moments of its session. Out: whether the agent may go on, by
//! which rule, and why. Pure.
//!
//! 1. A [`Moment`] is a turn, a message, a call or a result, with the agent and the state of the session's documents.
//! 2. `calls` applies the rules about calls, those of the tools file and those of the sidecar file as one [`Policy`].
//! 3. `documents` finds the documents that must be in order before the agent goes on.
//! 4. `texts` runs the built-in checks on messages, arguments and results.
//! 5. [`Guardrail::model_rules`] returns the rules in words whose answer can still change something. The caller asks a
//!    model, and passes its answer to [`with_model`].
//!
//! The gravest verdict of the matching rules wins (block, warn, allow). Their order only decides which rule is named. A
//! rule in audit mode changes `would`, and nothing else. Doubt counts as a match: a condition that cannot be evaluated,
//! a missing document, a title that two sections have. A model's answer raises a verdict and never lowers it.
//!
//! No text of a moment is obeyed. Texts are matched against the operator's rules, and none of them gets into an answer.

mod calls;
mod documents;
mod moment;
mod ruling;
mod scope;
#[cfg(test)]
mod tests;
mod texts;

use std::collections::BTreeSet;

use anyhow::{anyhow, ensure};

pub use moment::{ChangeQuery, Moment, MomentDocument, MomentSubject};
pub use ruling::with_model;

use self::scope::ScopedRules;
use super::document::name::Name;
use umbra_domain::{
    PolicyMode, PolicyRule,
    sidecar::{DocumentRule, ModelRule, Ruling, SidecarRules, TextRule},
};
use umbra_policy::Policy;

/// Compiled rules of all kinds.
#[derive(Debug)]
pub struct Guardrail {
    version: String,
    calls: Policy,
    documents: ScopedRules<DocumentRule>,
    /// Documents that rules are about, in small letters.
    named: BTreeSet<String>,
    texts: ScopedRules<TextRule>,
    models: ScopedRules<ModelRule>,
}

impl Guardrail {
    /// Compiles the rules of a sidecar file, behind the policies of the tools file. Equal rules have the same version.
    ///
    /// # Errors
    /// Two rules have the same name, over both files, or a pattern, a condition or a document's name is invalid.
    pub fn compile(rules: &SidecarRules, tool_policies: &[PolicyRule]) -> anyhow::Result<Self> {
        let mut known = BTreeSet::new();
        for name in tool_policies.iter().map(|rule| rule.name.as_str()).chain(rules.names()) {
            // A name that is refused or recorded must be one rule's, over both files.
            let what = "in the sidecar file or the tools file: rename one of them";
            ensure!(known.insert(name), "two rules have the name {name:?}, {what}");
        }
        for DocumentRule { name, document, .. } in &rules.documents {
            let known = Name::parse(document);
            known.map_err(|error| anyhow!("rule {name:?}: {document:?} is not a document's name: {error}"))?;
        }
        let text = serde_json::to_string(&(tool_policies, rules)).unwrap_or_default();
        Ok(Self {
            version: blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect(),
            calls: Policy::compile(tool_policies.iter().chain(&rules.policies).cloned().collect())?,
            documents: ScopedRules::compile(&rules.documents)?,
            named: rules.documents.iter().map(|rule| rule.document.to_ascii_lowercase()).collect(),
            texts: ScopedRules::compile(&rules.texts)?,
            models: ScopedRules::compile(&rules.models)?,
        })
    }

    /// Returns the version: a hash of all rules of both files, 16 hex digits.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the rules in force for an agent on a route in these modes, those of the tools file first.
    pub fn in_force(&self, agent: &str, route: Option<&str>, modes: &[String]) -> SidecarRules {
        SidecarRules {
            policies: self.calls.reaching(agent, route, modes).cloned().collect(),
            documents: self.documents.reaching(agent, route, modes),
            texts: self.texts.reaching(agent, route, modes),
            models: self.models.reaching(agent, route, modes),
        }
    }

    /// Judges a moment by all rules except those in words.
    pub fn judge(&self, moment: &Moment<'_>) -> Ruling {
        let mut ruling = Ruling::default();
        calls::apply_call_rules(&self.calls, moment, &mut ruling);
        documents::apply_document_rules(&self.documents, moment, &mut ruling);
        texts::apply_text_rules(&self.texts, moment, &mut ruling);
        ruling
    }

    /// True if a rule is about this document. Other documents need not be read for a moment.
    pub fn asks_for(&self, document: &str) -> bool {
        self.named.contains(&document.to_ascii_lowercase())
    }

    /// True if there are rules in words.
    pub fn asks_models(&self) -> bool {
        !self.models.is_empty()
    }

    /// Returns the rules in words that apply to a moment and can still change its ruling; none once it is blocked. If
    /// models are asked one by one, call this again with the ruling after each answer.
    pub fn model_rules(&self, moment: &Moment<'_>, ruling: &Ruling) -> Vec<&ModelRule> {
        // A turn has no text yet, and a result is no act of the agent.
        if matches!(moment.subject, MomentSubject::Turn | MomentSubject::Result { .. }) {
            return Vec::new();
        }
        let counts = |rule: &&ModelRule| match rule.mode {
            PolicyMode::Enforce => rule.verdict > ruling.decision,
            PolicyMode::Audit => rule.verdict > ruling.would,
        };
        self.models.about(moment).filter(counts).collect()
    }
}
