//! Packs: contracts of well-known MCP servers, and of the tools of coding agents. A pack applies to a server that calls
//! itself by one of the pack's names.

use super::{MAX_CONTRACTS, TOOLS, ToolsFileValidators, contract, openapi::Files};
use crate::{
    Report,
    fault::Faults,
    file::checked,
    keys::{Keys, Record, Shape as _},
    shape::List,
    text::printable,
    tree::Node,
};
use umbra_domain::{contract::ToolContract, declarations::Pack};

/// Packs by name. The name is the server in their contracts.
const PACKS: [(&str, &str); 8] = [
    ("coding-agents", include_str!("../../packs/coding-agents.yaml")),
    ("filesystem", include_str!("../../packs/filesystem.yaml")),
    ("github", include_str!("../../packs/github.yaml")),
    ("gmail", include_str!("../../packs/gmail.yaml")),
    ("playwright", include_str!("../../packs/playwright.yaml")),
    ("postgres", include_str!("../../packs/postgres.yaml")),
    ("slack", include_str!("../../packs/slack.yaml")),
    ("stripe", include_str!("../../packs/stripe.yaml")),
];

/// Returns the names and texts of all packs.
pub fn pack_texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    PACKS.into_iter()
}

/// Reads all packs.
///
/// # Errors
/// Faults of a pack. A test finds them before a release.
pub fn packs(rules: ToolsFileValidators<'_>) -> Result<Vec<Pack>, Report> {
    PACKS.into_iter().map(|(name, text)| pack(name, text, rules)).collect()
}

fn pack(name: &str, text: &str, rules: ToolsFileValidators<'_>) -> Result<Pack, Report> {
    let read = |root: &Node, faults: &mut Faults| {
        Record(|keys: &mut Keys<'_>| {
            let files = Files::below(None);
            let item = Record(|keys: &mut Keys<'_>| contract::declare(keys, &files, rules.contract));
            let names = List { len: 1..=20, single: false, item: printable("a server's name", 128) };
            let server_names = keys.required("server_names", "Names that the server gives itself.", names);
            let contracts: Option<Vec<ToolContract>> =
                keys.required(TOOLS, "Contracts.", List { len: 1..=MAX_CONTRACTS, single: false, item });
            Some(Pack { name: name.to_owned(), server_names: server_names?, contracts: contracts? })
        })
        .read(root, faults)
    };
    checked(name, text, read).map(|loaded| loaded.value)
}
