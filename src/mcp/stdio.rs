//! The MCP server over standard input and output: serves one client, and ends with it.
//!
//! Every message is answered, also one that is too long, one that is no message, and a second request under an id that
//! is under way: the client would otherwise wait forever.

use std::{
    collections::{HashSet, VecDeque},
    io,
    sync::Arc,
    time::Duration,
};

use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use rmcp::{
    RoleServer,
    model::{ClientJsonRpcMessage, ClientNotification, ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage},
    service::{RxJsonRpcMessage, ServerInitializeError, TxJsonRpcMessage, serve_server_with_ct},
    transport::Transport,
};
use serde_json::Value;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt, BufReader, Stdin, Stdout},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use super::{
    gateway::{McpCaller, McpGateway},
    line::{LineContent, LineReader, LineSubject},
    proxy_server::ProxyServer,
};

/// Largest message of a client, in bytes.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;
/// Most requests that may be under way.
const MAX_UNDERWAY: usize = 1_000;
/// Longest wait for a client that has left to read the remaining messages.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Serves the client on standard input and output until it leaves or `stop` is cancelled; then ends the servers.
///
/// # Errors
/// The client did not complete the handshake.
pub async fn serve_stdio(
    gateway: Arc<McpGateway>,
    caller: McpCaller,
    stop: CancellationToken,
) -> Result<(), Box<ServerInitializeError>> {
    let face = ProxyServer::for_one_client(Arc::clone(&gateway), caller);
    let served = match Box::pin(serve_server_with_ct(face, Client::new(), stop)).await {
        Ok(running) => {
            drop(running.waiting().await);
            Ok(())
        }
        // A client may leave before it sends anything.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => Ok(()),
        Err(error) => Err(Box::new(error)),
    };
    gateway.close().await;
    served
}

/// Client at the other end.
struct Client {
    input: BufReader<Stdin>,
    line: LineReader,
    output: Arc<tokio::sync::Mutex<Output<Stdout>>>,
    /// Requests that are not answered yet.
    underway: Arc<Mutex<HashSet<RequestId>>>,
    /// Refusals that are not sent yet.
    refusals: VecDeque<ServerJsonRpcMessage>,
    /// True if a refusal may have been sent in part.
    unsaid: bool,
}

/// Output of messages. A writer that is interrupted leaves its rest to the next one.
struct Output<W> {
    pipe: W,
    rest: BytesMut,
}

impl<W: AsyncWrite + Unpin> Output<W> {
    fn put(&mut self, message: &ServerJsonRpcMessage) -> Result<(), io::Error> {
        self.rest.extend_from_slice(&serde_json::to_vec(message)?);
        self.rest.extend_from_slice(b"\n");
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), io::Error> {
        while self.rest.has_remaining() {
            if self.pipe.write_buf(&mut self.rest).await? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        self.pipe.flush().await
    }
}

impl Client {
    fn new() -> Self {
        Self {
            input: BufReader::with_capacity(64 * 1024, tokio::io::stdin()),
            line: LineReader::new(MAX_MESSAGE),
            output: Arc::new(tokio::sync::Mutex::new(Output { pipe: tokio::io::stdout(), rest: BytesMut::new() })),
            underway: Arc::default(),
            refusals: VecDeque::new(),
            unsaid: false,
        }
    }

    fn refuse(&mut self, code: ErrorCode, words: &'static str, id: Option<RequestId>) {
        self.refusals.push_back(ServerJsonRpcMessage::error(ErrorData::new(code, words, None), id));
    }

    /// Sends the refusals. It is polled in a `select!`: unsent data stays in `self` or in the output.
    async fn say_refusals(&mut self) -> Result<(), io::Error> {
        if self.refusals.is_empty() && !self.unsaid {
            return Ok(());
        }
        let mut output = self.output.lock().await;
        self.unsaid = true;
        while let Some(refusal) = self.refusals.pop_front() {
            output.put(&refusal)?;
        }
        output.flush().await?;
        self.unsaid = false;
        Ok(())
    }

    /// Returns the message of a line if it is to be served, and refuses it otherwise.
    fn admit(&mut self, said: LineContent<ClientJsonRpcMessage>) -> Option<ClientJsonRpcMessage> {
        match said {
            LineContent::Message(ClientJsonRpcMessage::Request(request)) => {
                let mut ids = self.underway.lock();
                let many = ids.len() >= MAX_UNDERWAY;
                if !many && ids.insert(request.id.clone()) {
                    return Some(ClientJsonRpcMessage::Request(request));
                }
                drop(ids);
                let words = if many {
                    "too many requests are running: wait for some answers first"
                } else {
                    "a request with this id is still running: give each request its own id"
                };
                self.refuse(ErrorCode::INVALID_REQUEST, words, Some(request.id));
            }
            LineContent::Message(message) => {
                if let ClientJsonRpcMessage::Notification(said) = &message
                    && let ClientNotification::CancelledNotification(cancelled) = &said.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    // A cancelled request is not answered.
                    self.underway.lock().remove(id);
                }
                return Some(message);
            }
            LineContent::TooLong(LineSubject { id, .. }) => {
                self.refuse(ErrorCode::INVALID_REQUEST, "the message has more than 16 MiB: send smaller messages", id);
            }
            LineContent::Garbled(LineSubject { id, .. }) => {
                self.refuse(ErrorCode::PARSE_ERROR, "the line is not valid JSON", id);
            }
            LineContent::Odd(Value::Array(_)) => {
                let words = "the protocol has no batches: send each message on a line of its own";
                self.refuse(ErrorCode::INVALID_REQUEST, words, None);
            }
            LineContent::Odd(value) => {
                let id = value.get("id").filter(|id| !id.is_null());
                // An unknown notification needs no answer.
                if id.is_some() || value.get("method").is_none() {
                    let id = id.cloned().and_then(|id| serde_json::from_value(id).ok());
                    self.refuse(ErrorCode::INVALID_REQUEST, "not a JSON-RPC 2.0 message", id);
                }
            }
            LineContent::Blank => {}
        }
        None
    }
}

impl Transport<RoleServer> for Client {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let answered = match &message {
            ServerJsonRpcMessage::Response(answer) => Some(&answer.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        if let Some(id) = answered {
            self.underway.lock().remove(id);
        }
        let output = Arc::clone(&self.output);
        async move {
            let mut output = output.lock().await;
            output.put(&message)?;
            output.flush().await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            self.say_refusals().await.ok()?;
            let said = self.line.read(&mut self.input).await?;
            if let Some(message) = self.admit(said) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        let rest = async { self.output.lock().await.flush().await };
        timeout(LAST_WORDS, rest).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}
