//! The environment: variables in, a layer over the settings' tree out, and the keys of model providers.
//!
//! `UMBRA__SECTION__KEY` sets any setting; its value is read as YAML, and as plain text where it is none. Each
//! variable is a source of its own, so that a fault names the variable. Empty variables count as not set.
//! Values never show in faults' snippets: they may be secrets.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use secrecy::SecretString;

use super::{
    Report,
    fault::{Faults, Place, Show},
    tree::{Entry, Kind, Node, parse},
};
use crate::domain::ModelSpec;

/// What every variable of ours begins with.
const PREFIX: &str = "UMBRA__";
/// Variables of other conventions, and the settings they stand for. `UMBRA__…` goes before them.
const ALIASES: [(&str, &[&str]); 2] =
    [("DATABASE_URL", &["database", "url"]), ("UMBRA_PG_BIN", &["storage", "pg_bin"])];

/// Variables by name.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl std::fmt::Debug for Environment {
    /// Names only.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().filter(|(_, value)| !value.trim().is_empty()).collect())
    }
}

impl Environment {
    /// The process's own. The only place in the service that reads it.
    pub fn of_process() -> Self {
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect()
    }

    /// The program that this process runs, where the system tells.
    pub fn program() -> Option<std::path::PathBuf> {
        std::env::current_exe().ok()
    }

    /// The value of a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Every variable.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The providers' keys that these models name and that are set, by the name of their variable.
    pub fn provider_keys<'a>(&self, models: impl IntoIterator<Item = &'a ModelSpec>) -> HashMap<String, SecretString> {
        models
            .into_iter()
            .filter_map(|model| model.api_key_env.as_ref())
            .filter_map(|name| Some((name.clone(), SecretString::from(self.get(name)?.trim().to_owned()))))
            .collect()
    }

    /// Looks at the keys that these models name.
    ///
    /// # Errors
    /// Each variable whose value no header can carry.
    pub fn check_provider_keys<'a>(&self, models: impl IntoIterator<Item = &'a ModelSpec>) -> Result<(), Report> {
        let names: BTreeSet<&str> = models.into_iter().filter_map(|model| model.api_key_env.as_deref()).collect();
        let mut faults = Faults::default();
        for name in names {
            if self.get(name).is_some_and(|key| !key.trim().chars().all(|c| matches!(c, ' '..='~'))) {
                let at = Place { source: faults.add_source(name, ""), line: 1, column: 1 };
                let message = "the key holds a line break or another character that no header may have";
                faults.fault_showing(at, Show::Nothing, message, "set the variable to the key alone");
            }
        }
        faults.finish(Some(())).map(drop)
    }

    /// Lays the variables over the settings.
    pub(super) fn overlay(&self, root: &mut Node, faults: &mut Faults) {
        for (name, path) in ALIASES {
            if let Some(value) = self.get(name) {
                let at = Place { source: faults.add_source(name, ""), line: 1, column: 1 };
                put(root, path, at, Kind::Text(value.to_owned()), at.source);
            }
        }
        // Settings of this layer drop the `_file` twins of earlier layers, but not each other's.
        let mut layer = None;
        for (name, value) in &self.0 {
            let Some(path) = name.strip_prefix(PREFIX) else { continue };
            let source = faults.add_source(name, "");
            let layer = *layer.get_or_insert(source);
            let at = Place { source, line: 1, column: 1 };
            let path = path.to_lowercase();
            let path: Vec<&str> = path.split("__").collect();
            put(root, &path, at, value_of(value, at), layer);
        }
    }
}

/// The value as YAML, or as plain text.
fn value_of(value: &str, at: Place) -> Kind {
    // What cannot be read as YAML is text, so faults of the attempt are dropped.
    let mut node = parse(at.source, value, &mut Faults::default());
    if let Some(node) = &mut node {
        settle(node, at);
    }
    node.map_or_else(|| Kind::Text(value.to_owned()), |node| node.kind)
}

/// Gives every node within a variable the variable's place.
fn settle(node: &mut Node, at: Place) {
    node.at = at;
    match &mut node.kind {
        Kind::List(items) => items.iter_mut().for_each(|item| settle(item, at)),
        Kind::Map(entries) => entries.iter_mut().for_each(|entry| {
            entry.at = at;
            settle(&mut entry.value, at);
        }),
        _ => {}
    }
}

/// Sets one value in the tree, making the mappings on its way. Twins (`key_file` of `key`, and the other way
/// round) from sources before `layer` go: the later layer decides alone.
fn put(node: &mut Node, path: &[&str], at: Place, kind: Kind, layer: usize) {
    let Some((key, rest)) = path.split_first() else {
        *node = Node { kind, at };
        return;
    };
    if !matches!(node.kind, Kind::Map(_)) {
        *node = Node { kind: Kind::Map(Vec::new()), at };
    }
    let Kind::Map(entries) = &mut node.kind else { return };
    if rest.is_empty() {
        let twin = key.strip_suffix("_file").map_or_else(|| format!("{key}_file"), str::to_owned);
        entries.retain(|entry| entry.key != twin || entry.value.at.source >= layer);
    }
    if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
        entry.at = at;
        put(&mut entry.value, rest, at, kind, layer);
    } else {
        let mut value = Node { kind: Kind::Null, at };
        put(&mut value, rest, at, kind, layer);
        entries.push(Entry { key: (*key).to_owned(), at, value });
    }
}
