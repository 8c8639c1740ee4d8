//! What is served: a router behind everything that each request passes.
//!
//! In: a request as it came from its connection. Out: its answer, named, and with the headers that tell browsers what
//! they may do with it. Never: an answer without an id, a panic that ends more than its own request.
//!
//! These steps are calls in one function and no layers: each layer of a router is a boxed future and a clone of all
//! that it encloses, and together they took more time than the reading of an event.

use std::net::SocketAddr;

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, Request},
    http::header,
    response::{IntoResponse, Response},
};
use tower::ServiceExt;

use super::{
    guard::HostGuard,
    pages,
    trace::{self, RequestId, TraceParent},
};
use crate::{
    api::{
        audit::{self, Asked},
        entrance::Shortcut,
        problem::{Problem, method_not_allowed, not_found},
    },
    lifecycle::{Panicked, unwinding},
};
use umbra_domain::clock::Clock;

/// A router, who may address it, and the clock that names its requests.
pub struct Site {
    router: Router,
    shortcut: Option<Shortcut>,
    guard: HostGuard,
    clock: Clock,
}

impl Site {
    /// A site of these routes; paths and methods that they do not have are answered by problems.
    pub fn new(router: Router, guard: HostGuard, clock: Clock) -> Self {
        let router = router.fallback(not_found).method_not_allowed_fallback(method_not_allowed);
        Self { router, shortcut: None, guard, clock }
    }

    /// The same site, where the shortcut is taken before the router is asked.
    #[must_use]
    pub fn with(self, shortcut: Shortcut) -> Self {
        Self { shortcut: Some(shortcut), ..self }
    }

    /// Answers a request of this peer, whose head may give the length of its body in two ways.
    pub(super) async fn answer(&self, request: Request<Body>, peer: SocketAddr, two_lengths: bool) -> Response {
        let id = RequestId::of(request.headers(), &self.clock);
        let parent = TraceParent::of(request.headers());
        let method = request.method().clone();
        let family = trace::family(request.uri().path()).to_owned();
        let gave_key = request.headers().contains_key(header::AUTHORIZATION);
        let judged = if two_lengths {
            Err(Problem::bad_request("Content-Length and Transfer-Encoding exclude each other: send one of them."))
        } else {
            self.guard.judge(request.version(), request.uri().authority(), request.headers())
        };
        let mut response = if let Err(problem) = judged {
            problem.into_response()
        } else {
            let answered = match &self.shortcut {
                Some(shortcut) if shortcut.leads_to(&request) => unwinding(shortcut.enter(request)).await,
                _ => self.route(request, peer, id.clone(), parent).await,
            };
            answered.unwrap_or_else(|panicked| Problem::internal(panicked).into_response())
        };
        pages::protect(response.headers_mut());
        if let Some(problem) = response.extensions().get::<Problem>() {
            audit::request(problem, &Asked { id: &id, method: &method, family: &family, peer, gave_key });
        }
        trace::name(&mut response, &id, parent, (&method, &family));
        response
    }

    /// Has the router answer; what handlers may want to know of the request travels with it.
    async fn route(
        &self,
        mut request: Request<Body>,
        peer: SocketAddr,
        id: RequestId,
        parent: Option<TraceParent>,
    ) -> Result<Response, Panicked> {
        let extensions = request.extensions_mut();
        extensions.insert(ConnectInfo(peer));
        extensions.insert(id);
        if let Some(parent) = parent {
            extensions.insert(parent);
        }
        unwinding(self.router.clone().oneshot(request)).await.map(|Ok(response)| response)
    }
}
