//! The MCP server over streamable HTTP: `/mcp/{profile}`. The caller is known before a request comes here.
//!
//! Clients of 2026-07-28 have no sessions. Older clients get one, in the memory of this process: it ends after five
//! minutes without a request, and its client begins again. So does a client whose profile was changed by a reload;
//! calls that are under way end where they began.

use std::{
    collections::{BTreeMap, HashSet},
    convert::Infallible,
    fmt::Display,
    sync::Arc,
};

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::join_all;
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use parking_lot::Mutex;
use rmcp::{
    model::{ErrorCode, ErrorData, RequestId, ServerJsonRpcMessage},
    transport::{
        StreamableHttpServerConfig, StreamableHttpService, streamable_http_server::session::local::LocalSessionManager,
    },
};
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{
    call_guard::CallGuard,
    gateway::{McpCaller, McpGateway},
    proxy_server::ProxyServer,
};
use umbra_config::settings::{Mcp, McpProfile};
use umbra_llm::OutboundPolicy;

/// Most sessions of clients of before 2026-07-28, of one profile.
const MAX_SESSIONS: usize = 1_000;
/// Largest message of a client, in bytes.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;
/// Header with the session of a client of before 2026-07-28.
const SESSION: &str = "mcp-session-id";

type Answer = Response<BoxBody<Bytes, Infallible>>;

/// All profiles of the settings.
pub struct Profiles {
    in_force: ArcSwap<InForce>,
    guard: CallGuard,
    stop: CancellationToken,
}

/// Profiles in force, and the outbound policy that they were made by.
struct InForce {
    profiles: BTreeMap<String, Arc<Profile>>,
    policy: OutboundPolicy,
}

struct Profile {
    spec: McpProfile,
    gateway: Arc<McpGateway>,
    service: StreamableHttpService<ProxyServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    underway: Arc<OpenSessionRequests>,
}

impl Profiles {
    /// Returns the profiles of these settings; no server is started yet. `stop` ends all streams.
    ///
    /// # Errors
    /// A server's URL is refused, with a remedy.
    pub fn new(
        settings: &Mcp,
        policy: &OutboundPolicy,
        guard: CallGuard,
        stop: CancellationToken,
    ) -> anyhow::Result<Self> {
        let none = InForce { profiles: BTreeMap::new(), policy: policy.clone() };
        let profiles = Self { in_force: ArcSwap::from_pointee(none), guard, stop };
        profiles.reload(settings, policy)?;
        Ok(profiles)
    }

    /// Puts the profiles of these settings in force. Unchanged profiles keep their servers; the servers of others end
    /// when their last call is answered.
    ///
    /// # Errors
    /// A server's URL is refused, with a remedy; then nothing has changed.
    pub fn reload(&self, settings: &Mcp, policy: &OutboundPolicy) -> anyhow::Result<()> {
        let before = self.in_force.load();
        let profile = |(name, spec): (&String, &McpProfile)| {
            let same = before.profiles.get(name).filter(|profile| {
                profile.spec == *spec && profile.gateway.is_under(settings) && before.policy == *policy
            });
            let profile = match same {
                Some(profile) => Arc::clone(profile),
                None => Arc::new(self.profile(name, spec, settings, policy)?),
            };
            Ok((name.clone(), profile))
        };
        let profiles = settings.profiles.iter().map(profile).collect::<anyhow::Result<_>>()?;
        self.in_force.store(Arc::new(InForce { profiles, policy: policy.clone() }));
        Ok(())
    }

    fn profile(
        &self,
        name: &str,
        spec: &McpProfile,
        settings: &Mcp,
        policy: &OutboundPolicy,
    ) -> anyhow::Result<Profile> {
        let gateway = Arc::new(McpGateway::new(name, spec, settings, policy, self.guard.clone())?);
        let sessions = Arc::<LocalSessionManager>::default();
        // The front has checked hosts and origins before anything else.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_max_request_body_bytes(MAX_MESSAGE)
            .with_cancellation_token(self.stop.child_token());
        let face = ProxyServer::for_many_clients(Arc::clone(&gateway));
        let service = StreamableHttpService::new(move || Ok(face.clone()), Arc::clone(&sessions), config);
        Ok(Profile { spec: spec.clone(), gateway, service, sessions, underway: Arc::default() })
    }

    /// Returns the default agent of a profile; `None` where there is no such profile.
    pub fn agent(&self, profile: &str) -> Option<String> {
        self.in_force.load().profiles.get(profile).map(|profile| profile.gateway.agent.clone())
    }

    /// Answers a request, on behalf of `caller`. `None` where there is no such profile.
    pub async fn serve<B>(&self, profile: &str, caller: McpCaller, request: Request<B>) -> Option<Answer>
    where
        B: http_body::Body + Send + 'static,
        B::Error: Display,
    {
        let profile = Arc::clone(self.in_force.load().profiles.get(profile)?);
        Some(profile.serve(caller, request).await)
    }

    /// Ends every server that was started.
    pub async fn close(&self) {
        join_all(self.in_force.load().profiles.values().map(|profile| profile.gateway.close())).await;
    }
}

impl Profile {
    async fn serve<B>(&self, mut caller: McpCaller, request: Request<B>) -> Answer
    where
        B: http_body::Body + Send + 'static,
        B::Error: Display,
    {
        let session = session(request.headers());
        if session.is_none() && self.sessions.sessions.read().await.len() >= MAX_SESSIONS {
            let words = "too many sessions are open: end some with DELETE, or wait until idle sessions expire";
            let mut refusal = plain(StatusCode::SERVICE_UNAVAILABLE, words);
            refusal.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("10"));
            return refusal;
        }
        caller.session = caller.session.or_else(|| session.clone());
        if request.method() != Method::POST {
            let ends = session.is_some() && request.method() == Method::DELETE;
            let mut answer = self.pass(caller, request).await;
            if ends && answer.status() == StatusCode::ACCEPTED {
                // The session has ended; clients take "accepted" for a failure.
                answer = plain(StatusCode::NO_CONTENT, "");
            }
            return answer;
        }
        let (parts, body) = request.into_parts();
        let Ok(body) = body.collect().await.map(http_body_util::Collected::to_bytes) else {
            return plain(StatusCode::BAD_REQUEST, "the body is incomplete");
        };
        let id = serde_json::from_slice(&body).ok().and_then(|head: Head| head.id.filter(|_| head.method.is_some()));
        let Some((session, id)) = session.zip(id) else { return self.pass_message(caller, parts, body).await };
        let Some(place) = RequestSlot::take(&self.underway, (session, id.clone())) else {
            let words = "a request with this id is still running: give each request its own id";
            return refusal(ErrorCode::INVALID_REQUEST, words, Some(id));
        };
        // The place is free again when the answer is read, or the client has gone.
        self.pass_message(caller, parts, body).await.map(|body| {
            let held = move |frame| {
                let _ = &place;
                frame
            };
            body.map_frame(held).boxed()
        })
    }

    /// Passes a message on. One that cannot be read is refused in terms of the protocol, with its id if it has one.
    async fn pass_message(&self, caller: McpCaller, parts: http::request::Parts, body: Bytes) -> Answer {
        let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let is_json = kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
        let answer = self.pass(caller, Request::from_parts(parts, Full::new(body.clone()))).await;
        if is_json && answer.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE { unreadable(&body) } else { answer }
    }

    async fn pass<B>(&self, caller: McpCaller, mut request: Request<B>) -> Answer
    where
        B: http_body::Body + Send + 'static,
        B::Error: Display,
    {
        request.extensions_mut().insert(Arc::new(caller));
        self.service.handle(request).await
    }
}

/// Members that tell a request from other messages.
#[derive(Deserialize)]
struct Head {
    id: Option<RequestId>,
    method: Option<serde::de::IgnoredAny>,
}

/// Requests of sessions that are not answered yet. Of two with one id only one would be answered.
type OpenSessionRequests = Mutex<HashSet<(String, RequestId)>>;

struct RequestSlot(Arc<OpenSessionRequests>, (String, RequestId));

impl RequestSlot {
    fn take(underway: &Arc<OpenSessionRequests>, request: (String, RequestId)) -> Option<Self> {
        let is_new = underway.lock().insert(request.clone());
        is_new.then(|| Self(Arc::clone(underway), request))
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.0.lock().remove(&self.1);
    }
}

/// Returns the refusal of a body that is no message.
fn unreadable(body: &[u8]) -> Answer {
    match serde_json::from_slice(body) {
        Err(_) => refusal(ErrorCode::PARSE_ERROR, "the body is not valid JSON", None),
        Ok(Value::Array(_)) => refusal(
            ErrorCode::INVALID_REQUEST,
            "the protocol has no batches: send each message in a request of its own",
            None,
        ),
        Ok(value) => {
            let id = value.get("id").and_then(|id| serde_json::from_value(id.clone()).ok());
            refusal(ErrorCode::INVALID_REQUEST, "not a JSON-RPC 2.0 message", id)
        }
    }
}

fn refusal(code: ErrorCode, words: &'static str, id: Option<RequestId>) -> Answer {
    let error = ServerJsonRpcMessage::error(ErrorData::new(code, words, None), id);
    let mut refusal = plain(StatusCode::BAD_REQUEST, serde_json::to_string(&error).unwrap_or_default());
    refusal.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    refusal
}

fn plain(status: StatusCode, words: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(words.into()).boxed());
    *answer.status_mut() = status;
    answer
}

fn session(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(SESSION)?.to_str().ok()?;
    (1..=128).contains(&id.len()).then(|| id.to_owned())
}
