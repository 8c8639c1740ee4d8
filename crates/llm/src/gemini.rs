//! Google's Gemini API: `POST {base}/v1beta/models/{name}:generateContent`, structured output by
//! `responseJsonSchema`.
//!
//! Shapes by ai.google.dev ("generateContent", "Structured output", "Thinking"), read 2026-11.

use reqwest::{
    Url,
    header::{HeaderMap, InvalidHeaderValue},
};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::{
    Finish, Request, Usage, effort,
    protocol::{Protocol, ProtocolAnswer, join, sensitive, sum_of},
};

pub(super) struct Gemini;

impl Protocol for Gemini {
    fn default_base(&self) -> &'static str {
        "https://generativelanguage.googleapis.com"
    }

    fn url(&self, base: &Url, model: &str) -> Url {
        let name = model.strip_prefix("models/").unwrap_or(model);
        join(base, &["v1beta", "models", &format!("{name}:generateContent")])
    }

    fn headers(&self, _base: &Url, key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert("x-goog-api-key", sensitive("", key)?);
        }
        Ok(headers)
    }

    fn body(&self, _base: &Url, model: &str, request: &Request, schema: Value, max_output_tokens: u32) -> Value {
        let mut body = json!({
            "systemInstruction": {"parts": [{"text": request.system}]},
            "contents": [{"role": "user", "parts": [{"text": request.user}]}],
            "generationConfig": {
                "maxOutputTokens": max_output_tokens,
                "responseMimeType": "application/json",
                "responseJsonSchema": schema,
            },
        });
        if effort::gemini(model.strip_prefix("models/").unwrap_or(model)) {
            body["generationConfig"]["thinkingConfig"] = json!({"thinkingLevel": "low"});
        }
        body
    }

    fn read<'a>(&self, answer: &'a Value) -> Option<ProtocolAnswer<'a>> {
        let usage = usage(&answer["usageMetadata"]);
        let model = answer["modelVersion"].as_str();
        let Some(candidate) = answer["candidates"].get(0) else {
            // A prompt that was stopped by the filter has no candidate at all.
            answer["promptFeedback"]["blockReason"].as_str()?;
            return Some(ProtocolAnswer { text: String::new(), usage, finish: Finish::Refused, model });
        };
        let finish = match candidate["finishReason"].as_str() {
            Some("STOP") => Finish::Stop,
            Some("MAX_TOKENS") => Finish::Length,
            Some("SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => Finish::Refused,
            _ => Finish::Other,
        };
        let parts = candidate["content"]["parts"].as_array().into_iter().flatten();
        let text = parts.filter(|part| part["thought"] != true).filter_map(|part| part["text"].as_str()).collect();
        Some(ProtocolAnswer { text, usage, finish, model })
    }
}

/// Reads token counts. Cached tokens are part of the prompt's; those of tools and thoughts are separate. Zeros are left
/// out.
fn usage(counts: &Value) -> Option<Usage> {
    counts.as_object()?;
    Some(Usage {
        input_tokens: sum_of(counts, &["promptTokenCount", "toolUsePromptTokenCount"])?,
        output_tokens: sum_of(counts, &["candidatesTokenCount", "thoughtsTokenCount"])?,
    })
}
