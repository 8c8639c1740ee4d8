//! What is asked of a model and what it answers, whatever the wire protocol.
//!
//! In: a prompt and the schema of the wanted reply. Out: the reply's text, its usage and why it ended.
//! The reply's text is not judged here; that is the review's part.

use std::{fmt, time::Duration};

use serde_json::Value;

use super::schema;

/// One question to a model. `Debug` shows no prompt.
#[derive(Clone)]
pub struct Request {
    /// What the model is told it is and must do.
    pub system: String,
    /// What it is shown.
    pub user: String,
    /// A short name of the reply's schema: letters, digits and `_`.
    pub schema_name: &'static str,
    /// The JSON Schema of the reply. What providers' decoders cannot enforce (ranges, lengths, patterns) is
    /// left out on the wire, so the caller validates the reply all the same.
    pub schema: Value,
    /// Most tokens that the reply may have, reasoning included; never more than the model's own limit.
    pub max_output_tokens: u32,
    /// How many events it judges: the model's own limit is for each.
    pub items: usize,
}

impl Request {
    /// Bytes of all that the model reads: the figure for [`super::Gateway::worst_case`].
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

/// What a call took, as the provider counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens read, those served from or written to a cache included.
    pub input_tokens: u64,
    /// Tokens written, reasoning included.
    pub output_tokens: u64,
}

impl Usage {
    /// Read and written together.
    pub fn tokens(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }

    /// The same where it can be true of a call that may take `tokens` in all and write `output` of them; else the
    /// most of each part that can.
    #[must_use]
    pub fn at_most(self, tokens: u64, output: u32) -> Self {
        let output = u64::from(output).min(tokens);
        Self { input_tokens: self.input_tokens.min(tokens - output), output_tokens: self.output_tokens.min(output) }
    }
}

/// Why the model stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// It was done.
    Stop,
    /// The limit of tokens cut it off: the text is incomplete.
    Length,
    /// It, or the provider's filter, declined to answer.
    Refused,
    /// Anything else, or nothing said.
    Other,
}

/// A model's answer. `Debug` shows no text.
#[derive(Clone, PartialEq, Eq)]
pub struct Reply {
    /// The text, as it came; JSON by the schema if the model obeyed.
    pub text: String,
    /// What the call took; `None` where the provider did not say.
    pub usage: Option<Usage>,
    /// Why it ended.
    pub finish: Finish,
    /// The model that answered, by the provider's own word, else the one asked.
    pub model: String,
    /// From sending to the last byte.
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
