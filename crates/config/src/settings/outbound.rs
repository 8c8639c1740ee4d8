//! `outbound`: private hosts that the service may call.

use std::net::IpAddr;

use super::{
    super::{shape::List, text::text},
    section::section,
};

section! {
    /// Calls to other hosts: model providers, webhooks, and the receiver of telemetry.
    Outbound {
        /// Hosts that may be called although their address is private. Loopback is always allowed where a URL names it
        /// literally; link-local addresses never are.
        allow: Vec<String> = Vec::new(), List { len: 0..=64, single: true, item: text("a host", 253, allowed_host) };
    }
}

/// Checks a host name or IP address, without scheme, port and path, and returns it in lower case.
pub(super) fn host_name(text: &str) -> Result<String, String> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let name = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
        && !text.starts_with(['-', '.'])
        && !text.contains("..");
    if name || bare.parse::<IpAddr>().is_ok() {
        Ok(bare.to_ascii_lowercase())
    } else {
        Err("write a host name or an IP address, without http://, port and path: ollama.internal, 10.0.0.7".to_owned())
    }
}

fn allowed_host(text: &str) -> Result<String, String> {
    let host = host_name(text)?;
    let never = match host.parse() {
        Ok(IpAddr::V4(address)) => address.is_link_local() || address.is_unspecified(),
        Ok(IpAddr::V6(address)) => {
            address.is_unicast_link_local() || address.to_ipv4_mapped().is_some() || address.is_unspecified()
        }
        Err(_) => false,
    };
    if never { Err("link-local, IPv4-mapped and unspecified addresses are never called".to_owned()) } else { Ok(host) }
}
