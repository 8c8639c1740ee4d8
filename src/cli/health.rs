//! `umbra health`: asks a running server for its state, for container engines and scripts. It needs no database, no key
//! and no other program.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{CommandFailure, GlobalOptions, answer, answer_json};

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

pub(super) async fn run(global: &GlobalOptions, options: HealthOptions) -> Result<(), CommandFailure> {
    let authority = match options.url {
        Some(authority) => authority,
        None => reachable(global.quiet_setup()?.settings.server.bind).to_string(),
    };
    let path = if options.live { "/livez" } else { "/readyz" };
    let asked = timeout(options.timeout, ask(&authority, path)).await;
    let (status, health) = match asked {
        Ok(answered) => answered.with_context(|| format!("asking http://{authority}{path}"))?,
        Err(_) => {
            return Err(CommandFailure::Error(anyhow::anyhow!(
                "http://{authority}{path} did not answer within {:?}",
                options.timeout
            )));
        }
    };
    let healthy = status == 200;
    let detail = health["detail"].as_str().unwrap_or_default();
    if global.json {
        let url = format!("http://{authority}{path}");
        answer_json(&json!({"url": url, "healthy": healthy, "status": status, "detail": detail}))?;
    } else if healthy {
        answer("ok");
    } else {
        super::complain(&format!("umbra: http://{authority}{path} answers {status}: {}", super::table::plain(detail)));
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

/// Sends one request over one connection; returns the status, and the body if it is JSON.
async fn ask(authority: &str, path: &str) -> anyhow::Result<(u16, Value)> {
    let mut socket = TcpStream::connect(authority).await?;
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: {authority}\r\nuser-agent: umbra-health\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await?;
    let mut bytes = Vec::new();
    socket.take(LONGEST_ANSWER).read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    match status {
        Some(status) => Ok((status, serde_json::from_str(body).unwrap_or_default())),
        None => bail!("the answer is not HTTP"),
    }
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
