//! Scripted model server on a real socket, speaking the three wire protocols by the requested path.
//!
//! A script computes each answer from the request. All requests are recorded, so that a test can search the prompts.
//! The server stops when it is dropped.
#![expect(clippy::expect_used, reason = "a test may panic")]

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::{BodyExt, Full};
use hyper::{Response, body::Bytes, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

/// Answer to one request.
#[derive(Debug, Clone)]
pub enum Answer {
    /// A complete reply whose text is this JSON.
    Json(Value),
    /// A complete reply with this text.
    Text(String),
    /// A complete reply with this text, counted as so many tokens read and written.
    Metered { text: String, input: u64, output: u64 },
    /// A reply with this text that does not count tokens.
    Uncounted(String),
    /// A reply that the limit of tokens cut off here.
    Truncated(String),
    /// The model declines.
    Refused,
    /// This status, with these headers and this body.
    Status(u16, Vec<(String, String)>, String),
    /// Status 200 with a body of no protocol.
    Raw(String),
    /// No answer, and the connection stays open.
    Hang,
    /// The request is read, then the connection is closed.
    Drop,
    /// Another answer, later.
    Slow(Duration, Box<Answer>),
}

impl Answer {
    /// Returns a status with an error body in the form of all three providers.
    pub fn error(status: u16, kind: &str, message: &str) -> Self {
        Self::error_with(status, &[], kind, message)
    }

    /// Returns the same with headers.
    pub fn error_with(status: u16, headers: &[(&str, &str)], kind: &str, message: &str) -> Self {
        let error = json!({"type": kind, "code": kind, "status": kind, "message": message});
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self::Status(status, headers, json!({"type": "error", "error": error}).to_string())
    }
}

/// Protocol that a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// `/v1/messages`
    Anthropic,
    /// `…/chat/completions`
    Openai,
    /// `…:generateContent`
    Gemini,
    /// Any other path.
    Unknown,
}

/// Request, as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Path with its query.
    pub path: String,
    /// Headers, by lower-case name.
    pub headers: BTreeMap<String, String>,
    /// Protocol of the path.
    pub wire: Wire,
    /// Requested model.
    pub model: String,
    /// System prompt.
    pub system: String,
    /// User prompt.
    pub user: String,
    /// Schema of the wanted reply.
    pub schema: Value,
    /// Whole body.
    pub body: Value,
    /// Body as it came, as text.
    pub raw: String,
    /// Body as it came.
    pub bytes: Bytes,
}

impl Seen {
    fn new(path: String, headers: BTreeMap<String, String>, body: Value) -> Self {
        let text = |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let value = |pointer: &str| body.pointer(pointer).cloned().unwrap_or_default();
        let bare = path.split('?').next().unwrap_or_default();
        let (wire, model, system, user, schema) = if bare.ends_with("/v1/messages") {
            let schema = value("/output_config/format/schema");
            (Wire::Anthropic, text("/model"), text("/system"), text("/messages/0/content"), schema)
        } else if bare.ends_with("/chat/completions") {
            let schema = value("/response_format/json_schema/schema");
            (Wire::Openai, text("/model"), text("/messages/0/content"), text("/messages/1/content"), schema)
        } else if let Some(path) = bare.strip_suffix(":generateContent") {
            let model = path.rsplit('/').next().unwrap_or_default().to_owned();
            let schema = value("/generationConfig/responseJsonSchema");
            (Wire::Gemini, model, text("/systemInstruction/parts/0/text"), text("/contents/0/parts/0/text"), schema)
        } else {
            (Wire::Unknown, String::new(), String::new(), String::new(), Value::Null)
        };
        Self { path, headers, wire, model, system, user, schema, body, raw: String::new(), bytes: Bytes::new() }
    }

    /// Returns all that the model reads, for searching.
    pub fn prompt(&self) -> String {
        format!("{}\n{}", self.system, self.user)
    }

    /// Returns the body of a 200: `text` as this request's protocol wraps it.
    fn envelope(&self, text: &str, finish: Ending, tokens: Option<(u64, u64)>) -> Value {
        let pick = |stop: &'static str, length: &'static str, refused: &'static str| match finish {
            Ending::Stop => stop,
            Ending::Length => length,
            Ending::Refused => refused,
        };
        let mut body = match self.wire {
            Wire::Anthropic | Wire::Unknown => json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": self.model,
                "content": [{"type": "text", "text": text}],
                "stop_reason": pick("end_turn", "max_tokens", "refusal"), "stop_sequence": null,
            }),
            Wire::Openai => json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": self.model,
                "choices": [{"index": 0, "finish_reason": pick("stop", "length", "stop"),
                    "message": match finish {
                        Ending::Refused => json!({"role": "assistant", "content": null, "refusal": "I cannot help."}),
                        _ => json!({"role": "assistant", "content": text, "refusal": null}),
                    }}],
            }),
            Wire::Gemini => json!({
                "modelVersion": self.model, "responseId": "r1",
                "candidates": [{"index": 0, "finishReason": pick("STOP", "MAX_TOKENS", "SAFETY"),
                    "content": {"role": "model", "parts": [{"text": text}]}}],
            }),
        };
        if let Some((input, output)) = tokens {
            let (name, usage) = match self.wire {
                Wire::Anthropic | Wire::Unknown => ("usage", json!({"input_tokens": input, "output_tokens": output})),
                Wire::Openai => {
                    let total = input + output;
                    ("usage", json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": total}))
                }
                Wire::Gemini => ("usageMetadata", json!({"promptTokenCount": input, "candidatesTokenCount": output})),
            };
            body[name] = usage;
        }
        body
    }
}

#[derive(Clone, Copy)]
enum Ending {
    Stop,
    Length,
    Refused,
}

type Script = Arc<dyn Fn(&Seen) -> Answer + Send + Sync>;

struct Shared {
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
}

/// Running model server.
pub struct ModelServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// Tasks, which end with the server.
    _tasks: JoinSet<()>,
}

impl ModelServer {
    /// Starts a server on a free port of 127.0.0.1; `script` computes each answer from the request.
    pub async fn start(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared { script: Mutex::new(Arc::new(script)), seen: Mutex::default() });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _tasks: tasks }
    }

    /// Starts a server with answers in order; the last one is repeated.
    pub async fn queue(answers: Vec<Answer>) -> Self {
        Self::start(in_order(answers)).await
    }

    /// Replaces the script from the next request on.
    pub fn set(&self, script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) {
        *self.shared.script.lock().expect("no test panicked here") = Arc::new(script);
    }

    /// Returns the base URL for the anthropic and gemini protocols.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the base URL for the openai protocol.
    pub fn openai_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns all requests so far, in order.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("no test panicked here").clone()
    }

    /// Returns the newest request.
    pub fn last(&self) -> Seen {
        self.seen().pop().expect("the server was asked")
    }

    /// Returns the number of requests.
    pub fn count(&self) -> usize {
        self.shared.seen.lock().expect("no test panicked here").len()
    }
}

/// Returns a script that answers in order and then repeats the last answer.
pub fn in_order(answers: Vec<Answer>) -> impl Fn(&Seen) -> Answer + Send + Sync + 'static {
    let left = Mutex::new(VecDeque::from(answers));
    move |_| {
        let mut left = left.lock().expect("no test panicked here");
        let next = left.front().cloned().expect("a script has at least one answer");
        if left.len() > 1 {
            left.pop_front();
        }
        next
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((socket, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&shared)));
            // An error is a dropped connection: either the script's wish or the client's.
            let _closed = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
        });
    }
}

async fn answer(request: hyper::Request<Incoming>, shared: Arc<Shared>) -> Result<Response<Full<Bytes>>, Dropped> {
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let headers = request.headers().iter();
    let headers =
        headers.map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let headers = headers.collect();
    let body = request.into_body().collect().await.map_err(|_| Dropped)?.to_bytes();
    let mut seen = Seen::new(path, headers, serde_json::from_slice(&body).unwrap_or_default());
    seen.raw = String::from_utf8_lossy(&body).into_owned();
    seen.bytes = body;
    let script = {
        shared.seen.lock().expect("no test panicked here").push(seen.clone());
        Arc::clone(&shared.script.lock().expect("no test panicked here"))
    };
    let mut wanted = script(&seen);
    while let Answer::Slow(wait, then) = wanted {
        tokio::time::sleep(wait).await;
        wanted = *then;
    }
    let read = u64::try_from(seen.prompt().len() / 4 + 1).expect("a prompt fits");
    let counted = |text: &str| Some((read, u64::try_from(text.len() / 4 + 1).expect("a text fits")));
    let whole = |text: &str, finish, tokens| seen.envelope(text, finish, tokens).to_string();
    let (status, headers, body) = match wanted {
        Answer::Json(value) => (200, vec![], whole(&value.to_string(), Ending::Stop, counted(&value.to_string()))),
        Answer::Text(text) => (200, vec![], whole(&text, Ending::Stop, counted(&text))),
        Answer::Metered { text, input, output } => (200, vec![], whole(&text, Ending::Stop, Some((input, output)))),
        Answer::Uncounted(text) => (200, vec![], whole(&text, Ending::Stop, None)),
        Answer::Truncated(text) => (200, vec![], whole(&text, Ending::Length, counted(&text))),
        Answer::Refused => (200, vec![], whole("", Ending::Refused, counted(""))),
        Answer::Raw(body) => (200, vec![], body),
        Answer::Status(status, headers, body) => (status, headers, body),
        Answer::Drop => return Err(Dropped),
        Answer::Hang | Answer::Slow(..) => match std::future::pending::<Infallible>().await {},
    };
    let mut response = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in headers {
        response = response.header(name, value);
    }
    Ok(response.body(Full::new(Bytes::from(body))).expect("a scripted answer is valid HTTP"))
}

/// Error by which the script closes the connection.
#[derive(Debug, thiserror::Error)]
#[error("closed by the script")]
struct Dropped;
