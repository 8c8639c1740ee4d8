//! API keys: what they permit and for whom.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use globset::{Glob, GlobSet, GlobSetBuilder};
use utoipa::ToSchema;

/// How every key begins.
pub const PREFIX: &str = "umbra_sk_";

/// A new key from 256 random bits. It is shown once and kept nowhere.
pub fn mint(random: [u8; 32]) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

words! {
    /// What a key permits.
    #[derive(ToSchema)]
    pub enum Scope {
        /// Post events, for the agents that the key is bound to.
        Ingest = "ingest",
        /// Read everything.
        Read = "read",
        /// Ask the boundary.
        Decide = "decide",
        /// Be believed when a call says what its tool does.
        Declare = "declare",
        /// Change configuration, keys and findings.
        Admin = "admin",
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
