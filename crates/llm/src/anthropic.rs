//! Anthropic's messages API: `POST {base}/v1/messages`, structured output by `output_config.format`.
//!
//! Shapes by platform.claude.com ("Messages", "Structured outputs", "Handling stop reasons"), read 2026-11.

use reqwest::{
    Url,
    header::{HeaderMap, HeaderValue, InvalidHeaderValue},
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Finish, Request, Usage, effort,
    protocol::{Protocol, ProtocolAnswer, join, sensitive},
};

pub(super) struct Anthropic;

impl Protocol for Anthropic {
    fn default_base(&self) -> &'static str {
        "https://api.anthropic.com"
    }

    fn url(&self, base: &Url, _model: &str) -> Url {
        join(base, &["v1", "messages"])
    }

    fn headers(&self, _base: &Url, key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        if let Some(key) = key {
            headers.insert("x-api-key", sensitive("", key)?);
        }
        Ok(headers)
    }

    fn body(&self, _base: &Url, model: &str, request: &Request, schema: Value, max_output_tokens: u32) -> Value {
        let mut body = json!({
            "model": model,
            "max_tokens": max_output_tokens,
            "system": request.system,
            "messages": [{"role": "user", "content": request.user}],
            "output_config": {"format": {"type": "json_schema", "schema": schema}},
        });
        if effort::anthropic(model) {
            body["output_config"]["effort"] = json!("low");
        }
        body
    }

    fn read(&self, body: &[u8]) -> Option<ProtocolAnswer> {
        let message: Message = serde_json::from_slice(body).ok()?;
        let text =
            message.content.iter().filter(|block| block.kind == "text").filter_map(|block| block.text.as_deref());
        let finish = match message.stop_reason.as_deref() {
            Some("end_turn" | "stop_sequence") => Finish::Stop,
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            Some("refusal") => Finish::Refused,
            _ => Finish::Other,
        };
        Some(ProtocolAnswer {
            text: text.collect(),
            usage: message.usage.and_then(usage),
            finish,
            model: message.model,
        })
    }
}

#[derive(Deserialize)]
struct Message {
    content: Vec<Block>,
    stop_reason: Option<String>,
    usage: Option<Value>,
    model: Option<String>,
}

/// Text block, or a block that was not asked for (thinking).
#[derive(Deserialize)]
struct Block {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

/// Token counts. Tokens served from a cache or written to one are not in `input_tokens`.
#[derive(Deserialize)]
#[expect(clippy::struct_field_names, reason = "the provider's own names")]
struct AnthropicUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

fn usage(counts: Value) -> Option<Usage> {
    let tokens: AnthropicUsage = serde_json::from_value(counts).ok()?;
    let cached = [tokens.cache_creation_input_tokens, tokens.cache_read_input_tokens];
    let input_tokens = cached.into_iter().flatten().fold(tokens.input_tokens, u64::saturating_add);
    Some(Usage { input_tokens, output_tokens: tokens.output_tokens })
}
