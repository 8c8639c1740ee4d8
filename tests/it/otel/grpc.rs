//! Exports over gRPC, by a client of another's making, on the port of HTTP.

#![expect(clippy::expect_used, reason = "a test that meets an error fails")]

use opentelemetry_proto::tonic::collector::{
    logs::v1::logs_service_client::LogsServiceClient,
    metrics::v1::{ExportMetricsServiceRequest, metrics_service_client::MetricsServiceClient},
    trace::v1::trace_service_client::TraceServiceClient,
};
use reqwest::Method;
use tonic::{
    Code, Request, Status,
    codec::CompressionEncoding,
    metadata::MetadataValue,
    transport::{Channel, Endpoint},
};
use umbra_otel::{Encoding, Export, Signal, decode};

use super::{assembled, calls, capture};
use crate::support::{Schema, Umbra, until};

async fn connect(base: &str) -> Channel {
    Endpoint::from_shared(base.to_owned()).expect("an address").connect().await.expect("a connection")
}

/// Sends the message of a call.
pub(super) async fn export(base: &str, path: &str, message: &[u8]) -> Result<(), Status> {
    let signals =
        [("LogsService", Signal::Logs), ("MetricsService", Signal::Metrics), ("TraceService", Signal::Traces)];
    let (_, signal) = signals.into_iter().find(|(service, _)| path.contains(service)).expect("a service of OTLP");
    let channel = connect(base).await;
    match decode(signal, Encoding::Protobuf, message).expect("a message") {
        Export::Traces(request) => TraceServiceClient::new(channel).export(request).await.map(drop),
        Export::Logs(request) => LogsServiceClient::new(channel).export(request).await.map(drop),
        Export::Metrics => Ok(()),
    }
}

#[tokio::test]
async fn calls_over_grpc_are_those_over_http_beside_each_other_on_one_port() {
    let schema = Schema::fresh().await;
    let umbra = Umbra::with().on(&schema).go().await;
    let body = &capture("openinference-anthropic").bodies[0];
    let Ok(Export::Traces(request)) = decode(Signal::Traces, Encoding::Protobuf, &body.bytes) else { panic!("spans") };
    let mut client = TraceServiceClient::new(connect(&umbra.base).await).send_compressed(CompressionEncoding::Gzip);
    for _ in 0..3 {
        client.export(request.clone()).await.expect("it is taken");
        assert_eq!(umbra.send(Method::GET, "/v1/status", &[], None).await.status, 200);
    }
    assembled(&schema).await;
    assert_eq!(calls(&umbra).await.len(), 5, "three calls of a model and two of tools");
    // Another service of the same address.
    let metrics =
        MetricsServiceClient::new(connect(&umbra.base).await).export(ExportMetricsServiceRequest::default()).await;
    assert!(metrics.is_ok(), "metrics are dropped: {metrics:?}");
}

#[tokio::test]
async fn missing_key_is_unauthenticated_and_a_key_is_taken_from_the_metadata() {
    let umbra = Umbra::with().go().await;
    let body = &capture("openinference-anthropic").bodies[0];
    let Ok(Export::Traces(request)) = decode(Signal::Traces, Encoding::Protobuf, &body.bytes) else { panic!("spans") };
    let made = umbra.cli(&["keys", "create", "--name", "otel", "--scope", "ingest", "--json"], None);
    let made: serde_json::Value = serde_json::from_slice(&made.stdout).expect("a key");
    let mut client = TraceServiceClient::new(connect(&umbra.base).await);
    until("keys to be asked for", async || {
        let refused = client.export(request.clone()).await.err()?;
        (refused.code() == Code::Unauthenticated).then_some(())
    })
    .await;
    let mut with_key = Request::new(request);
    let key = format!("Bearer {}", made["key"].as_str().expect("a key"));
    with_key.metadata_mut().insert("authorization", MetadataValue::try_from(key).expect("a value"));
    client.export(with_key).await.expect("the key is taken");
}
