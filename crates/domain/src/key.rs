//! API keys: what they permit and for whom.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use globset::{Glob, GlobSet, GlobSetBuilder};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How every key begins.
pub const PREFIX: &str = "umbra_sk_";

/// A new key from 256 random bits. It is shown once and kept nowhere.
pub fn mint(random: [u8; 32]) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

/// What a key permits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Post events, for the agents that the key is bound to.
    Ingest,
    /// Read everything.
    Read,
    /// Ask the boundary.
    Decide,
    /// Change configuration, keys and findings.
    Admin,
}

impl Scope {
    /// Every scope.
    pub const ALL: [Self; 4] = [Self::Ingest, Self::Read, Self::Decide, Self::Admin];

    /// The word in JSON and on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Read => "read",
            Self::Decide => "decide",
            Self::Admin => "admin",
        }
    }

    /// The scope that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == word)
    }
}

/// Whether a key with these scopes may be bound to these agents: who reads or administers sees everything.
pub fn may_bind(scopes: &[Scope], agents: &[String]) -> bool {
    let sees_all = scopes.contains(&Scope::Read) || scopes.contains(&Scope::Admin);
    !sees_all || agents.iter().any(|glob| glob == "*")
}

/// The agents that a key may speak for.
#[derive(Debug, Clone)]
pub struct AgentGlobs(GlobSet);

/// An agent pattern is no glob.
#[derive(Debug, thiserror::Error)]
#[error("{pattern:?} is no glob: write a name or a pattern such as writer-*")]
pub struct BadGlob {
    pattern: String,
}

impl AgentGlobs {
    /// Compiles globs; `*` matches every agent.
    ///
    /// # Errors
    /// The first that is no glob.
    pub fn compile(globs: &[String]) -> Result<Self, BadGlob> {
        let mut set = GlobSetBuilder::new();
        for pattern in globs {
            set.add(Glob::new(pattern).map_err(|_| BadGlob { pattern: pattern.clone() })?);
        }
        set.build().map(Self).map_err(|_| BadGlob { pattern: globs.join(", ") })
    }

    /// Whether the agent is among them.
    pub fn contains(&self, agent: &str) -> bool {
        self.0.is_match(agent)
    }
}
