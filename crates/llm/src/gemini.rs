//! Google's Gemini API: `POST {base}/v1beta/models/{name}:generateContent`, structured output by
//! `responseJsonSchema`.
//!
//! Shapes by ai.google.dev ("generateContent", "Structured output", "Thinking"), read 2026-11.

use reqwest::{
    Url,
    header::{HeaderMap, InvalidHeaderValue},
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Finish, Request, Usage, effort,
    protocol::{Protocol, ProtocolAnswer, join, sensitive},
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

    fn read(&self, body: &[u8]) -> Option<ProtocolAnswer> {
        let response: Response = serde_json::from_slice(body).ok()?;
        let usage = response.usage_metadata.and_then(usage);
        let model = response.model_version;
        let Some(candidate) = response.candidates.into_iter().next() else {
            // A prompt that was stopped by the filter has no candidate at all.
            response.prompt_feedback?.block_reason?;
            return Some(ProtocolAnswer { text: String::new(), usage, finish: Finish::Refused, model });
        };
        let finish = match candidate.finish_reason.as_deref() {
            Some("STOP") => Finish::Stop,
            Some("MAX_TOKENS") => Finish::Length,
            Some("SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => Finish::Refused,
            _ => Finish::Other,
        };
        let parts = candidate.content.map(|content| content.parts).unwrap_or_default();
        let text = parts.into_iter().filter(|part| !part.thought).filter_map(|part| part.text).collect();
        Some(ProtocolAnswer { text, usage, finish, model })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    #[serde(default)]
    candidates: Vec<Candidate>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Value>,
    model_version: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<Content>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
struct Part {
    text: Option<String>,
    #[serde(default)]
    thought: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

/// Token counts. Cached tokens are part of the prompt's; those of tools and thoughts are separate. Zeros are left out.
#[derive(Deserialize, Default)]
#[serde(default)]
struct GeminiUsage {
    #[serde(rename = "promptTokenCount")]
    prompt: u64,
    #[serde(rename = "toolUsePromptTokenCount")]
    tool_prompt: u64,
    #[serde(rename = "candidatesTokenCount")]
    candidates: u64,
    #[serde(rename = "thoughtsTokenCount")]
    thoughts: u64,
}

fn usage(counts: Value) -> Option<Usage> {
    let tokens: GeminiUsage = serde_json::from_value(counts).ok()?;
    Some(Usage {
        input_tokens: tokens.prompt.saturating_add(tokens.tool_prompt),
        output_tokens: tokens.candidates.saturating_add(tokens.thoughts),
    })
}
