//! Hostile and broken exports over the wire: each gets an answer that says what is wrong, costs bounded memory and
//! time, and the server takes a good export after it.

#![expect(clippy::expect_used, clippy::unwrap_used, reason = "a test that meets an error fails")]

use std::{fmt::Write as _, io::Read};

use flate2::{Compression, write::GzEncoder};
use futures_util::future::join_all;
use http_body_util::{BodyExt, Full};
use opentelemetry_proto::tonic::{
    collector::trace::v1::{ExportTraceServiceRequest, trace_service_client::TraceServiceClient},
    trace::v1::{ResourceSpans, ScopeSpans, Span},
};
use reqwest::Method;
use serde_json::{Value, json};
use tonic::{body::Body, transport::Endpoint};
use tower::ServiceExt;

use super::{assembled, calls, capture};
use crate::support::{Schema, Umbra};

const PROTOBUF: (&str, &str) = ("content-type", "application/x-protobuf");
const JSON: (&str, &str) = ("content-type", "application/json");
const MIB: usize = 1024 * 1024;
/// Growth of the server's peak memory that a story of hostile exports may cause, in MiB. A body has 4 MiB at most.
const GROWTH: usize = 128;

/// Returns a message of protobuf as a field of another one.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    let mut length = content.len();
    while length > 0x7f {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
    [&bytes, content].concat()
}

/// Returns an export of one span with these fields beside its ids.
fn export_with(fields: &[u8]) -> Vec<u8> {
    let span = [field(1, &[1; 16]), field(2, &[2; 8]), fields.to_vec()].concat();
    field(1, &field(2, &field(2, &span)))
}

/// Returns an attribute with a value.
fn attribute(key: &[u8], value: &[u8]) -> Vec<u8> {
    field(9, &[field(1, key), field(2, value)].concat())
}

/// Returns a value that is a list in a list, this often.
fn nested_value(levels: usize) -> Vec<u8> {
    (0..levels).fold(field(1, b"end"), |inner, _| field(5, &field(1, &inner)))
}

/// Returns a value as [`nested_value`], in JSON.
fn nested_json(levels: usize) -> String {
    let opening = r#"{"arrayValue": {"values": ["#.repeat(levels);
    format!(r#"{opening}{{"stringValue": "end"}}{}"#, "]}}".repeat(levels))
}

/// Returns a body of JSON with this text in place of an attribute's value.
fn json_with(value: &str) -> Vec<u8> {
    let span = span(1, 1, &json!([{"key": "a", "value": "VALUE"}]));
    export(&json!([span])).to_string().replace("\"VALUE\"", value).into_bytes()
}

/// Returns a span of a trace. The numbers are the ids.
fn span(trace: usize, id: usize, attributes: &Value) -> Value {
    json!({"traceId": format!("{trace:032x}"), "spanId": format!("{id:016x}"), "name": "step",
        "startTimeUnixNano": format!("18000000000000{id:05}"), "endTimeUnixNano": format!("18000000000001{id:05}"),
        "attributes": attributes})
}

/// Returns the attributes of a call of a model that says this.
fn chat(said: &str) -> Value {
    let output = json!([{"role": "assistant", "parts": [{"type": "text", "content": said}]}]).to_string();
    json!([text("gen_ai.operation.name", "chat"), text("gen_ai.output.messages", &output)])
}

/// Returns the attributes of a call of a model with tokens, which is one whatever this attribute says.
fn counted_chat(key: &str, value: &Value) -> Value {
    json!([text("gen_ai.operation.name", "chat"), {"key": key, "value": value},
        {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "5"}},
        {"key": "gen_ai.usage.output_tokens", "value": {"intValue": "2"}}])
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn export(spans: &Value) -> Value {
    json!({"resourceSpans": [{"resource": {"attributes": [text("service.name", "hostile")]},
        "scopeSpans": [{"spans": spans}]}]})
}

/// Returns bytes compressed with gzip.
fn gzip(bytes: impl Read) -> Vec<u8> {
    let (mut bytes, mut encoder) = (bytes, GzEncoder::new(Vec::new(), Compression::best()));
    std::io::copy(&mut bytes, &mut encoder).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: impl Read) -> Vec<u8> {
    zstd::stream::encode_all(bytes, 3).unwrap()
}

/// Returns zeros without holding them.
fn zeros(mib: usize) -> impl Read {
    std::io::repeat(0).take((mib * MIB) as u64)
}

/// Returns the peak memory of a server, in MiB.
fn peak_mib(umbra: &Umbra) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", umbra.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() / 1024
}

/// Returns the processor time of a server, in seconds.
fn processor_seconds(umbra: &Umbra) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", umbra.pid())).unwrap();
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    // User and system time, in hundredths of a second.
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) / 100
}

/// Server that hostile exports come to, with its memory before them.
struct Target {
    schema: Schema,
    umbra: Umbra,
    memory: usize,
    /// Good exports that it took.
    taken: usize,
}

impl Target {
    async fn start() -> Self {
        let schema = Schema::fresh().await;
        let umbra = Umbra::with().on(&schema).go().await;
        let mut target = Self { schema, umbra, memory: 0, taken: 0 };
        target.takes_a_good_export().await;
        target.memory = peak_mib(&target.umbra);
        target
    }

    /// Sends an export that is good.
    async fn takes_a_good_export(&mut self) {
        self.taken += 1;
        let body = export(&json!([span(0xaaaa_0000 + self.taken, 1, &chat("all is well"))]));
        self.takes(&body).await;
    }

    /// Sends spans that are to be taken without exception.
    async fn takes(&self, body: &Value) {
        let answered = self.umbra.post("/v1/traces", body).await;
        assert!(answered.status == 200 && answered.body["partialSuccess"].is_null(), "{}", answered.text);
    }

    /// Posts a body; returns status and text of the answer.
    async fn send(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, String) {
        let answered = self.umbra.send(Method::POST, path, headers, Some(body.to_vec())).await;
        (answered.status.as_u16(), answered.text)
    }

    /// Ends a story: all good exports became calls, no other did, and memory stayed within its bound.
    async fn ends(self) {
        assembled(&self.schema).await;
        let events = calls(&self.umbra).await;
        assert_eq!(events.len(), self.taken);
        let grown = peak_mib(&self.umbra) - self.memory;
        println!("peak memory grew by {grown} MiB");
        assert!(grown < GROWTH, "peak memory grew by {grown} MiB");
    }
}

#[tokio::test]
async fn body_that_is_no_export_is_refused_with_its_fault() {
    let mut target = Target::start().await;
    let good = capture("openinference-anthropic").bodies[0].bytes.clone();
    let log = br#"{"resourceLogs": [{"scopeLogs": [{"logRecords": [{"body": {"stringValue": "x"}}]}]}]}"#;
    let traces = "/v1/traces";
    let deep = field(9, &[field(1, b"a"), field(2, &nested_value(1_000))].concat());
    let cases = vec![
        (
            "empty attributes",
            traces,
            vec![PROTOBUF],
            export_with(&field(9, b"").repeat(2_000_000)),
            400,
            "smaller batches",
        ),
        (
            "empty objects",
            traces,
            vec![JSON],
            json_with(&format!("[{}{{}}]", "{},".repeat(1_000_000))),
            400,
            "smaller batches",
        ),
        ("deep protobuf", traces, vec![PROTOBUF], export_with(&deep), 400, "recursion limit"),
        ("deep JSON", traces, vec![JSON], json_with(&nested_json(1_000)), 400, "recursion limit"),
        ("deep brackets", traces, vec![JSON], json_with(&"[".repeat(1_000_000)), 400, "no JSON of OTLP"),
        ("spans as logs", "/v1/logs", vec![PROTOBUF], good.clone(), 400, "no protobuf of OTLP"),
        ("logs as spans", traces, vec![JSON], log.to_vec(), 400, "path of another one"),
        ("JSON as protobuf", traces, vec![PROTOBUF], log.to_vec(), 400, "no protobuf of OTLP"),
        ("protobuf as JSON", traces, vec![JSON], good.clone(), 400, "no JSON of OTLP"),
        ("empty JSON", traces, vec![JSON], Vec::new(), 400, "no JSON of OTLP"),
        ("a list", traces, vec![JSON], b"[]".to_vec(), 400, "expected an object, found an array"),
        ("no type", traces, vec![], good.clone(), 415, "application/x-protobuf"),
        ("plain text", traces, vec![("content-type", "text/plain")], good.clone(), 415, "application/json"),
        ("gRPC over HTTP/1", traces, vec![("content-type", "application/grpc")], good.clone(), 415, "Content-Type"),
        ("other letters", traces, vec![("content-type", "application/json; charset=latin1")], vec![], 415, "UTF-8"),
        ("deflate", traces, vec![PROTOBUF, ("content-encoding", "deflate")], good.clone(), 415, "gzip, zstd"),
        ("two encodings", traces, vec![PROTOBUF, ("content-encoding", "gzip, gzip")], good.clone(), 415, "only one"),
        ("no gzip", traces, vec![PROTOBUF, ("content-encoding", "gzip")], good.clone(), 400, "broken, cut off"),
        ("no zstd", traces, vec![PROTOBUF, ("content-encoding", "zstd")], good.clone(), 400, "broken, cut off"),
    ];
    for (name, path, headers, body, status, words) in cases {
        let (answered, said) = target.send(path, &headers, &body).await;
        assert_eq!(answered, status, "{name}: {said}");
        assert!(said.contains(words) && said.len() < 800, "{name}: {said}");
        target.takes_a_good_export().await;
    }
    let metrics = target.umbra.send(Method::GET, "/metrics", &[], None).await.text;
    assert!(metrics.contains(r#"umbra_otel_refused_total{wire="http",code="415"} 6"#), "{metrics}");
    for body in [
        export_with(&field(5, b"\xff\xfe")),
        export_with(&attribute(b"\xc3", b"")),
        export_with(&attribute(b"a", &field(1, b"half a letter: \xc3"))),
    ] {
        assert_eq!(target.send(traces, &[PROTOBUF], &body).await, (200, String::new()), "a bad letter costs no batch");
    }
    for (path, header) in [(traces, PROTOBUF), ("/v1/logs", PROTOBUF), ("/v1/metrics", PROTOBUF)] {
        assert_eq!(target.send(path, &[header], b"").await, (200, String::new()), "an empty message is an export");
    }
    target.ends().await;
}

#[tokio::test]
async fn body_that_ends_too_early_is_refused_wherever_it_ends() {
    let target = Target::start().await;
    let good = capture("openinference-anthropic").bodies[0].bytes.clone();
    let text = export(&json!([span(1, 1, &chat("cut"))])).to_string().into_bytes();
    let packed = [("gzip", gzip(good.as_slice())), ("zstd", zstd(good.as_slice()))];
    for twentieth in 1..20 {
        let cut = |bytes: &[u8]| bytes[..bytes.len() * twentieth / 20].to_vec();
        for (header, body, words) in [(PROTOBUF, &good, "no protobuf of OTLP"), (JSON, &text, "no JSON of OTLP")] {
            let (status, said) = target.send("/v1/traces", &[header], &cut(body)).await;
            assert!(status == 400 && said.contains(words), "{twentieth}/20: {status} {said}");
        }
        for (encoding, body) in &packed {
            let headers = [PROTOBUF, ("content-encoding", *encoding)];
            let (status, said) = target.send("/v1/traces", &headers, &cut(body)).await;
            assert!(status == 400 && said.contains("cut off"), "{encoding} {twentieth}/20: {status} {said}");
        }
    }
    let mut target = target;
    target.takes_a_good_export().await;
    target.ends().await;
}

#[tokio::test]
async fn bombs_of_gzip_and_zstd_are_refused_and_cost_no_more_than_plain_bodies() {
    let mut target = Target::start().await;
    let (gzip, zstd) = (gzip(zeros(512)), zstd(zeros(512)));
    for (encoding, bomb) in [("gzip", &gzip), ("zstd", &zstd)] {
        assert!(bomb.len() < MIB, "{encoding}: {}", bomb.len());
        for (path, media) in [("/v1/traces", PROTOBUF), ("/v1/logs", JSON), ("/v1/metrics", PROTOBUF)] {
            let headers = [media, ("content-encoding", encoding)];
            for (status, said) in join_all((0..4).map(|_| target.send(path, &headers, bomb))).await {
                assert!(status == 413 && said.contains("4194304 bytes"), "{encoding}: {status} {said}");
            }
        }
        target.takes_a_good_export().await;
    }
    let bomb = framed(true, &gzip);
    for (status, said) in join_all((0..8).map(|_| target.call(TRACES, &["gzip"], &bomb))).await {
        assert_eq!(status, 3, "invalid argument, which exporters do not send again: {said}");
        assert!(said.contains("4194304 bytes"), "{said}");
    }
    for encoding in ["zstd", "deflate"] {
        let (status, said) = target.call(TRACES, &[encoding], &framed(true, &zstd)).await;
        assert!(status == 12 && said.contains(encoding), "unimplemented: {status} {said}");
    }
    target.takes_a_good_export().await;
    target.ends().await;
}

/// Path of spans over gRPC.
const TRACES: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";

/// Returns a message of gRPC behind its head.
fn framed(is_compressed: bool, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[u8::from(is_compressed)], &length[..], message].concat()
}

impl Target {
    /// Makes a call of gRPC with these bytes as its body; returns status and message.
    async fn call(&self, path: &str, encoding: &[&str], body: &[u8]) -> (i32, String) {
        let channel = Endpoint::from_shared(self.umbra.base.clone()).unwrap().connect().await.unwrap();
        let mut request = http::Request::post(format!("{}{path}", self.umbra.base));
        request = request.header("content-type", "application/grpc").header("te", "trailers");
        for encoding in encoding {
            request = request.header("grpc-encoding", *encoding);
        }
        let request = request.body(Body::new(Full::new(bytes::Bytes::copy_from_slice(body)))).unwrap();
        let (head, answer) = channel.oneshot(request).await.expect("an answer").into_parts();
        let trailers = answer.collect().await.expect("an end").trailers().cloned().unwrap_or_default();
        let of = |name: &str| head.headers.get(name).or(trailers.get(name)).map(|value| value.to_str().unwrap());
        let status = of("grpc-status").expect("a status").parse().unwrap();
        (status, of("grpc-message").unwrap_or_default().replace("%20", " "))
    }
}

#[tokio::test]
async fn call_that_is_no_export_is_an_invalid_argument_with_its_fault() {
    let mut target = Target::start().await;
    let good = capture("openinference-anthropic").bodies[0].bytes.clone();
    let deep = attribute(b"a", &nested_value(1_000));
    let logs = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    let endless = [&[0], &u32::MAX.to_be_bytes()[..], &[0; 100]].concat();
    for (name, path, body, status, words) in [
        (
            "empty attributes",
            TRACES,
            framed(false, &export_with(&field(9, b"").repeat(2_000_000))),
            3,
            "smaller batches",
        ),
        ("a deep value", TRACES, framed(false, &export_with(&deep)), 3, "recursion limit"),
        ("half a message", TRACES, framed(false, &good[..good.len() / 2]), 3, "protobuf"),
        ("spans as logs", logs, framed(false, &good), 3, "protobuf"),
        ("half a frame", TRACES, framed(false, &good)[..good.len() / 2].to_vec(), 3, "EOF"),
        ("no gzip", TRACES, framed(true, &good), 3, "compress"),
        ("4 GiB announced", TRACES, endless, 3, "4194304 bytes"),
        ("more than 4 MiB", TRACES, framed(false, &vec![0; 4 * MIB + 1]), 3, "4194304 bytes"),
        ("no such call", "/opentelemetry.proto.collector.trace.v1.TraceService/Import", framed(false, &good), 12, ""),
        ("no such service", "/example.Service/Export", framed(false, &good), 12, "only OTLP"),
    ] {
        let (answered, said) = target.call(path, &[], &body).await;
        assert_eq!(answered, status, "{name}: {said}");
        assert!(said.contains(words) && said.len() < 800, "{name}: {said}");
        target.takes_a_good_export().await;
    }
    let metrics = target.umbra.send(Method::GET, "/metrics", &[], None).await.text;
    assert!(metrics.contains(r#"umbra_otel_refused_total{wire="grpc",code="3"} 8"#), "{metrics}");
    let (status, said) = target.call(TRACES, &[], &framed(false, b"")).await;
    assert_eq!(status, 0, "an empty message is an export: {said}");
    target.ends().await;
}

#[tokio::test]
async fn span_with_a_bad_id_is_counted_and_the_others_are_taken() {
    let mut target = Target::start().await;
    let span = |trace: &[u8], id: &[u8]| Span { trace_id: trace.to_vec(), span_id: id.to_vec(), ..Span::default() };
    let spans = vec![
        span(&[0; 16], &[1; 8]),
        span(&[1; 15], &[1; 8]),
        span(&[1; 17], &[1; 8]),
        span(&[], &[1; 8]),
        span(&[1; 16], &[0; 8]),
        span(&[1; 16], &[1; 9]),
        span(&[1; 16], &[]),
        span(&[1; 16], &[1; 8]),
    ];
    let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
    let request =
        ExportTraceServiceRequest { resource_spans: vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }] };
    let channel = Endpoint::from_shared(target.umbra.base.clone()).unwrap().connect().await.unwrap();
    let answer = TraceServiceClient::new(channel).export(request.clone()).await.expect("it is taken").into_inner();
    let partial = answer.partial_success.expect("a part is refused");
    assert_eq!(partial.rejected_spans, 7);
    assert!(partial.error_message.contains("trace id"), "{}", partial.error_message);
    let body = serde_json::to_value(&request).expect("JSON");
    let answered = target.umbra.post("/v1/traces", &body).await;
    assert_eq!(answered.body["partialSuccess"]["rejectedSpans"], 7, "{}", answered.text);
    let log = |trace: &str, span: &str| json!({"traceId": trace, "spanId": span, "body": {"stringValue": "x"}});
    let logs = json!([log(&"01".repeat(15), &"02".repeat(8)), log(&"00".repeat(16), ""), log("", &"02".repeat(3))]);
    let body = json!({"resourceLogs": [{"scopeLogs": [{"logRecords": logs}]}]});
    let answered = target.umbra.post("/v1/logs", &body).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert_eq!(answered.body["partialSuccess"]["rejectedLogRecords"], 1, "{}", answered.text);
    let status = target.umbra.get("/v1/status").await;
    let rejected = |services: &Value| {
        services.as_array().unwrap().iter().filter_map(|service| service["rejected"].as_u64()).sum::<u64>()
    };
    assert_eq!(rejected(&status["telemetry"]), 15, "{}", status["telemetry"]);
    target.takes_a_good_export().await;
    target.ends().await;
}

#[tokio::test]
async fn export_of_ten_thousand_spans_is_taken_and_one_of_more_than_twenty_thousand_in_part() {
    const MANY: usize = 10_000;
    /// One span in this many tells of a call.
    const SHARE: usize = 20;
    let mut target = Target::start().await;
    let before = processor_seconds(&target.umbra);
    let spans: Vec<Value> = (1..=MANY)
        .map(|id| match id % SHARE {
            0 => span(7, id, &chat(&format!("answer {id}"))),
            _ => span(7, id, &json!([text("http.method", "GET")])),
        })
        .collect();
    let body = gzip(export(&json!(spans)).to_string().as_bytes());
    let (status, said) = target.send("/v1/traces", &[JSON, ("content-encoding", "gzip")], &body).await;
    assert!(status == 200 && !said.contains("rejected"), "{status} {said}");
    target.taken += MANY / SHARE;
    target.takes_a_good_export().await;
    assembled(&target.schema).await;
    let used = processor_seconds(&target.umbra) - before;
    println!("{MANY} spans took {used} s of processor time");
    assert!(used < 60, "{used} s of processor time");
    // Spans of 26 bytes.
    let bare = |id: u32| field(2, &[field(1, &[9; 16]), field(2, &[&[1; 4], &id.to_be_bytes()[..]].concat())].concat());
    let body = field(1, &field(2, &(0..25_000).flat_map(bare).collect::<Vec<u8>>()));
    let answered = target.umbra.send(Method::POST, "/v1/traces", &[PROTOBUF], Some(body)).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert!(answered.text.contains("more spans or logs than are taken at once"), "{}", answered.text);
    target.takes_a_good_export().await;
    target.ends().await;
}

#[tokio::test]
async fn attribute_that_is_cut_in_its_json_keeps_what_is_whole() {
    let mut target = Target::start().await;
    let said = "Bücher \"gelesen\", \\n dann: grep -rn x src 🙂";
    let whole = json!([{"role": "assistant", "parts": [{"type": "text", "content": said}],
        "finish_reason": "stop"}])
    .to_string();
    let cuts: Vec<usize> = (0..=whole.len()).filter(|at| whole.is_char_boundary(*at)).collect();
    let spans: Vec<Value> = cuts
        .iter()
        .map(|at| span(0x100 + at, 1, &counted_chat("gen_ai.output.messages", &json!({"stringValue": whole[..*at]}))))
        .collect();
    target.takes(&export(&json!(spans))).await;
    target.taken += cuts.len();
    assembled(&target.schema).await;
    let events = calls(&target.umbra).await;
    for (at, event) in cuts.iter().filter_map(|at| {
        let trace = format!("{:032x}", 0x100 + at);
        Some((at, events.iter().find(|event| event["metadata"]["otel"]["trace_id"] == trace.as_str())?))
    }) {
        let output = event["output"].as_str().unwrap_or_default();
        let begun = whole[..*at].split_once(r#""content":""#).is_some_and(|(_, text)| !text.is_empty());
        assert!(!begun || !output.is_empty() || whole[..*at].ends_with('\\'), "cut at {at}: {event}");
        assert!(said.starts_with(output.trim_end()), "cut at {at}: {output:?}");
    }
    target.takes_a_good_export().await;
    target.ends().await;
}

#[tokio::test]
async fn span_at_the_limit_of_its_attributes_is_said_to_be_cut() {
    let mut target = Target::start().await;
    let mut attributes = chat("within the limit").as_array().unwrap().clone();
    attributes.extend((attributes.len()..128).map(|n| text(&format!("llm.input_messages.{n}.message.content"), "x")));
    let mut cut = span(5, 1, &json!(attributes));
    cut["droppedAttributesCount"] = json!(40);
    target.takes(&export(&json!([cut]))).await;
    target.taken += 1;
    assembled(&target.schema).await;
    let events = calls(&target.umbra).await;
    let event = events.iter().find(|event| event["output"] == "within the limit").expect("its call");
    assert_eq!(event["metadata"]["otel"]["cut"], true, "{event}");
    let status = target.umbra.get("/v1/status").await;
    let cuts: i64 = status["telemetry"].as_array().unwrap().iter().filter_map(|one| one["cut"].as_i64()).sum();
    assert_eq!(cuts, 1, "{}", status["telemetry"]);
    target.ends().await;
}

#[tokio::test]
async fn times_of_a_wrong_clock_are_taken_as_they_are_and_break_nothing() {
    let mut target = Target::start().await;
    let year_2200 = 7_258_118_400_000_000_000_u64;
    let clocks = [
        ("zero", 0, 0),
        ("1970", 1, 2_000_000),
        ("2200", year_2200, year_2200 + 3_000_000),
        ("end before start", 1_800_000_000_000_000_000, 1_700_000_000_000_000_000),
        ("the largest number", u64::MAX - 1, u64::MAX),
        ("all time", 1, u64::MAX),
    ];
    for (at, (name, start, end)) in clocks.iter().enumerate() {
        let mut one = span(0x200 + at, 1, &chat(name));
        one["startTimeUnixNano"] = json!(start.to_string());
        one["endTimeUnixNano"] = json!(end.to_string());
        target.takes(&export(&json!([one]))).await;
        target.taken += 1;
        target.takes_a_good_export().await;
    }
    assembled(&target.schema).await;
    let events = calls(&target.umbra).await;
    for ((name, ..), (occurred_at, duration)) in clocks.iter().zip([
        (Value::Null, Value::Null),
        (json!("1970-01-01T00:00:00.000000001Z"), json!(1)),
        (json!("2200-01-01T00:00:00Z"), json!(3)),
        (json!("2027-01-15T08:00:00Z"), Value::Null),
        (Value::Null, Value::Null),
        (json!("1970-01-01T00:00:00.000000001Z"), Value::Null),
    ]) {
        let event = events.iter().find(|event| event["output"] == *name).expect(name);
        assert_eq!((&event["occurred_at"], &event["duration_ms"]), (&occurred_at, &duration), "{name}");
        let task = target.umbra.get(&format!("/v1/trajectories/{}", event["task_id"].as_str().unwrap())).await;
        assert!(!task["events"].as_array().unwrap().is_empty(), "{name}: {task}");
    }
    target.ends().await;
}

#[tokio::test]
async fn deep_values_and_deep_texts_of_an_attribute_are_taken() {
    let mut target = Target::start().await;
    let mut deep_text = String::new();
    for level in 0..1_000 {
        write!(deep_text, r#"[{{"level": {level}, "messages": "#).unwrap();
    }
    let mut spans = Vec::new();
    for (at, deep) in [deep_text.as_str(), &"[".repeat(100_000), &"{\"a\":".repeat(1_000)].into_iter().enumerate() {
        spans.push(span(0x300 + at, 1, &counted_chat("gen_ai.input.messages", &json!({"stringValue": deep}))));
    }
    let mut value: Value = json!({"stringValue": "end"});
    for _ in 0..30 {
        value = json!({"arrayValue": {"values": [value]}});
    }
    spans.push(span(0x310, 1, &counted_chat("gen_ai.output.messages", &value)));
    target.takes(&export(&json!(spans))).await;
    target.taken += spans.len();
    target.takes_a_good_export().await;
    target.ends().await;
}
