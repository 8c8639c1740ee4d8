//! Common interface of the wire protocols: building a request, and reading the answer.
//!
//! In: a request. Out: the URL, headers and body of one POST; and from the answer's JSON, its text. One file
//! implements each protocol. A protocol neither connects nor judges an HTTP status.

use reqwest::{
    Url,
    header::{HeaderMap, HeaderValue, InvalidHeaderValue},
};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use umbra_domain::Provider;

use super::{Finish, Request, Usage, anthropic::Anthropic, gemini::Gemini, openai::Openai};

/// One wire protocol. The base URL is already parsed and allowed.
pub(super) trait Protocol: Send + Sync {
    /// Returns the provider's public address.
    fn default_base(&self) -> &'static str;

    /// Returns the URL for requests to a model.
    fn url(&self, base: &Url, model: &str) -> Url;

    /// Returns the headers that carry the key and the protocol's version.
    fn headers(&self, base: &Url, key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue>;

    /// Returns the request as JSON; `schema` is already narrowed.
    fn body(&self, base: &Url, model: &str, request: &Request, schema: Value, max_output_tokens: u32) -> Value;

    /// Reads the answer of a 2xx status; `None` if it is not of this protocol.
    fn read<'a>(&self, answer: &'a Value) -> Option<ProtocolAnswer<'a>>;
}

/// Parts of an answer, read by its protocol.
pub(super) struct ProtocolAnswer<'a> {
    pub text: String,
    pub usage: Option<Usage>,
    pub finish: Finish,
    pub model: Option<&'a str>,
}

/// Returns the protocol of a provider; `None` for the built-in checks.
pub(super) fn of(provider: Provider) -> Option<&'static dyn Protocol> {
    match provider {
        Provider::Anthropic => Some(&Anthropic),
        Provider::Openai => Some(&Openai),
        Provider::Gemini => Some(&Gemini),
        Provider::Checks => None,
    }
}

/// Appends path segments to `base`, with or without a slash at its end; its query stays.
pub(super) fn join(base: &Url, segments: &[&str]) -> Url {
    let mut url = base.clone();
    // Fails only for URLs without a host, which the outbound policy refuses.
    if let Ok(mut path) = url.path_segments_mut() {
        path.pop_if_empty().extend(segments);
    }
    url
}

/// Returns the sum of these counts, of which a missing one counts nothing; `None` if one is no whole number.
pub(super) fn sum_of(counts: &Value, names: &[&str]) -> Option<u64> {
    let mut given = names.iter().filter_map(|name| counts.get(*name));
    given.try_fold(0_u64, |sum, count| Some(sum.saturating_add(count.as_u64()?)))
}

/// Builds a header value that no log shows.
pub(super) fn sensitive(prefix: &str, key: &SecretString) -> Result<HeaderValue, InvalidHeaderValue> {
    let mut value = HeaderValue::from_str(&format!("{prefix}{}", key.expose_secret()))?;
    value.set_sensitive(true);
    Ok(value)
}
