//! Tests of requests for reviews on demand and keys: every fault at once, with its pointer.

use super::*;
use umbra_domain::key::Scope;

#[track_caller]
fn faults_in<T: std::fmt::Debug>(read: Result<T, Vec<RequestFault>>, expected: &[&str]) {
    let faults = read.unwrap_err();
    let found: Vec<String> = faults.iter().map(|fault| format!("{} {}", fault.pointer, fault.code)).collect();
    assert_eq!(found, expected, "{faults:?}");
}

#[test]
fn review_request_is_read_or_refused_with_every_fault() {
    let read = |body: &str| {
        review_request(body.as_bytes(), &Limits::default()).map(|read| (read.target, read.trigger, read.output))
    };
    let whole =
        read(r#"{"target": "w", "trigger": "error", "output": "", "shadow": null, "task": "t", "context": "c"}"#);
    assert_eq!(whole.unwrap(), ("w".to_owned(), Trigger::Error, String::new()));
    faults_in(read("{}"), &["/target missing", "/trigger missing", "/output missing"]);
    faults_in(
        read(r#"{"target": " ", "trigger": "all", "output": 5, "task": "\u0000", "shadow": "", "outptu": 1}"#),
        &["/task nul", "/target range", "/trigger format", "/shadow range", "/output type", "/outptu unknown_field"],
    );
    faults_in(read(r#"{"target": "a", "target": "b", "trigger": "error", "output": "x"}"#), &["/target duplicate_key"]);
    faults_in(read("nonsense"), &[" syntax"]);
    let faults = read(r#"{"target": "w", "trigger": "error", "outptu": "x", "zzz": 1}"#).unwrap_err();
    assert!(faults[1].detail.contains(r#"did you mean "output"?"#), "{faults:?}");
    assert!(faults[2].detail.contains("known fields: target, trigger"), "{faults:?}");
}

#[test]
fn key_request_is_read_or_refused_with_every_fault() {
    let read = |body: &str| key_request(body.as_bytes(), &Limits::default());
    let key = read(r#"{"name": "k", "scopes": ["ingest"]}"#).unwrap();
    assert_eq!((key.scopes, key.agents), (vec![Scope::Ingest], vec!["*".to_owned()]));
    faults_in(read("{}"), &["/name missing", "/scopes missing"]);
    faults_in(
        read(r#"{"name": "", "scopes": ["ingest", "write", 5], "agents": ["a", "[", ""], "scope": "read"}"#),
        &[
            "/name range",
            "/scopes/1 format",
            "/scopes/2 type",
            "/agents/1 format",
            "/agents/2 range",
            "/scope unknown_field",
        ],
    );
    faults_in(read(r#"{"name": "k", "scopes": [], "agents": []}"#), &["/scopes range", "/agents range"]);
    faults_in(read(r#"{"name": "k", "scopes": ["read"], "agents": ["a"]}"#), &["/agents format"]);
    faults_in(read("[]"), &[" type"]);
}
