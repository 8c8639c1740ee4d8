//! Receives unsolicited messages of a server: progress goes to the waiting request, changes to the listening clients.
//! Messages are read on the wire, in order and without a task each: many of them are no burden. Requests of a server to
//! its client are refused, with the reason.

#![expect(deprecated, reason = "log messages, sampling and roots are part of 2025-11-25")]

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::Mutex;
use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        ClientCapabilities, ClientConfig, ClientJsonRpcMessage, ClientRequest, CreateMessageRequestParams,
        CreateMessageResult, ElicitRequestParams, ElicitResult, ErrorCode, Implementation, ListRootsResult,
        NumberOrString, ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId, ServerJsonRpcMessage,
        ServerNotification,
    },
    service::{RequestContext, RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::{broadcast, mpsc};

use crate::mcp::server_notices::ServerNotice;

/// Most steps of progress that wait to be passed on; further ones are dropped.
const STEPS: usize = 64;

/// Requests whose progress is awaited.
#[derive(Default)]
pub(super) struct ProgressRequests(Mutex<AwaitedRequests>);

#[derive(Default)]
struct AwaitedRequests {
    requests: HashMap<ProgressToken, mpsc::Sender<ProgressNotificationParam>>,
    /// Steps of requests that were sent but are not awaited yet.
    early: VecDeque<ProgressNotificationParam>,
}

impl ProgressRequests {
    fn hear(&self, said: ProgressNotificationParam) {
        let mut waiting = self.0.lock();
        if let Some(to) = waiting.requests.get(&said.progress_token) {
            // The receiver is slow: a lost step of progress does not matter.
            drop(to.try_send(said));
        } else {
            waiting.early.truncate(STEPS - 1);
            waiting.early.push_front(said);
        }
    }

    /// Returns the steps of a request, until this is dropped.
    pub(super) fn of(self: &Arc<Self>, token: ProgressToken) -> Steps {
        let (to, steps) = mpsc::channel(STEPS);
        let mut waiting = self.0.lock();
        let early = std::mem::take(&mut waiting.early);
        let (ours, others): (VecDeque<_>, VecDeque<_>) =
            early.into_iter().partition(|said| said.progress_token == token);
        waiting.early = others;
        ours.into_iter().rev().for_each(|said| drop(to.try_send(said)));
        waiting.requests.insert(token.clone(), to);
        Steps { queue: steps, token, all: Arc::clone(self) }
    }
}

/// Progress of a request.
pub(super) struct Steps {
    pub(super) queue: mpsc::Receiver<ProgressNotificationParam>,
    token: ProgressToken,
    all: Arc<ProgressRequests>,
}

impl Drop for Steps {
    fn drop(&mut self) {
        self.all.0.lock().requests.remove(&self.token);
    }
}

/// Receiver of one server's messages, shared by all its connections.
#[derive(Clone)]
pub(super) struct NotificationHandler {
    pub(super) progress: Arc<ProgressRequests>,
    pub(super) news: broadcast::Sender<ServerNotice>,
    /// True if its tools must be listed again.
    pub(super) stale: Arc<AtomicBool>,
}

impl NotificationHandler {
    /// Handles a notification.
    fn hear(&self, said: ServerNotification) {
        let news = match said {
            ServerNotification::ProgressNotification(said) => return self.progress.hear(said.params),
            ServerNotification::ToolListChangedNotification(_) => {
                self.stale.store(true, Ordering::Relaxed);
                ServerNotice::Tools
            }
            ServerNotification::PromptListChangedNotification(_) => ServerNotice::Prompts,
            ServerNotification::ResourceListChangedNotification(_) => ServerNotice::Resources,
            ServerNotification::ResourceUpdatedNotification(said) => ServerNotice::Resource(said.params),
            ServerNotification::LoggingMessageNotification(said) => ServerNotice::Log(said.params),
            _ => return,
        };
        // Without listeners the message is dropped.
        drop(self.news.send(news));
    }
}

/// Returns the refusal of a server's request.
fn refused<T>(what: &str) -> Result<T, ErrorData> {
    let words = format!("{what} is not available: this proxy does not pass on requests of servers");
    Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, words, None))
}

impl ClientHandler for NotificationHandler {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("umbra", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        refused("sampling")
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        refused("a list of roots")
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        refused("elicitation")
    }
}

/// Connection that passes notifications to an [`NotificationHandler`].
pub(super) struct NotifyingTransport<T> {
    inner: T,
    ear: NotificationHandler,
    /// True once the server has gone; requests may still wait to fail.
    gone: Arc<AtomicBool>,
    /// Id of the handshake's own request. A probe before it may still be answered, by a server that was slow to start.
    greeting: Option<i64>,
}

impl<T> NotifyingTransport<T> {
    pub(super) fn new(inner: T, ear: NotificationHandler, gone: Arc<AtomicBool>) -> Self {
        Self { inner, ear, gone, greeting: None }
    }

    /// True if a message answers a request that was given up.
    fn is_late(&self, message: &ServerJsonRpcMessage) -> bool {
        let id: Option<&RequestId> = match message {
            ServerJsonRpcMessage::Response(answer) => Some(&answer.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            _ => None,
        };
        matches!((id, self.greeting), (Some(NumberOrString::Number(id)), Some(greeting)) if *id < greeting)
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for NotifyingTransport<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        if let ClientJsonRpcMessage::Request(request) = &message
            && let (ClientRequest::InitializeRequest(_), NumberOrString::Number(id)) = (&request.request, &request.id)
        {
            self.greeting = Some(*id);
        }
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            match self.inner.receive().await {
                Some(message) if self.is_late(&message) => {}
                Some(ServerJsonRpcMessage::Notification(said))
                    if !matches!(said.notification, ServerNotification::CancelledNotification(_)) =>
                {
                    self.ear.hear(said.notification);
                }
                Some(message) => return Some(message),
                None => {
                    self.gone.store(true, Ordering::Relaxed);
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
