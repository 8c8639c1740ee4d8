//! Tests of host and origin, request ids and traces that need no socket.

use axum::http::{HeaderMap, HeaderValue, Version, header};
use jiff::Timestamp;

use super::{HostGuard, RequestId};
use crate::telemetry::traces::TraceParent;
use umbra_domain::clock::Clock;

fn judged(guard: &HostGuard, version: Version, host: Option<&str>, origin: Option<&str>) -> &'static str {
    let mut headers = HeaderMap::new();
    for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
        if let Some(value) = value {
            headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
    }
    guard.judge(version, None, &headers).map_or_else(|problem| problem.code(), |()| "passes")
}

#[test]
fn keyless_server_accepts_loopback_hosts_and_own_origins() {
    let guard = HostGuard::loopback(["Umbra.Internal".to_owned(), "proxy:8080".to_owned()]);
    let check = |host, origin, expected| {
        assert_eq!(judged(&guard, Version::HTTP_11, host, origin), expected, "host {host:?}, origin {origin:?}");
    };
    for ours in ["localhost", "LOCALHOST:7817", "127.0.0.1:1", "127.9.9.9", "[::1]:7817", "[::1]"] {
        check(Some(ours), None, "passes");
    }
    for ours in ["umbra.internal", "UMBRA.internal:9", "proxy:8080"] {
        check(Some(ours), None, "passes");
    }
    for foreign in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil@localhost",
        "localhost@evil.example",
        "10.0.0.1",
        "0.0.0.0",
        "[::2]",
        "[::ffff:127.0.0.1]",
        "proxy:8081",
        "::1",
        "2130706433",
        "",
        "localhost:port",
    ] {
        check(Some(foreign), None, "bad_host");
    }
    check(None, None, "missing_host");
    check(Some("localhost:7817"), Some("http://localhost:7817"), "passes");
    check(Some("localhost"), Some("http://LOCALHOST:80"), "passes");
    for foreign in
        ["null", "http://localhost:3000", "http://evil.example", "https://localhost:7817", "http://127.0.0.1:7817"]
    {
        // Behind a proxy that ends TLS the scheme is unknown: the host with its port decides.
        let expected = if foreign.starts_with("https") { "passes" } else { "bad_origin" };
        check(Some("localhost:7817"), Some(foreign), expected);
    }
}

#[test]
fn absolute_target_overrides_the_host_header() {
    let guard = HostGuard::loopback([]);
    let mut headers = HeaderMap::new();
    headers.insert(header::HOST, HeaderValue::from_static("localhost"));
    let target = "evil.example".parse().unwrap();
    let refused = guard.judge(Version::HTTP_11, Some(&target), &headers).unwrap_err();
    assert_eq!(refused.code(), "bad_host");
}

#[test]
fn duplicate_host_header_is_refused() {
    let mut headers = HeaderMap::new();
    headers.append(header::HOST, HeaderValue::from_static("localhost"));
    headers.append(header::HOST, HeaderValue::from_static("evil.example"));
    for guard in [HostGuard::loopback([]), HostGuard::keyed()] {
        assert_eq!(guard.judge(Version::HTTP_11, None, &headers).unwrap_err().code(), "bad_host");
    }
}

#[test]
fn keyed_server_needs_a_host_in_http_1_1_only() {
    let guard = HostGuard::keyed();
    assert_eq!(judged(&guard, Version::HTTP_11, None, None), "missing_host");
    assert_eq!(judged(&guard, Version::HTTP_10, None, None), "passes");
    assert_eq!(judged(&guard, Version::HTTP_11, Some("any.example"), Some("https://other.example")), "passes");
}

#[test]
fn traceparent_is_adopted_only_if_well_formed() {
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = TraceParent::parse(&format!("00-{trace}-b7ad6b7169203331-01")).unwrap();
    assert_eq!(parent.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
    assert_eq!(parent.parent_id, 0xb7ad_6b71_6920_3331);
    assert!(parent.sampled);
    assert!(TraceParent::parse(&format!("cc-{trace}-b7ad6b7169203331-00-more")).is_some());
    for broken in [
        String::new(),
        format!("00-{trace}-b7ad6b7169203331"),
        format!("00-{trace}-b7ad6b7169203331-01-more"),
        format!("ff-{trace}-b7ad6b7169203331-01"),
        format!("00-{}-b7ad6b7169203331-01", trace.to_uppercase()),
        format!("00-{}-b7ad6b7169203331-01", "0".repeat(32)),
        format!("00-{trace}-{}-01", "0".repeat(16)),
        format!("00-{}-b7ad6b7169203331-01", "+".to_owned() + &trace[1..]),
    ] {
        assert_eq!(TraceParent::parse(&broken), None, "{broken}");
    }
}

#[test]
fn request_id_is_kept_only_if_short_and_plain() {
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let of = |given: &[u8]| {
        let mut headers = HeaderMap::new();
        headers.insert("x-request-id", HeaderValue::from_bytes(given).unwrap());
        RequestId::of(&headers, &clock).to_string()
    };
    let longest = "a".repeat(64);
    for honoured in ["a", "Ab-9._", &longest] {
        assert_eq!(of(honoured.as_bytes()), honoured);
    }
    for replaced in ["", "a b", "a\tb", "<script>", "a/b", &"a".repeat(65), "\u{e9}"] {
        let made = of(replaced.as_bytes());
        assert!(made.len() == 32 && made.bytes().all(|byte| byte.is_ascii_hexdigit()), "{replaced:?} gave {made:?}");
    }
}
