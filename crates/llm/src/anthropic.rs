//! Anthropic's messages API: `POST {base}/v1/messages`, structured output by `output_config.format`.
//!
//! Shapes by platform.claude.com ("Messages", "Structured outputs", "Handling stop reasons"), read 2026-11.

use reqwest::{
    Url,
    header::{HeaderMap, HeaderValue, InvalidHeaderValue},
};
use secrecy::SecretString;
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

    fn read<'a>(&self, answer: &'a Value) -> Option<ProtocolAnswer<'a>> {
        // Blocks that were not asked for are thoughts.
        let blocks = answer["content"].as_array()?.iter().filter(|block| block["type"] == "text");
        let finish = match answer["stop_reason"].as_str() {
            Some("end_turn" | "stop_sequence") => Finish::Stop,
            Some("max_tokens" | "model_context_window_exceeded") => Finish::Length,
            Some("refusal") => Finish::Refused,
            _ => Finish::Other,
        };
        Some(ProtocolAnswer {
            text: blocks.filter_map(|block| block["text"].as_str()).collect(),
            usage: usage(&answer["usage"]),
            finish,
            model: answer["model"].as_str(),
        })
    }
}

/// Reads token counts. Tokens served from a cache or written to one are not in `input_tokens`.
fn usage(counts: &Value) -> Option<Usage> {
    let mut read = counts["input_tokens"].as_u64()?;
    for cached in ["cache_creation_input_tokens", "cache_read_input_tokens"] {
        if !counts[cached].is_null() {
            read = read.saturating_add(counts[cached].as_u64()?);
        }
    }
    Some(Usage { input_tokens: read, output_tokens: counts["output_tokens"].as_u64()? })
}
