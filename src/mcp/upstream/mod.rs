//! A server behind the proxy: connected when it is first needed, and again after it died, ever later while it keeps dying.

mod child;
mod ear;

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderName, HeaderValue};
use rmcp::{
    RoleClient, RoleServer,
    model::{
        CancelledNotificationParam, ClientRequest, ErrorData, ProtocolVersion, RequestMetaObject, ServerPeerInfo,
        ServerResult,
    },
    service::{
        ClientInitializeError, ClientLifecycleMode, ClientServiceExt, Peer, PeerRequestOptions, RequestContext,
        RunningService, ServiceError,
    },
    transport::{StreamableHttpClientTransport, streamable_http_client::StreamableHttpClientTransportConfig},
};
use secrecy::ExposeSecret;
use tokio::{
    sync::{Mutex, broadcast},
    time::{Instant, timeout},
};
use tokio_util::sync::CancellationToken;

pub(super) use self::child::TOO_LARGE;
use self::{
    child::Child,
    ear::{Ear, Progress},
};
use super::news::News;
use crate::{
    config::settings::{Mcp, McpUpstream, UpstreamAt},
    domain::key::AgentGlobs,
    llm::{self, ClientError, OutboundPolicy},
};

/// The first pause after a server died; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// A server that lived so long did not die at its start.
const LIVED: Duration = Duration::from_secs(10);
/// Bytes of a message beside its result.
const ENVELOPE: usize = 64 * 1024;

/// Why a server did not answer a request. No text of the server's.
#[derive(Debug, thiserror::Error)]
pub(super) enum UpstreamError {
    /// It answered with an error of the protocol.
    #[error("the server answered with an error")]
    Refused(ErrorData),
    /// It is not there.
    #[error("the server `{server}` is not there ({why}); it is tried again in {} ms", again.as_millis())]
    Away { server: Arc<str>, why: String, again: Duration },
    /// It went away while it worked.
    #[error(
        "the server `{0}` ended while the call was under way, so nobody knows whether it was done; look before you repeat it"
    )]
    Died(Arc<str>),
    /// It took too long.
    #[error("the server `{server}` did not answer within {} s, so nobody knows whether the call was done; look before you repeat it", after.as_secs())]
    Slow { server: Arc<str>, after: Duration },
    /// Its answer is too large.
    #[error(
        "the server `{server}` answered with more than {bytes} bytes, which is not passed on: ask for less at a time, or raise mcp.max_result_bytes"
    )]
    TooLarge { server: Arc<str>, bytes: usize },
    /// Whoever asked wants no answer any more.
    #[error("the call was cancelled")]
    Cancelled,
    /// It said something that is no answer to this.
    #[error("the server `{0}` answered with what is no result of this request")]
    Odd(Arc<str>),
}

/// A server.
pub(super) struct Upstream {
    /// Its name here; not what it calls itself.
    pub server: Arc<str>,
    /// Who may see it; everybody where there is none.
    pub agents: Option<AgentGlobs>,
    /// Whether its tools are to be asked for again.
    pub stale: Arc<AtomicBool>,
    at: At,
    settings: Mcp,
    line: Mutex<Line>,
    /// What it said of itself when it was last connected.
    says: RwLock<Option<Arc<ServerPeerInfo>>>,
    progress: Arc<Progress>,
    news: broadcast::Sender<News>,
}

enum At {
    Child(crate::config::settings::UpstreamCommand),
    Url(Box<Remote>),
}

/// A server that others run.
struct Remote {
    client: reqwest::Client,
    config: StreamableHttpClientTransportConfig,
}

/// The connection.
#[derive(Default)]
struct Line {
    running: Option<(RunningService<RoleClient, Ear>, Instant)>,
    /// How often it failed since it last lived.
    failures: u32,
    not_before: Option<Instant>,
    why: String,
}

/// What a request is sent with.
#[derive(Clone, Copy)]
pub(super) struct Asking<'a> {
    /// Its `_meta`, as the client sent it.
    pub meta: &'a RequestMetaObject,
    /// The client, for progress; `None` where we ask for ourselves.
    pub client: Option<&'a Peer<RoleServer>>,
    /// Cancelled when the client wants no answer any more.
    pub cancelled: &'a CancellationToken,
}

impl<'a> Asking<'a> {
    /// On behalf of a client.
    pub(super) fn of(context: &'a RequestContext<RoleServer>) -> Self {
        Self { meta: &context.meta, client: Some(&context.peer), cancelled: &context.ct }
    }
}

impl Upstream {
    /// A server of the settings; it is not connected yet.
    ///
    /// # Errors
    /// Its URL is refused, or no client can be made for it.
    pub(super) fn new(
        server: &str,
        spec: &McpUpstream,
        settings: &Mcp,
        policy: &OutboundPolicy,
        news: broadcast::Sender<News>,
    ) -> Result<Self, ClientError> {
        let at = match &spec.at {
            UpstreamAt::Command(command) => At::Child(command.clone()),
            UpstreamAt::Url { url, headers } => {
                let (client, url) = llm::client(url, policy)?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                config.max_sse_event_size = settings.max_result_bytes.saturating_add(ENVELOPE);
                config.allow_stateless = true;
                for (name, value) in headers {
                    // Both were checked when the settings were read.
                    if let (Ok(name), Ok(mut value)) =
                        (name.parse::<HeaderName>(), HeaderValue::from_str(value.expose_secret()))
                    {
                        value.set_sensitive(true);
                        config.custom_headers.insert(name, value);
                    }
                }
                At::Url(Box::new(Remote { client, config }))
            }
        };
        let agents = (!spec.agents.is_empty()).then(|| AgentGlobs::compile(&spec.agents).ok()).flatten();
        Ok(Self {
            server: Arc::from(server),
            agents,
            stale: Arc::new(AtomicBool::new(true)),
            at,
            settings: settings.clone(),
            line: Mutex::default(),
            says: RwLock::default(),
            progress: Arc::default(),
            news,
        })
    }

    /// Whether an agent may see it.
    pub(super) fn serves(&self, agent: &str) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }

    /// What it last said of itself.
    pub(super) fn says(&self) -> Option<Arc<ServerPeerInfo>> {
        self.says.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The connection, made where there is none.
    pub(super) async fn peer(&self) -> Result<Peer<RoleClient>, UpstreamError> {
        let mut line = self.line.lock().await;
        let now = Instant::now();
        if let Some((running, since)) = &line.running {
            if !running.peer().is_transport_closed() {
                return Ok(running.peer().clone());
            }
            line.failures = if since.elapsed() > LIVED { 0 } else { line.failures };
            line.running = None;
            "it ended".clone_into(&mut line.why);
            tracing::warn!(server = %self.server, "an MCP server ended; it is started again when it is needed");
            if line.failures > 0 {
                line.not_before = Some(now + pause(line.failures));
            }
            line.failures += 1;
        }
        if let Some(again) = line.not_before.and_then(|not_before| not_before.checked_duration_since(now)) {
            return Err(UpstreamError::Away { server: Arc::clone(&self.server), why: line.why.clone(), again });
        }
        match self.connect().await {
            Ok(running) => {
                let peer = running.peer().clone();
                *self.says.write().unwrap_or_else(PoisonError::into_inner) = peer.peer_info();
                self.stale.store(true, Ordering::Relaxed);
                line.not_before = None;
                line.running = Some((running, Instant::now()));
                Ok(peer)
            }
            Err(why) => {
                line.failures += 1;
                let again = pause(line.failures);
                line.not_before = Some(Instant::now() + again);
                tracing::warn!(server = %self.server, why, "an MCP server cannot be reached");
                line.why = why.to_owned();
                Err(UpstreamError::Away { server: Arc::clone(&self.server), why: line.why.clone(), again })
            }
        }
    }

    /// Asks for 2026-07-28 first; a server that breaks off at that is asked again as one of before.
    async fn connect(&self) -> Result<RunningService<RoleClient, Ear>, &'static str> {
        let modern = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        match timeout(self.settings.start_timeout, self.shake(modern)).await {
            Ok(Ok(running)) => return Ok(running),
            Ok(Err(Unmade::NoProgram)) => return Err("its program cannot be started"),
            Ok(Err(Unmade::NoHandshake { auth: true })) => return Err("it refuses our credentials"),
            Ok(Err(Unmade::NoHandshake { auth: false })) => {}
            Err(_) => return Err("it did not answer in time"),
        }
        match timeout(self.settings.start_timeout, self.shake(ClientLifecycleMode::Initialize)).await {
            Ok(Ok(running)) => Ok(running),
            Ok(Err(_)) => Err("it did not shake hands"),
            Err(_) => Err("it did not answer in time"),
        }
    }

    async fn shake(&self, lifecycle: ClientLifecycleMode) -> Result<RunningService<RoleClient, Ear>, Unmade> {
        let (progress, stale) = (Arc::clone(&self.progress), Arc::clone(&self.stale));
        let ear = Ear { progress, news: self.news.clone(), stale };
        let made = match &self.at {
            At::Child(command) => {
                let max = self.settings.max_result_bytes.saturating_add(ENVELOPE);
                let child = Child::start(command, max).map_err(|_| Unmade::NoProgram)?;
                ear.serve_with_lifecycle(child, lifecycle).await
            }
            At::Url(remote) => {
                let transport =
                    StreamableHttpClientTransport::with_client(remote.client.clone(), remote.config.clone());
                ear.serve_with_lifecycle(transport, lifecycle).await
            }
        };
        made.map_err(|error: ClientInitializeError| Unmade::NoHandshake { auth: error.is_authorization_required() })
    }

    /// Sends a request and waits for its answer, as long as the settings say; progress lengthens the wait.
    pub(super) async fn ask(&self, request: ClientRequest, asking: Asking<'_>) -> Result<ServerResult, UpstreamError> {
        let peer = self.peer().await?;
        let modern = peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize());
        let mut options = PeerRequestOptions::with_timeout(self.settings.call_timeout)
            .reset_timeout_on_progress()
            .with_max_total_timeout(self.settings.max_call_timeout);
        options.meta = Some(passed_on(asking.meta, modern));
        let handle = peer.send_request_with_option(request, options).await.map_err(|error| self.failed(error))?;
        let id = handle.id.clone();
        let listener = asking.client.cloned().zip(asking.meta.get_progress_token());
        let _passing =
            listener.map(|(client, theirs)| self.progress.pass(handle.progress_token.clone(), client, theirs));
        tokio::select! {
            answer = handle.await_response() => answer.map_err(|error| self.failed(error)),
            () = asking.cancelled.cancelled() => {
                let why = "the client cancelled the request".to_owned();
                drop(peer.notify_cancelled(CancelledNotificationParam::new(Some(id), Some(why))).await);
                Err(UpstreamError::Cancelled)
            }
        }
    }

    fn failed(&self, error: ServiceError) -> UpstreamError {
        let server = Arc::clone(&self.server);
        match error {
            ServiceError::McpError(error) if error.code == TOO_LARGE => {
                UpstreamError::TooLarge { server, bytes: self.settings.max_result_bytes }
            }
            ServiceError::McpError(error) => UpstreamError::Refused(error),
            ServiceError::Timeout { timeout } => UpstreamError::Slow { server, after: timeout },
            ServiceError::Cancelled { .. } => UpstreamError::Cancelled,
            ServiceError::UnexpectedResponse => UpstreamError::Odd(server),
            _ => UpstreamError::Died(server),
        }
    }

    /// Ends it.
    pub(super) async fn close(&self) {
        let running = self.line.lock().await.running.take();
        if let Some((mut running, _)) = running {
            drop(running.close_with_timeout(Duration::from_secs(8)).await);
        }
    }
}

/// Why there is no connection.
enum Unmade {
    NoProgram,
    NoHandshake { auth: bool },
}

fn pause(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST_PAUSE)
}

/// What of a client's `_meta` a server is shown: all but what belongs to the connection. Which requests the client takes is
/// told where they come within answers; extensions that need methods of their own are not passed on.
fn passed_on(meta: &RequestMetaObject, modern: bool) -> RequestMetaObject {
    let mut passed = meta.clone();
    passed.0.0.retain(|key, _| key != "progressToken" && !key.starts_with("io.modelcontextprotocol/"));
    if let (true, Some(mut capabilities)) = (modern, meta.client_capabilities()) {
        capabilities.extensions = None;
        passed.set_client_capabilities(capabilities);
    }
    passed
}
