//! Endpoint: one model at one address with one key, and a single exchange with it in its wire protocol.
//!
//! In: a request and a deadline. Out: a reply or a failure. An endpoint sends once and never again, and reads at most
//! 1 MiB of an answer. No prompt, key or answer reaches an error.

use std::time::Duration;

use reqwest::{
    Client, Response, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use umbra_domain::{ModelSpec, Provider};

use super::{
    Failure, FailureKind, OutboundPolicy, Reply, Request,
    connect::{self, ClientError},
    gateway::GatewayError,
    protocol::{self, Protocol, ProtocolAnswer},
    retry_after, schema,
};

/// Header that marks our own traffic, so that a reporting proxy can leave it out and the loop guard recognizes it.
pub const ORIGIN_HEADER: &str = "umbra-origin";
/// Value of [`ORIGIN_HEADER`].
pub const ORIGIN: &str = "review";

/// Longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 1024 * 1024;
/// Longest answer with vectors, in bytes: sixteen of 4,096 numbers in decimal digits, and to spare.
const LONGEST_VECTORS: usize = 4 * 1024 * 1024;
/// Longest accepted name of the answering model, in bytes.
const LONGEST_MODEL_NAME: usize = 128;

/// Identity of an endpoint: aliases with equal identities share one endpoint and its health.
#[derive(Debug, Clone)]
pub(super) struct Identity {
    pub provider: Provider,
    pub base_url: Option<String>,
    pub model: String,
    pub key_env: Option<String>,
    pub key: Option<SecretString>,
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        let key = |identity: &Self| identity.key.as_ref().map(|key| key.expose_secret().to_owned());
        self.provider == other.provider
            && self.base_url == other.base_url
            && self.model == other.model
            && self.key_env == other.key_env
            && key(self) == key(other)
    }
}

/// A model that can be called.
#[derive(Clone)]
pub(super) struct ModelEndpoint {
    protocol: &'static dyn Protocol,
    client: Client,
    base: Url,
    url: Url,
    headers: HeaderMap,
    model: String,
    key: Option<SecretString>,
}

impl ModelEndpoint {
    /// Builds the endpoint. The inner error is the reason why there is no model to call, although the settings are
    /// valid.
    pub fn new(
        alias: &str,
        identity: &Identity,
        policy: &OutboundPolicy,
    ) -> Result<Result<Self, String>, GatewayError> {
        let Some(protocol) = protocol::of(identity.provider) else {
            return Ok(Err(format!("`{alias}` is not a model: only the built-in checks review")));
        };
        let base = identity.base_url.as_deref().unwrap_or_else(|| protocol.default_base());
        let (client, base) = match connect::client(base, policy) {
            Ok(built) => built,
            Err(error @ ClientError::Tls(_)) => return Ok(Err(error.to_string())),
            Err(ClientError::Url(source)) => return Err(GatewayError::Url { alias: alias.to_owned(), source }),
        };
        let mut headers = protocol.headers(&base, identity.key.as_ref()).map_err(|_| GatewayError::Key {
            alias: alias.to_owned(),
            env: identity.key_env.clone().unwrap_or_default(),
        })?;
        headers.insert(ORIGIN_HEADER, HeaderValue::from_static(ORIGIN));
        let url = protocol.url(&base, &identity.model);
        Ok(Ok(Self { protocol, client, base, url, headers, model: identity.model.clone(), key: identity.key.clone() }))
    }

    /// Asks the model once, within its own limits.
    pub async fn ask(&self, spec: &ModelSpec, request: &Request) -> Result<Reply, Failure> {
        within(spec.timeout, self.exchange(spec.output_limit(request.items), request)).await
    }

    /// Asks once for the vectors of texts, in their order (`POST {base}/embeddings`).
    pub async fn embed(&self, spec: &ModelSpec, texts: &[String]) -> Result<Vec<Vec<f32>>, Failure> {
        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
        let url = protocol::join(&self.base, &["embeddings"]);
        let (_, answer) = within(spec.timeout, self.post(url, &body, LONGEST_VECTORS)).await?;
        vectors(&answer, texts.len()).ok_or_else(|| {
            let message =
                format!("the answer has no {} finite vectors of one length: check base_url and name", texts.len());
            Failure::after_sending(FailureKind::BadReply, message)
        })
    }

    async fn exchange(&self, max_output_tokens: u32, request: &Request) -> Result<Reply, Failure> {
        let started = Instant::now();
        let limit = request.max_output_tokens.min(max_output_tokens);
        let body = self.protocol.body(&self.base, &self.model, request, schema::narrow(&request.schema), limit);
        let (media, body) = self.post(self.url.clone(), &body, LONGEST_ANSWER).await?;
        let read: Value = serde_json::from_slice(&body).unwrap_or_default();
        let answer = self.protocol.read(&read).ok_or_else(|| {
            if is_json(media.as_ref(), &body) {
                let message = "the answer does not follow the provider's protocol: check provider and base_url";
                Failure::after_sending(FailureKind::BadReply, message)
            } else {
                Failure::free(FailureKind::BadReply, "the answer is a web page, not a model's reply: check base_url")
            }
        })?;
        Ok(self.reply(answer, started.elapsed()))
    }

    /// Posts a body, and returns the answer of a 2xx status with its declared type.
    async fn post(&self, url: Url, body: &Value, most: usize) -> Result<(Option<HeaderValue>, Vec<u8>), Failure> {
        let sending = self.client.post(url).headers(self.headers.clone()).json(body);
        let mut response = sending.send().await.map_err(|error| broken(&error))?;
        let status = response.status();
        if !status.is_success() {
            let wait = retry_after::from_headers(response.headers());
            // An error without a readable body is still that error.
            let body = read(&mut response, LONGEST_ANSWER).await.unwrap_or_default();
            let key = self.key.as_ref().map(ExposeSecret::expose_secret);
            return Err(Failure::of_status(status, wait, &body, key));
        }
        let media = response.headers().get(CONTENT_TYPE).cloned();
        Ok((media, read(&mut response, most).await?))
    }

    fn reply(&self, answer: ProtocolAnswer<'_>, latency: Duration) -> Reply {
        let named = answer.model.filter(|name| {
            !name.is_empty() && name.len() <= LONGEST_MODEL_NAME && name.chars().all(|c| c.is_ascii_graphic())
        });
        Reply {
            text: answer.text,
            // A server that counts nothing reports 0, which must not pass for a free call.
            usage: answer.usage.filter(|usage| usage.input_tokens > 0),
            finish: answer.finish,
            model: named.unwrap_or(&self.model).to_owned(),
            latency,
        }
    }
}

/// True if an answer may be a model's that was cut off or is of another protocol. An answer that is not declared as
/// JSON, or does not begin like JSON, is a page of a proxy or a portal, and costs nothing.
fn is_json(media: Option<&HeaderValue>, body: &[u8]) -> bool {
    let media = media.and_then(|media| media.to_str().ok()).unwrap_or("json").to_ascii_lowercase();
    let begins = body.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'['));
    begins && (media.contains("json") || media.starts_with("text/plain") || media.contains("event-stream"))
}

async fn within<T>(deadline: Duration, asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    timeout(deadline, asking).await.unwrap_or_else(|_| {
        let message = format!("no answer within {deadline:?}: raise the model's timeout if the model needs longer");
        Err(Failure::after_sending(FailureKind::Timeout, message))
    })
}

/// Returns the vectors of an answer in the order of the texts; `None` if it does not hold that many.
fn vectors(answer: &[u8], count: usize) -> Option<Vec<Vec<f32>>> {
    #[derive(Deserialize)]
    struct Answer {
        data: Vec<Row>,
    }
    #[derive(Deserialize)]
    struct Row {
        index: usize,
        embedding: Vec<f32>,
    }
    let Answer { mut data } = serde_json::from_slice(answer).ok()?;
    data.sort_by_key(|row| row.index);
    let length = data.first()?.embedding.len();
    // A vector with a number that is not finite would rank its tool before all others.
    let finite = |row: &Row| row.embedding.iter().map(|number| number * number).sum::<f32>().is_finite();
    let fits = |(at, row): (usize, &Row)| row.index == at && row.embedding.len() == length && finite(row);
    let whole = data.len() == count && length > 0 && data.iter().enumerate().all(fits);
    whole.then(|| data.into_iter().map(|row| row.embedding).collect())
}

async fn read(response: &mut Response, most: usize) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| broken(&error))? {
        if body.len() + chunk.len() > most {
            let message = format!("the answer is longer than {most} bytes: check provider and base_url");
            return Err(Failure::after_sending(FailureKind::BadReply, message));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Builds the failure of a transport error. The error's own text may hold the URL, so only its kind is told.
fn broken(error: &reqwest::Error) -> Failure {
    if let Some(refused) = connect::refusal(error) {
        return Failure::free(FailureKind::Refused, refused.to_string());
    }
    if error.is_connect() || error.is_builder() {
        let what = if error.is_timeout() { "the connection timed out" } else { "no connection" };
        return Failure::free(
            FailureKind::Connect,
            format!("{what}: check base_url, and that the provider is running"),
        );
    }
    Failure::after_sending(FailureKind::Connect, "the connection broke before the whole answer was read")
}
