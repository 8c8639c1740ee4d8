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
use tokio::{net::TcpStream, time::timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::{
    ConnectionLimits,
    stream::{Phase, TimedStream},
    wire_checks::TwoLengths,
};

/// Largest read buffer of a connection; bodies pass through it piece by piece.
const BUFFER: usize = 64 * 1024;

/// Serves one client until it leaves, a deadline passes, or the drain ends the connection.
pub(super) async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    routes: Router,
    limits: Arc<ConnectionLimits>,
    soft: CancellationToken,
) {
    // Before the first byte a connection holds no buffer: thousands of silent ones cost little.
    if !spoke(&socket, &limits, &soft).await {
        return;
    }
    let phase = Phase::default();
    let stream = TimedStream::new(socket, phase.clone(), Arc::clone(&limits));
    let stopping = soft.clone();
    let service = service_fn(move |request| answer(request, peer, routes.clone(), phase.clone(), stopping.clone()));
    let connection = http1::Builder::new()
        .header_read_timeout(None) // The stream has the deadlines; this one would cut idle connections as well.
        .max_headers(limits.max_headers)
        .max_header_size(limits.max_header_bytes)
        .max_buf_size(BUFFER.max(limits.max_header_bytes))
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = soft.cancelled() => {
            if let Ok(ended) = timeout(limits.drain_idle, connection.as_mut()).await {
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

/// Waits for the first byte; false if it does not come in time.
async fn spoke(socket: &TcpStream, limits: &ConnectionLimits, soft: &CancellationToken) -> bool {
    let mut first = [0_u8; 1];
    let mut peek = pin!(timeout(limits.first_byte, socket.peek(&mut first)));
    let peeked = tokio::select! {
        peeked = peek.as_mut() => peeked,
        () = soft.cancelled() => match timeout(limits.drain_idle, peek).await {
            Ok(peeked) => peeked,
            Err(_) => return false,
        },
    };
    matches!(peeked, Ok(Ok(1..)))
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
    Ok(response.map(|body| TrackedBody { body, phase }))
}

/// Response body that marks the end of the request when it is sent or given up.
struct TrackedBody {
    body: Body,
    phase: Phase,
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
