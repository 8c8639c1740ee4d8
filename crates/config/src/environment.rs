//! Environment variables of the process: a layer over the tree of the settings, and the keys of model providers.
//!
//! `UMBRA__SECTION__KEY` sets any setting. Its value is read as YAML, and as plain text where it is not YAML. Each
//! variable is a source of its own, so a fault names the variable. Empty variables count as not set. Values never
//! appear in snippets of faults: they may be secrets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use secrecy::SecretString;
use serde_json::Value;

use super::{
    Report,
    fault::{Faults, ShownPart, SourcePosition},
    settings_schema,
    tree::{MappingEntry, Node, NodeValue, parse},
};
use umbra_domain::{ModelSpec, nearest::nearest};

/// Prefix of every variable that is a setting.
const PREFIX: &str = "UMBRA__";
/// Variables of other conventions, and the settings that they stand for. `UMBRA__…` overrides them.
const ALIASES: [(&str, &[&str]); 2] =
    [("DATABASE_URL", &["database", "url"]), ("UMBRA_PG_BIN", &["storage", "pg_bin"])];

/// Variables with our prefix that are not settings: read by the Python client, the tests, the scripts and the compose
/// file.
const OTHERS: [&str; 17] = [
    "UMBRA_AGENT",
    "UMBRA_API_KEY",
    "UMBRA_API_KEY_FILE",
    "UMBRA_CONFIG",
    "UMBRA_KEY_ID",
    "UMBRA_MODE",
    "UMBRA_PASSWORD_FILE",
    "UMBRA_PORT",
    "UMBRA_REAL_MODEL_NAME",
    "UMBRA_REAL_MODEL_URL",
    "UMBRA_RUN",
    "UMBRA_SABOTAGE",
    "UMBRA_SEED",
    "UMBRA_SESSION",
    "UMBRA_SHADOWS",
    "UMBRA_UPDATE",
    "UMBRA_URL",
];

/// Environment variables by name.
#[derive(Clone, Default)]
pub struct Environment {
    set: BTreeMap<String, String>,
    /// Names of variables with an empty value.
    empty: BTreeSet<String>,
    /// True if webhooks may go without their secrets.
    sends_nothing: bool,
}

impl std::fmt::Debug for Environment {
    /// Shows the names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.set.keys()).finish()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let (empty, set): (BTreeMap<_, _>, _) = variables.into_iter().partition(|(_, value)| value.trim().is_empty());
        Self { set, empty: empty.into_keys().collect(), sends_nothing: false }
    }
}

impl Environment {
    /// Captures the environment of this process. The only place in the service that reads it.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .collect()
    }

    /// Returns the environment for a command that sends no webhook: a missing webhook secret is then no fault.
    #[must_use]
    pub fn sending_nothing(self) -> Self {
        Self { sends_nothing: true, ..self }
    }

    /// True if webhooks may go without their secrets.
    pub(super) fn sends_nothing(&self) -> bool {
        self.sends_nothing
    }

    /// Returns the path of the program that this process runs, where the system tells it.
    pub fn program() -> Option<std::path::PathBuf> {
        std::env::current_exe().ok()
    }

    /// Returns the value of a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.set.get(name).map(String::as_str)
    }

    /// Returns the values of the variables with this name, in upper or lower case, with or without `_` and `-`.
    pub fn spelled(&self, name: &str) -> impl Iterator<Item = &str> {
        let plain = |name: &str| name.replace(['_', '-'], "").to_lowercase();
        let wanted = plain(name);
        self.set.iter().filter(move |(known, _)| plain(known) == wanted).map(|(_, value)| value.as_str())
    }

    /// Returns every variable that is set and not empty, with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.set.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the providers' keys that these models name and that are set, by variable name.
    pub fn provider_keys<'a>(&self, models: impl IntoIterator<Item = &'a ModelSpec>) -> HashMap<String, SecretString> {
        models
            .into_iter()
            .filter_map(|model| model.api_key_env.as_ref())
            .filter_map(|name| Some((name.clone(), SecretString::from(self.get(name)?.trim().to_owned()))))
            .collect()
    }

    /// Checks that an HTTP header can carry each key that these models name.
    ///
    /// # Errors
    /// Each variable whose value no header can carry.
    pub fn check_provider_keys<'a>(&self, models: impl IntoIterator<Item = &'a ModelSpec>) -> Result<(), Report> {
        let names: BTreeSet<&str> = models.into_iter().filter_map(|model| model.api_key_env.as_deref()).collect();
        let mut faults = Faults::default();
        for name in names {
            if self.get(name).is_some_and(|key| !key.trim().chars().all(|c| matches!(c, ' '..='~'))) {
                let at = faults.add_variable(name);
                let message = "the key has a line break or another character that is not allowed in a header";
                faults.fault_showing(at, ShownPart::Nothing, message, "set the variable to the key and nothing else");
            }
        }
        faults.finish(Some(())).map(drop)
    }

    /// Lays the variables over the settings. A variable that resembles a setting without being one is a fault:
    /// `UMBRA_BOUNDARY_EXECUTION=shadow` would otherwise be ignored silently. One that resembles no setting gives a
    /// warning.
    pub(super) fn overlay(&self, root: &mut Node, faults: &mut Faults) {
        for (name, path) in ALIASES {
            if let Some(value) = self.get(name) {
                let at = faults.add_variable(name);
                put(root, path, at, NodeValue::Text(value.to_owned()), at.source, faults);
            }
        }
        // Settings of this layer drop the `_file` twins of earlier layers, but not each other's.
        let mut layer = None;
        for (name, value) in &self.set {
            let Some(path) = name.strip_prefix(PREFIX) else { continue };
            let at = faults.add_variable(name);
            let layer = *layer.get_or_insert(at.source);
            let path = path.to_lowercase();
            let path: Vec<&str> = path.split("__").collect();
            put(root, &path, at, value_of(value, at.source), layer, faults);
        }
        for name in self.empty.iter().filter(|name| name.starts_with(PREFIX)) {
            let at = faults.add_variable(name);
            let help = "give the variable a value, or unset it; the value may be missing where the variable is set";
            faults.warn(at, "the variable is empty and counts as not set", help);
        }
        self.judge_unknown(root, faults);
    }

    fn judge_unknown(&self, root: &Node, faults: &mut Faults) {
        let ours = |name: &str| name.get(..6).is_some_and(|head| head.eq_ignore_ascii_case("UMBRA_"));
        let mut settings = Vec::new();
        for (name, value) in self.set.iter().filter(|(name, _)| ours(name) && !name.starts_with(PREFIX)) {
            let known = OTHERS.contains(&name.as_str()) || ALIASES.iter().any(|(alias, _)| alias == name);
            if known || is_of_cluster(name, value) || mentions(root, name) {
                continue;
            }
            if settings.is_empty() {
                paths(&settings_schema(), "", &mut settings);
            }
            let at = faults.add_variable(name);
            let word = name.get(6..).unwrap_or_default().trim_matches('_').replace("__", "_");
            let near = nearest(&word, settings.iter().map(|(word, _)| word.as_str()));
            let meant = near.and_then(|near| settings.iter().find(|(word, _)| word == near));
            let form =
                format!("the variable of a setting is {PREFIX}SECTION__KEY, in capitals and with two _ in between");
            match meant {
                Some((_, variable)) => {
                    let help = format!("did you mean {variable}? {form}");
                    faults.fault_showing(at, ShownPart::Nothing, "no setting has this name", help);
                }
                None => faults.warn(at, "no setting has this name, and no setting refers to this variable", form),
            }
        }
    }
}

/// True if Kubernetes sets the variable for each service whose name begins with `umbra`: `UMBRA_SERVICE_HOST`,
/// `UMBRA_PORT_7817_TCP_ADDR`.
fn is_of_cluster(name: &str, value: &str) -> bool {
    let tail = name.split_once("_SERVICE_").map(|(_, tail)| tail);
    let service = tail.is_some_and(|tail| tail == "HOST" || tail == "PORT" || tail.starts_with("PORT_"));
    let port = name.split_once("_PORT_").is_some_and(|(_, port)| {
        let mut parts = port.splitn(3, '_');
        let (number, protocol, what) = (parts.next(), parts.next(), parts.next());
        number.is_some_and(|number| number.parse::<u16>().is_ok())
            && matches!(protocol, Some("TCP" | "UDP" | "SCTP"))
            && matches!(what, None | Some("PROTO" | "PORT" | "ADDR"))
    });
    service || port || name.ends_with("_PORT") && value.contains("://")
}

/// True if any setting holds the variable's name: the key of a provider, the secret of a webhook.
fn mentions(node: &Node, name: &str) -> bool {
    match &node.kind {
        NodeValue::Text(text) => text == name,
        NodeValue::List(items) => items.iter().any(|item| mentions(item, name)),
        NodeValue::Map(entries) => entries.iter().any(|entry| mentions(&entry.value, name)),
        _ => false,
    }
}

/// Lists every key of the settings below `section`: as words, and as a variable.
fn paths(schema: &Value, section: &str, found: &mut Vec<(String, String)>) {
    let Some(keys) = schema.get("properties").and_then(Value::as_object) else { return };
    for (key, schema) in keys {
        let path = if section.is_empty() { key.clone() } else { format!("{section}__{key}") };
        paths(schema, &path, found);
        found.push((path.replace("__", "_"), format!("{PREFIX}{}", path.to_uppercase())));
    }
}

/// Parses a value as YAML, or takes it as plain text.
fn value_of(value: &str, source: usize) -> NodeValue {
    // Faults of the attempt are dropped: what is not YAML is text.
    parse(source, value, &mut Faults::default()).map_or_else(|| NodeValue::Text(value.to_owned()), |node| node.kind)
}

/// Sets one value in the tree and creates the mappings on the way to it. Twins (`key_file` of `key`, and the reverse)
/// from sources before `layer` are removed: the later layer decides alone. A key below a value that is no mapping is a
/// fault.
fn put(node: &mut Node, path: &[&str], at: SourcePosition, kind: NodeValue, layer: usize, faults: &mut Faults) {
    let Some((key, rest)) = path.split_first() else {
        *node = Node { kind, at };
        return;
    };
    if node.kind == NodeValue::Null {
        *node = Node { kind: NodeValue::Map(Vec::new()), at };
    }
    let NodeValue::Map(entries) = &mut node.kind else {
        let message = format!("`{key}` cannot be set within {}", node.kind.describe());
        return faults.fault(at, message, "set the whole value, or keys within it, not both");
    };
    if rest.is_empty() {
        let twin = key.strip_suffix("_file").map_or_else(|| format!("{key}_file"), str::to_owned);
        entries.retain(|entry| entry.key != twin || entry.value.at.source >= layer);
    }
    if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
        entry.at = at;
        put(&mut entry.value, rest, at, kind, layer, faults);
    } else {
        let mut value = Node { kind: NodeValue::Null, at };
        put(&mut value, rest, at, kind, layer, faults);
        entries.push(MappingEntry { key: (*key).to_owned(), at, value });
    }
}
