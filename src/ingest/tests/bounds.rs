//! Tests of integers beyond 64 bits, of texts that are too deep and too large, and of lines: values and faults.

use serde_json::json;

use super::*;

#[test]
fn an_integer_beyond_64_bits_keeps_its_digits() {
    let long = ["18446744073709551616", "-9223372036854775809", "123456789012345678901234567890"];
    for digits in long {
        let event = read(&with(&format!(
            r#""metadata": {{"span": [{digits}]}}, "tool": {{"name": "t", "args": {{"n": {digits}}}}}"#
        )));
        assert_eq!(event.event.metadata["span"], json!([digits]));
        assert_eq!(event.event.tool.unwrap().args, json!({"n": digits}));
        refused(with(&format!(r#""cost_usd": {digits}"#)), &["/cost_usd range"]);
        refused(with(&format!(r#""attempt": {digits}"#)), &["/attempt range"]);
    }
    // An integer that fits stays a number, anywhere in a run of others.
    for (text, number) in [
        ("18446744073709551615", json!(u64::MAX)),
        ("-9223372036854775808", json!(i64::MIN)),
        ("1700000000000000001", json!(1_700_000_000_000_000_001_u64)),
        ("1.5", json!(1.5)),
        ("1e3", json!(1e3)),
    ] {
        let event = read(&with(&format!(r#""metadata": {{"a": 123456789012345678901, "b": {{"c": {text}}}}}"#)));
        assert_eq!(event.event.metadata["b"], json!({"c": number}), "{text}");
    }
    let digest = |value: &str| read(&with(&format!(r#""id": "1", "metadata": {{"a": {value}}}"#))).digest_input;
    assert_ne!(digest("18446744073709551616"), digest("18446744073709551617"));
    assert_ne!(digest("18446744073709551616"), digest("\"18446744073709551616\""));
}

#[test]
fn rules_hold_beside_a_long_integer() {
    let long = "123456789012345678901";
    refused(
        with(&format!(r#""metadata": {{"a": {long}, "a": 1, "b": "\u0000"}}"#)),
        &["/metadata/a duplicate_key", "/metadata/b nul"],
    );
    let deep = format!("{}{}", "[".repeat(40), "]".repeat(40));
    let place = format!("/metadata/b{} too_deep", "/0".repeat(30));
    refused(with(&format!(r#""metadata": {{"a": {long}, "b": {deep}}}"#)), &[&place]);
    let found =
        faults_of(event(with(&format!(r#""metadata": {{"a": {long}, "b": }}"#)).as_bytes(), &Limits::default()));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].1, code::SYNTAX);
}

#[test]
fn excessive_depth_is_reported_before_size() {
    let limits = Limits::default();
    for body in [
        "[".repeat(200_000),
        format!("{}{}", "[".repeat(200_000), "]".repeat(200_000)),
        format!(
            r#"{{"agent": "a", "output": "x", "metadata": {}1{}}}"#,
            r#"{"a": "#.repeat(200_000),
            "}".repeat(200_000)
        ),
    ] {
        let faults = event(body.as_bytes(), &limits).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert_eq!(faults[0].code, code::TOO_DEEP);
        assert!(faults[0].detail.contains("32 deep") && faults[0].pointer.len() > 30, "{faults:?}");
    }
    refused(with(&format!(r#""task": "{}""#, "x".repeat(300_000))), &[" too_large"]);
    refused(format!(r#"{{"agent": {}"#, "x".repeat(300_000)), &[" too_large"]);
}

#[test]
fn ndjson_fault_names_its_line() {
    let body = "{\"agent\": \"a\", \"output\": \"x\"}\n\n{\"agent\": }\n{\"agent\": \"a\" \"output\": \"x\"}\n";
    let results = batch_ndjson(body.as_bytes(), &Limits::default()).unwrap();
    let told: Vec<&str> = results[1..].iter().map(|one| one.as_ref().unwrap_err()[0].detail.as_str()).collect();
    assert!(told[0].ends_with("at line 3 column 11"), "{told:?}");
    assert!(told[1].contains("at line 4 column "), "{told:?}");
}
