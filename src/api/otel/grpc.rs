//! Exports of OpenTelemetry over gRPC, on the port of HTTP: the same services as over HTTP, with statuses in place of
//! problems.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, State},
    http::{self, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::Response,
    routing::any,
};
use bytes::{Buf as _, BufMut as _, Bytes};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{
    Code, Request, Status,
    codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EnabledCompressionEncodings, EncodeBuf, Encoder},
    server::Grpc,
};
use tonic_types::{ErrorDetails, StatusExt};

use super::take;
use crate::{
    api::{
        Api,
        admission::{Admission, Class, Sender},
        auth::Caller,
        problem::Problem,
    },
    telemetry::metric,
};
use umbra_domain::key::Scope;
use umbra_otel::{Encoding, Signal};

/// Pause after which an exporter sends a batch again that was not taken.
const AGAIN: Duration = Duration::from_secs(1);

/// Most exports that are read at once. A message is decoded as a whole.
const EXPORTS: usize = 16;

/// Methods of OTLP.
const METHODS: [(&str, Signal); 3] = [
    ("/opentelemetry.proto.collector.trace.v1.TraceService/Export", Signal::Traces),
    ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", Signal::Logs),
    ("/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", Signal::Metrics),
];

/// Services of OTLP.
#[derive(Clone)]
struct Collector {
    api: Api,
    admission: Admission,
    /// Permits of exports that are read.
    reading: Arc<Semaphore>,
    /// Longest message, in bytes.
    decoded: usize,
}

/// Messages as they are on the wire, so that those of gRPC are decoded within the bounds of HTTP.
#[derive(Clone, Copy)]
struct WireMessages;

impl Codec for WireMessages {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for WireMessages {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(message);
        Ok(())
    }
}

impl Decoder for WireMessages {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

/// Returns the routes of the services of OTLP over gRPC. A message may have `decoded` bytes.
pub fn routes(api: Api, admission: Admission, decoded: usize) -> Router {
    let collector = Collector { api, admission, reading: Arc::new(Semaphore::new(EXPORTS)), decoded };
    let methods = METHODS.into_iter().fold(Router::new(), |router, (path, signal)| {
        let export = move |State(collector): State<Collector>, request| collector.export(signal, request);
        router.route(path, any(export))
    });
    methods
        .with_state(collector.clone())
        .layer(middleware::from_fn_with_state(collector, enter))
        .fallback(|| async { refusal(Code::Unimplemented, "over HTTP/2 this port serves only OTLP: use HTTP/1.1") })
}

/// Returns an answer without a message.
pub fn refusal(code: Code, message: &'static str) -> Response {
    let mut response = Response::new(axum::body::Body::empty());
    *response.status_mut() = StatusCode::OK;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert("grpc-status", HeaderValue::from(code as i32));
    headers.insert("grpc-message", HeaderValue::from_static(message));
    response
}

/// Layer of each call: identifies the caller by the headers, before the message is read, and counts refusals.
async fn enter(State(collector): State<Collector>, request: http::Request<Body>, next: Next) -> Response {
    let response = match admit(&collector, request).await {
        Ok((request, _place)) => next.run(request).await,
        Err(problem) => status(&problem).into_http(),
    };
    if let Some(refused) = Status::from_header_map(response.headers()).filter(|status| status.code() != Code::Ok) {
        let code = i32::from(refused.code()).to_string();
        metrics::counter!(metric::OTEL_REFUSED, "wire" => "grpc", "code" => code).increment(1);
    }
    response
}

/// Returns a call with its caller, and its place among those that are read.
async fn admit(
    collector: &Collector,
    mut request: http::Request<Body>,
) -> Result<(http::Request<Body>, OwnedSemaphorePermit), Problem> {
    let spools = || collector.api.flows.events.spool.accepts();
    let caller = collector.api.keys.identify(request.headers(), Class::Telemetry, spools).await?;
    let place = Arc::clone(&collector.reading).try_acquire_owned();
    let place = place.map_err(|_| Problem::overloaded("too many exports are being read: send it again in a second"))?;
    request.extensions_mut().insert(caller);
    Ok((request, place))
}

impl Collector {
    /// Takes an export as `POST /v1/traces` does.
    async fn export(self, signal: Signal, request: http::Request<Body>) -> Response {
        let mut accepted = EnabledCompressionEncodings::default();
        accepted.enable(CompressionEncoding::Gzip);
        let mut server = Grpc::new(WireMessages)
            .apply_compression_config(accepted, EnabledCompressionEncodings::default())
            .apply_max_message_size_config(Some(self.decoded), None);
        let is_read = AtomicBool::new(false);
        let take = tower::service_fn(|request: Request<Bytes>| {
            is_read.store(true, Ordering::Relaxed);
            async {
                let answer = self.take(signal, request).await.map_err(|problem| status(&problem))?;
                Ok::<_, Status>(tonic::Response::new(answer))
            }
        });
        let response = server.unary(take, request).await.map(Body::new);
        if is_read.into_inner() { response } else { unread(response) }
    }

    async fn take(&self, signal: Signal, request: Request<Bytes>) -> Result<Bytes, Problem> {
        let (metadata, extensions, body) = request.into_parts();
        let caller = extensions.get::<Caller>().ok_or_else(|| Problem::internal("a call without an entrance"))?;
        let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
        let sender = caller.key().map(Sender::Key).or(peer.map(Sender::Peer));
        let sender = sender.unwrap_or(Sender::Peer(std::net::Ipv4Addr::UNSPECIFIED.into()));
        let ticket = self.admission.ticket(Class::Telemetry, sender)?;
        ticket.admit()?;
        caller.require(Scope::Ingest)?;
        take(&self.api, caller, (signal, Encoding::Protobuf), (&metadata.into_headers(), &body)).await
    }
}

/// Returns the answer to a message that cannot be read, or is too large: an invalid argument. The codes of the transport
/// would have exporters send the message again, or blame the server.
fn unread(response: Response) -> Response {
    match Status::from_header_map(response.headers()) {
        Some(status) if matches!(status.code(), Code::Internal | Code::OutOfRange | Code::ResourceExhausted) => {
            Status::invalid_argument(status.message()).into_http()
        }
        _ => response,
    }
}

/// Returns the status for a problem. One that is over soon says when to come back.
fn status(problem: &Problem) -> Status {
    let detail = problem.detail.to_string();
    let code = match problem.status() {
        StatusCode::UNAUTHORIZED => Code::Unauthenticated,
        StatusCode::FORBIDDEN => Code::PermissionDenied,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let details = ErrorDetails::with_retry_info(Some(AGAIN));
            return Status::with_error_details(Code::Unavailable, detail, details);
        }
        status if status.is_client_error() => Code::InvalidArgument,
        _ => Code::Internal,
    };
    Status::new(code, detail)
}
