//! The shadows file: YAML and the declared models in, checked [`Shadow`]s out, or every fault at once.
//!
//! A file with only the keys of the first example loads unchanged; all other keys have defaults.

mod cost;
pub(super) mod edit;
mod shadow;
mod watch;

use std::{collections::BTreeMap, path::Path};

use super::{
    Loaded, Report,
    fault::{Faults, listed, quoted},
    file::{checked, read_checked},
    keys::{Keys, Record, Shape, document},
    shape::List,
    tree::{Node, parse},
    twins::refuse_twins,
};
use umbra_domain::{ModelKind, ModelSpec, PricePerMtok, Provider, Shadow, nearest::nearest};

pub use edit::set_mode;

/// Key of the list of shadows, and key of a shadow's name.
const AGENTS: &str = "shadow_agents";
const NAME: &str = "name";
/// Most shadows in a file.
const MAX_SHADOWS: usize = 1_000;

/// The models that shadows may name, and the price ceiling of cheap ones.
#[derive(Debug, Clone, Copy)]
pub struct Models<'a> {
    /// Every model by its alias: built-in and declared.
    pub specs: &'a BTreeMap<String, ModelSpec>,
    /// Highest output price that needs no `allow_costly_model`.
    pub ceiling: PricePerMtok,
}

impl Models<'_> {
    /// Returns the model with the lowest output price, among those with a price.
    fn cheapest(&self) -> Option<(&ModelSpec, PricePerMtok)> {
        self.specs
            .values()
            .filter(|spec| spec.provider != Provider::Checks && spec.kind == ModelKind::Chat)
            .filter_map(|spec| Some((spec, spec.prices?.output)))
            .min_by_key(|(_, price)| *price)
    }

    /// Returns the reason why an alias is refused as a model, and advice. `escape` is the way to allow a dear model;
    /// without it any price is accepted.
    pub(super) fn refusal(&self, alias: &str, escape: Option<&str>) -> Option<(String, String)> {
        let Some(spec) = self.specs.get(alias) else {
            let known: Vec<&str> = self.specs.keys().map(String::as_str).collect();
            let meant = nearest(alias, known.iter().copied()).map(|near| format!("did you mean `{near}`? "));
            let help = format!("{}declared models: {}", meant.unwrap_or_default(), listed(&known));
            return Some((format!("model {} is not declared", quoted(alias)), help));
        };
        if spec.provider == Provider::Checks {
            return None;
        }
        if spec.kind == ModelKind::Embedding {
            let help = "name a model of the kind chat".to_owned();
            return Some((format!("`{alias}` is an embedding model and cannot review"), help));
        }
        let Some(prices) = spec.prices else {
            let message = format!("`{alias}` has no prices, so it does not count as cheap");
            let keys = format!("models.{alias}.input_usd_per_mtok and output_usd_per_mtok");
            return Some((message, format!("set {keys} in the settings; or {}", escape?)));
        };
        let price = Some(prices.output).filter(|price| *price > self.ceiling)?;
        let cheapest = self.cheapest().map_or_else(
            || "declare a cheaper model".to_owned(),
            |(spec, price)| format!("the cheapest declared model is `{}` at {} USD", spec.alias, price.usd()),
        );
        let (price, ceiling) = (price.usd(), self.ceiling.usd());
        let message =
            format!("`{alias}` costs {price} USD per million output tokens; a cheap model costs at most {ceiling} USD");
        Some((message, format!("{cheapest}; or {}", escape?)))
    }
}

/// Reads a shadows file.
pub fn read(path: &Path, models: &Models<'_>) -> Result<Loaded<Vec<Shadow>>, Report> {
    read_checked(path, parse, |root, faults| check(root, models, faults))
}

/// Reads shadows from a text. Faults call it `file_name`.
pub fn load(file_name: &str, text: &str, models: &Models<'_>) -> Result<Loaded<Vec<Shadow>>, Report> {
    checked(file_name, text, |root, faults| check(root, models, faults))
}

/// Returns the JSON Schema (draft 2020-12) of the shadows file, for editors.
pub fn shadows_schema() -> serde_json::Value {
    let models = Models { specs: &BTreeMap::new(), ceiling: PricePerMtok(0) };
    document("Umbra shadows", Record(|keys: &mut Keys<'_>| file(keys, &models)).schema())
}

/// Checks a file. Budgets, findings and versions are kept by a shadow's name, so it must be unique.
fn check(root: &Node, models: &Models<'_>, faults: &mut Faults) -> Option<Vec<Shadow>> {
    refuse_twins(root, &[AGENTS], NAME, faults, str::to_owned, |name, line| {
        let help = format!("the shadow at line {line} has this name: choose another name");
        (format!("the name {} occurs twice", quoted(name)), help)
    });
    Record(|keys: &mut Keys<'_>| file(keys, models)).read(root, faults)
}

/// Declares the file's one key.
fn file(keys: &mut Keys<'_>, models: &Models<'_>) -> Option<Vec<Shadow>> {
    let item = Record(|keys: &mut Keys<'_>| shadow::declare(keys, models));
    keys.required(AGENTS, "The shadows, which observe agents.", List { len: 1..=MAX_SHADOWS, single: false, item })
}
