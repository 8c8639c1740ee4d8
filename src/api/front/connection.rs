//! Serves one connection from its first byte to its close.
//!
//! A client's faults end its own connection and nothing else.
//!
//! Bytes that are not HTTP, and heads that are too large, reach no router: hyper answers 400, 414 or 431 by itself and
//! offers no hook to make it a problem (`Http1Transaction::on_error` in hyper 1); `stream.rs` replaces those answers.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{Router, body::Body, extract::ConnectInfo};
use bytes::Bytes;
use hyper::{
    Request, Response,
    body::{Frame, Incoming, SizeHint},
    header::{CONNECTION, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    http2,
    stream::{Phase, TimedStream},
    wire_checks::TwoLengths,
};
use crate::{api::admission::Ticket, lifecycle::Tasks};
use umbra_config::settings;

/// Pause before the next look at a beginning that may still be of either protocol.
const BETWEEN_PEEKS: Duration = Duration::from_millis(5);

/// Largest read buffer of a connection; bodies pass through it piece by piece.
const BUFFER: usize = 64 * 1024;

/// Serves one client until it leaves, a deadline passes, or the drain ends the connection.
pub(super) async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    (routes, exports): (Router, Router),
    settings: Arc<settings::Server>,
    tasks: Tasks,
) {
    let soft = tasks.soft().clone();
    // Before the first byte a connection holds no buffer: thousands of silent ones cost little.
    match spoken(&socket, &settings, &soft).await {
        None => return,
        Some(Protocol::Http2) => return http2::serve(socket, peer, exports, settings, tasks).await,
        Some(Protocol::Http1) => {}
    }
    let phase = Phase::default();
    let stream = TimedStream::new(socket, phase.clone(), Arc::clone(&settings));
    let stopping = soft.clone();
    let service = service_fn(move |request| answer(request, peer, routes.clone(), phase.clone(), stopping.clone()));
    let connection = http1::Builder::new()
        .header_read_timeout(None) // The stream has the deadlines; this one would cut idle connections as well.
        .max_headers(settings.max_headers)
        .max_header_size(settings.max_header_bytes)
        .max_buf_size(BUFFER.max(settings.max_header_bytes))
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = soft.cancelled() => {
            if let Ok(ended) = timeout(settings.drain_idle_timeout, connection.as_mut()).await {
                ended
            } else {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(fault) = ended {
        tracing::debug!(%peer, %fault, "a connection ended early");
    }
}

/// Protocol of a connection, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http1,
    Http2,
}

/// Waits for the first bytes; `None` if they do not come in time.
async fn spoken(socket: &TcpStream, settings: &settings::Server, soft: &CancellationToken) -> Option<Protocol> {
    let mut peek = pin!(timeout(settings.first_byte_timeout, protocol(socket)));
    let peeked = tokio::select! {
        peeked = peek.as_mut() => peeked,
        () = soft.cancelled() => timeout(settings.drain_idle_timeout, peek).await.ok()?,
    };
    peeked.ok().flatten()
}

/// Looks at the first bytes until they tell the protocol; `None` if the client leaves before.
async fn protocol(socket: &TcpStream) -> Option<Protocol> {
    let mut first = [0_u8; http2::PREFACE.len()];
    loop {
        let length = socket.peek(&mut first).await.ok()?;
        match first.get(..length)? {
            [] => return None,
            http2::PREFACE => return Some(Protocol::Http2),
            begun if http2::PREFACE.starts_with(begun) => sleep(BETWEEN_PEEKS).await,
            _ => return Some(Protocol::Http1),
        }
    }
}

/// Answers one request.
async fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    routes: Router,
    phase: Phase,
    soft: CancellationToken,
) -> Result<Response<TrackedBody>, Infallible> {
    phase.begin();
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    if phase.take_two_lengths() {
        request.extensions_mut().insert(TwoLengths);
    }
    let mut response = routes.oneshot(request).await?;
    if soft.is_cancelled() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let ticket = response.extensions_mut().remove();
    Ok(response.map(|body| TrackedBody { body, phase, _ticket: ticket }))
}

/// Response body that marks the end of the request, and frees its place, when it is sent or given up.
struct TrackedBody {
    body: Body,
    phase: Phase,
    _ticket: Option<Ticket>,
}

impl hyper::body::Body for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        hyper::body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        hyper::body::Body::size_hint(&self.body)
    }
}

impl Drop for TrackedBody {
    fn drop(&mut self) {
        self.phase.end();
    }
}
