//! AI models as the settings declare them: provider, kind, prices, and limits of a call.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{NanoUsd, PricePerMtok};

words! {
    /// Wire protocol of a model.
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
    /// Kind of answer that a model gives.
    #[derive(Default)]
    pub enum ModelKind {
        /// Text, for reviews.
        #[default]
        Chat = "chat",
        /// Vectors of texts, to find the tools close to a task.
        Embedding = "embedding",
    }
}

/// Most tokens that a call for several events may write, unless the model's own limit is higher. Small models of all
/// makers allow this number.
pub const MOST_OUTPUT_TOKENS: u32 = 8_192;

/// Prices of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prices {
    /// Price per million tokens read.
    pub input: PricePerMtok,
    /// Price per million tokens written.
    pub output: PricePerMtok,
}

impl Prices {
    /// Returns the cost of the tokens, each part rounded up to a whole nano-dollar.
    pub fn cost(self, input_tokens: u64, output_tokens: u64) -> NanoUsd {
        self.input.cost(input_tokens) + self.output.cost(output_tokens)
    }
}

/// Model that a shadow may name by its alias.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// Name that shadows use for the model.
    pub alias: String,
    /// Wire protocol of the model.
    pub provider: Provider,
    /// Kind of answer that the model gives.
    #[serde(default)]
    pub kind: ModelKind,
    /// Name of the model at the provider.
    pub name: String,
    /// Root URL of the API, without the protocol's own path; `None` is the provider's public address.
    pub base_url: Option<String>,
    /// Environment variable that holds the API key; `None` if no key is needed or sent.
    pub api_key_env: Option<String>,
    /// Prices; `None` is unknown, and no money cap can be kept then.
    pub prices: Option<Prices>,
    /// Most tokens that one call may write.
    pub max_output_tokens: u32,
    /// Longest duration of one call.
    pub timeout: Duration,
}

impl ModelSpec {
    /// Returns the most tokens that a call for so many events may write: the model's limit for each event, up to
    /// [`MOST_OUTPUT_TOKENS`] in all.
    pub fn output_limit(&self, events: usize) -> u32 {
        let events = u32::try_from(events).unwrap_or(u32::MAX);
        self.max_output_tokens.saturating_mul(events).min(self.max_output_tokens.max(MOST_OUTPUT_TOKENS))
    }
}
