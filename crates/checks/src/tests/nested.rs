//! Tests of credentials in nested quotations, such as JSON within JSON: at any depth they are redacted, and nothing
//! else.

use serde_json::{Value, json};

use crate::redact_json;

fn redact(text: &str) -> String {
    crate::redact(text).as_str().to_owned()
}

/// Returns a text as a string of JSON, in a member that is a string of JSON, and so on.
fn quoted(text: &str, depth: usize) -> String {
    (0..depth).fold(text.to_owned(), |inner, _| json!({"body": inner}).to_string())
}

#[test]
fn credential_alone_is_redacted_at_any_quotation_depth() {
    let token = ["gh", "p_q8Rk29fLmqT83hdZkWp0v7Yc5Jb1Xs4Na6Te"].concat();
    for (before, secret, after) in [
        (r#"{"password":""#, "q8Rk29fLmq", r#"","user":"app"}"#),
        (r#"{"db_password": ""#, "Rk82hd!Qs$7", r#""}"#),
        (r#"{"pw": ""#, "Rk82hd!Qs", r#""}"#),
        ("line one\ntoken=", "q8Rk29fLmqT83hdZ", "\nline two"),
        ("GET / HTTP/1.1\nAuthorization: Bearer ", "q8Rk29fLmqT83hdZkWp0", "\nHost: a"),
        ("postgres://app:", "q8Rk29fLm", "@db.acme.io/x"),
        ("\tsaid ", &token, "\tand went on"),
        ("export API_KEY='", "q8Rk29fLmqT83hdZkWp0", "'\n"),
    ] {
        let plain = format!("{before}{secret}{after}");
        let clean = redact(&plain);
        assert!(!clean.contains(secret), "{plain}");
        for depth in 1..=8 {
            let redacted = redact(&quoted(&plain, depth));
            assert_eq!(redacted, quoted(&clean, depth), "{plain} at depth {depth}");
            assert_eq!(redact(&redacted), redacted, "twice");
        }
    }
}

#[test]
fn password_with_quotes_is_redacted_whole_at_any_depth() {
    for depth in 0..=5 {
        let text = quoted(r#"{"password":"q8Rk\"29fL\"mqT8","user":"app"}"#, depth);
        let redacted = redact(&text);
        for part in ["q8Rk", "29fL", "mqT8"] {
            assert!(!redacted.contains(part), "{redacted}");
        }
        assert!(redacted.contains("app"), "{redacted}");
    }
}

#[test]
fn credential_in_escaped_quotes_is_redacted() {
    for text in [
        r"{\u0022password\u0022:\u0022q8Rk29fLmq\u0022}",
        r"{\\u0022secret\\u0022: \\u0022q8Rk29fLmq83hdZ\\u0022}",
        "{&quot;password&quot;:&quot;q8Rk29fLmq&quot;}",
        "state=%7B%22password%22%3A%22q8Rk29fLmq%22%7D",
    ] {
        let redacted = redact(text);
        assert!(!redacted.contains("q8Rk29fLmq") && redacted.contains("[secret:"), "{redacted}");
    }
}

#[test]
fn escaped_text_without_credentials_is_kept() {
    for text in [
        r#"{"path":"C:\\\\new\\\\token\\\\text","re":"\\\\d+\\\\n"}"#,
        r#"{"a":"{\"password\":\"{\\\"type\\\":\\\"string\\\"}\"}"}"#,
        r#"{"a":"{\"token\":\"${{ secrets.DEPLOY }}\",\"next\":\"\\n\\n\"}"}"#,
    ] {
        assert_eq!(redact(text), text);
    }
}

#[test]
fn credential_after_a_million_backslashes_is_redacted() {
    let slashes = "\\".repeat(1 << 20);
    let text = format!("{slashes}\"password\":\"q8Rk29fLmq\"");
    assert!(!redact(&text).contains("q8Rk29fLmq"));
}

#[test]
fn values_under_credentials_are_redacted_but_not_user_and_port() {
    let mut value = json!({
        "credentials": {"username": "app", "a": "correct horse", "deep": {"b": ["x1"]}, "port": 5432},
        "secrets": {"stripe": "short"}, "pw": "hunter2", "contraseña": "hola", "usage": {"tokens": {"prompt": 12}},
    });
    redact_json(&mut value);
    let is_gone =
        |pointer: &str| value.pointer(pointer).and_then(Value::as_str).is_some_and(|v| v.starts_with("[secret:"));
    for gone in ["/credentials/a", "/credentials/deep/b/0", "/secrets/stripe", "/pw", "/contraseña"] {
        assert!(is_gone(gone), "{gone} in {value}");
    }
    assert_eq!(value.pointer("/credentials/username"), Some(&json!("app")));
    assert_eq!(value.pointer("/credentials/port"), Some(&json!(5432)));
    assert_eq!(value.pointer("/usage/tokens/prompt"), Some(&json!(12)));
}
