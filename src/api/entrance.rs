//! Layer of each route: identifies the caller, admits the request, and measures its duration.
//!
//! A request without a body takes the place of its class at once; one with a body takes it when
//! [`super::body::BodyReader`] has read the body. The place is kept until the handler has returned, or its stream has
//! ended.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use axum::{
    extract::{ConnectInfo, MatchedPath, Request, State},
    http::HeaderMap,
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use hyper::body::Body as _;
use tokio::time::Instant;
use utoipa_axum::router::UtoipaMethodRouter;

use super::{
    Api,
    admission::{Admission, Class, Sender, Ticket},
    auth::Caller,
    params::preferred_wait,
    problem::Problem,
};
use crate::telemetry::{
    metric,
    traces::{RequestSpan, TraceParent},
};
use umbra_domain::key::Scope;

/// Entrance of the routes of one class: the state of the layer [`enter`].
#[derive(Clone)]
pub struct Entrance(Arc<EntranceParts>);

struct EntranceParts {
    api: Api,
    admission: Admission,
    class: Class,
}

impl Entrance {
    /// Returns the entrance for routes of this class.
    pub fn new(api: Api, admission: Admission, class: Class) -> Self {
        Self(Arc::new(EntranceParts { api, admission, class }))
    }

    async fn admit(&self, headers: &HeaderMap, peer: IpAddr, has_body: bool) -> Result<(Caller, Ticket), Problem> {
        let EntranceParts { api, admission, class } = &*self.0;
        let caller = match class {
            Class::Health => Caller::anonymous(),
            _ => api.keys.identify(headers, *class, || api.flows.events.spool.accepts()).await?,
        };
        // A request that waits for a verdict has a class of its own, so that it keeps no other request from posting.
        let class = if *class == Class::Ingest && preferred_wait(headers).is_some() { Class::Wait } else { *class };
        let sender = caller.key().map_or(Sender::Peer(peer), Sender::Key);
        let ticket = admission.ticket(class, sender)?;
        if !has_body {
            ticket.admit()?;
        }
        Ok((caller, ticket))
    }
}

/// Limits handlers to callers whose key has one of the scopes.
pub(super) fn scoped(
    scopes: &'static [Scope],
    (schemas, paths, handlers): UtoipaMethodRouter<Api>,
) -> UtoipaMethodRouter<Api> {
    let enter = move |caller: Caller, request: Request, next: Next| async move {
        caller.require_any(scopes)?;
        Ok::<_, Problem>(next.run(request).await)
    };
    (schemas, paths, handlers.route_layer(middleware::from_fn(enter)))
}

/// Layer of a route: `router.route_layer(from_fn_with_state(entrance, enter))`.
pub async fn enter(State(entrance): State<Entrance>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    // Metrics go by route, never by path, which may name an agent.
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let method = request.method().clone();
    let peer = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let peer = peer.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |ConnectInfo(peer)| peer.ip());
    let has_body = !request.body().is_end_stream();
    let is_traced = !matches!(entrance.0.class, Class::Health);
    let span = is_traced.then(|| RequestSpan::start(&method, &route, request.extensions().get::<TraceParent>()));
    let response = match entrance.admit(request.headers(), peer, has_body).await {
        Ok((caller, ticket)) => {
            request.extensions_mut().insert(ticket.clone());
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(ArrivalTime(started));
            let mut response = next.run(request).await;
            if matches!(entrance.0.class, Class::Stream | Class::Mcp) {
                // The connection keeps it until the body is sent or given up.
                response.extensions_mut().insert(ticket);
            }
            response
        }
        Err(problem) => problem.into_response(),
    };
    if let Some(span) = span {
        span.end(response.status());
    }
    if matches!(entrance.0.class, Class::Telemetry) && !response.status().is_success() {
        let code = response.status().as_str().to_owned();
        metrics::counter!(metric::OTEL_REFUSED, "wire" => "http", "code" => code).increment(1);
    }
    metrics::histogram!(metric::HTTP_SECONDS, "route" => route.clone()).record(started.elapsed().as_secs_f64());
    let (method, status) = (method.as_str().to_owned(), response.status().as_str().to_owned());
    metrics::counter!(metric::HTTP_REQUESTS, "route" => route, "method" => method, "status" => status).increment(1);
    response
}

#[derive(Debug, Clone, Copy)]
struct ArrivalTime(Instant);

/// Returns the time at which a request arrived.
pub fn arrived(request: &Request) -> Instant {
    request.extensions().get::<ArrivalTime>().map_or_else(Instant::now, |arrived| arrived.0)
}
