//! Tests of every rule of the wire shape as a table: a request, and the pointers and codes of its faults.

mod arbitrary;
mod bounds;
mod requests;

use serde_json::{Map, Value, json};

use super::*;
use umbra_domain::{NanoUsd, TokenCount, ToolCall, Trigger};

/// Returns a valid event's JSON with `members` added.
fn with(members: &str) -> String {
    format!(r#"{{"agent": "writer", "output": "done", {members}}}"#)
}

fn faults_of(result: Result<Incoming, Vec<RequestFault>>) -> Vec<(String, &'static str)> {
    let faults = result.expect_err("a fault was expected");
    assert!(faults.iter().all(|fault| !fault.detail.is_empty()));
    faults.into_iter().map(|fault| (fault.pointer, fault.code)).collect()
}

fn read(body: &str) -> Incoming {
    event(body.as_bytes(), &Limits::default()).unwrap_or_else(|faults| panic!("{body}: {faults:?}"))
}

/// Checks that a body has exactly these faults: `pointer code`, in their order.
#[track_caller]
fn refused(body: impl AsRef<[u8]>, expected: &[&str]) {
    let found = faults_of(event(body.as_ref(), &Limits::default()));
    let found: Vec<_> = found.into_iter().map(|(pointer, code)| format!("{pointer} {code}")).collect();
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(body.as_ref()).chars().take(200).collect::<String>());
}

#[test]
fn event_with_every_field_is_read() {
    let body = r#"{"id": "c-1", "agent": "writer-agent", "task_id": "t-1", "session_id": "s-1",
        "triggers": ["task_complete", "error", "task_complete"], "task": "what was asked", "task_type": "summary",
        "input": "in", "output": "out",
        "tool": {"name": "write_file", "args": {"path": "a"}, "result": {"ok": true, "n": [1, 2.5]}, "error": null, "exit_code": -1},
        "cost_usd": 0.012, "task_cost_usd": 5e-2, "tokens": {"input": 900, "output": 300}, "status": "ok",
        "stop_reason": "length", "attempt": 2, "supersedes": "evt_0190a5b1c2d37e4f8a9b0c1d2e3f4a5b",
        "occurred_at": "2026-02-28T14:30:00.5+02:00", "duration_ms": 840, "metadata": {"repo": "x", "deep": {"a": [null]}}}"#;
    let some = |text: &str| Some(text.to_owned());
    let Value::Object(metadata) = json!({"repo": "x", "deep": {"a": [null]}}) else { unreachable!() };
    let expected = Event {
        agent: "writer-agent".to_owned(),
        task_id: some("t-1"),
        session_id: some("s-1"),
        triggers: vec![Trigger::TaskComplete, Trigger::Error],
        task: some("what was asked"),
        task_type: some("summary"),
        input: some("in"),
        output: some("out"),
        tool: Some(ToolCall {
            name: "write_file".to_owned(),
            args: json!({"path": "a"}),
            result: some(r#"{"n":[1,2.5],"ok":true}"#),
            error: None,
            exit_code: Some(-1),
        }),
        cost_usd: Some(NanoUsd(12_000_000)),
        task_cost_usd: Some(NanoUsd(50_000_000)),
        tokens: Some(TokenCount { input: 900, output: 300 }),
        status: some("ok"),
        stop_reason: some("length"),
        attempt: Some(2),
        supersedes: "evt_0190a5b1c2d37e4f8a9b0c1d2e3f4a5b".parse().ok(),
        occurred_at: "2026-02-28T12:30:00.5Z".parse().ok(),
        duration_ms: Some(840),
        metadata,
        output_form: None,
    };
    let incoming = read(body);
    assert!(incoming.event == expected, "{}", serde_json::to_string(&incoming.event).unwrap());
    assert_eq!(incoming.key.as_deref(), Some("c-1"));
}

#[test]
fn optional_fields_and_lenient_forms_are_accepted() {
    for body in [
        r#"{"agent": "a", "output": ""}"#,
        r#"{"agent": "a", "input": "x"}"#,
        r#"{"agent": "a", "tool": {"name": "t"}}"#,
        r#"{"agent": "a", "tool": {"name": "t", "exit_code": 4294967295}}"#,
        r#"{"agent": "a", "tool": {"name": "t", "exit_code": null}}"#,
        "\u{feff}{\"agent\": \"a\", \"output\": \"x\"}\r\n",
        r#"{"agent": "../../etc/x --><script> \u202e \u001b[31m", "output": "\ud83d\ude00"}"#,
        &with(r#""cost_usd": 0, "task_cost_usd": 1e6, "attempt": 1000, "tokens": {"input": 0}"#),
        &with(r#""occurred_at": "2000-01-01t00:00:00z""#),
        &with(r#""occurred_at": "2100-12-31T23:59:59.123456789-00:00""#),
    ] {
        read(body);
    }
    let absent = read(&with(
        r#""task_id": null, "session_id": "", "task_type": " ", "status": "", "stop_reason": "\t", "id": null,
           "tool": null, "triggers": null, "metadata": null, "cost_usd": null, "tokens": null, "attempt": null,
           "supersedes": null, "occurred_at": null, "duration_ms": null, "task": null, "input": null, "task_cost_usd": null"#,
    ));
    assert!(absent.event == read(r#"{"agent": "writer", "output": "done"}"#).event);
    assert_eq!(absent.key, None);
    for (given, kept) in [("[1, \"a\"]", r#"[1,"a"]"#), ("7", "7"), ("false", "false"), (r#""null""#, "null")] {
        let incoming = read(&format!(r#"{{"agent": "a", "output": {given}, "input": {given}}}"#));
        assert_eq!(incoming.event.output.as_deref(), Some(kept));
        assert_eq!(incoming.event.input.as_deref(), Some(kept));
    }
}

#[test]
fn missing_required_fields_are_faults() {
    refused("{}", &["/agent missing", " missing"]);
    refused(r#"{"agent": null, "output": null}"#, &["/agent missing", " missing"]);
    refused(r#"{"agent": "a", "task": "only asked"}"#, &[" missing"]);
    refused(r#"{"agent": "a", "tool": {}}"#, &["/tool/name missing"]);
    refused("[1]", &[" type"]);
    refused("\"text\"", &[" type"]);
}

#[test]
fn invalid_field_values_are_faults_with_pointer_and_code() {
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
    let cases: [(&str, &str, &str); 59] = [
        ("agent", &long(257), "/agent range"),
        ("agent", r#"" \t ""#, "/agent range"),
        ("agent", "7", "/agent type"),
        ("id", &long(256), "/id range"),
        ("id", r#""""#, "/id range"),
        ("id", "7", "/id type"),
        ("task_id", &long(257), "/task_id range"),
        ("session_id", &long(257), "/session_id range"),
        ("task_type", &long(257), "/task_type range"),
        ("status", &long(257), "/status range"),
        ("stop_reason", &long(257), "/stop_reason range"),
        ("stop_reason", "[]", "/stop_reason type"),
        ("task", "{}", "/task type"),
        ("triggers", r#""error""#, "/triggers type"),
        ("triggers", r#"["error", "all"]"#, "/triggers/1 format"),
        ("triggers", r#"["Error"]"#, "/triggers/0 format"),
        ("triggers", "[null]", "/triggers/0 type"),
        ("triggers", r#"["error","error","error","error","error","error","error","error","error"]"#, "/triggers range"),
        ("tool", r#""write_file""#, "/tool type"),
        ("tool", r#"{"name": ""}"#, "/tool/name range"),
        ("tool", &format!(r#"{{"name": {}}}"#, long(257)), "/tool/name range"),
        ("tool", r#"{"name": "t", "arguments": {}}"#, "/tool/arguments unknown_field"),
        ("tool", r#"{"name": "t", "exit_code": "1"}"#, "/tool/exit_code type"),
        ("tool", r#"{"name": "t", "exit_code": 1.5}"#, "/tool/exit_code range"),
        ("tool", r#"{"name": "t", "exit_code": 4294967296}"#, "/tool/exit_code range"),
        ("tool", r#"{"name": "t", "exitcode": 1}"#, "/tool/exitcode unknown_field"),
        ("output_form", r#""code""#, "/output_form unknown_field"),
        ("cost_usd", "-1", "/cost_usd range"),
        ("cost_usd", "-0.000001", "/cost_usd range"),
        ("cost_usd", "1000000.1", "/cost_usd range"),
        ("cost_usd", r#""0.01""#, "/cost_usd type"),
        ("task_cost_usd", "-1", "/task_cost_usd range"),
        ("task_cost_usd", "true", "/task_cost_usd type"),
        ("tokens", "12", "/tokens type"),
        ("tokens", r#"{"input": -1}"#, "/tokens/input range"),
        ("tokens", r#"{"input": 1.5}"#, "/tokens/input range"),
        ("tokens", r#"{"output": 1000000000001}"#, "/tokens/output range"),
        ("tokens", r#"{"output": "3"}"#, "/tokens/output type"),
        ("tokens", r#"{"total": 3}"#, "/tokens/total unknown_field"),
        ("attempt", "0", "/attempt range"),
        ("attempt", "1001", "/attempt range"),
        ("attempt", "1.5", "/attempt range"),
        ("attempt", r#""1""#, "/attempt type"),
        ("supersedes", r#""rev_0190a5b1c2d37e4f8a9b0c1d2e3f4a5b""#, "/supersedes format"),
        ("supersedes", r#""evt_1""#, "/supersedes format"),
        ("occurred_at", r#""2026-02-28T14:30:00""#, "/occurred_at format"),
        ("occurred_at", r#""2026-02-28 14:30:00Z""#, "/occurred_at format"),
        ("occurred_at", r#""2026-02-28T14:30:00Z[UTC]""#, "/occurred_at format"),
        ("occurred_at", r#""2026-02-30T14:30:00Z""#, "/occurred_at format"),
        ("occurred_at", r#""2026-02-28T14:30:00.Z""#, "/occurred_at format"),
        ("occurred_at", "1772289000", "/occurred_at type"),
        ("occurred_at", r#""1999-12-31T23:59:59Z""#, "/occurred_at range"),
        ("occurred_at", r#""2101-01-01T00:00:00Z""#, "/occurred_at range"),
        ("occurred_at", r#""9999-01-01T00:00:00Z""#, "/occurred_at range"),
        ("duration_ms", "1.5", "/duration_ms range"),
        ("duration_ms", "31536000001", "/duration_ms range"),
        ("duration_ms", r#""1s""#, "/duration_ms type"),
        ("metadata", "[]", "/metadata type"),
        ("colour", "1", "/colour unknown_field"),
    ];
    for (field, value, fault) in cases {
        let mut members = Map::new();
        members.insert("agent".to_owned(), json!("a"));
        members.insert("output".to_owned(), json!("x"));
        members.insert(field.to_owned(), serde_json::from_str(value).unwrap());
        refused(Value::Object(members).to_string(), &[fault]);
    }
}

#[test]
fn all_faults_are_reported_at_once_in_field_order() {
    let body = r#"{"cost_usd": "1", "agent": "", "tool": {"nam": "t", "args": "\u0000"}, "x~/y": 1, "attempt": 0}"#;
    let expected = [
        "/tool/args nul",
        "/agent range",
        "/tool/name missing",
        "/tool/nam unknown_field",
        "/cost_usd type",
        "/attempt range",
        "/x~0~1y unknown_field",
    ];
    refused(body, &expected);
    let many: Map<String, Value> = (0..100).map(|n| (format!("field{n}"), json!(1))).collect();
    let faults = event(Value::Object(many).to_string().as_bytes(), &Limits::default()).unwrap_err();
    assert_eq!(faults.len(), 33);
    assert_eq!(faults.last().map(|fault| (fault.code, fault.detail.starts_with("and 70 more"))), Some(("more", true)));
}

#[test]
fn misspelt_field_is_a_fault_that_suggests_the_right_one() {
    let cases = [
        ("taskId", Some("task_id")),
        ("Agent", Some("agent")),
        ("agent_name", Some("agent")),
        ("cost", Some("cost_usd")),
        ("trigers", Some("triggers")),
        ("outptu", Some("output")),
        ("stopReason", Some("stop_reason")),
        ("meta", Some("metadata")),
        ("colour", None),
        ("", None),
        ("x", None),
    ];
    for (wrong, right) in cases {
        let faults = event(with(&format!("{wrong:?}: 1")).as_bytes(), &Limits::default()).unwrap_err();
        let expected = right.map(|name| format!(r#"did you mean "{name}"?"#)).unwrap_or_default();
        assert!(faults[0].detail.contains(&expected), "{wrong}: {}", faults[0].detail);
        assert_eq!(faults[0].detail.contains("did you mean"), right.is_some(), "{wrong}: {}", faults[0].detail);
        assert!(faults[0].detail.contains("metadata"));
    }
}

#[test]
fn harmful_json_is_refused() {
    let cases: [(String, &[&str]); 20] = [
        (String::new(), &[" empty"]),
        (" \n ".to_owned(), &[" empty"]),
        ("\u{feff}".to_owned(), &[" empty"]),
        (with(r#""cost_usd": 1e400"#), &["/cost_usd syntax"]),
        (with(r#""cost_usd": NaN"#), &["/cost_usd syntax"]),
        (with(r#""cost_usd": -Infinity"#), &["/cost_usd syntax"]),
        (with(r#""task": "\ud800""#), &["/task syntax"]),
        (with(r#""task": "\udc00 x""#), &["/task syntax"]),
        (with(r#""metadata": {"a": ["b", "\ud800x"]}"#), &["/metadata/a/1 syntax"]),
        (format!("{} x", with(r#""attempt": 1"#)), &[" syntax"]),
        (r#"{"agent": "a", "output": "x""#.to_owned(), &[" syntax"]),
        (with(""), &[" syntax"]),
        (with(r#""output": "again""#), &["/output duplicate_key"]),
        (with(r#""metadata": {"a": {"b": 1, "b": 1}}"#), &["/metadata/a/b duplicate_key"]),
        (with(r#""task": "a\u0000b""#), &["/task nul"]),
        (with(r#""metadata": {"a": {"\u0000": 1}}"#), &["/metadata/a nul"]),
        (with(r#""metadata": {"a": {"$serde_json::private::RawValue": "{}"}}"#), &["/metadata/a reserved_key"]),
        (with(&format!(r#""metadata": {{"a": {}1{}}}"#, "[".repeat(31), "]".repeat(31))), &[TOO_DEEP_AT]),
        ("[".repeat(200_000), &[&TOO_DEEP_AT[13..]]),
        (with(&format!(r#""metadata": {{"a": [{}1]}}"#, "1,".repeat(20_000))), &[" too_many_nodes"]),
    ];
    for (body, expected) in cases {
        if body.starts_with('[') {
            let found = faults_of(event(body.as_bytes(), &Limits::default()));
            assert_eq!(found, [("/0".repeat(32), "too_deep")]);
        } else {
            refused(body, expected);
        }
    }
    refused(b"{\"agent\": \"\xff\"}", &[" not_utf8"]);
    refused(with(&format!(r#""task": "{}""#, "x".repeat(256 * 1024))), &[" too_large"]);
}

const TOO_DEEP_AT: &str = "/metadata/a/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0 too_deep";

#[test]
fn values_at_the_limits_are_accepted() {
    read(&with(&format!(r#""metadata": {{"a": {}1{}}}"#, "[".repeat(30), "]".repeat(30))));
    let whole = with(&format!(r#""metadata": {{"a": [{}1]}}"#, "1,".repeat(20_000 - 6)));
    read(&whole);
    let frame = with(r#""task": """#).len();
    read(&with(&format!(r#""task": "{}""#, "x".repeat(256 * 1024 - frame))));
    read(&format!(
        r#"{{"agent": "{0}", "task_id": "{0}", "output": "", "id": "{1}"}}"#,
        "x".repeat(256),
        "k".repeat(255)
    ));
}

#[test]
fn fault_messages_name_the_place_and_repeat_no_value() {
    let secret = "sk-live-canary";
    let detail = |body: String| event(body.as_bytes(), &Limits::default()).unwrap_err()[0].detail.clone();
    assert!(
        detail(with(r#""cost_usd": NaN"#))
            .ends_with("line 1 column 51; JSON has no NaN or Infinity: leave the field out")
    );
    assert!(detail("{\n\"agent\": 1e999}".to_owned()).contains("line 2 column 14"));
    assert!(detail(with(r#""cost_usd": "0.1""#)).contains("without quotes, such as 0.012, found a string"));
    assert!(detail(with(r#""triggers": ["all"]"#)).contains("watch lists"));
    for body in [
        with(&format!(r#""triggers": ["{secret}"]"#)),
        with(&format!(r#""cost_usd": "{secret}""#)),
        with(&format!(r#""supersedes": "{secret}""#)),
        with(&format!(r#""metadata": "{secret}""#)),
        with(&format!(r#""task": "{secret}" {secret}"#)),
        format!("\"{secret}\""),
        secret.to_owned(),
    ] {
        for faults in [
            event(body.as_bytes(), &Limits::default()).unwrap_err(),
            batch_json(body.as_bytes(), &Limits::default()).unwrap_err(),
        ] {
            assert!(!format!("{faults:?}").contains(secret), "{faults:?}");
        }
    }
    let debug = format!("{:?}", read(&with(&format!(r#""id": "{secret}", "task": "{secret}""#))));
    assert!(!debug.contains(secret), "{debug}");
    let key = "k".repeat(81);
    refused(with(&format!(r#""metadata": {{"{key}": {{"b": "\u0000"}}}}"#)), &["/metadata nul"]);
}

#[test]
fn batch_events_fail_independently() {
    let limits = Limits { batch_events: 4, ..Limits::default() };
    let deep = "[".repeat(5_000) + &"]".repeat(5_000);
    let body = format!(
        r#"{{"events": [{{"agent": "a", "output": "x"}}, 7, {{"agent": "a", "tool": {{"name": 1}}}}, {deep}]}}"#
    );
    let results = batch_json(body.as_bytes(), &limits).unwrap();
    assert!(results[0].is_ok());
    let found: Vec<_> = results.into_iter().skip(1).flat_map(faults_of).collect();
    let expected = [
        ("/events/1", "type"),
        ("/events/2/tool/name", "type"),
        (&format!("/events/3{}", "/0".repeat(32)), "too_deep"),
    ];
    assert_eq!(found, expected.map(|(pointer, code)| (pointer.to_owned(), code)));
    assert_eq!(batch_json(br#"{"events": []}"#, &limits), Ok(Vec::new()));

    let lines =
        "\u{feff}{\"agent\": \"a\", \"output\": \"x\"}\r\n\n  \n{\"agent\"\n{\"agent\": \"\u{7f}\", \"cost_usd\": 1}\n";
    let results = batch_ndjson(lines.as_bytes(), &limits).unwrap();
    assert!(results[0].is_ok());
    let found: Vec<_> = results.into_iter().skip(1).flat_map(faults_of).collect();
    assert_eq!(found, [(String::new(), "syntax"), (String::new(), "missing")]);
    let broken = batch_ndjson(b"\xff\n{\"agent\": \"a\", \"output\": \"x\"}", &limits).unwrap();
    assert_eq!(broken.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn malformed_batch_is_refused_as_a_whole() {
    type Pairs = &'static [(&'static str, &'static str)];
    let limits = Limits { batch_events: 2, ..Limits::default() };
    let cases: [(&[u8], Pairs); 11] = [
        (b"", &[("", "empty")]),
        (b"[]", &[("", "type")]),
        (b"{}", &[("/events", "missing")]),
        (br#"{"events": {}}"#, &[("", "type")]),
        (br#"{"events": null}"#, &[("", "type")]),
        (br#"{"events": [], "events": []}"#, &[("/events", "duplicate_key")]),
        (
            br#"{"event": [{}], "more": 1}"#,
            &[("/event", "unknown_field"), ("/more", "unknown_field"), ("/events", "missing")],
        ),
        (br#"{"events": [1,2,3]}"#, &[("/events", "too_many_events")]),
        (br#"{"events": [{]}"#, &[("", "syntax")]),
        (br#"{"events": []} {}"#, &[("", "syntax")]),
        (b"{\"events\": [\"\xff\"]}", &[("", "not_utf8")]),
    ];
    let listed =
        |faults: Vec<RequestFault>| faults.into_iter().map(|fault| (fault.pointer, fault.code)).collect::<Vec<_>>();
    for (body, expected) in cases {
        let expected: Vec<_> = expected.iter().map(|(pointer, code)| ((*pointer).to_owned(), *code)).collect();
        assert_eq!(listed(batch_json(body, &limits).unwrap_err()), expected, "{}", String::from_utf8_lossy(body));
    }
    for (body, code) in [(&b"\n \r\n"[..], "empty"), (b"1\n2\n3", "too_many_events")] {
        assert_eq!(listed(batch_ndjson(body, &limits).unwrap_err()), [(String::new(), code)]);
    }
}

#[test]
fn idempotency_key_header_is_printable_and_bounded() {
    for value in ["x", "8e03978e-40d5-43e8-bc93-6894a57f9324", &"k".repeat(255)] {
        assert_eq!(key_from_header(value).as_deref(), Ok(value));
    }
    for value in ["", " ", "\t", "a\u{7f}", "é", &"k".repeat(256)] {
        assert_eq!(key_from_header(value).unwrap_err().code, "format", "{value:?}");
    }
}

#[test]
fn digest_depends_only_on_the_content() {
    let digest = |body: &str| read(body).digest_input;
    let one = digest(r#"{"agent": "a", "output": "x", "id": "k", "metadata": {"b": 1, "a": [2, {"z": 1, "y": 2}]}}"#);
    let other = digest(r#"{"metadata":{"a":[2,{"y":2,"z":1}],"b":1},"output":"\u0078","agent":"a"}"#);
    assert_eq!(String::from_utf8_lossy(&one), String::from_utf8_lossy(&other));
    assert_ne!(one, digest(r#"{"agent": "a", "output": "x", "metadata": {"b": 1, "a": [{"z": 1, "y": 2}, 2]}}"#));
    assert_ne!(digest(r#"{"agent": "a", "output": "x"}"#), digest(r#"{"agent": "a", "output": "y"}"#));
    assert_ne!(digest(r#"{"agent": "a", "output": "{}"}"#), digest(r#"{"agent": "a", "output": {}}"#));
}

#[test]
fn duplicate_key_is_a_fault_in_objects_of_any_width() {
    for width in [2, 15, 16, 17, 500] {
        let members: Vec<String> = (0..width).map(|n| format!(r#""k{n}": {n}"#)).collect();
        read(&with(&format!(r#""metadata": {{{}}}"#, members.join(", "))));
        let (last, escaped) = (width - 1, r"\u006b0");
        refused(
            with(&format!(r#""metadata": {{{}, "k{last}": 1, "{escaped}": 2}}"#, members.join(", "))),
            &[&format!("/metadata/k{last} duplicate_key"), "/metadata/k0 duplicate_key"],
        );
    }
}
