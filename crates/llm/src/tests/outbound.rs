//! Tests of allowed URLs and addresses, and of connections that keep to the policy.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{
    OutboundPolicy, UrlRefused, check_url, connect,
    outbound::{Reach, reach},
};

fn policy(allow: &[&str]) -> OutboundPolicy {
    OutboundPolicy::new(allow.iter().map(|entry| (*entry).to_owned()))
}

fn check(url: &str, allow: &[&str], expected: &str) {
    let verdict = match check_url(url, &policy(allow)) {
        Ok(()) => "ok",
        Err(UrlRefused::Malformed) => "malformed",
        Err(UrlRefused::Scheme(_)) => "scheme",
        Err(UrlRefused::Credentials) => "credentials",
        Err(UrlRefused::OddHost(_)) => "odd",
        Err(UrlRefused::Private { .. }) => "private",
        Err(UrlRefused::Never { .. }) => "never",
        Err(UrlRefused::Unspecified(_)) => "unspecified",
    };
    assert_eq!(verdict, expected, "{url} with {allow:?}");
}

#[test]
fn public_and_loopback_urls_are_allowed_and_malformed_refused() {
    for url in [
        "https://api.anthropic.com",
        "http://example.com:8080/v1/",
        "https://8.8.8.8/",
        "https://[2606:4700::1]/",
        "http://127.0.0.1:11434/v1",
        "http://127.8.9.1/",
        "http://[::1]:8080/",
        "http://localhost:1234/v1",
    ] {
        check(url, &[], "ok");
    }
    for url in ["ftp://example.com/", "file:///etc/passwd", "unix:/run/x.sock", "gopher://x/"] {
        check(url, &[], "scheme");
    }
    for url in ["", "example.com", "/v1", "https://", "http://[::1", "http://256.1.1.1/"] {
        check(url, &[], "malformed");
    }
    check("https://user@example.com/", &[], "credentials");
    check("https://:secret@example.com/", &[], "credentials");
}

#[test]
fn unspecified_address_is_refused() {
    check("http://0.0.0.0:9000/v1", &["0.0.0.0"], "unspecified");
    check("http://[::]:9000/v1", &[], "unspecified");
}

#[test]
fn private_addresses_must_be_listed() {
    let private = "10.0.0.5 172.16.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.0.1 0.1.2.3 224.0.0.1 \
        255.255.255.255 240.0.0.1 198.18.0.1 192.0.0.8 192.0.2.1 198.51.100.7 203.0.113.7 [fd12::1] [ff02::1] [fec0::1] [::7f00:1] \
        [64:ff9b::7f00:1] [64:ff9b:1::1] [2002:7f00:1::] [2001:0:1::1]";
    for host in private.split_whitespace() {
        let url = format!("http://{host}:9000/v1");
        check(&url, &[], "private");
        check(&url, &["10.9.9.9", "other.example"], "private");
        check(&url, &[host], "ok");
        check(&url, &[&format!("{host}:9000")], "ok");
        check(&url, &[&format!("{host}:9001")], "private");
    }
    check("http://[fd12::1]/", &["fd12::1"], "ok");
    check("http://10.0.0.5/", &["10.0.0.5:80"], "ok");
}

#[test]
fn metadata_addresses_and_odd_spellings_are_never_allowed() {
    let never = "169.254.169.254 169.254.0.1 168.63.129.16 [fe80::1] [febf::1] [::ffff:127.0.0.1] [::ffff:8.8.8.8] \
        [64:ff9b::a9fe:a9fe] [2002:a9fe:a9fe::1] [::a9fe:a9fe] [fd00:ec2::254]";
    for host in never.split_whitespace() {
        let url = format!("http://{host}/latest");
        check(&url, &[], "never");
        check(&url, &[host, host.trim_matches(['[', ']'])], "never");
    }
    let odd = "2130706433 0x7f000001 0x7f.1 0177.0.0.1 127.1 127.0.0.1. %31%32%37.0.0.1 ①27.0.0.1 3232235777";
    for host in odd.split_whitespace() {
        check(&format!("http://{host}/"), &[], "odd");
        check(&format!("http://{host}:80/"), &[host, "127.0.0.1", "192.168.1.1"], "odd");
    }
    check("http://127.0.0.\t1/", &[], "odd");
    check("http:\\\\169.254.169.254\\x", &[], "odd");
}

#[test]
fn addresses_at_network_edges_have_the_right_reach() {
    let check = |address: &str, expected: Reach| {
        assert_eq!(reach(address.parse::<IpAddr>().expect("an address")), expected, "{address}");
    };
    for public in [
        "9.255.255.255",
        "11.0.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "192.167.1.1",
        "223.255.255.255",
        "198.17.1.1",
        "198.20.0.1",
        "2001:200::1",
        "2606:4700::1",
        "2003::1",
        "65:ff9b::1",
    ] {
        check(public, Reach::Public);
    }
    check("127.255.255.255", Reach::Loopback);
    check("::1", Reach::Loopback);
    check("::2", Reach::Private);
    check("fe7f::1", Reach::Public);
    check("fdff::1", Reach::Private);
}

/// Sends a request by a client whose resolver returns `address` for every name.
async fn ask(url: &str, allow: &[&str], address: &'static str) -> Result<(), Option<UrlRefused>> {
    let look_up = move |_| -> std::pin::Pin<Box<dyn Future<Output = connect::LookUpResult> + Send>> {
        Box::pin(async move { Ok(vec![format!("{address}:0").parse().expect("an address")]) })
    };
    let (client, url) = connect::client_resolving(url, &policy(allow), Arc::new(look_up)).expect("allowed by its name");
    match client.get(url).timeout(Duration::from_secs(5)).send().await {
        Ok(_) => Ok(()),
        Err(error) => Err(connect::refusal(&error).cloned()),
    }
}

#[tokio::test]
async fn host_name_is_judged_by_its_resolved_address_on_connect() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let connected = async || tokio::time::timeout(Duration::from_millis(50), listener.accept()).await.is_ok();

    let url = format!("http://rebinding.example:{port}/");
    assert!(matches!(ask(&url, &[], "127.0.0.1").await, Err(Some(UrlRefused::Private { .. }))));
    assert!(matches!(ask(&url, &[], "10.0.0.1").await, Err(Some(UrlRefused::Private { .. }))));
    assert!(matches!(ask(&url, &["rebinding.example"], "169.254.169.254").await, Err(Some(UrlRefused::Never { .. }))));
    let other_port = ["rebinding.example:1"];
    assert!(matches!(ask(&url, &other_port, "127.0.0.1").await, Err(Some(UrlRefused::Private { .. }))));
    let local = format!("http://localhost:{port}/");
    assert!(matches!(ask(&local, &[], "10.0.0.1").await, Err(Some(UrlRefused::Private { .. }))));
    assert!(matches!(ask(&local, &[], "8.8.8.8").await, Err(Some(UrlRefused::Private { .. }))));
    assert!(!connected().await, "no packet was sent");

    // The control: where it is allowed, the same client does connect.
    for (url, allow) in [(&local, &[][..]), (&url, &["rebinding.example"][..])] {
        let (_, came) = tokio::join!(
            tokio::time::timeout(Duration::from_millis(200), ask(url, allow, "127.0.0.1")),
            tokio::time::timeout(Duration::from_secs(5), listener.accept()),
        );
        came.expect("in time").expect("a connection");
    }
}
