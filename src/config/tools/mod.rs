//! The tools file: YAML in, policy rules and what is known of effects out, or every fault at once.
//!
//! What a condition means is the business of the room that evaluates it; whoever reads the file brings its judgement
//! along ([`Rules`]), so that faults of conditions are told with line and column beside those of the file.

mod policy;

use std::path::Path;

use super::{
    Loaded, Report,
    fault::Faults,
    file::read_tree,
    keys::{Keys, Record, Shape, document},
    tree::{Node, parse},
};
use crate::domain::{EffectOverride, PolicyRule};

pub use policy::ConditionRule;

/// What the file says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tools {
    /// Rules about calls, in the order of the file.
    pub policies: Vec<PolicyRule>,
    /// The operator's word on effects, in the order of the file.
    pub effects: Vec<EffectOverride>,
    /// Servers whose annotations are believed.
    pub trusted_servers: Vec<String>,
}

/// The judgement of those who apply what the file says.
#[derive(Clone, Copy)]
pub struct Rules<'a> {
    /// Of a condition of a policy rule.
    pub condition: ConditionRule<'a>,
}

/// Reads a tools file.
pub fn read(path: &Path, rules: Rules<'_>) -> Result<Loaded<Tools>, Report> {
    let mut faults = Faults::default();
    let root = read_tree(path, &mut faults);
    check(root, rules, faults)
}

/// Reads the tools of a text; `file_name` is what faults call it.
pub fn load(file_name: &str, text: &str, rules: Rules<'_>) -> Result<Loaded<Tools>, Report> {
    let mut faults = Faults::default();
    let source = faults.add_source(file_name, text);
    let root = parse(source, text, &mut faults);
    check(root, rules, faults)
}

/// The JSON Schema (draft 2020-12) of the tools file, for editors.
pub fn tools_schema() -> serde_json::Value {
    let rules = Rules { condition: &|_| Ok(()) };
    document("Umbra tools", Record(|keys: &mut Keys<'_>| file(keys, rules)).schema())
}

fn check(root: Option<Node>, rules: Rules<'_>, mut faults: Faults) -> Result<Loaded<Tools>, Report> {
    let found = root.and_then(|root| {
        policy::refuse_twins(&root, &mut faults);
        Record(|keys: &mut Keys<'_>| file(keys, rules)).read(&root, &mut faults)
    });
    faults.finish(found)
}

/// The file's keys.
#[expect(clippy::unnecessary_wraps, reason = "a record may be faulty; this one has no key that must be there")]
fn file(keys: &mut Keys<'_>, rules: Rules<'_>) -> Option<Tools> {
    Some(Tools {
        policies: policy::declare(keys, rules.condition),
        effects: policy::declare_effects(keys),
        trusted_servers: policy::declare_trusted_servers(keys),
    })
}
