//! `telemetry`: what the service tells others of its work. YAML in, [`Telemetry`] out.

use std::{collections::BTreeMap, net::SocketAddr};

use secrecy::{ExposeSecret, SecretString};

use super::{
    super::{
        Environment,
        keys::{Keys, Record, Shape},
        shape::{Flag, MappingShape},
        text::text,
    },
    mcp::{header, looked_up},
    models::{Callable, variable_name},
    webhooks::hook_url,
};

/// Telemetry that the service sends.
#[derive(Debug, Clone, Default)]
pub struct Telemetry {
    /// Receiver of OpenTelemetry; none unless set.
    pub otlp: Option<Otlp>,
}

/// Receiver of OpenTelemetry over HTTP.
#[derive(Debug, Clone)]
pub struct Otlp {
    /// URL without `/v1/logs`. Kept like a secret: some URLs contain one.
    pub endpoint: SecretString,
    /// Headers of each request, with their values.
    pub headers: BTreeMap<String, SecretString>,
    /// True if the service sends spans of requests and reviews.
    pub traces: bool,
}

/// Returns the shape of the section.
pub(super) fn section<'a>(env: &'a Environment, callable: Callable<'a>) -> impl Shape<Value = Telemetry> + 'a {
    Record(move |keys: &mut Keys<'_>| {
        let otlp = Record(move |keys: &mut Keys<'_>| otlp(keys, env, callable));
        let otlp = keys.optional(
            "otlp",
            "Receiver of OpenTelemetry, to which each review and finding is sent as gen_ai.evaluation.result.",
            otlp,
        );
        Some(Telemetry { otlp })
    })
}

fn otlp(keys: &mut Keys<'_>, env: &Environment, callable: Callable<'_>) -> Option<Otlp> {
    let endpoint = keys.required(
        "endpoint",
        "URL of the receiver without /v1/logs, such as http://127.0.0.1:4318. OTEL_EXPORTER_OTLP_ENDPOINT is not read: it \
         leads agents to Umbra.",
        text("the URL of a receiver", 2_048, hook_url).secret(),
    );
    let path = |url: &SecretString| {
        let url = url.expose_secret();
        url.contains('?')
            || url.trim_end_matches('/').ends_with("/v1/logs")
            || url.trim_end_matches('/').ends_with("/v1/traces")
    };
    if endpoint.as_ref().is_some_and(path) {
        keys.fault("endpoint", "the URL is not the base of a receiver", "leave /v1/logs and ?.. out");
    }
    if let Some(Err(why)) = endpoint.as_ref().map(|url| callable(url.expose_secret())) {
        keys.fault("endpoint", "this address may not be called", why);
    }
    let headers = keys.optional(
        "headers_env",
        "Headers of each request, with the name of the variable that holds the value.",
        MappingShape { max: 32, key: header, value: text("the name of a variable", 128, variable_name).secret() },
    );
    let traces = keys.optional(
        "traces",
        "True to send a span of each request and review as well; `traceparent` of a caller is taken over (false unless \
         set).",
        Flag,
    );
    let headers = looked_up(keys, env, headers.unwrap_or_default())?;
    Some(Otlp { endpoint: endpoint?, headers, traces: traces.unwrap_or(false) })
}

/// True if the receiver is this service itself, as far as the settings tell.
pub(super) fn is_own(otlp: &Otlp, bind: SocketAddr) -> bool {
    let authority = otlp.endpoint.expose_secret().split('/').nth(2).unwrap_or_default();
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let host = host.trim_start_matches('[').trim_end_matches([']', '.']).to_ascii_lowercase();
    let is_here =
        host == "localhost" || host.parse() == Ok(bind.ip()) || bind.ip().is_unspecified() && is_loopback(&host);
    is_here && port.parse() == Ok(bind.port()) && bind.port() != 0
}

fn is_loopback(host: &str) -> bool {
    host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}
