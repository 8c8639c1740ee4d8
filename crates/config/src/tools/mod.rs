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

use std::{collections::BTreeMap, path::Path};

pub use super::rules::ConditionRule;
use super::{
    Loaded, Report,
    fault::{Faults, SourcePosition, quoted},
    file::read_tree,
    keys::{Keys, Record, Shape, document},
    rules::{POLICIES, policies, refuse_twins as refuse_namesakes},
    shape::List,
    tree::{Node, NodeValue, parse},
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
    let mut faults = Faults::default();
    let root = read_tree(path, &mut faults);
    let folder = path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
    check(root, folder, rules, faults)
}

/// Reads the tools from a text, which can name no other file. Faults call it `file_name`.
pub fn load(file_name: &str, text: &str, rules: ToolsFileValidators<'_>) -> Result<Loaded<ToolDeclarations>, Report> {
    let mut faults = Faults::default();
    let source = faults.add_source(file_name, text);
    let root = parse(source, text, &mut faults);
    check(root, None, rules, faults)
}

/// Returns the JSON Schema (draft 2020-12) of the tools file, for editors.
pub fn tools_schema() -> serde_json::Value {
    let shape = Record(|keys: &mut Keys<'_>| file(keys, None, ToolsFileValidators::NONE)).schema();
    document("Umbra tools", shape)
}

fn check(
    root: Option<Node>,
    folder: Option<&Path>,
    rules: ToolsFileValidators<'_>,
    mut faults: Faults,
) -> Result<Loaded<ToolDeclarations>, Report> {
    let found = root.and_then(|root| {
        refuse_twins(&root, &mut faults);
        refuse_namesakes(&root, &[POLICIES], &mut faults);
        Record(|keys: &mut Keys<'_>| file(keys, folder, rules)).read(&root, &mut faults)
    });
    faults.finish(found)
}

/// Declares the file's keys.
#[expect(clippy::unnecessary_wraps, reason = "a record may be faulty; this one has no key that must be there")]
fn file(keys: &mut Keys<'_>, folder: Option<&Path>, rules: ToolsFileValidators<'_>) -> Option<ToolDeclarations> {
    let files = Files::below(folder);
    let item = Record(|keys: &mut Keys<'_>| contract::declare(keys, &files, rules.contract));
    let contracts = keys.optional(
        TOOLS,
        "Contracts: effect, arguments and result of each tool, and the answers to calls that do not run.",
        List { len: 0..=MAX_CONTRACTS, single: false, item },
    );
    Some(ToolDeclarations {
        contracts: contracts.unwrap_or_default(),
        policies: policies(keys, rules.condition),
        effects: effects::declare(keys),
        trusted_servers: effects::declare_trusted_servers(keys),
    })
}

/// Notes a fault for a second contract of one tool: which of the two holds would be ambiguous.
fn refuse_twins(root: &Node, faults: &mut Faults) {
    let Some(NodeValue::List(tools)) = root.get(TOOLS).map(|node| &node.kind) else { return };
    let mut first: BTreeMap<String, SourcePosition> = BTreeMap::new();
    for (index, tool) in tools.iter().enumerate() {
        let Some(Node { kind: NodeValue::Text(name), at }) = tool.get(TOOL) else { continue };
        let normal = joined(&normal_pattern(name));
        if let Some(earlier) = first.get(&normal) {
            let message = format!("{} has two contracts", quoted(name));
            let help = format!(
                "the other contract is at line {}: keep one, and raise its version when it changes",
                earlier.line
            );
            faults.within(format!(".{TOOLS}[{index}].{TOOL}"), |faults| faults.fault(*at, message, help));
        } else {
            first.insert(normal, *at);
        }
    }
}
