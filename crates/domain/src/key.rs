//! API keys: their scopes, and the agents that they may speak for.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use globset::{Glob, GlobSet, GlobSetBuilder};
use utoipa::ToSchema;

/// Prefix of every key.
pub const PREFIX: &str = "umbra_sk_";

/// Makes a new key from 256 random bits. The key is shown once and stored nowhere.
pub fn mint(random: [u8; 32]) -> String {
    format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random))
}

words! {
    /// Permission of a key.
    #[derive(ToSchema)]
    pub enum Scope {
        /// Post events, for the agents that the key is bound to.
        Ingest = "ingest",
        /// Read everything.
        Read = "read",
        /// Ask the boundary for decisions.
        Decide = "decide",
        /// Be believed about the effect of a call's tool.
        Declare = "declare",
        /// Change configuration, keys and findings.
        Admin = "admin",
    }
}

/// True if a key with these scopes may be bound to these agents. A key that reads or administers sees everything, so
/// its agents must include `*`.
pub fn may_bind(scopes: &[Scope], agents: &[String]) -> bool {
    let sees_all = scopes.contains(&Scope::Read) || scopes.contains(&Scope::Admin);
    !sees_all || agents.iter().any(|glob| glob == "*")
}

/// Agents that a key may speak for.
#[derive(Debug, Clone)]
pub struct AgentGlobs(GlobSet);

/// Error for an agent pattern that is no glob.
#[derive(Debug, thiserror::Error)]
#[error("{pattern:?} is not a glob: write a name, or a pattern such as writer-*")]
pub struct BadGlob {
    pattern: String,
}

impl AgentGlobs {
    /// Compiles globs; `*` matches every agent.
    ///
    /// # Errors
    /// The first pattern that is no glob.
    pub fn compile(globs: &[String]) -> Result<Self, BadGlob> {
        let mut set = GlobSetBuilder::new();
        for pattern in globs {
            set.add(Glob::new(pattern).map_err(|_| BadGlob { pattern: pattern.clone() })?);
        }
        set.build().map(Self).map_err(|_| BadGlob { pattern: globs.join(", ") })
    }

    /// True if a glob matches the agent.
    pub fn contains(&self, agent: &str) -> bool {
        self.0.is_match(agent)
    }
}
