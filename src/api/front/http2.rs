//! Serves one connection of HTTP/2, on which only exports of OpenTelemetry come.
//!
//! Everything that a client can pile up is bounded: streams, header lists, resets, and the time of each call. A client
//! that no longer answers pings is cut off.

use std::{convert::Infallible, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use axum::{Router, body::Body, extract::ConnectInfo, response::Response};
use hyper::{Request, body::Incoming, rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpStream, time::timeout};
use tonic::Code;
use tower::ServiceExt;

use crate::{api::otel::grpc::refusal, lifecycle::Tasks};
use umbra_config::settings;

/// Beginning of a connection of HTTP/2, by which it is told from HTTP/1.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Most streams of a connection at once.
const STREAMS: u32 = 32;
/// Most streams that a client may reset before they are served.
const RESETS: usize = 32;
/// Longest time of an export, its body included.
const EXPORT: Duration = Duration::from_secs(10);
/// Silence after which a client is pinged, and longest wait for its answer.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(10));

/// Runs the streams of connections as tasks of the process.
#[derive(Clone)]
struct StreamTasks(Tasks);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamTasks {
    fn execute(&self, stream: F) {
        self.0.spawn("http2 stream", stream);
    }
}

/// Serves one client until it leaves, or the drain ends the connection.
pub(super) async fn serve(
    socket: TcpStream,
    peer: SocketAddr,
    routes: Router,
    settings: Arc<settings::Server>,
    tasks: Tasks,
) {
    let service = service_fn(move |request| answer(request, peer, routes.clone()));
    let connection = http2::Builder::new(StreamTasks(tasks.clone()))
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_pending_accept_reset_streams(RESETS)
        .max_local_error_reset_streams(RESETS)
        .max_header_list_size(u32::try_from(settings.max_header_bytes).unwrap_or(u32::MAX))
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = tasks.soft().cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(fault) = ended {
        tracing::debug!(%peer, %fault, "a connection of HTTP/2 ended early");
    }
}

/// Answers one call.
async fn answer(request: Request<Incoming>, peer: SocketAddr, routes: Router) -> Result<Response, Infallible> {
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(ConnectInfo(peer));
    match timeout(EXPORT, routes.oneshot(request)).await {
        Ok(answered) => answered,
        Err(_) => Ok(refusal(Code::DeadlineExceeded, "the export did not arrive within 10 s")),
    }
}
