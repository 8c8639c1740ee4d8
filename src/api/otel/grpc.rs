//! Exports of OpenTelemetry over gRPC, on the port of HTTP: the same services as over HTTP, with statuses in place of
//! problems.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{ConnectInfo, State},
    http::{self, HeaderValue, StatusCode, header},
    middleware::{self, Next},
    response::Response,
};
use opentelemetry_proto::tonic::collector::{
    logs::v1::{
        ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
        logs_service_server::{LogsService, LogsServiceServer},
    },
    metrics::v1::{
        ExportMetricsServiceRequest, ExportMetricsServiceResponse,
        metrics_service_server::{MetricsService, MetricsServiceServer},
    },
    trace::v1::{
        ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
};
use tokio::sync::Semaphore;
use tonic::{Code, Request, Status, codec::CompressionEncoding};
use tonic_types::{ErrorDetails, StatusExt};

use super::receive;
use crate::{
    api::{
        Api,
        admission::{Admission, Class, Sender},
        auth::Caller,
        problem::Problem,
    },
    flows::otel::Received,
};
use umbra_domain::key::Scope;
use umbra_llm::ORIGIN_HEADER;
use umbra_otel::Export;

/// Pause after which an exporter sends a batch again that was not taken.
const AGAIN: Duration = Duration::from_secs(1);

/// Most exports that are read at once. A message is decoded as a whole.
const EXPORTS: usize = 16;

/// Services of OTLP.
#[derive(Clone)]
struct Collector {
    api: Api,
    admission: Admission,
    /// Permits of exports that are read.
    reading: Arc<Semaphore>,
}

/// Returns the routes of the services of OTLP over gRPC. A message may have `decoded` bytes.
pub fn routes(api: Api, admission: Admission, decoded: usize) -> Router {
    let collector = Collector { api, admission, reading: Arc::new(Semaphore::new(EXPORTS)) };
    macro_rules! service {
        ($server:ident) => {
            $server::new(collector.clone())
                .accept_compressed(CompressionEncoding::Gzip)
                .max_decoding_message_size(decoded)
        };
    }
    Router::new()
        .route_service("/opentelemetry.proto.collector.trace.v1.TraceService/{method}", service!(TraceServiceServer))
        .route_service("/opentelemetry.proto.collector.logs.v1.LogsService/{method}", service!(LogsServiceServer))
        .route_service(
            "/opentelemetry.proto.collector.metrics.v1.MetricsService/{method}",
            service!(MetricsServiceServer),
        )
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

/// Layer of each call: identifies the caller by the headers, before the message is read.
async fn enter(State(collector): State<Collector>, mut request: http::Request<Body>, next: Next) -> Response {
    let spools = || collector.api.flows.events.spool.accepts();
    let caller = match collector.api.keys.identify(request.headers(), Class::Telemetry, spools).await {
        Ok(caller) => caller,
        Err(problem) => return status(&problem).into_http(),
    };
    let Ok(_place) = collector.reading.try_acquire() else {
        let busy = Problem::overloaded("too many exports are being read: send it again in a second");
        return status(&busy).into_http();
    };
    request.extensions_mut().insert(caller);
    next.run(request).await
}

impl Collector {
    /// Takes an export as `POST /v1/traces` does.
    async fn take<T>(&self, request: Request<T>, export: impl FnOnce(T) -> Export) -> Result<Received, Status> {
        let (metadata, extensions, message) = request.into_parts();
        let headers = metadata.into_headers();
        let taken = async {
            let unknown = || Problem::internal("a call without an entrance");
            let caller = extensions.get::<Caller>().ok_or_else(unknown)?;
            let peer = extensions.get::<ConnectInfo<SocketAddr>>().map(|ConnectInfo(peer)| peer.ip());
            let sender = caller.key().map(Sender::Key).or(peer.map(Sender::Peer));
            let sender = sender.unwrap_or(Sender::Peer(std::net::Ipv4Addr::UNSPECIFIED.into()));
            let ticket = self.admission.ticket(Class::Telemetry, sender)?;
            ticket.admit()?;
            caller.require(Scope::Ingest)?;
            if headers.contains_key(ORIGIN_HEADER) {
                return Ok(Received::default());
            }
            receive(&self.api, caller, export(message)).await
        };
        taken.await.map_err(|problem| status(&problem))
    }
}

/// Returns the status for a problem. One that is over soon says when to come back.
fn status(problem: &Problem) -> Status {
    let detail = problem.detail().to_owned();
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

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, Status> {
        let received = self.take(request, Export::Traces).await?;
        let partial_success = partial(received)
            .map(|(rejected_spans, error_message)| ExportTracePartialSuccess { rejected_spans, error_message });
        Ok(tonic::Response::new(ExportTraceServiceResponse { partial_success }))
    }
}

#[tonic::async_trait]
impl LogsService for Collector {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<tonic::Response<ExportLogsServiceResponse>, Status> {
        let received = self.take(request, Export::Logs).await?;
        let partial_success = partial(received).map(|(rejected_log_records, error_message)| ExportLogsPartialSuccess {
            rejected_log_records,
            error_message,
        });
        Ok(tonic::Response::new(ExportLogsServiceResponse { partial_success }))
    }
}

#[tonic::async_trait]
impl MetricsService for Collector {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, Status> {
        self.take(request, |_| Export::Metrics).await?;
        Ok(tonic::Response::new(ExportMetricsServiceResponse::default()))
    }
}

/// Returns number and reason of what was refused.
fn partial(received: Received) -> Option<(i64, String)> {
    let rejected = i64::try_from(received.rejected).unwrap_or(i64::MAX);
    (rejected > 0).then(|| (rejected, received.reason.unwrap_or_default().to_owned()))
}
