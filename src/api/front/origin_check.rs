//! Guards a server without keys against web pages, by `Host` and `Origin`.
//!
//! A host name that foreign DNS can point here is not trusted. (A page may rebind its own name to 127.0.0.1 and then
//! counts as the same origin, but its requests still carry that name as `Host`.)

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName, Version, header, uri::Authority},
    middleware::Next,
    response::Response,
};

use super::wire_checks::TwoLengths;
use crate::api::problem::Problem;

/// Layer that refuses a request which the guard does not pass, or whose body has two lengths.
pub(super) async fn check(
    State(guard): State<Arc<HostGuard>>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    if request.extensions().get::<TwoLengths>().is_some() {
        let detail = "Content-Length and Transfer-Encoding exclude each other: send only one of the two.";
        return Err(Problem::bad_request(detail));
    }
    let codings: Vec<_> = request.headers().get_all(header::TRANSFER_ENCODING).iter().collect();
    if !matches!(codings.as_slice(), [] | [_]) || codings.iter().any(|value| value.as_bytes().contains(&b',')) {
        // RFC 9112, 6.1: chunked is applied once; two servers that count differently see different requests.
        return Err(Problem::bad_request("Transfer-Encoding may only be `chunked`, and only once."));
    }
    guard.judge(request.version(), request.uri().authority(), request.headers())?;
    Ok(next.run(request).await)
}

/// Hosts and origins that a server answers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostGuard {
    hosts: Vec<String>,
    loopback_only: bool,
}

impl HostGuard {
    /// Returns a guard that passes every host and origin, for servers whose requests need a key: a page does not know
    /// one.
    pub fn keyed() -> Self {
        Self::default()
    }

    /// Returns a guard that passes loopback names and addresses, the configured hosts (`name` or `name:port`), and
    /// pages of the same host.
    pub fn loopback(hosts: impl IntoIterator<Item = String>) -> Self {
        Self { hosts: hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect(), loopback_only: true }
    }

    /// Refuses a request whose headers do not pass. `target` is the authority of an absolute request target, which goes
    /// before `Host` (RFC 9112, 3.2.2).
    pub(super) fn judge(
        &self,
        version: Version,
        target: Option<&Authority>,
        headers: &HeaderMap,
    ) -> Result<(), Problem> {
        let host = only(headers, &header::HOST)?;
        if host.is_none() && version == Version::HTTP_11 {
            return Err(Problem::missing_host("HTTP/1.1 requires the header `Host`."));
        }
        if !self.loopback_only {
            return Ok(());
        }
        let host = target.map(Authority::as_str).or(host);
        let host = host.ok_or_else(|| Problem::missing_host("A server without keys requires the header `Host`."))?;
        if !self.is_ours(host) {
            let help = "Address the server as localhost or 127.0.0.1, or name this host in `server.allowed_hosts`.";
            return Err(Problem::bad_host(help));
        }
        match only(headers, &header::ORIGIN)? {
            Some(origin) if !same_host(origin, host) => Err(Problem::bad_origin(
                "A server without keys answers only its own web pages: create a key, or send the request from outside \
                 a browser.",
            )),
            _ => Ok(()),
        }
    }

    fn is_ours(&self, host: &str) -> bool {
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host().to_ascii_lowercase();
        let bare = name.trim_start_matches('[').trim_end_matches(']');
        let port_is_one = authority.port_u16().is_some() || authority.as_str() == authority.host();
        port_is_one
            && !host.contains('@')
            && (name == "localhost"
                || name.parse::<Ipv4Addr>().is_ok_and(|ip| ip.is_loopback())
                || (bare.len() + 2 == name.len() && bare.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_loopback()))
                || self.hosts.iter().any(|known| *known == name || known.eq_ignore_ascii_case(host)))
    }
}

/// Returns the value of a header that may occur once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Problem> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    let text = first.to_str().ok().filter(|_| values.next().is_none());
    text.map(Some)
        .ok_or_else(|| Problem::bad_host(format!("The header `{name}` may occur only once, in printable ASCII.")))
}

/// True if an origin such as `http://localhost:7817` is this host, port included. `null` is no host.
fn same_host(origin: &str, host: &str) -> bool {
    let Some((scheme, rest)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return false,
    };
    let plain = |name: &str| name.strip_suffix(default).unwrap_or(name).to_ascii_lowercase();
    plain(rest) == plain(host)
}
