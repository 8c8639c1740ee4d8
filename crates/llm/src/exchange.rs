//! Request to a model and its reply, whatever the wire protocol.
//!
//! In: a prompt and the schema of the wanted reply. Out: the reply's text, its usage and the reason why it ended.
//! The review, not this module, judges the text.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::schema;

/// One request to a model. `Debug` shows no prompt.
#[derive(Clone)]
pub struct Request {
    /// System prompt: the role and the rules of the model.
    pub system: String,
    /// User prompt: the material to judge.
    pub user: String,
    /// Short name of the reply's schema: letters, digits and `_`.
    pub schema_name: &'static str,
    /// JSON Schema of the reply. Constraints that providers' decoders cannot enforce (ranges, lengths, patterns) are
    /// left out on the wire, so the caller validates the reply all the same.
    pub schema: Value,
    /// Most tokens of the reply, reasoning included; never more than the model's own limit.
    pub max_output_tokens: u32,
    /// Number of events that the request judges. The model's own limit is per event.
    pub items: usize,
}

impl Request {
    /// Returns the number of bytes that the model reads, for [`super::Gateway::worst_case`].
    pub fn prompt_bytes(&self) -> usize {
        self.system.len() + self.user.len() + schema::narrow(&self.schema).to_string().len()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("schema_name", &self.schema_name)
            .field("system_bytes", &self.system.len())
            .field("user_bytes", &self.user.len())
            .field("max_output_tokens", &self.max_output_tokens)
            .finish_non_exhaustive()
    }
}

/// Tokens of a call, as the provider counted them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens read, those served from or written to a cache included.
    pub input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
}

impl Usage {
    /// Returns the tokens read and written together.
    pub fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// Caps the usage at the most that is possible for a call that may take `tokens` in all and write `output` of them.
    #[must_use]
    pub fn at_most(self, tokens: u64, output: u32) -> Self {
        let output = u64::from(output).min(tokens);
        Self { input_tokens: self.input_tokens.min(tokens - output), output_tokens: self.output_tokens.min(output) }
    }
}

/// Reason why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// The model was done.
    Stop,
    /// The limit of tokens cut the reply off: the text is incomplete.
    Length,
    /// The model, or the provider's filter, declined to answer.
    Refused,
    /// Another reason, or none given.
    Other,
}

/// A model's answer. `Debug` shows no text.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// Text, as it came; JSON by the schema if the model obeyed.
    pub text: String,
    /// Tokens of the call; `None` if the provider did not tell them.
    pub usage: Option<Usage>,
    /// Reason why it ended.
    pub finish: Finish,
    /// Model that answered, as named by the provider, else the model asked.
    pub model: String,
    /// Time from sending to the last byte.
    pub latency: Duration,
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("text_bytes", &self.text.len())
            .field("usage", &self.usage)
            .field("finish", &self.finish)
            .field("model", &self.model)
            .field("latency", &self.latency)
            .finish()
    }
}
