//! The tools file: YAML in; contracts, policy rules and effects of tools out, or every fault at once.
//!
//! The caller judges contracts and conditions: it passes the judgement in as [`ToolsFileValidators`], so these faults
//! are reported with line and column beside those of the file.

mod contract;
mod effects;
mod json;
mod openapi;
mod packs;
mod replace;
mod write;

use std::path::Path;

pub use super::rules::ConditionRule;
use super::{
    Loaded, Report,
    fault::{Faults, quoted},
    file::{checked, read_checked},
    keys::{Keys, Record, Shape, document},
    rules::{POLICIES, policies, refuse_namesakes},
    shape::List,
    tree::{Node, parse},
    twins::refuse_twins,
};
use openapi::Files;
pub use packs::{pack_texts, packs};
pub use replace::replace;
use umbra_domain::{
    ToolDeclarations,
    contract::{ContractFault, ToolContract},
    tool::{joined, normal_pattern},
};
pub use write::write;

/// Key of the contracts, and key of a contract's tool, by which contracts are told apart.
const TOOLS: &str = "tools";
const TOOL: &str = "tool";
/// Most contracts in a file.
const MAX_CONTRACTS: usize = 1_000;

/// Judges a well-formed contract and returns its faults.
pub type ContractRule<'a> = &'a dyn Fn(&ToolContract) -> Vec<ContractFault>;

/// The judgements that the caller passes in.
#[derive(Clone, Copy)]
pub struct ToolsFileValidators<'a> {
    /// Judgement on a contract: its schemas, predicates and stubs.
    pub contract: ContractRule<'a>,
    /// Judgement on a condition of a policy rule.
    pub condition: ConditionRule<'a>,
}

impl ToolsFileValidators<'_> {
    /// Accepts everything that is well formed.
    pub const NONE: ToolsFileValidators<'static> =
        ToolsFileValidators { contract: &|_| Vec::new(), condition: &|_| Ok(()) };
}

/// Reads a tools file. OpenAPI files that it names are read from its folder.
pub fn read(path: &Path, rules: ToolsFileValidators<'_>) -> Result<Loaded<ToolDeclarations>, Report> {
    let folder = path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    read_checked(path, parse, |root, faults| check(root, folder, rules, faults))
}

/// Reads the tools from a text, which can name no other file. Faults call it `file_name`.
pub fn load(file_name: &str, text: &str, rules: ToolsFileValidators<'_>) -> Result<Loaded<ToolDeclarations>, Report> {
    checked(file_name, text, |root, faults| check(root, None, rules, faults))
}

/// Returns the JSON Schema (draft 2020-12) of the tools file, for editors.
pub fn tools_schema() -> serde_json::Value {
    let shape = Record(|keys: &mut Keys<'_>| file(keys, None, ToolsFileValidators::NONE)).schema();
    document("Umbra tools", shape)
}

/// Checks a file. With a second contract of one tool it would be ambiguous, which of the two holds.
fn check(
    root: &Node,
    folder: Option<&Path>,
    rules: ToolsFileValidators<'_>,
    faults: &mut Faults,
) -> Option<ToolDeclarations> {
    let normal = |name: &str| joined(&normal_pattern(name));
    refuse_twins(root, &[TOOLS], TOOL, faults, normal, |name, line| {
        let help = format!("the other contract is at line {line}: keep one, and raise its version when it changes");
        (format!("{} has two contracts", quoted(name)), help)
    });
    refuse_namesakes(root, &[POLICIES], faults);
    Record(|keys: &mut Keys<'_>| file(keys, folder, rules)).read(root, faults)
}

/// Declares the file's keys.
#[expect(clippy::unnecessary_wraps, reason = "a record may be faulty; this one has no key that must be there")]
fn file(keys: &mut Keys<'_>, folder: Option<&Path>, rules: ToolsFileValidators<'_>) -> Option<ToolDeclarations> {
    let files = Files::below(folder);
    let item = Record(|keys: &mut Keys<'_>| contract::declare(keys, &files, rules.contract));
    let contracts = keys.or_default(
        TOOLS,
        "Contracts: effect, arguments and result of each tool, and the answers to calls that do not run.",
        List { len: 0..=MAX_CONTRACTS, single: false, item },
    );
    Some(ToolDeclarations {
        contracts,
        policies: policies(keys, rules.condition),
        effects: effects::declare(keys),
        trusted_servers: effects::declare_trusted_servers(keys),
    })
}
