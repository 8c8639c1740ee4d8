//! Outbound policy. In: a URL, or the addresses that a name resolved to. Out: yes, or a reason. Pure.
//!
//! URLs come from configuration only. Public addresses and a literal loopback are allowed; everything that
//! leads into a private network must be listed by its host; link-local addresses (where clouds keep their
//! metadata and credentials) and IPv4-mapped ones are never allowed. `connect` applies the same rules to each
//! resolved address when a connection is made, so a name cannot lead elsewhere in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Private hosts that the configuration allows (`outbound.allow`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutboundPolicy {
    allow: Vec<String>,
}

impl OutboundPolicy {
    /// Builds a policy from entries of the form `name`, `ip`, `name:port`, `ip:port` or `[ipv6]:port`, in any case.
    pub fn new(allow: impl IntoIterator<Item = String>) -> Self {
        Self { allow: allow.into_iter().map(|entry| entry.trim().to_ascii_lowercase()).collect() }
    }

    /// True if the host of this URL is listed, with its port or without one.
    pub(super) fn lists(&self, url: &Url) -> bool {
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else { return false };
        let host = host.trim_end_matches('.');
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        self.allow.iter().any(|entry| entry == host || entry == bare || *entry == format!("{host}:{port}"))
    }
}

/// Reason why a URL or an address is refused. Each message says what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlRefused {
    /// The text is no absolute URL.
    #[error("not a URL: write it as https://host/path")]
    Malformed,
    /// The scheme is neither http nor https.
    #[error("scheme `{0}` is not allowed: use https or http")]
    Scheme(String),
    /// The URL carries a user name or password.
    #[error("a URL must not carry a user name or password: put the key into an environment variable")]
    Credentials,
    /// The host is an unusual form of an address: hexadecimal, octal, one number, or with parts left out.
    #[error("the host is an unusual form of {0}: write that address itself")]
    OddHost(IpAddr),
    /// The address lies in a network that is not public.
    #[error("{host} is a private address ({address}): list `{host}` in outbound.allow if this is intended")]
    Private {
        /// Host, as in the URL.
        host: String,
        /// Address of the host.
        address: IpAddr,
    },
    /// The host is the unspecified address (`0.0.0.0` or `::`), which belongs to no host.
    #[error("{0} is only an address to listen on: write 127.0.0.1 if the model runs on this machine")]
    Unspecified(IpAddr),
    /// The address is never allowed.
    #[error("{host} resolves to {address}, a link-local or IPv4-mapped address, which is never allowed")]
    Never {
        /// Host, as in the URL.
        host: String,
        /// Address of the host.
        address: IpAddr,
    },
}

/// Class of the network that an address belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    Public,
    Loopback,
    Private,
    Forbidden,
}

/// Checks that the configuration may name this URL. A name is not resolved here: its addresses are judged when a
/// connection is made.
pub fn check_url(url: &str, policy: &OutboundPolicy) -> Result<(), UrlRefused> {
    parse(url, policy).map(|_| ())
}

/// Parses a URL, if it is allowed.
pub(super) fn parse(text: &str, policy: &OutboundPolicy) -> Result<Url, UrlRefused> {
    let url = Url::parse(text).map_err(|_| UrlRefused::Malformed)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(UrlRefused::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(UrlRefused::Credentials);
    }
    let host = url.host_str().ok_or(UrlRefused::Malformed)?;
    if let Ok(address) = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        // The parser turns `0x7f.1`, `2130706433` and `0177.0.0.1` into an address; it must be written plainly.
        if written_host(text).parse::<IpAddr>() != Ok(address) {
            return Err(UrlRefused::OddHost(address));
        }
        if address.is_unspecified() {
            return Err(UrlRefused::Unspecified(address));
        }
        check_address(host, address, Trust::of_literal(policy.lists(&url)))?;
    }
    Ok(url)
}

/// Trust in a host: the addresses that it may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    /// Public addresses.
    Public,
    /// Loopback addresses and nothing else: the name is `localhost`.
    LoopbackOnly,
    /// Public and loopback addresses: the host is written as an address.
    Loopback,
    /// All addresses except those that are never allowed: the host is listed.
    Listed,
}

impl Trust {
    fn of_literal(listed: bool) -> Self {
        if listed { Self::Listed } else { Self::Loopback }
    }

    /// Returns the trust in the name of a URL.
    pub(super) fn of_name(url: &Url, policy: &OutboundPolicy) -> Self {
        let name = url.host_str().unwrap_or_default().trim_end_matches('.');
        if policy.lists(url) {
            Self::Listed
        } else if name == "localhost" || name.ends_with(".localhost") {
            Self::LoopbackOnly
        } else {
            Self::Public
        }
    }
}

/// Checks that `host`, with this trust, may be reached at `address`.
pub(super) fn check_address(host: &str, address: IpAddr, trust: Trust) -> Result<(), UrlRefused> {
    let allowed = match reach(address) {
        Reach::Forbidden => return Err(UrlRefused::Never { host: host.to_owned(), address }),
        Reach::Public => trust != Trust::LoopbackOnly,
        Reach::Loopback => trust != Trust::Public,
        Reach::Private => trust == Trust::Listed,
    };
    if allowed { Ok(()) } else { Err(UrlRefused::Private { host: host.to_owned(), address }) }
}

/// Returns the class of an address's network, by IANA's registries of special-purpose addresses.
pub(super) fn reach(address: IpAddr) -> Reach {
    match address {
        IpAddr::V4(v4) => reach_v4(v4),
        IpAddr::V6(v6) => reach_v6(v6),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    let [a, b, c, d] = address.octets();
    match (a, b, c) {
        // Link-local, and the agent of a large cloud.
        (169, 254, _) => Reach::Forbidden,
        (168, 63, 129) if d == 16 => Reach::Forbidden,
        (127, ..) => Reach::Loopback,
        // This network, private use, shared (carrier-grade NAT), protocol assignments, benchmarking,
        // documentation, multicast and reserved.
        (0 | 10 | 224.., ..)
        | (172, 16..=31, _)
        | (192, 168, _)
        | (100, 64..=127, _)
        | (192, 0, 0 | 2)
        | (198, 18 | 19, _)
        | (198, 51, 100)
        | (203, 0, 113) => Reach::Private,
        _ => Reach::Public,
    }
}

/// Networks of IPv6 that are not public, as (first address, bits of the prefix, class).
const NETWORKS_V6: [(&str, u32, Reach); 10] = [
    ("::1", 128, Reach::Loopback),
    // IPv4-mapped, link-local, and a large cloud's metadata service within the unique local ones.
    ("::ffff:0:0", 96, Reach::Forbidden),
    ("fe80::", 10, Reach::Forbidden),
    ("fd00:ec2::254", 128, Reach::Forbidden),
    // Unique local, site-local, multicast, discard-only, Teredo and other protocols, documentation.
    ("fc00::", 7, Reach::Private),
    ("fec0::", 10, Reach::Private),
    ("ff00::", 8, Reach::Private),
    ("100::", 64, Reach::Private),
    ("2001::", 23, Reach::Private),
    ("2001:db8::", 32, Reach::Private),
];

/// Networks of IPv6 whose addresses embed an IPv4 address, as (first address, bits of the prefix, bits behind the IPv4
/// address): IPv4-compatible (the unspecified address among them), IPv4-translated, NAT64 (two of them), 6to4.
const EMBEDDED_V4_NETWORKS: [(&str, u32, u32); 5] =
    [("::", 96, 0), ("::ffff:0:0:0", 96, 0), ("64:ff9b::", 96, 0), ("64:ff9b:1::", 48, 0), ("2002::", 16, 80)];

fn reach_v6(address: Ipv6Addr) -> Reach {
    let bits = address.to_bits();
    let within = |first: &str, prefix: u32| {
        first.parse::<Ipv6Addr>().is_ok_and(|first| (first.to_bits() ^ bits).leading_zeros() >= prefix)
    };
    if let Some((_, _, reach)) = NETWORKS_V6.iter().find(|(first, prefix, _)| within(first, *prefix)) {
        return *reach;
    }
    let Some((_, _, after)) = EMBEDDED_V4_NETWORKS.iter().find(|(first, prefix, _)| within(first, *prefix)) else {
        return Reach::Public;
    };
    // An embedded address must be listed at best, and is never allowed where IPv4 itself is not.
    #[expect(clippy::cast_possible_truncation, reason = "the lowest 32 bits are wanted")]
    let inner = Ipv4Addr::from_bits((bits >> after) as u32);
    if reach_v4(inner) == Reach::Forbidden { Reach::Forbidden } else { Reach::Private }
}

/// Returns the host as written, without brackets and port; the parser's own result is already normalised.
fn written_host(text: &str) -> &str {
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let authority = rest.split(['/', '\\', '?', '#']).next().unwrap_or_default();
    match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}
