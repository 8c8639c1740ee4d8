//! `models`: the models that shadows may name. YAML in, [`ModelSpec`]s out. A declared alias replaces a built-in model
//! as a whole. The caller passes in the judgement on URLs.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use super::{
    super::{
        keys::{Keys, Record, Shape},
        number::{Time, decimal, whole},
        shape::{MappingShape, word},
        text::{printable, text},
    },
    secs,
};
use umbra_domain::{ModelKind, ModelSpec, PricePerMtok, Prices, Provider};

/// Most models that can be declared.
const MAX_MODELS: usize = 200;
/// Tokens that a model may write in one call, unless the declaration says otherwise: enough for a review's JSON.
const DEFAULT_OUTPUT_TOKENS: u32 = 1_024;
/// Longest time of a call, unless the declaration says otherwise.
const DEFAULT_TIMEOUT: Duration = secs(60);
/// Prices of a model that costs nothing.
const FREE: Prices = Prices { input: PricePerMtok(0), output: PricePerMtok(0) };

/// Judges whether a URL may be called. The error says why not.
pub(super) type Callable<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Returns the shape of the `models` section.
pub(super) fn table(callable: Callable<'_>) -> impl Shape<Value = BTreeMap<String, ModelSpec>> {
    MappingShape { max: MAX_MODELS, key: alias, value: Record(move |keys: &mut Keys<'_>| model(keys, callable)) }
}

fn alias(name: &str) -> Result<(), &'static str> {
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':'));
    if plain && (1..=64).contains(&name.len()) { Ok(()) } else { Err("use 1 to 64 of A-Z, a-z, 0-9, - _ . and :") }
}

/// Declares one model. [`with_aliases`] fills in the alias, which is the table's key.
fn model(keys: &mut Keys<'_>, callable: Callable<'_>) -> Option<ModelSpec> {
    let provider = keys.required(
        "provider",
        "The wire protocol: anthropic, openai (any compatible server), gemini, or checks (no model).",
        word(&Provider::ALL, Provider::as_str),
    );
    let kind = keys.optional(
        "kind",
        "Kind of the model: chat, for reviews (unless set), or embedding, for finding the tools that fit a task.",
        word(&ModelKind::ALL, ModelKind::as_str),
    );
    let price = || decimal("a price in USD per million tokens", 0.0..=10_000.0, PricePerMtok::from_usd);
    let about = "The provider's name for the model, such as claude-haiku-4-5.";
    let name_shape = printable("a model's name", 200);
    let name = if provider == Some(Provider::Checks) {
        keys.optional("name", about, name_shape).or_else(|| Some("checks".to_owned()))
    } else {
        keys.required("name", about, name_shape)
    };
    let base_url = keys.optional(
        "base_url",
        "The API's root, such as http://127.0.0.1:11434/v1. The provider's public address when not set.",
        text("the URL of an API", 2_048, base_url),
    );
    if let Some(Err(why)) = base_url.as_deref().map(callable) {
        keys.fault("base_url", "this address may not be called", why);
    }
    let api_key_env = keys.optional(
        "api_key_env",
        "The environment variable that holds the key. Without it no key is needed or sent.",
        text("the name of an environment variable", 128, variable_name).secret(),
    );
    let input = keys.optional("input_usd_per_mtok", "USD for a million tokens read.", price());
    let output = keys.optional("output_usd_per_mtok", "USD for a million tokens written.", price());
    let max_output_tokens = keys.optional(
        "max_output_tokens",
        "Most tokens that the model may write in one call (1024 unless set); a batch has as many for each event, up to \
         8192.",
        whole(16..=200_000),
    );
    let timeout =
        keys.optional("timeout", "Longest time that one call may take (60s unless set).", Time(secs(1)..=secs(600)));
    if keys.has("input_usd_per_mtok") != keys.has("output_usd_per_mtok") {
        let key = if keys.has("input_usd_per_mtok") { "input_usd_per_mtok" } else { "output_usd_per_mtok" };
        keys.fault(key, "only one of the two prices is given", "give both prices, or neither if they are unknown");
    }
    for key in ["base_url", "api_key_env", "input_usd_per_mtok"] {
        if provider == Some(Provider::Checks) && keys.has(key) {
            keys.fault(key, "the provider checks calls no model", "remove this key, or name another provider");
        }
    }
    let local = base_url.as_deref().is_some_and(is_loopback);
    let free = local.then_some(FREE);
    let prices = input.zip(output).map(|(input, output)| Prices { input, output }).or(free);
    let kind = kind.unwrap_or_default();
    if kind == ModelKind::Embedding {
        if provider.is_some_and(|provider| provider != Provider::Openai) {
            keys.fault("kind", "an embedding model needs the OpenAI protocol", "write provider: openai");
        }
        if prices != Some(FREE) {
            let message = "calls of an embedding model count in no budget, so the model must be free of charge";
            keys.fault(
                "kind",
                message,
                "use a model on this host, or accept uncounted costs with input_usd_per_mtok: 0, output_usd_per_mtok: \
                 0",
            );
        }
    }
    Some(ModelSpec {
        alias: String::new(),
        provider: provider?,
        kind,
        name: name?,
        base_url,
        api_key_env,
        prices,
        max_output_tokens: max_output_tokens.unwrap_or(DEFAULT_OUTPUT_TOKENS),
        timeout: timeout.unwrap_or(DEFAULT_TIMEOUT),
    })
}

/// Gives each model the alias under which it is declared.
pub(super) fn with_aliases(mut models: BTreeMap<String, ModelSpec>) -> BTreeMap<String, ModelSpec> {
    for (alias, model) in &mut models {
        model.alias.clone_from(alias);
    }
    models
}

/// Checks an absolute http or https URL without user, query and fragment, and removes a slash at its end.
fn base_url(url: &str) -> Result<String, String> {
    let help =
        || "write http:// or https://, a host, a port if need be, and a path: https://llm.internal:8443/v1".to_owned();
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or_else(help)?;
    let authority = rest.split('/').next().unwrap_or_default();
    if authority.contains('@') {
        return Err("leave user and password out; name the key's variable in api_key_env".to_owned());
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let port_ok = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    let signs_ok = rest.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '"' | '<' | '>' | '\\' | '`'));
    if port_ok && signs_ok && super::outbound::host_name(host).is_ok() && !host.is_empty() {
        Ok(url.trim_end_matches('/').to_owned())
    } else {
        Err(help())
    }
}

/// True if the URL's host is a loopback address: a model there costs nothing unless its declaration says otherwise.
fn is_loopback(url: &str) -> bool {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest).split('/').next().unwrap_or_default();
    match authority.parse::<SocketAddr>() {
        Ok(address) => address.ip().is_loopback(),
        Err(_) => authority.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback()),
    }
}

pub(super) fn variable_name(name: &str) -> Result<String, String> {
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    if starts && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        Ok(name.to_owned())
    } else {
        Err("write the variable's name, such as ANTHROPIC_API_KEY; the key itself never stands in a file".to_owned())
    }
}
