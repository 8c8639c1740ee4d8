//! `webhooks`: endpoints of notifications. YAML in, [`Webhook`]s out. A missing or malformed secret is a fault like any
//! other. The outbound policy judges the URL, here and again at each connection.

use std::{collections::HashSet, path::PathBuf, time::Duration};

use base64::{
    Engine, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use secrecy::{ExposeSecret, SecretString};

use super::{
    super::{
        Environment,
        file::read_secret,
        keys::{Keys, Record, Shape},
        number::{Time, whole},
        shape::{Flag, List, word},
        text::{agent_glob, path, printable, text},
    },
    models::Callable,
    secs,
};
use umbra_domain::{Severity, notice::Topic};

/// Most endpoints.
const MAX_WEBHOOKS: usize = 64;
/// Most secrets of one endpoint: the new one and the old ones of a rotation.
const MAX_SECRETS: usize = 3;
/// Length of a secret in bytes, as Standard Webhooks prescribes it.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Prefix of a secret.
const PREFIX: &str = "whsec_";

/// Form of an endpoint's messages.
#[derive(Debug, Clone)]
pub enum WebhookFormat {
    /// Signed, by the Standard Webhooks scheme.
    Standard,
    /// Incoming webhook of Slack.
    Slack,
    /// Workflow of Microsoft Teams.
    Teams,
    /// Events API of PagerDuty, version 2, with the integration key.
    PagerDuty(SecretString),
}

/// Words of the forms.
const FORMATS: [&str; 4] = ["standard", "slack", "teams", "pagerduty"];
/// Address of the events API of PagerDuty.
const PAGER_DUTY: &str = "https://events.pagerduty.com/v2/enqueue";

/// An endpoint that receives notifications.
#[derive(Debug, Clone)]
pub struct Webhook {
    /// Unique name in metrics, logs and lists.
    pub name: String,
    /// URL of the endpoint. Kept like a secret: many URLs contain one.
    pub url: SecretString,
    /// Decoded signing keys; each gives a signature. Empty in a command that sends nothing, and in a form of a service.
    pub secrets: Vec<Secret>,
    /// Form of the messages.
    pub format: WebhookFormat,
    /// Topics that the endpoint receives.
    pub events: Vec<Topic>,
    /// Agents whose messages it receives, as globs; empty for all.
    pub agents: Vec<String>,
    /// Shadows whose messages it receives; empty for all.
    pub shadows: Vec<String>,
    /// Least severity of the findings that it receives.
    pub severity: Severity,
    /// True if messages are sent to it.
    pub enabled: bool,
    /// Longest that one delivery may take.
    pub timeout: Duration,
    /// Most deliveries at a time.
    pub max_in_flight: usize,
}

/// A signing key. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// Returns the key's bytes.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Reads `whsec_` and base64, with padding or without.
    ///
    /// # Errors
    /// Advice on the right form.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let right = "a secret is whsec_ and the base64 of 24 to 64 random bytes: \
                     echo \"whsec_$(openssl rand -base64 32)\" makes one";
        let lenient = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
        let engine = GeneralPurpose::new(&alphabet::STANDARD, lenient);
        let bytes = text.strip_prefix(PREFIX).and_then(|text| engine.decode(text).ok());
        bytes.filter(|bytes| SECRET_BYTES.contains(&bytes.len())).map(Self).ok_or(right)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Returns the shape of the `webhooks` section.
pub(super) fn list(env: &Environment, callable: Callable<'_>) -> impl Shape<Value = Vec<Webhook>> {
    List { len: 0..=MAX_WEBHOOKS, single: false, item: Record(move |keys: &mut Keys<'_>| webhook(keys, env, callable)) }
}

/// Returns the first name that occurs twice.
pub(super) fn twice(webhooks: &[Webhook]) -> Option<&str> {
    // The receiver of evaluations has this one.
    let mut seen = HashSet::from(["telemetry.otlp"]);
    webhooks.iter().map(|webhook| webhook.name.as_str()).find(|name| !seen.insert(*name))
}

fn webhook(keys: &mut Keys<'_>, env: &Environment, callable: Callable<'_>) -> Option<Webhook> {
    let format = keys
        .optional(
            "format",
            "Form of the messages: standard (signed; unless set), slack, teams or pagerduty.",
            word(&FORMATS, |format| format),
        )
        .unwrap_or("standard");
    let url = url(keys, env, format);
    if let Some(Err(why)) = url.as_ref().map(|url| callable(url.expose_secret())) {
        keys.fault(keys.first_of(["url", "url_env"]), "this address may not be called", why);
    }
    let name = keys.optional(
        "name",
        "Name in lists, logs and metrics. The URL's host and a hash of the URL when not set.",
        printable("a name", 100),
    );
    let variable = keys.optional(
        "secret_env",
        "The environment variable that holds the signing secret (whsec_...; several are separated by spaces), or the \
         integration key of PagerDuty.",
        text("the name of an environment variable", 128, super::models::variable_name).secret(),
    );
    let file = keys.optional(
        "secret_file",
        "A file that holds the secret, instead of secret_env; several signing secrets, one a line, all sign.",
        path(),
    );
    let events = keys.optional(
        "events",
        "Topics of the messages: finding, verdict, breaker, reflexion, briefing, boundary, approval. All when not set.",
        List { len: 1..=Topic::ALL.len(), single: true, item: word(&Topic::ALL, Topic::as_str) },
    );
    let agents = keys.or_default(
        "agents",
        "Agents (names or globs). Messages about other agents are left out; those about no agent are sent.",
        List { len: 1..=100, single: true, item: agent_glob() },
    );
    let shadows = keys.or_default(
        "shadows",
        "Shadows. Messages of other shadows are left out; those of no single shadow are sent.",
        List { len: 1..=100, single: true, item: printable("a shadow's name", 100) },
    );
    let severity = keys.optional(
        "severity",
        "Least severity of the findings that are sent: info, warning or critical. All when not set.",
        word(&[Severity::Info, Severity::Warning, Severity::Critical], Severity::as_str),
    );
    let enabled = keys.optional("enabled", "True if messages are sent (true unless set).", Flag);
    let timeout =
        keys.optional("timeout", "Longest time that one delivery may take (15s unless set).", Time(secs(1)..=secs(60)));
    let max_in_flight = keys.optional(
        "max_in_flight",
        "Most deliveries at a time. Unless set 4, and 1 for pagerduty, where an end must follow its begin.",
        whole(1..=64),
    );
    let most = if format == "pagerduty" { 1 } else { 4 };
    let (secrets, format) = match format {
        "standard" => {
            let place = keys.first_of(["url", "url_env"]);
            let secret = secret_text(keys, env, (variable, file), (place, UNSIGNED))?;
            (signing_secrets(keys, secret)?, WebhookFormat::Standard)
        }
        "pagerduty" => {
            let secret = secret_text(keys, env, (variable, file), ("format", WITHOUT_KEY))?;
            (Vec::new(), WebhookFormat::PagerDuty(integration_key(keys, secret)?))
        }
        service => {
            for key in ["secret_env", "secret_file"].into_iter().filter(|key| keys.has(key)).collect::<Vec<_>>() {
                keys.fault(key, format!("{service} takes no signature"), "remove this key");
            }
            let format = if service == "slack" { WebhookFormat::Slack } else { WebhookFormat::Teams };
            (Vec::new(), format)
        }
    };
    let url = url?;
    let name = name.unwrap_or_else(|| unnamed(url.expose_secret()));
    Some(Webhook {
        name,
        url,
        secrets,
        format,
        events: events.unwrap_or_else(|| Topic::ALL.to_vec()),
        agents,
        shadows,
        severity: severity.unwrap_or(Severity::Info),
        enabled: enabled.unwrap_or(true),
        timeout: timeout.unwrap_or(secs(15)),
        max_in_flight: max_in_flight.unwrap_or(most),
    })
}

/// Reads the URL, or takes it from the variable that the keys name. The address of PagerDuty is known.
fn url(keys: &mut Keys<'_>, env: &Environment, format: &str) -> Option<SecretString> {
    let about = "URL that messages are posted to, such as https://hooks.example.com/umbra. Known for pagerduty.";
    let given = keys.optional("url", about, text("the URL of a webhook", 2_048, hook_url).secret());
    let variable = keys.optional(
        "url_env",
        "The environment variable that holds the URL, where the URL is a secret, as that of a chat.",
        text("the name of an environment variable", 128, super::models::variable_name).secret(),
    );
    match (keys.has("url"), variable) {
        (true, Some(_)) => keys.fault("url_env", "both url and url_env are set", "remove one of the two"),
        (true, None) => return given,
        (false, Some(_)) if env.sends_nothing() => return hook_url(PAGER_DUTY).ok(),
        (false, Some(variable)) => match env.get(&variable).map(hook_url) {
            Some(Ok(url)) => return Some(url),
            Some(Err(why)) => keys.fault("url_env", format!("the value of {variable} is no URL"), why),
            None => keys.fault("url_env", format!("the variable {variable} is not set"), "set it to the URL"),
        },
        (false, None) if format == "pagerduty" => return hook_url(PAGER_DUTY).ok(),
        (false, None) => keys.fault("url", "`url` is missing", format!("add `url:` or `url_env:` here. {about}")),
    }
    None
}

/// Secret as it is written, with the key that names its place; without a text for a command that sends nothing.
type SecretText = (&'static str, Option<String>);

/// Faults of a webhook without a secret: message, and help.
const UNSIGNED: (&str, &str) = (
    "the webhook has no secret: receivers could not distinguish its messages from forged ones",
    "add secret_env: NAME of a variable that holds whsec_..., or secret_file: PATH; or format: slack, teams or pagerduty \
     for such a service",
);
const WITHOUT_KEY: (&str, &str) = (
    "PagerDuty needs an integration key",
    "add secret_env: NAME of a variable that holds the integration key of a service of PagerDuty",
);

/// Reads the secret from the variable or the file that the keys name. `missing` is the fault, with its place, where they
/// name none.
fn secret_text(
    keys: &mut Keys<'_>,
    env: &Environment,
    named: (Option<String>, Option<PathBuf>),
    (place, missing): (&'static str, (&str, &str)),
) -> Option<SecretText> {
    let (key, found) = match named {
        (Some(_), Some(_)) => {
            keys.fault("secret_file", "both secret_env and secret_file are set", "remove one of the two");
            return None;
        }
        (Some(variable), None) => {
            let unset = || (format!("the variable {variable} is not set"), "set it to the secret".to_owned());
            ("secret_env", env.get(&variable).map(str::to_owned).ok_or_else(unset))
        }
        (None, Some(file)) => {
            ("secret_file", read_secret(&file).map_err(|why| ("the file has no secret".to_owned(), why)))
        }
        (None, None) => {
            if !keys.has("secret_env") && !keys.has("secret_file") {
                keys.fault(place, missing.0, missing.1);
            }
            return None;
        }
    };
    match found {
        Ok(text) => Some((key, Some(text))),
        Err(_) if env.sends_nothing() => Some((key, None)),
        Err((message, help)) => {
            keys.fault(key, message, help);
            None
        }
    }
}

fn signing_secrets(keys: &mut Keys<'_>, (key, text): SecretText) -> Option<Vec<Secret>> {
    let Some(text) = text else { return Some(Vec::new()) };
    match text.split_whitespace().map(Secret::parse).collect::<Result<Vec<Secret>, _>>() {
        Ok(secrets) if (1..=MAX_SECRETS).contains(&secrets.len()) => return Some(secrets),
        Ok(_) => keys.fault(key, "too many secrets", format!("keep at most {MAX_SECRETS}, the newest first")),
        Err(right) => keys.fault(key, "the value is not a webhook secret", right),
    }
    None
}

fn integration_key(keys: &mut Keys<'_>, (key, text): SecretText) -> Option<SecretString> {
    let Some(text) = text else { return Some(SecretString::default()) };
    let text = text.trim();
    if text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Some(SecretString::from(text));
    }
    keys.fault(key, "the value is no integration key", "copy its 32 letters and digits from PagerDuty");
    None
}

/// Returns a name that tells endpoints apart and shows no more of the URL than its host.
fn unnamed(url: &str) -> String {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split(['/', '?']).next().unwrap_or_default();
    let host = match authority.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => authority.split(':').next(),
    };
    let hash = blake3::hash(url.as_bytes()).to_hex();
    format!("{}-{}", host.unwrap_or_default(), hash.get(..8).unwrap_or_default())
}

/// Checks an absolute http or https URL without user and fragment.
pub(super) fn hook_url(url: &str) -> Result<SecretString, String> {
    let help = "write http:// or https://, a host, and a path: https://hooks.example.com/umbra".to_owned();
    let Some(rest) = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")) else { return Err(help) };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let signs_ok = rest.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '#' | '"' | '<' | '>' | '\\' | '`'));
    if authority.is_empty() || authority.starts_with(':') || !signs_ok {
        return Err(help);
    }
    if authority.contains('@') {
        return Err("leave user and password out of the URL".to_owned());
    }
    Ok(SecretString::from(url.to_owned()))
}
