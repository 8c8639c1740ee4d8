//! Spans of the service's own work, for a receiver of OpenTelemetry: requests below the span of their caller, and
//! reviews. Without a receiver nothing is recorded. Nothing that an agent wrote is in them.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use opentelemetry::{
    Context, KeyValue, global,
    trace::{
        Link, Span as _, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
        Tracer as _,
    },
};
use opentelemetry_proto::{
    tonic::collector::trace::v1::ExportTraceServiceRequest,
    transform::{common::tonic::ResourceAttributesWithSchema, trace::tonic::group_spans_by_resource_and_scope},
};
use opentelemetry_sdk::{
    Resource,
    error::{OTelSdkError, OTelSdkResult},
    trace::{BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData, SpanExporter},
};
use prost::Message as _;
use reqwest::{Client, Url};
use secrecy::ExposeSecret as _;
use tokio::runtime::Handle;

use umbra_config::settings::Telemetry;
use umbra_llm::{ClientError, ORIGIN_HEADER, OutboundPolicy};
use umbra_store::reviews::Review;

/// Name of the instrumentation.
const SCOPE: &str = "umbra";
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Longest time of one export.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that spans wait for others.
const DELAY: Duration = Duration::from_secs(5);
/// Most spans that wait; further ones are dropped.
const WAITING: usize = 8_192;

/// Export of spans; none without a receiver.
pub struct Spans(Option<SdkTracerProvider>);

/// Starts the export of spans, if the settings ask for it.
///
/// # Errors
/// The URL is refused by the policy, with a remedy.
pub fn start(telemetry: &Telemetry, policy: &OutboundPolicy) -> Result<Spans, ClientError> {
    let Some(otlp) = telemetry.otlp.as_ref().filter(|otlp| otlp.traces) else { return Ok(Spans(None)) };
    let url = format!("{}/v1/traces", otlp.endpoint.expose_secret().trim_end_matches('/'));
    let (client, url) = umbra_llm::client(&url, policy)?;
    let mut headers = umbra_llm::secret_headers(&otlp.headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
    headers.insert(ORIGIN_HEADER, HeaderValue::from_static("traces"));
    // The environment names the resource of agents, not ours.
    let resource = Resource::builder_empty().with_service_name(SCOPE).build();
    let exporter = Exporter {
        client,
        url,
        headers,
        resource: (&resource).into(),
        runtime: Handle::current(),
        is_failing: AtomicBool::new(false),
    };
    let bounds = BatchConfigBuilder::default().with_max_queue_size(WAITING).with_scheduled_delay(DELAY).build();
    let provider = SdkTracerProvider::builder()
        .with_span_processor(BatchSpanProcessor::builder(exporter).with_batch_config(bounds).build())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::AlwaysOn)))
        .with_resource(resource)
        .build();
    global::set_tracer_provider(provider.clone());
    Ok(Spans(Some(provider)))
}

impl Spans {
    /// Sends what waits, for at most five seconds, and ends the export.
    pub async fn end(self) {
        if let Self(Some(provider)) = self {
            drop(tokio::task::spawn_blocking(move || provider.shutdown()).await);
        }
    }
}

/// Exporter over the service's own client, which keeps to the outbound policy.
struct Exporter {
    client: Client,
    url: Url,
    headers: HeaderMap,
    resource: ResourceAttributesWithSchema,
    /// Exports run on a thread of the SDK.
    runtime: Handle,
    is_failing: AtomicBool,
}

impl std::fmt::Debug for Exporter {
    /// Shows neither URL nor header.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").finish_non_exhaustive()
    }
}

impl SpanExporter for Exporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let request =
            ExportTraceServiceRequest { resource_spans: group_spans_by_resource_and_scope(batch, &self.resource) };
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(request.encode_to_vec());
        let sending = async { request.timeout(PATIENCE).send().await };
        let failure = match self.runtime.spawn(sending).await {
            Ok(Ok(answer)) if answer.status().is_success() => None,
            Ok(Ok(answer)) => Some(format!("answered {}", answer.status().as_u16())),
            Ok(Err(error)) => Some(umbra_llm::transport_fault(&error)),
            Err(_) => Some("the service stops".to_owned()),
        };
        let was_failing = self.is_failing.swap(failure.is_some(), Ordering::Relaxed);
        match &failure {
            None if was_failing => tracing::info!("spans reach the receiver of telemetry.otlp again"),
            Some(why) if !was_failing => tracing::warn!(why, "spans do not reach the receiver of telemetry.otlp"),
            _ => {}
        }
        failure.map_or(Ok(()), |why| Err(OTelSdkError::InternalFailure(why)))
    }
}

/// Trace and span of the caller, by W3C Trace Context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Id of the whole trace, 16 bytes; never 0.
    pub trace_id: u128,
    /// Id of the caller's span, 8 bytes; never 0.
    pub parent_id: u64,
    /// True if the caller records this trace.
    pub sampled: bool,
}

impl TraceParent {
    /// Reads the header `traceparent`, if it is there and well formed.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        Self::parse(headers.get(TRACEPARENT)?.to_str().ok()?)
    }

    /// Parses `00-<32 hex>-<16 hex>-<2 hex>` in lower case; a later version may have more after that.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let version = hex(parts.next()?, 2)?;
        let trace_id = hex(parts.next()?, 32)?;
        let parent_id = u64::try_from(hex(parts.next()?, 16)?).ok()?;
        let flags = hex(parts.next()?, 2)?;
        let whole = parts.next().is_none() || version > 0;
        let parent = Self { trace_id, parent_id, sampled: flags & 1 == 1 };
        (whole && version != 0xff && trace_id != 0 && parent_id != 0).then_some(parent)
    }
}

/// Parses exactly so many hexadecimal digits in lower case.
fn hex(text: &str, digits: usize) -> Option<u128> {
    let plain = text.len() == digits && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    plain.then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// Span of a request.
pub struct RequestSpan(global::BoxedSpan);

impl RequestSpan {
    /// Starts the span of a request, below that of its caller.
    pub fn start(method: &Method, route: &str, parent: Option<&TraceParent>) -> Self {
        let tracer = global::tracer(SCOPE);
        let attributes = [
            KeyValue::new("http.request.method", method.as_str().to_owned()),
            KeyValue::new("http.route", route.to_owned()),
        ];
        let builder = tracer.span_builder(format!("{method} {route}")).with_kind(SpanKind::Server);
        let context =
            parent.map(remote).map_or_else(Context::new, |span| Context::new().with_remote_span_context(span));
        Self(builder.with_attributes(attributes).start_with_context(&tracer, &context))
    }

    /// Ends it with the status of the answer.
    pub fn end(mut self, status: StatusCode) {
        self.0.set_attribute(KeyValue::new("http.response.status_code", i64::from(status.as_u16())));
        if status.is_server_error() {
            self.0.set_status(Status::error(""));
        }
        self.0.end();
    }
}

fn remote(parent: &TraceParent) -> SpanContext {
    let flags = if parent.sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (TraceId::from(parent.trace_id), SpanId::from(parent.parent_id));
    SpanContext::new(trace, span, flags, true, TraceState::NONE)
}

/// Records the span of a review that ended, with links to the spans that it judges.
pub fn record_review<'a>(review: &Review, judged: impl Iterator<Item = &'a (String, String)>) {
    let (Some(started), Some(finished)) = (review.started_at, review.finished_at) else { return };
    let tracer = global::tracer(SCOPE);
    let texts = [
        ("umbra.review.id", Some(review.id.to_string())),
        ("umbra.review.state", review.state.map(|state| state.as_str().to_owned())),
        ("umbra.review.assessment", review.assessment.map(|assessment| assessment.as_str().to_owned())),
        ("umbra.shadow", Some(review.shadow.clone())),
        ("gen_ai.request.model", review.model.clone()),
    ];
    let mut attributes: Vec<KeyValue> =
        texts.into_iter().filter_map(|(name, value)| Some(KeyValue::new(name, value?))).collect();
    let counts =
        [("gen_ai.usage.input_tokens", review.usage.input), ("gen_ai.usage.output_tokens", review.usage.output)];
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    attributes.extend(counts.into_iter().map(|(name, tokens)| KeyValue::new(name, count(tokens))));
    let link = |(trace, span): &(String, String)| {
        let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
        Some(Link::with_context(SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE)))
    };
    let builder = tracer
        .span_builder(format!("review {}", review.shadow))
        .with_kind(SpanKind::Internal)
        .with_start_time(SystemTime::from(started))
        .with_attributes(attributes)
        .with_links(judged.filter_map(link).collect());
    let mut span = builder.start_with_context(&tracer, &Context::new());
    if review.assessment.is_none() {
        span.set_status(Status::error(review.failure.clone().unwrap_or_default()));
    }
    span.end_with_timestamp(SystemTime::from(finished));
}
