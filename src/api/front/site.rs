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
        problem::{Problem, method_not_allowed, not_found},
    },
    clock::Clock,
    lifecycle::unwinding,
};

/// Marks a request whose head gives the length of its body in two ways.
#[derive(Debug, Clone, Copy)]
pub(super) struct TwoLengths;

/// A router, who may address it, and the clock that names its requests.
#[derive(Debug)]
pub struct Site {
    router: Router,
    guard: HostGuard,
    clock: Clock,
}

impl Site {
    /// A site of these routes; paths and methods that they do not have are answered by problems.
    pub fn new(router: Router, guard: HostGuard, clock: Clock) -> Self {
        Self { router: router.fallback(not_found).method_not_allowed_fallback(method_not_allowed), guard, clock }
    }

    /// Answers a request.
    pub(super) async fn answer(&self, mut request: Request<Body>) -> Response {
        let id = RequestId::of(request.headers(), &self.clock);
        let parent = TraceParent::of(request.headers());
        let method = request.method().clone();
        let family = trace::family(request.uri().path()).to_owned();
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| *peer);
        let gave_key = request.headers().contains_key(header::AUTHORIZATION);
        let judged = if request.extensions().get::<TwoLengths>().is_some() {
            Err(Problem::bad_request("Content-Length and Transfer-Encoding exclude each other: send one of them."))
        } else {
            self.guard.judge(request.version(), request.uri().authority(), request.headers())
        };
        let mut response = if let Err(problem) = judged {
            problem.into_response()
        } else {
            request.extensions_mut().insert(id.clone());
            if let Some(parent) = parent {
                request.extensions_mut().insert(parent);
            }
            match unwinding(self.router.clone().oneshot(request)).await {
                Ok(Ok(response)) => response,
                Err(panicked) => Problem::internal(panicked).into_response(),
            }
        };
        pages::protect(response.headers_mut());
        if let Some(problem) = response.extensions().get::<Problem>() {
            audit::request(problem, &Asked { id: &id, method: &method, family: &family, peer, gave_key });
        }
        trace::name(&mut response, &id, parent, (&method, &family));
        response
    }
}
