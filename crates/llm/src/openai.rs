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
use serde_json::{Value, json};

use super::{
    Finish, Request, Usage, effort,
    protocol::{Protocol, ProtocolAnswer, join, sensitive, sum_of},
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

    fn read<'a>(&self, answer: &'a Value) -> Option<ProtocolAnswer<'a>> {
        let choice = answer["choices"].get(0)?;
        let message = choice["message"].as_object()?;
        let text = match message.get("content") {
            None | Some(Value::Null) => String::new(),
            Some(content) => content.as_str()?.to_owned(),
        };
        let refused = message.get("refusal").and_then(Value::as_str).is_some_and(|reason| !reason.is_empty());
        let finish = match choice["finish_reason"].as_str() {
            _ if refused => Finish::Refused,
            Some("stop") => Finish::Stop,
            Some("length") => Finish::Length,
            Some("content_filter") => Finish::Refused,
            _ => Finish::Other,
        };
        Some(ProtocolAnswer { text, usage: usage(&answer["usage"]), finish, model: answer["model"].as_str() })
    }
}

fn is_official(base: &Url) -> bool {
    base.host_str() == Some("api.openai.com")
}

fn is_azure(base: &Url) -> bool {
    base.host_str().is_some_and(|host| host.ends_with(".azure.com"))
}

/// Reads token counts. Cached and reasoning tokens are part of them.
fn usage(counts: &Value) -> Option<Usage> {
    let (input, output) = (counts["prompt_tokens"].as_u64()?, sum_of(counts, &["completion_tokens"])?);
    Some(Usage { input_tokens: input, output_tokens: output })
}
