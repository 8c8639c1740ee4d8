//! What a request passes before its handler: who is calling, is there room, and how long did it take.
//!
//! In: a request whose route is known. Out: the same with its [`Caller`], and a place among those of its class until
//! the handler has returned, or its stream has ended; or a problem. Never: a handler that nobody was identified for, but health, which is open.
//! There are two ways in: the layer of a route, and a shortcut to the one endpoint that most requests are for.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use axum::{
    body::Body,
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, Method, StatusCode},
    middleware::Next,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use metrics::{Counter, Histogram};
use tokio::time::Instant;

use super::{
    Api,
    admission::{Admission, Class, Place},
    auth::Caller,
    params::preferred_wait,
    problem::Problem,
};
use crate::telemetry::metric;

/// The entrance of the routes of one class: the state of the layer [`enter`], and of a [`Shortcut`].
#[derive(Clone)]
pub struct Entrance(Arc<Parts>);

struct Parts {
    api: Api,
    admission: Admission,
    class: Class,
}

impl Entrance {
    /// The way into routes of this class.
    pub fn new(api: Api, admission: Admission, class: Class) -> Self {
        Self(Arc::new(Parts { api, admission, class }))
    }

    async fn admit(&self, headers: &HeaderMap) -> Result<(Caller, Place), Problem> {
        let Parts { api, admission, class } = &*self.0;
        // Who waits is counted among those who wait: it must not keep others from posting.
        let class = if *class == Class::Ingest && preferred_wait(headers).is_some() { Class::Wait } else { *class };
        let caller = match class {
            Class::Health => Caller::nobody(),
            _ => api.keys.identify(headers, class).await?,
        };
        Ok((caller, admission.enter(class)?))
    }
}

/// The layer: `router.route_layer(from_fn_with_state(entrance, enter))`. One for all steps, since each costs a boxed
/// future and a clone of what it encloses.
pub async fn enter(State(entrance): State<Entrance>, mut request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map(|path| path.as_str().to_owned()).unwrap_or_default();
    let method = request.method().clone();
    let response = match entrance.admit(request.headers()).await {
        Ok((caller, place)) => {
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(Arrived(started));
            let response = next.run(request).await;
            if matches!(entrance.0.class, Class::Stream | Class::Mcp) {
                response.map(|body| Body::new(Held { body, _place: place }))
            } else {
                response
            }
        }
        Err(problem) => problem.into_response(),
    };
    // By route and never by path.
    seconds(&route).record(started.elapsed().as_secs_f64());
    requests(&route, method.as_str(), response.status().as_str()).increment(1);
    response
}

/// When a request came.
#[derive(Debug, Clone, Copy)]
pub struct Arrived(pub Instant);

type Endpoint = Box<dyn Fn(Caller, Request) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;

/// The way to the one endpoint that most requests are for, around the router, whose look-ups, boxed futures and clones
/// took longer than to read an event.
pub struct Shortcut {
    entrance: Entrance,
    method: Method,
    path: &'static str,
    endpoint: Endpoint,
    seconds: Histogram,
    accepted: Counter,
}

impl Shortcut {
    /// To POST requests for this path, which the endpoint mostly answers with 202.
    pub fn to_post<F: Future<Output: IntoResponse> + Send + 'static>(
        entrance: Entrance,
        path: &'static str,
        endpoint: impl Fn(Caller, Request) -> F + Send + Sync + 'static,
    ) -> Self {
        let endpoint = Arc::new(endpoint);
        let endpoint: Endpoint = Box::new(move |caller, request| {
            let endpoint = Arc::clone(&endpoint);
            // Its future is large: it is made where it stays.
            Box::pin(async move { endpoint(caller, request).await.into_response() })
        });
        let method = Method::POST;
        Self { entrance, method, path, endpoint, seconds: seconds(path), accepted: requests(path, "POST", "202") }
    }

    /// Whether a request is for its endpoint.
    pub fn leads_to(&self, request: &Request) -> bool {
        *request.method() == self.method && request.uri().path() == self.path
    }

    /// Answers a request for its endpoint, as [`enter`] does.
    pub async fn enter(&self, request: Request) -> Response {
        let started = Instant::now();
        let response = match self.entrance.admit(request.headers()).await {
            Ok((caller, _place)) => (self.endpoint)(caller, request).await,
            Err(problem) => problem.into_response(),
        };
        self.seconds.record(started.elapsed().as_secs_f64());
        match response.status() {
            StatusCode::ACCEPTED => self.accepted.increment(1),
            other => requests(self.path, self.method.as_str(), other.as_str()).increment(1),
        }
        response
    }
}

fn seconds(route: &str) -> Histogram {
    metrics::histogram!(metric::HTTP_SECONDS, "route" => route.to_owned())
}

fn requests(route: &str, method: &str, status: &str) -> Counter {
    let (route, method, status) = (route.to_owned(), method.to_owned(), status.to_owned());
    metrics::counter!(metric::HTTP_REQUESTS, "route" => route, "method" => method, "status" => status)
}

/// A body that holds its place until it is over, be it sent or given up.
struct Held {
    body: Body,
    _place: Place,
}

impl hyper::body::Body for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.body)
    }
}
