//! The sidecar file: YAML in, the guardrail's rules out, or every fault at once.
//!
//! Rules about calls have the grammar of the tools file ([`super::rules`]) and hold beside its rules: a name is unique
//! over both files. The caller judges conditions and document names: it passes the judgement in as
//! [`SidecarFileValidators`].

mod rule;

use std::path::Path;

use super::{
    Loaded, Report,
    fault::{Faults, quoted},
    file::{checked, read_checked},
    keys::{Keys, Record, Shape, document},
    rules::{ConditionRule, NAME, POLICIES, policies, refuse_namesakes},
    tree::{Node, parse},
    twins::refuse_names,
};
use umbra_domain::sidecar::SidecarRules;

/// Keys of the lists of rules besides those about calls.
const DOCUMENTS: &str = "documents";
const TEXTS: &str = "texts";
const MODELS: &str = "models";

/// Judges the name of a document or a shadow. The error says what is wrong.
pub type NameRule<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// The judgements that the caller passes in.
#[derive(Clone, Copy)]
pub struct SidecarFileValidators<'a> {
    /// Judgement on a condition of a rule about calls.
    pub condition: ConditionRule<'a>,
    /// Judgement on a document's name.
    pub document: NameRule<'a>,
    /// Judgement on a shadow's name.
    pub shadow: NameRule<'a>,
    /// True if a rule of the tools file has this name.
    pub taken: &'a dyn Fn(&str) -> bool,
}

impl SidecarFileValidators<'_> {
    /// Accepts everything that is well formed.
    pub const NONE: SidecarFileValidators<'static> =
        SidecarFileValidators { condition: &|_| Ok(()), document: &|_| Ok(()), shadow: &|_| Ok(()), taken: &|_| false };
}

/// Reads a sidecar file.
pub fn read(path: &Path, judgement: SidecarFileValidators<'_>) -> Result<Loaded<SidecarRules>, Report> {
    read_checked(path, parse, |root, faults| check(root, judgement, faults))
}

/// Reads the rules from a text. Faults call it `file_name`.
pub fn load(file_name: &str, text: &str, judgement: SidecarFileValidators<'_>) -> Result<Loaded<SidecarRules>, Report> {
    checked(file_name, text, |root, faults| check(root, judgement, faults))
}

/// Returns the JSON Schema (draft 2020-12) of the sidecar file, for editors.
pub fn sidecar_schema() -> serde_json::Value {
    let shape = Record(|keys: &mut Keys<'_>| file(keys, SidecarFileValidators::NONE)).schema();
    document("Umbra sidecar", shape)
}

fn check(root: &Node, judgement: SidecarFileValidators<'_>, faults: &mut Faults) -> Option<SidecarRules> {
    let lists = [POLICIES, DOCUMENTS, TEXTS, MODELS];
    refuse_namesakes(root, &lists, faults);
    refuse_names(root, &lists, NAME, faults, |name, _| {
        let help = "a rule of the tools file has this name and also applies here: choose another name";
        (judgement.taken)(name).then(|| (format!("the name {} occurs twice", quoted(name)), help.to_owned()))
    });
    Record(|keys: &mut Keys<'_>| file(keys, judgement)).read(root, faults)
}

/// Declares the file's keys.
#[expect(clippy::unnecessary_wraps, reason = "a record may be faulty; this one has no key that must be there")]
fn file(keys: &mut Keys<'_>, judgement: SidecarFileValidators<'_>) -> Option<SidecarRules> {
    Some(SidecarRules {
        policies: policies(keys, judgement.condition),
        documents: rule::documents(keys, judgement.document),
        texts: rule::texts(keys),
        models: rule::models(keys, judgement.shadow),
    })
}
