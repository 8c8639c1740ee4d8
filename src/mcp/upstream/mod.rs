//! Server behind the proxy: connected when it is first needed, and again after it ended, with growing pauses while it
//! keeps failing.

mod child;
mod notifications;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use parking_lot::RwLock;
use rmcp::{
    RoleClient, RoleServer,
    model::{
        CancelledNotificationParam, ClientRequest, DiscoverRequest, DiscoverRequestParams, ErrorData, PingRequest,
        ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId, RequestMetaObject, ServerPeerInfo,
        ServerResult, SubscriptionFilter, SubscriptionsListenRequest, SubscriptionsListenRequestParams,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions, RequestContext,
        RunningService, ServiceError,
    },
    transport::{
        IntoTransport, StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig,
    },
};
use tokio::{
    sync::{Mutex, broadcast},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::sync::CancellationToken;

use self::{
    child::{Child, TOO_LARGE, UNREADABLE},
    notifications::{NotificationHandler, NotifyingTransport},
};
use super::{catalogue::Offer, server_notices::ServerNotice};
use umbra_config::settings::{Mcp, McpUpstream, UpstreamAt};
use umbra_domain::key::AgentGlobs;
use umbra_llm::{ClientError, OutboundPolicy};

/// First pause after a server ended; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Uptime after which an ended server did not fail at its start.
const LIVED: Duration = Duration::from_secs(10);
/// Longest time to send a message that needs no answer: a cancellation to a server, progress to a client. A receiver
/// that does not read delays no other.
const A_WORD: Duration = Duration::from_secs(1);
/// Requests in a row without an answer in time, before the server is probed; and the longest time of the probe.
const SILENT: u32 = 3;
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);
/// Age up to which a list of tools is used, if the server reports no change.
const FRESH: Duration = Duration::from_mins(5);
/// Most bytes of a message beside its result.
const ENVELOPE: usize = 64 * 1024;

/// Reason why a server did not answer a request. It has no text by the server, except for an error of the protocol.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    /// The server answered with an error of the protocol.
    #[error("the server answered with an error")]
    Refused(ErrorData),
    /// The client has cancelled the request.
    #[error("the call was cancelled")]
    Cancelled,
    /// There is no answer, for this reason.
    #[error("{0}")]
    Failed(String),
}

impl From<UpstreamError> for ErrorData {
    /// Returns the error of a request that is no call of a tool.
    fn from(error: UpstreamError) -> Self {
        match error {
            UpstreamError::Refused(error) => error,
            other => Self::internal_error(other.to_string(), None),
        }
    }
}

/// Server of a profile.
pub(super) struct Upstream {
    /// Name in the profile; not the name that it gives itself.
    pub server: String,
    /// Agents that may see it; `None` is all.
    pub agents: Option<AgentGlobs>,
    /// Tools, as the server listed them last.
    pub tools: ArcSwapOption<Offer>,
    at: At,
    settings: Mcp,
    line: Mutex<ConnectionState>,
    /// The server's description of itself, from the last connection.
    says: RwLock<Option<Arc<ServerPeerInfo>>>,
    /// Requests without an answer in time, since the last answer.
    silent: AtomicU32,
    ear: NotificationHandler,
}

enum At {
    Child(umbra_config::settings::UpstreamCommand),
    Url(reqwest::Client, Box<StreamableHttpClientTransportConfig>),
}

/// State of the connection.
#[derive(Default)]
struct ConnectionState {
    running: Option<RunningConnection>,
    /// Number of failures since it last ran long enough.
    failures: u32,
    not_before: Option<Instant>,
    why: String,
}

struct RunningConnection {
    service: RunningService<RoleClient, NotificationHandler>,
    since: Instant,
    /// True once the server has gone; requests may still wait to fail.
    gone: Arc<AtomicBool>,
}

/// Context of a request.
#[derive(Clone, Copy)]
pub(super) struct UpstreamRequestContext<'a> {
    /// `_meta` of the request, as the client sent it.
    pub meta: &'a RequestMetaObject,
    /// Client that receives progress; `None` for requests of our own.
    pub client: Option<&'a Peer<RoleServer>>,
    /// Cancelled when the client wants no answer any more.
    pub cancelled: &'a CancellationToken,
}

impl<'a> UpstreamRequestContext<'a> {
    /// Returns the context of a client's request.
    pub(super) fn of(context: &'a RequestContext<RoleServer>) -> Self {
        Self { meta: &context.meta, client: Some(&context.peer), cancelled: &context.ct }
    }
}

impl Upstream {
    /// Returns a server of the settings; it is not connected yet.
    ///
    /// # Errors
    /// Its URL is refused, or no client can be made for it.
    pub(super) fn new(
        server: &str,
        spec: &McpUpstream,
        settings: &Mcp,
        policy: &OutboundPolicy,
        news: broadcast::Sender<ServerNotice>,
    ) -> Result<Self, ClientError> {
        let at = match &spec.at {
            UpstreamAt::Command(command) => At::Child(command.clone()),
            UpstreamAt::Url { url, headers } => {
                let (client, url) = umbra_llm::client(url, policy)?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config.max_sse_event_size = settings.max_result_bytes.saturating_add(ENVELOPE);
                config.allow_stateless = true;
                let headers = umbra_llm::secret_headers(headers);
                config.custom_headers.extend(headers.iter().map(|(name, value)| (name.clone(), value.clone())));
                At::Url(client, Box::new(config))
            }
        };
        let agents = (!spec.agents.is_empty()).then(|| AgentGlobs::compile(&spec.agents).ok()).flatten();
        let stale = Arc::new(AtomicBool::new(true));
        Ok(Self {
            server: server.to_owned(),
            agents,
            tools: ArcSwapOption::empty(),
            at,
            settings: settings.clone(),
            line: Mutex::default(),
            says: RwLock::default(),
            silent: AtomicU32::new(0),
            ear: NotificationHandler { progress: Arc::default(), news, stale },
        })
    }

    /// True if an agent may see the server.
    pub(super) fn serves(&self, agent: &str) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }

    /// True if its list of tools is known and recent. A restarted server may offer others; a call notices that a server
    /// is away.
    pub(super) fn is_fresh(&self) -> bool {
        let seen = self.tools.load().as_ref().map(|offer| offer.seen);
        !self.ear.stale.load(Ordering::Relaxed) && seen.is_some_and(|seen| seen.elapsed() < FRESH)
    }

    /// Returns the server's last description of itself.
    pub(super) fn server_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.says.read().clone()
    }

    /// Sets whether its tools must be listed again.
    pub(super) fn set_stale(&self, stale: bool) {
        self.ear.stale.store(stale, Ordering::Relaxed);
    }

    /// Returns the connection, made where there is none. A cancelled caller waits, too: an impatient client does not
    /// keep a server from starting for the next one.
    pub(super) async fn peer(&self) -> Result<Peer<RoleClient>, UpstreamError> {
        let mut line = self.line.lock().await;
        let now = Instant::now();
        if let Some(running) = &line.running {
            if !running.gone.load(Ordering::Relaxed) && !running.service.peer().is_transport_closed() {
                return Ok(running.service.peer().clone());
            }
            line.failures = if running.since.elapsed() > LIVED { 0 } else { line.failures };
            line.running = None;
            "its process or connection ended".clone_into(&mut line.why);
            tracing::warn!(server = %self.server, "an MCP server ended; the next request starts it again");
            if line.failures > 0 {
                line.not_before = Some(now + pause(line.failures));
            }
            line.failures += 1;
        }
        if let Some(again) = line.not_before.and_then(|not_before| not_before.checked_duration_since(now)) {
            return Err(self.away(&line.why, again));
        }
        match self.connect().await {
            Ok(running) => {
                let peer = running.service.peer().clone();
                *self.says.write() = peer.peer_info();
                self.set_stale(true);
                line.not_before = None;
                line.running = Some(running);
                Ok(peer)
            }
            Err(why) => {
                line.failures += 1;
                let again = pause(line.failures);
                line.not_before = Some(Instant::now() + again);
                tracing::warn!(server = %self.server, why, "an MCP server cannot be reached");
                why.clone_into(&mut line.why);
                Err(self.away(why, again))
            }
        }
    }

    /// Connects, by 2026-07-28 first. A server that breaks off is tried again by the older handshake; one that knows no
    /// handshake, and was only slow to start, by 2026-07-28. All within the one time for starting.
    async fn connect(&self) -> Result<RunningConnection, &'static str> {
        let deadline = Instant::now() + self.settings.start_timeout;
        let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
        let legacy_version = Some(ProtocolVersion::V_2025_11_25);
        let auto = ClientLifecycleMode::Auto { preferred_versions: preferred_versions.clone(), legacy_version };
        let next = match timeout_at(deadline, self.shake(auto)).await {
            Ok(Ok(running)) => return Ok(running),
            Ok(Err(ConnectError::NoProgram)) => return Err("its program cannot be started"),
            Ok(Err(ConnectError::Unauthorized)) => return Err("it refuses the configured credentials"),
            Ok(Err(ConnectError::Refused)) => ClientLifecycleMode::Discover { preferred_versions },
            Ok(Err(ConnectError::BrokenOff)) => ClientLifecycleMode::Initialize,
            Err(_) => return Err("it did not answer in time"),
        };
        match timeout_at(deadline, self.shake(next)).await {
            Ok(Ok(running)) => Ok(running),
            Ok(Err(_)) => Err("its handshake failed"),
            Err(_) => Err("it did not answer in time"),
        }
    }

    async fn shake(&self, lifecycle: ClientLifecycleMode) -> Result<RunningConnection, ConnectError> {
        let gone = Arc::new(AtomicBool::new(false));
        let service = match &self.at {
            At::Child(command) => {
                let max = self.settings.max_result_bytes.saturating_add(ENVELOPE);
                let child =
                    Child::start(command, max, self.settings.call_timeout).map_err(|_| ConnectError::NoProgram)?;
                let wire = NotifyingTransport::new(child, self.ear.clone(), Arc::clone(&gone));
                self.ear.clone().serve_with_lifecycle(wire, lifecycle).await
            }
            At::Url(client, config) => {
                let transport = StreamableHttpClientTransport::with_client(client.clone(), (**config).clone());
                let wire = NotifyingTransport::new(transport.into_transport(), self.ear.clone(), Arc::clone(&gone));
                self.ear.clone().serve_with_lifecycle(wire, lifecycle).await
            }
        };
        let service = service.map_err(|error| ConnectError::of(&error))?;
        listen(service.peer()).await;
        Ok(RunningConnection { service, since: Instant::now(), gone })
    }

    /// Sends a request and waits for its answer, as long as the settings say; progress lengthens the wait.
    pub(super) async fn ask(
        &self,
        request: ClientRequest,
        asking: UpstreamRequestContext<'_>,
    ) -> Result<ServerResult, UpstreamError> {
        let peer = self.peer().await?;
        // The client may have left while the server was started.
        if asking.cancelled.is_cancelled() {
            return Err(UpstreamError::Cancelled);
        }
        let mut options = PeerRequestOptions::no_options();
        options.meta = Some(passed_on(asking.meta, is_modern(&peer)));
        let sent = peer.send_request_with_option(request, options).await;
        let mut handle = sent.map_err(|error| self.failed(error))?;
        let mut listener = ProgressForwarder::of(asking);
        let mut heard = self.ear.progress.of(handle.progress_token.clone());
        let Mcp { call_timeout, max_call_timeout, .. } = self.settings;
        let (silence, all) = (sleep(call_timeout), sleep(max_call_timeout));
        tokio::pin!(silence, all);
        let late = loop {
            tokio::select! {
                biased;
                answer = &mut handle.rx => {
                    // Progress that came before the answer is passed on before it.
                    while let Ok(step) = heard.queue.try_recv() {
                        listener.tell(step).await;
                    }
                    self.silent.store(0, Ordering::Relaxed);
                    return answer.unwrap_or(Err(ServiceError::TransportClosed)).map_err(|error| self.failed(error));
                }
                () = asking.cancelled.cancelled() => {
                    call_off(&peer, handle.id, "the client cancelled the request").await;
                    return Err(UpstreamError::Cancelled);
                }
                Some(step) = heard.queue.recv() => {
                    silence.as_mut().reset(Instant::now() + call_timeout);
                    listener.tell(step).await;
                }
                () = &mut silence => break call_timeout,
                () = &mut all => break max_call_timeout,
            }
        };
        call_off(&peer, handle.id, "no answer in time").await;
        if self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= SILENT {
            self.silent.store(0, Ordering::Relaxed);
            self.end_if_dead(&peer).await;
        }
        Err(UpstreamError::Failed(format!(
            "the server `{}` did not answer within {} s, and the call may or may not have run: check its effect before \
             you repeat the call",
            self.server,
            late.as_secs()
        )))
    }

    /// Ends a server that does not answer a probe: the next request starts it again.
    async fn end_if_dead(&self, peer: &Peer<RoleClient>) {
        let request = if is_modern(peer) {
            ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}))
        } else {
            ClientRequest::PingRequest(PingRequest::default())
        };
        match timeout(SIGN_OF_LIFE, peer.send_request(request)).await {
            // Any answer will do.
            Ok(Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) => {}
            _ => {
                // A task that holds the lock is making a new connection already.
                if let Ok(mut line) = self.line.try_lock() {
                    tracing::warn!(
                        server = %self.server,
                        "an MCP server does not respond to pings; the next request starts it again"
                    );
                    line.running = None;
                }
            }
        }
    }

    fn failed(&self, error: ServiceError) -> UpstreamError {
        match error {
            ServiceError::McpError(error) if error.code == TOO_LARGE => self.too_large(),
            ServiceError::McpError(error) if error.code == UNREADABLE => self.odd(),
            ServiceError::McpError(error) => UpstreamError::Refused(error),
            ServiceError::Cancelled { .. } => UpstreamError::Cancelled,
            ServiceError::UnexpectedResponse => self.odd(),
            _ => UpstreamError::Failed(format!(
                "the server `{}` ended during the call, which may or may not have run: check its effect before you \
                 repeat the call",
                self.server
            )),
        }
    }

    fn away(&self, why: &str, again: Duration) -> UpstreamError {
        let (server, ms) = (&self.server, again.as_millis());
        UpstreamError::Failed(format!("the server `{server}` is not available ({why}); the next attempt is in {ms} ms"))
    }

    /// Returns the error for an answer that does not belong to its request.
    pub(super) fn odd(&self) -> UpstreamError {
        UpstreamError::Failed(format!("the answer of the server `{}` is not a result of this request", self.server))
    }

    /// Returns the error for an answer beyond the limit.
    pub(super) fn too_large(&self) -> UpstreamError {
        UpstreamError::Failed(format!(
            "the answer of the server `{}` has more than {} bytes and is not passed on: ask for less at a time, or \
             raise mcp.max_result_bytes",
            self.server, self.settings.max_result_bytes
        ))
    }

    /// Ends the server.
    pub(super) async fn close(&self) {
        let running = self.line.lock().await.running.take();
        if let Some(mut running) = running {
            drop(running.service.close_with_timeout(Duration::from_secs(8)).await);
        }
    }
}

/// Reason why there is no connection.
enum ConnectError {
    NoProgram,
    Unauthorized,
    /// The server answered the handshake with an error.
    Refused,
    BrokenOff,
}

impl ConnectError {
    fn of(error: &ClientInitializeError) -> Self {
        match error {
            error if error.is_authorization_required() => Self::Unauthorized,
            ClientInitializeError::JsonRpcError(_) => Self::Refused,
            _ => Self::BrokenOff,
        }
    }
}

/// Waiting client, if it asked for progress.
struct ProgressForwarder(Option<(Peer<RoleServer>, ProgressToken)>);

impl ProgressForwarder {
    fn of(asking: UpstreamRequestContext<'_>) -> Self {
        Self(asking.client.cloned().zip(asking.meta.get_progress_token()))
    }

    async fn tell(&mut self, mut step: ProgressNotificationParam) {
        let Some((client, token)) = &self.0 else { return };
        step.progress_token = token.clone();
        if !matches!(timeout(A_WORD, client.notify_progress(step)).await, Ok(Ok(()))) {
            self.0 = None;
        }
    }
}

/// Tells a server that a request was cancelled.
async fn call_off(peer: &Peer<RoleClient>, id: RequestId, why: &str) {
    let said = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), Some(why.to_owned())));
    drop(timeout(A_WORD, said).await);
}

/// Subscribes to changes, which a server of 2026-07-28 sends only on request. They are received on the wire.
async fn listen(peer: &Peer<RoleClient>) {
    let Some(says) = peer.peer_info() else { return };
    let offers = &says.capabilities;
    let mut wanted = SubscriptionFilter::default();
    let on = |flag: Option<bool>| flag.filter(|on| *on);
    wanted.tools_list_changed = offers.tools.as_ref().and_then(|tools| on(tools.list_changed));
    wanted.prompts_list_changed = offers.prompts.as_ref().and_then(|prompts| on(prompts.list_changed));
    wanted.resources_list_changed = offers.resources.as_ref().and_then(|resources| on(resources.list_changed));
    if says.protocol_version.has_initialize() || wanted == SubscriptionFilter::default() {
        return;
    }
    let request = SubscriptionsListenRequest::new(SubscriptionsListenRequestParams::new(wanted));
    let request = ClientRequest::SubscriptionsListenRequest(request);
    // It is answered when the server ends the subscription.
    drop(peer.send_request_with_option(request, PeerRequestOptions::no_options()).await);
}

fn is_modern(peer: &Peer<RoleClient>) -> bool {
    peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
}

fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST_PAUSE)
}

/// Returns the parts of a client's `_meta` that a server is shown: all but those of the connection. The client's
/// capabilities go along where requests may come within answers, without extensions, which would need methods of their
/// own.
fn passed_on(meta: &RequestMetaObject, modern: bool) -> RequestMetaObject {
    let mut passed = meta.clone();
    passed.0.0.retain(|key, _| key != "progressToken" && !key.starts_with("io.modelcontextprotocol/"));
    if let (true, Some(mut capabilities)) = (modern, meta.client_capabilities()) {
        capabilities.extensions = None;
        passed.set_client_capabilities(capabilities);
    }
    passed
}
