//! `/v1/traces`, `/v1/logs`, `/v1/metrics`: exports of OpenTelemetry over HTTP.

use super::{
    Api,
    auth::Caller,
    body::{Media, expect_media},
    problem::Problem,
};
use crate::flows::otel::{OtelSender, Received};
pub mod grpc;

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderValue, header},
    response::Response,
    routing::post,
};
use bytes::Bytes;
use umbra_domain::key::Scope;
use umbra_llm::ORIGIN_HEADER;
use umbra_otel::{Encoding, Signal, decode, response};
use utoipa_axum::{router::OpenApiRouter, routes};

/// Paths of SDKs that append them to the addresses of their own products: those of Langfuse and of `LangSmith`.
const OTHER_PATHS: [&str; 2] = ["/api/public/otel/v1/traces", "/otel/v1/traces"];

/// Returns the routes of exports.
pub fn routes() -> OpenApiRouter<Api> {
    let own =
        OpenApiRouter::new().routes(routes!(post_traces)).routes(routes!(post_logs)).routes(routes!(post_metrics));
    OTHER_PATHS.into_iter().fold(own, |routes, path| routes.route(path, post(post_traces)))
}

/// Takes spans of OpenTelemetry, as protobuf or JSON. Calls of models and tools among them become events, a moment
/// later and each once, however often they are told. The export is durable when this answers. Single spans that cannot
/// be used are counted in `partialSuccess`.
#[utoipa::path(post, path = "/v1/traces", tag = "events",
    request_body(description = "ExportTraceServiceRequest of OTLP",
        content((Vec<u8> = "application/x-protobuf"), (std::collections::HashMap<String, serde_json::Value> = "application/json"))),
    responses((status = 200, description = "ExportTraceServiceResponse, in the encoding of the request",
        content((Vec<u8> = "application/x-protobuf"), (std::collections::HashMap<String, serde_json::Value> = "application/json")))))]
pub async fn post_traces(api: Api, caller: Caller, request: Request) -> Result<Response, Problem> {
    export(&api, &caller, Signal::Traces, request).await
}

/// Takes logs of OpenTelemetry, as protobuf or JSON: contents of model calls, and what coding agents log.
#[utoipa::path(post, path = "/v1/logs", tag = "events",
    request_body(description = "ExportLogsServiceRequest of OTLP",
        content((Vec<u8> = "application/x-protobuf"), (std::collections::HashMap<String, serde_json::Value> = "application/json"))),
    responses((status = 200, description = "ExportLogsServiceResponse, in the encoding of the request",
        content((Vec<u8> = "application/x-protobuf"), (std::collections::HashMap<String, serde_json::Value> = "application/json")))))]
pub async fn post_logs(api: Api, caller: Caller, request: Request) -> Result<Response, Problem> {
    export(&api, &caller, Signal::Logs, request).await
}

/// Takes metrics of OpenTelemetry and drops them, so that exporters report no failure.
#[utoipa::path(post, path = "/v1/metrics", tag = "events",
    request_body(description = "ExportMetricsServiceRequest of OTLP",
        content((Vec<u8> = "application/x-protobuf"), (std::collections::HashMap<String, serde_json::Value> = "application/json"))),
    responses((status = 200, description = "ExportMetricsServiceResponse, in the encoding of the request",
        content((Vec<u8> = "application/x-protobuf"), (std::collections::HashMap<String, serde_json::Value> = "application/json")))))]
pub async fn post_metrics(api: Api, caller: Caller, request: Request) -> Result<Response, Problem> {
    export(&api, &caller, Signal::Metrics, request).await
}

async fn export(api: &Api, caller: &Caller, signal: Signal, request: Request) -> Result<Response, Problem> {
    caller.require(Scope::Ingest)?;
    let media = expect_media(request.headers(), &[Media::Protobuf, Media::Json])?;
    let encoding = if media == Media::Json { Encoding::Json } else { Encoding::Protobuf };
    let headers = request.headers().clone();
    let body = api.bodies.read(request).await?;
    if encoding == Encoding::Json && body.trim_ascii_start().first() == Some(&b'[') {
        let problem = Problem::bad_json("the body is no JSON of OTLP; errors says why");
        return Err(problem.at("", "invalid", "expected an object, found an array"));
    }
    let mut answer = Response::new(take(api, caller, (signal, encoding), (&headers, &body)).await?.into());
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(media.as_str()));
    Ok(answer)
}

/// Stores an export of a caller; returns the body of the answer.
async fn take(
    api: &Api,
    caller: &Caller,
    (signal, encoding): (Signal, Encoding),
    (headers, body): (&HeaderMap, &[u8]),
) -> Result<Bytes, Problem> {
    if api.flows.otel.is_behind() && signal != Signal::Metrics {
        return Err(Problem::overloaded(
            "traces wait for more than five minutes to become events: send it again later",
        ));
    }
    let read = || decode(signal, encoding, body).map_err(|error| Problem::bad_json(shortened(&error)));
    // Umbra's own telemetry may be led back to it.
    let received = if headers.contains_key(ORIGIN_HEADER) {
        Received::default()
    } else {
        let may_speak_for = |agent: &str| caller.speak_for(agent).is_ok();
        let sender = OtelSender { by: caller.key(), may_speak_for: &may_speak_for };
        let turn = api.flows.otel.turn().await;
        api.flows.otel.receive((tokio::task::block_in_place(read)?, turn), sender).await?
    };
    Ok(response(signal, encoding, received.rejected, received.reason).into())
}

/// Returns the text of a fault without the middle of a long one, the path to a fault that lies deep. Its end is the
/// reason.
fn shortened(fault: &str) -> String {
    const HALF: usize = 200;
    let length = fault.chars().count();
    if length <= 2 * HALF {
        return fault.to_owned();
    }
    let begin: String = fault.chars().take(HALF).collect();
    let end: String = fault.chars().skip(length - HALF).collect();
    format!("{begin} … {end}")
}
