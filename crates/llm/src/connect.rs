//! Builds HTTP clients that keep the outbound policy. No other module builds one.
//!
//! In: a URL from the configuration. Out: a client for that host. Names are resolved here, and each resolved
//! address is judged at the moment of connecting. Redirects are never followed, proxies of the environment
//! never used, nothing is retried.

use std::{collections::BTreeMap, error::Error, future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use reqwest::{
    Client, Url,
    dns::{Addrs, Name, Resolve, Resolving},
    header::{HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use secrecy::{ExposeSecret as _, SecretString};

use super::outbound::{OutboundPolicy, Trust, UrlRefused, check_address, parse};

/// Longest time to make a connection; a call's own deadline may end it sooner.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which an idle connection is dropped, before the usual servers drop it.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason why no client can be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The URL is not allowed.
    #[error(transparent)]
    Url(#[from] UrlRefused),
    /// The TLS library did not start, mostly because root certificates are missing.
    #[error("HTTPS is not available: install the system's CA certificates")]
    Tls(#[source] reqwest::Error),
}

/// Builds a client for the host of `url`, and returns it with the parsed URL. Callers use it for no other host; other
/// names can lead to public addresses only.
pub fn client(url: &str, policy: &OutboundPolicy) -> Result<(Client, Url), ClientError> {
    client_resolving(url, policy, Arc::new(look_up))
}

/// Returns headers with secret values. A name or a value that no header can have is left out: the settings refuse it.
pub fn secret_headers(headers: &BTreeMap<String, SecretString>) -> HeaderMap {
    let header = |(name, value): (&String, &SecretString)| {
        let mut value = HeaderValue::from_str(value.expose_secret()).ok()?;
        value.set_sensitive(true);
        Some((HeaderName::try_from(name).ok()?, value))
    };
    headers.iter().filter_map(header).collect()
}

pub(super) type LookUpResult = Result<Vec<SocketAddr>, Box<dyn Error + Send + Sync>>;
pub(super) type LookUp = dyn Fn(String) -> Pin<Box<dyn Future<Output = LookUpResult> + Send>> + Send + Sync;

/// Like [`client`], with the resolver given.
pub(super) fn client_resolving(
    url: &str,
    policy: &OutboundPolicy,
    look_up: Arc<LookUp>,
) -> Result<(Client, Url), ClientError> {
    let url = parse(url, policy)?;
    // A provider may be installed already: any will do.
    let _already_installed = rustls::crypto::ring::default_provider().install_default();
    let resolver = PolicyResolver {
        host: url.host_str().unwrap_or_default().to_owned(),
        trust: Trust::of_name(&url, policy),
        look_up,
    };
    let mut builder = Client::builder();
    if url.scheme() == "http" {
        // Without redirects the client never meets TLS, so a machine without root certificates can ask a local model.
        builder = builder.tls_certs_only([]);
    }
    let client = builder
        .user_agent(concat!("umbra/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(IDLE_TIMEOUT)
        .dns_resolver(resolver)
        .build()
        .map_err(ClientError::Tls)?;
    Ok((client, url))
}

/// Resolver for one host that lets only allowed addresses through.
struct PolicyResolver {
    host: String,
    trust: Trust,
    look_up: Arc<LookUp>,
}

impl Resolve for PolicyResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (host, trust) = (self.host.clone(), self.trust);
        let found = (self.look_up)(name.as_str().to_owned());
        Box::pin(async move {
            let trust = if name.as_str().eq_ignore_ascii_case(&host) { trust } else { Trust::Public };
            let allowed = filter(name.as_str(), found.await?, trust)?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

/// Returns the allowed addresses of a name, or the first refusal if none is allowed.
fn filter(name: &str, found: Vec<SocketAddr>, trust: Trust) -> Result<Vec<SocketAddr>, UrlRefused> {
    let mut refused = None;
    let mut allowed = Vec::new();
    for address in found {
        match check_address(name, address.ip(), trust) {
            Ok(()) => allowed.push(address),
            Err(reason) => refused = refused.or(Some(reason)),
        }
    }
    match refused {
        Some(reason) if allowed.is_empty() => Err(reason),
        _ => Ok(allowed),
    }
}

fn look_up(name: String) -> Pin<Box<dyn Future<Output = LookUpResult> + Send>> {
    // Port 0 is replaced by the URL's.
    Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
}

/// Describes a transport error in words. The error's own text may hold the URL, so only its kind is told.
pub fn transport_fault(error: &reqwest::Error) -> String {
    if let Some(refused) = refusal(error) {
        return refused.to_string();
    }
    let what = match (error.is_connect(), error.is_timeout()) {
        (true, true) => "the connection timed out",
        (true, false) => "no connection",
        (false, true) => "no answer in time",
        (false, false) => "the connection broke before the whole answer was read",
    };
    what.to_owned()
}

/// Returns the policy's refusal inside a transport error, if there is one.
pub(super) fn refusal(error: &reqwest::Error) -> Option<&UrlRefused> {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(refused) = inner.downcast_ref::<UrlRefused>() {
            return Some(refused);
        }
        source = inner.source();
    }
    None
}
