//! `umbra health`: asks a running server for its state, for container engines and scripts. It needs no database, no key
//! and no other program.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::anyhow;
use clap::Args;
use serde_json::{Value, json};
use ureq::Agent;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, table::plain};

/// Most bytes of an answer; ours are below two hundred.
const LONGEST_ANSWER: u64 = 64 * 1024;

#[derive(Debug, Args)]
pub(super) struct HealthOptions {
    /// Address of the server; by default the one that the settings name (`server.bind`).
    #[arg(long, value_name = "http://HOST:PORT", value_parser = authority)]
    url: Option<String>,
    /// Ask whether it makes progress (/livez) instead of whether it takes work (/readyz).
    #[arg(long)]
    live: bool,
    /// Longest wait for the answer.
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = patience)]
    timeout: Duration,
}

pub(super) fn run(global: &GlobalOptions, options: HealthOptions) -> Result<(), CommandFailure> {
    let authority = match options.url {
        Some(authority) => authority,
        None => reachable(global.quiet_setup()?.settings.server.bind).to_string(),
    };
    let url = format!("http://{authority}{}", if options.live { "/livez" } else { "/readyz" });
    let (status, health) = ask(&url, options.timeout)?;
    let healthy = status == 200;
    let detail = health["detail"].as_str().unwrap_or_default();
    if global.json {
        answer_json(&json!({"url": url, "healthy": healthy, "status": status, "detail": detail}))?;
    } else if healthy {
        answer("ok");
    } else {
        complain(&format!("umbra: {url} answers {status}: {}", plain(detail)));
    }
    if healthy { Ok(()) } else { Err(CommandFailure::AlreadyReported) }
}

/// Converts an address to listen on into one to connect to: all interfaces include loopback.
pub(super) fn reachable(bind: SocketAddr) -> SocketAddr {
    let ip = match bind.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, bind.port())
}

fn authority(url: &str) -> Result<String, String> {
    let rest = url
        .strip_prefix("http://")
        .ok_or("write http://HOST:PORT; for a server behind a TLS proxy, give the server's own address")?;
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let named = !authority.is_empty() && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_:[]".contains(&b));
    if !named {
        return Err("write http://HOST:PORT, without a path".to_owned());
    }
    let has_port = authority.rsplit(']').next().is_some_and(|tail| tail.contains(':'));
    Ok(if has_port { authority.to_owned() } else { format!("{authority}:80") })
}

fn patience(text: &str) -> Result<Duration, String> {
    umbra_config::quantity::parse_duration(text).ok_or_else(|| "write a duration such as 500ms or 5s".to_owned())
}

/// Sends one request; returns the status, and the body if it is JSON.
fn ask(url: &str, patience: Duration) -> anyhow::Result<(u16, Value)> {
    let agent: Agent = Agent::config_builder()
        .timeout_global(Some(patience))
        .http_status_as_error(false)
        .max_redirects(0)
        .proxy(None)
        .build()
        .into();
    let mut answered = agent.get(url).call().map_err(|error| match error {
        ureq::Error::Timeout(_) => anyhow!("{url} did not answer within {patience:?}"),
        error => anyhow!("asking {url}: {error}"),
    })?;
    let body = answered.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec().unwrap_or_default();
    Ok((answered.status().as_u16(), serde_json::from_slice(&body).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::{authority, reachable};

    #[test]
    fn wildcard_bind_address_becomes_loopback() {
        for (bind, asked) in [("0.0.0.0:7817", "127.0.0.1:7817"), ("[::]:80", "[::1]:80"), ("10.1.2.3:9", "10.1.2.3:9")]
        {
            assert_eq!(bind.parse().map(reachable).map(|address| address.to_string()), Ok(asked.to_owned()));
        }
    }

    #[test]
    fn health_url_is_a_host_with_an_optional_port() {
        for (url, expected) in [
            ("http://umbra:7817", Some("umbra:7817")),
            ("http://localhost/", Some("localhost:80")),
            ("http://[::1]:7817", Some("[::1]:7817")),
            ("http://[::1]", Some("[::1]:80")),
            ("https://umbra", None),
            ("umbra:7817", None),
            ("http://umbra/readyz", None),
            ("http://a b\r\nx: y", None),
            ("http://", None),
        ] {
            assert_eq!(authority(url).ok().as_deref(), expected, "{url}");
        }
    }
}
