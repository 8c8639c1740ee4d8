//! OpenAI's chat completions API, and every server compatible with it (Ollama, vLLM, llama.cpp, Azure):
//! `POST {base}/chat/completions`, structured output by a strict `response_format`.
//!
//! Shapes by developers.openai.com ("Chat Completions", "Structured Outputs"), read 2026-11. Servers other than
//! OpenAI's own get the older form where the two differ, since all of them understand it.

use reqwest::{
    Url,
    header::{AUTHORIZATION, HeaderMap, InvalidHeaderValue},
};
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    Finish, Request, Usage, effort,
    protocol::{Protocol, ProtocolAnswer, join, sensitive},
};

pub(super) struct Openai;

impl Protocol for Openai {
    fn default_base(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn url(&self, base: &Url, _model: &str) -> Url {
        join(base, &["chat", "completions"])
    }

    fn headers(&self, base: &Url, key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        if let Some(key) = key {
            headers.insert(AUTHORIZATION, sensitive("Bearer ", key)?);
            if is_azure(base) {
                headers.insert("api-key", sensitive("", key)?);
            }
        }
        Ok(headers)
    }

    fn body(&self, base: &Url, model: &str, request: &Request, schema: Value, max_output_tokens: u32) -> Value {
        let mut body = json!({
            "model": model,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.user},
            ],
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": request.schema_name, "strict": true, "schema": schema},
            },
        });
        // OpenAI's reasoning models refuse `max_tokens`; many compatible servers ignore its successor, and a
        // limit that is ignored would break the worst case.
        let limit = if is_official(base) || is_azure(base) { "max_completion_tokens" } else { "max_tokens" };
        body[limit] = json!(max_output_tokens);
        if is_official(base) && effort::openai(model) {
            body["reasoning_effort"] = json!("low");
        }
        body
    }

    fn read(&self, body: &[u8]) -> Option<ProtocolAnswer> {
        let completion: Completion = serde_json::from_slice(body).ok()?;
        let choice = completion.choices.into_iter().next()?;
        let refused = choice.message.refusal.is_some_and(|reason| !reason.is_empty());
        let finish = match choice.finish_reason.as_deref() {
            _ if refused => Finish::Refused,
            Some("stop") => Finish::Stop,
            Some("length") => Finish::Length,
            Some("content_filter") => Finish::Refused,
            _ => Finish::Other,
        };
        Some(ProtocolAnswer {
            text: choice.message.content.unwrap_or_default(),
            usage: completion.usage.and_then(usage),
            finish,
            model: completion.model,
        })
    }
}

fn is_official(base: &Url) -> bool {
    base.host_str() == Some("api.openai.com")
}

fn is_azure(base: &Url) -> bool {
    base.host_str().is_some_and(|host| host.ends_with(".azure.com"))
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Option<Value>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
    refusal: Option<String>,
}

/// Token counts. Cached and reasoning tokens are part of these.
#[derive(Deserialize)]
struct OpenaiUsage {
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

fn usage(counts: Value) -> Option<Usage> {
    let tokens: OpenaiUsage = serde_json::from_value(counts).ok()?;
    Some(Usage { input_tokens: tokens.prompt_tokens, output_tokens: tokens.completion_tokens })
}
