//! The face over streamable HTTP: `/mcp/{profile}`. Who may call is known before a request comes here.
//!
//! Clients of 2026-07-28 have no sessions. Those of before get one, in the memory of this process: it ends after five
//! minutes without a request, and its client begins anew.

use std::{collections::BTreeMap, convert::Infallible, fmt::Display, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use rmcp::transport::{
    StreamableHttpServerConfig, StreamableHttpService, streamable_http_server::session::local::LocalSessionManager,
};
use tokio_util::sync::CancellationToken;

use super::{
    face::Face,
    gateway::{Caller, Gateway, GatewayError},
    guard::Guard,
};
use crate::{
    config::settings::{Mcp, McpProfile},
    llm::OutboundPolicy,
};

/// Sessions of clients of before 2026-07-28, of one profile.
const MAX_SESSIONS: usize = 1_000;
/// Largest message of a client.
const MAX_MESSAGE: usize = 4 * 1024 * 1024;
/// Names a session of before 2026-07-28.
const SESSION: &str = "mcp-session-id";

/// Every profile of the settings.
pub struct Profiles(BTreeMap<String, Profile>);

struct Profile {
    gateway: Arc<Gateway>,
    service: StreamableHttpService<Face, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
}

impl Profiles {
    /// The profiles of these settings; no server is started yet. `stop` ends all streams.
    ///
    /// # Errors
    /// A server's URL is refused, with what to do.
    pub fn new(
        settings: &Mcp,
        policy: &OutboundPolicy,
        guard: &Guard,
        stop: &CancellationToken,
    ) -> Result<Self, GatewayError> {
        let profile = |(name, profile): (&String, &McpProfile)| {
            let gateway = Arc::new(Gateway::new(name, profile, settings, policy, guard.clone())?);
            let sessions = Arc::<LocalSessionManager>::default();
            // Hosts and origins are looked at by the front, before anything else.
            let config = StreamableHttpServerConfig::default()
                .disable_allowed_hosts()
                .with_max_request_body_bytes(MAX_MESSAGE)
                .with_cancellation_token(stop.child_token());
            let face = Face::shared(Arc::clone(&gateway));
            let service = StreamableHttpService::new(move || Ok(face.clone()), Arc::clone(&sessions), config);
            Ok((name.clone(), Profile { gateway, service, sessions }))
        };
        settings.profiles.iter().map(profile).collect::<Result<_, _>>().map(Self)
    }

    /// Which agent calls where a request does not say so; `None` where there is no such profile.
    pub fn agent(&self, profile: &str) -> Option<&str> {
        self.0.get(profile).map(|profile| profile.gateway.agent.as_str())
    }

    /// Answers a request, on behalf of `caller`. `None` where there is no such profile.
    pub async fn serve<B>(
        &self,
        profile: &str,
        mut caller: Caller,
        mut request: Request<B>,
    ) -> Option<Response<BoxBody<Bytes, Infallible>>>
    where
        B: http_body::Body + Send + 'static,
        B::Error: Display,
    {
        let profile = self.0.get(profile)?;
        match session(request.headers()) {
            // A client that names no run of its own has one for each session.
            Some(session) => {
                caller.run = caller.run.or_else(|| Some(session.clone()));
                caller.session = caller.session.or(Some(session));
            }
            None if profile.sessions.sessions.read().await.len() >= MAX_SESSIONS => {
                let words = Bytes::from_static(b"too many sessions: end some, or let them end by themselves");
                let mut full = Response::new(Full::new(words).boxed());
                *full.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                return Some(full);
            }
            None => {}
        }
        request.extensions_mut().insert(Arc::new(caller));
        Some(profile.service.handle(request).await)
    }

    /// Ends every server that was started.
    pub async fn close(&self) {
        for profile in self.0.values() {
            profile.gateway.close().await;
        }
    }
}

fn session(headers: &HeaderMap) -> Option<String> {
    let id = headers.get(SESSION)?.to_str().ok()?;
    (1..=128).contains(&id.len()).then(|| id.to_owned())
}
