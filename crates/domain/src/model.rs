//! A model as the settings declare it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{NanoUsd, PricePerMtok};

words! {
    /// The wire protocol by which a model is reached.
    #[derive(schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Provider {
        /// Anthropic's messages API.
        Anthropic = "anthropic",
        /// OpenAI's chat completions API, or any server compatible with it.
        Openai = "openai",
        /// Google's generateContent API.
        Gemini = "gemini",
        /// No model: the built-in checks alone.
        Checks = "checks",
    }
}

words! {
    /// The kind of answer that a model gives.
    #[derive(Default)]
    pub enum ModelKind {
        /// Text: it reviews.
        #[default]
        Chat = "chat",
        /// Vectors of texts: it tells which tools are close to a task.
        Embedding = "embedding",
    }
}

/// Most tokens that a call may write which judges several events, unless the model's own limit is higher. What small
/// models of all makers allow.
pub const MOST_OUTPUT_TOKENS: u32 = 8_192;

/// What a model costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Per million tokens read.
    pub input: PricePerMtok,
    /// Per million tokens written.
    pub output: PricePerMtok,
}

impl Prices {
    /// What so many tokens cost, each part rounded up to a whole nano-dollar.
    pub fn cost(self, input_tokens: u64, output_tokens: u64) -> NanoUsd {
        self.input.cost(input_tokens) + self.output.cost(output_tokens)
    }
}

/// A model that a shadow may name by its alias.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// The name by which shadows call it.
    pub alias: String,
    /// The wire protocol.
    pub provider: Provider,
    /// The kind of its answers.
    #[serde(default)]
    pub kind: ModelKind,
    /// The provider's name for it.
    pub name: String,
    /// The API's root, without the protocol's own path; `None` is the provider's public address.
    pub base_url: Option<String>,
    /// The environment variable that holds the key; `None`: no key is needed or sent.
    pub api_key_env: Option<String>,
    /// Its prices; `None` is unknown, and no money cap can be kept with it.
    pub prices: Option<Prices>,
    /// Most tokens that it may write in one call.
    pub max_output_tokens: u32,
    /// Longest that one call may take.
    pub timeout: Duration,
}

impl ModelSpec {
    /// Most tokens that it may write in a call that judges so many events: its limit for each, up to
    /// [`MOST_OUTPUT_TOKENS`] in all.
    pub fn output_limit(&self, events: usize) -> u32 {
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        self.max_output_tokens.saturating_mul(events).min(self.max_output_tokens.max(MOST_OUTPUT_TOKENS))
    }
}
