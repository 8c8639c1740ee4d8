//! Hostile and broken exports: no panic, no blow-up, and no time that grows with the square.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{
    captures::{assembled, tool},
    synthetic::spans,
};
use crate::{Encoding, Export, Record, Signal, TokenUsage, assemble, decode, normalise};

/// Number of records in a large trace.
const MANY: usize = 10_000;
/// Longest time for a large trace, in a build without optimisation on a busy machine.
const LIMIT: Duration = Duration::from_secs(3);

/// Returns a record of each kind of a small trace, to be varied.
fn samples() -> (Record, Record, Record) {
    let call = r#"[{"role": "assistant", "parts": [{"type": "tool_call", "name": "ls", "arguments": {"path": "/"}}]}]"#;
    let export = spans(&json!([
        {"id": 1, "name": "invoke_agent a", "is": {"gen_ai.operation.name": "invoke_agent",
            "gen_ai.input.messages": "do it", "gen_ai.output.messages": "done"}},
        {"id": 2, "name": "chat m", "is": {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 5, "gen_ai.usage.output_tokens": 2, "gen_ai.output.messages": call}},
        {"id": 3, "name": "execute_tool ls", "is": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ls",
            "gen_ai.tool.call.arguments": {"path": "/"}, "gen_ai.tool.call.result": "etc"}},
    ]));
    let mut records = normalise(&export).records.into_iter();
    (records.next().unwrap(), records.next().unwrap(), records.next().unwrap())
}

/// Returns many records, each made from its number.
fn many(make: impl Fn(usize) -> Record) -> Vec<Record> {
    let records = (0..MANY).map(|index| {
        let mut record = make(index);
        record.span = format!("{index:016x}");
        record
    });
    records.collect()
}

fn above(index: usize) -> Option<String> {
    index.checked_sub(1).map(|above| format!("{above:016x}"))
}

#[test]
fn large_traces_are_assembled_in_time() {
    let (agent, model, tool) = samples();
    let timed = |record: &Record, index: usize| {
        let at = i64::try_from(index).unwrap() * 1_000;
        Record { start: at, end: at + 500, ..record.clone() }
    };
    let log = |index: usize| Record { is_log: true, scope: format!("{}", index % 7), ..model.clone() };
    let cases: Vec<(&str, Vec<Record>)> = vec![
        ("calls of models and tools by turns", many(|i| timed(if i % 2 == 0 { &model } else { &tool }, i))),
        ("models within models", many(|i| Record { parent: above(i), ..timed(&model, i) })),
        ("agents within agents", many(|i| Record { parent: above(i), ..timed(&agent, i) })),
        ("tools within tools", many(|i| Record { parent: above(i), ..timed(&tool, i) })),
        ("circle of parents", many(|i| Record { parent: above(i).or_else(|| above(MANY)), ..timed(&agent, i) })),
        ("logs with equal usage at one time", many(log)),
        (
            "one response id",
            many(|i| Record { response_id: Some("r".repeat(20)), scope: format!("{i}"), ..model.clone() }),
        ),
        ("one tool call id", many(|i| Record { tool_id: Some("c1".into()), scope: format!("{i}"), ..tool.clone() })),
        ("logs of one model's span", many(|i| Record { parent: above(1), is_log: i > 0, ..timed(&model, i) })),
        ("tools alone", many(|i| timed(&tool, i))),
        (
            "times at the ends",
            many(|i| Record { start: i64::MIN, end: i64::MAX, ..if i % 2 == 0 { &model } else { &tool }.clone() }),
        ),
        (
            "messages of one span at one time",
            many(|i| Record { is_log: true, response_id: Some(format!("{i}")), ..model.clone() })
                .into_iter()
                .map(|record| Record { span: "1".repeat(16), ..record })
                .collect(),
        ),
        ("answers", many(|i| Record { is_log: true, usage: None, parts: agent.parts.clone(), ..timed(&model, i) })),
        (
            "tool calls in one output",
            vec![Record { parts: model.parts.iter().cycle().take(MANY).cloned().collect(), ..model.clone() }],
        ),
    ];
    for (name, records) in cases {
        let start = Instant::now();
        let calls = assemble(&records).calls.len();
        let duration = start.elapsed();
        println!("{name:36} {calls:>6} calls {duration:>10.0?}");
        assert!(duration < LIMIT, "{name} took {duration:?}");
    }
}

#[test]
fn large_exports_are_read_in_time() {
    let nested = |levels: usize| (0..levels).fold(json!("end"), |inner, _| json!({"messages": [inner]}));
    let mut text = json!({"role": "user", "content": "do it"}).to_string();
    for _ in 0..8 {
        text = json!([{"role": "user", "content": text}]).to_string();
    }
    let flattened: serde_json::Map<String, Value> = (0..4_096_u64)
        .map(|i| {
            (
                format!("llm.input_messages.{}.message.contents.{}.message_content.text", i % 64, i * 1_000_003),
                json!("x"),
            )
        })
        .chain([("llm.output_messages.18446744073709551616.message.content".to_owned(), json!("done"))])
        .chain([(format!("gen_ai.prompt.{}", "9.".repeat(400)), json!("deep"))])
        .collect();
    let wide: serde_json::Map<String, Value> = (0..20_000).map(|i| (format!("a{i}"), json!(i))).collect();
    for (name, is) in [
        ("deep values", json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": nested(60)})),
        ("deep text", json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": "[".repeat(100_000)})),
        (
            "deep objects in a text",
            json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": nested(60).to_string()}),
        ),
        ("texts in texts", json!({"gen_ai.operation.name": "chat", "gen_ai.input.messages": text})),
        ("huge positions", Value::Object(flattened)),
        ("many attributes", Value::Object(wide)),
        ("long names", json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "é".repeat(100_000)})),
        (
            "cut in an escape",
            json!({"gen_ai.operation.name": "chat", "gen_ai.output.messages": "[{\"content\":\"\\u00"}),
        ),
        (
            "no number",
            json!({"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": -1, "gen_ai.usage.output_tokens": "NaN"}),
        ),
    ] {
        let start = Instant::now();
        let export = spans(&json!([{"id": 1, "name": "s", "is": is}]));
        assembled(&[export]);
        assert!(start.elapsed() < LIMIT, "{name} took {:?}", start.elapsed());
    }
}

#[test]
fn spans_without_ids_are_refused_and_counted() {
    let mut export = spans(&json!([{"id": 1, "name": "a"}, {"id": 0, "name": "b"}, {"id": 3, "name": "c"}]));
    let Export::Traces(request) = &mut export else { panic!() };
    request.resource_spans[0].scope_spans[2].spans[0].trace_id = vec![0; 16];
    let found = normalise(&export);
    assert_eq!((found.records.len(), found.rejected), (1, 2));
    assert!(found.reason.unwrap().contains("span id"));
}

#[test]
fn bodies_of_other_signals_and_broken_ones_are_refused() {
    let log = br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"x"}}]}]}]}"#;
    assert!(decode(Signal::Logs, Encoding::Json, log).is_ok());
    assert!(decode(Signal::Traces, Encoding::Json, log).is_err());
    for empty in [&b"{}"[..], br#"{"resourceSpans":[]}"#] {
        assert!(decode(Signal::Traces, Encoding::Json, empty).is_ok());
    }
    assert!(decode(Signal::Traces, Encoding::Protobuf, b"").is_ok());
    for broken in [&b"[]"[..], b"x", br#"{"resourceSpans":1}"#, &[0xff; 40]] {
        assert!(decode(Signal::Traces, Encoding::Json, broken).is_err());
        assert!(decode(Signal::Traces, Encoding::Protobuf, broken).is_err());
    }
    let nested = format!("{}{}", r#"{"resourceSpans":["#, "[".repeat(100_000));
    assert!(decode(Signal::Traces, Encoding::Json, nested.as_bytes()).is_err());
}

#[test]
fn bodies_of_many_empty_values_are_refused_before_they_are_decoded() {
    // A span with 2 million empty attributes, alone and behind the field of a group.
    let attributes = [0x4a, 0].repeat(2_000_000);
    let wrapped = |inner: &[u8], key: u8| {
        let mut outer = vec![key];
        prost::encode_length_delimiter(inner.len(), &mut outer).unwrap();
        outer.extend_from_slice(inner);
        outer
    };
    let group = [&[0x7b, 0x7c][..], &attributes].concat();
    for span in [attributes, group] {
        let body = wrapped(&wrapped(&wrapped(&span, 0x12), 0x12), 0x0a);
        let error = decode(Signal::Traces, Encoding::Protobuf, &body).unwrap_err();
        assert!(error.contains("smaller batches"), "{error}");
    }
    let json = format!(r#"{{"resourceSpans":[{}{{}}]}}"#, "{},".repeat(1_000_000));
    let error = decode(Signal::Traces, Encoding::Json, json.as_bytes()).unwrap_err();
    assert!(error.contains("smaller batches"), "{error}");
}

#[test]
fn characters_cut_in_two_do_not_cost_the_batch() {
    let is =
        json!({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "say", "gen_ai.tool.call.result": "hi 😀"});
    let Export::Traces(export) = spans(&json!([{"id": 1, "name": "say 😀", "is": is}])) else { panic!() };
    let protobuf = prost::Message::encode_to_vec(&export);
    let cut = "😀".as_bytes();
    let mut broken = protobuf.clone();
    let places: Vec<usize> =
        broken.windows(cut.len()).enumerate().filter(|(_, w)| *w == cut).map(|(at, _)| at).collect();
    for at in &places {
        broken[at + 3] = b'!';
    }
    assert_eq!(places.len(), 2);
    let json = serde_json::to_string(&export).unwrap();
    for (encoding, body, text) in [
        (Encoding::Protobuf, protobuf, "hi 😀"),
        (Encoding::Protobuf, broken, "hi ???!"),
        (Encoding::Json, json.clone().into_bytes(), "hi 😀"),
        (Encoding::Json, json.replace('😀', r"\ud83d").into_bytes(), "hi \u{fffd}"),
    ] {
        let traces = assembled(&[decode(Signal::Traces, encoding, &body).unwrap()]);
        assert_eq!(tool(&traces[0].calls[0]).2, text);
    }
}

/// Exporters write JSON in different ways.
#[test]
fn json_of_different_exporters_is_read() {
    let body = r#"{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "svc"}}]},
        "scopeSpans": [{"scope": {"name": "s", "version": "1"}, "spans": [{"traceId": "0AF7651916CD43DD8448EB211C80319C",
        "spanId": "b7ad6b7169203331", "parentSpanId": "", "name": "chat m", "kind": 3, "flags": 257, "traceState": "",
        "startTimeUnixNano": 1700000000000000000, "endTimeUnixNano": "1700000000000000001", "status": {},
        "futureField": {"a": [1]}, "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}},
            {"key": "gen_ai.usage.input_tokens", "value": {"intValue": "5"}},
            {"key": "gen_ai.usage.output_tokens", "value": {"intValue": 2}},
            {"key": "gen_ai.response.finish_reasons", "value": {"arrayValue": {"values": [{"stringValue": "stop"}]}}},
            {"key": "empty", "value": {}}, {"key": "empty list", "value": {"arrayValue": {}}},
            {"key": "bytes", "value": {"bytesValue": "aGk="}}, {"key": "nothing", "value": null}]}]}]}]}"#;
    for body in [body.to_owned(), body.replace(r#""kind": 3"#, r#""kind": "SPAN_KIND_CLIENT", "links": null"#)] {
        let traces = assembled(&[decode(Signal::Traces, Encoding::Json, body.as_bytes()).unwrap()]);
        assert_eq!(traces[0].calls[0].usage, Some(TokenUsage { input: 5, output: 2 }));
        assert_eq!(traces[0].calls[0].stop_reason.as_deref(), Some("stop"));
    }
}
