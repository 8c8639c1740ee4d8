//! `umbra contracts`: checks contracts, lists tools without one, infers contracts from recorded calls, and compares two
//! versions of a tools file. For people and for CI: exit 1 where there is a fault.

mod infer;
mod propose;
mod sources;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use serde_json::json;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, table, usage};
use umbra_boundary::contract::{Contracts, diff::diff, faults};
use umbra_config::{
    Loaded, Report,
    tools::{self, ToolsFileValidators},
};
use umbra_domain::ToolDeclarations;
use umbra_policy::check_condition;

#[derive(Debug, Subcommand)]
pub(super) enum ContractsAction {
    /// Load contracts and render each stub; exit 1 with a line per fault.
    Lint(ContractsLintOptions),
    /// Write contracts of tools from recorded calls, as YAML on standard output.
    Infer(infer::InferOptions),
    /// Show the next version of contracts that live results no longer fit, from a running server, or write it into the
    /// file.
    Propose(propose::ProposeOptions),
    /// List the packs, which are contracts of well-known MCP servers that come with Umbra, or show one as YAML.
    Packs {
        /// Name of the pack to show.
        name: Option<String>,
    },
    /// Show the changes from one tools file to another; exit 1 where they break callers or loosen restrictions.
    Diff {
        /// Present tools file.
        old: PathBuf,
        /// Tools file that is to replace it.
        new: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(super) struct ContractsLintOptions {
    /// Tools file; `--tools` names it as well.
    file: Option<PathBuf>,
    /// Also list the tools that code in this folder registers without a guard or a contract (Python, JavaScript).
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

pub(super) async fn run(global: &GlobalOptions, action: ContractsAction) -> Result<(), CommandFailure> {
    match action {
        ContractsAction::Lint(options) => lint(global, &options),
        ContractsAction::Infer(options) => infer::run(global, &options),
        ContractsAction::Propose(options) => propose::run(global, options).await,
        ContractsAction::Packs { name } => packs(global, name.as_deref()),
        ContractsAction::Diff { old, new } => compare(global, &old, &new),
    }
}

/// Judgement on contracts and conditions.
const JUDGEMENT: ToolsFileValidators<'static> = ToolsFileValidators { contract: &faults, condition: &check_condition };

/// Reads a tools file.
fn read(path: &Path) -> Result<Loaded<ToolDeclarations>, Report> {
    tools::read(path, JUDGEMENT)
}

fn lint(global: &GlobalOptions, options: &ContractsLintOptions) -> Result<(), CommandFailure> {
    let file = options.file.as_ref().or(global.tools.as_ref());
    if file.is_none() && options.source.is_none() {
        return usage("name a tools file: umbra contracts lint FILE");
    }
    let loaded = match file.map(|file| read(file)).transpose() {
        Ok(loaded) => loaded,
        Err(Report { faults, .. }) => {
            if global.json {
                answer_json(&json!({"faults": faults, "warnings": [], "unguarded": []}))?;
            } else {
                let n = faults.len();
                for fault in faults {
                    complain(&fault.to_string());
                }
                complain(&format!("{n} fault{}", if n == 1 { "" } else { "s" }));
            }
            return Err(CommandFailure::AlreadyReported);
        }
    };
    let (contracts, warnings) = loaded.map(|loaded| (loaded.value.contracts, loaded.warnings)).unwrap_or_default();
    let count = contracts.len();
    let compiled = Contracts::compile(contracts)?;
    let unguarded = match &options.source {
        Some(folder) => sources::unguarded(folder, &compiled)?,
        None => Vec::new(),
    };
    if global.json {
        answer_json(&json!({"faults": [], "warnings": warnings, "unguarded": unguarded, "contracts": count}))?;
    } else {
        for warning in warnings {
            complain(&warning.to_string());
        }
        for tool in &unguarded {
            complain(&tool.to_string());
        }
        if let Some(file) = file {
            answer(&format!("{}: {count} contract{}, no faults", file.display(), if count == 1 { "" } else { "s" }));
        }
    }
    if unguarded.is_empty() { Ok(()) } else { Err(CommandFailure::AlreadyReported) }
}

fn packs(global: &GlobalOptions, name: Option<&str>) -> Result<(), CommandFailure> {
    let texts: BTreeMap<_, _> = tools::pack_texts().collect();
    if let Some(name) = name {
        let Some(text) = texts.get(name) else {
            let known: Vec<&str> = texts.keys().copied().collect();
            return usage(format!("pack {name} not found; the packs: {}", known.join(", ")));
        };
        return global.print(&json!({"name": name, "yaml": text}), || (*text).to_owned());
    }
    let packs = tools::packs(JUDGEMENT)?;
    let mut rows = table::new(&["pack", "server names", "contracts"]);
    for pack in &packs {
        rows.add_row([pack.name.clone(), pack.server_names.join(", "), pack.contracts.len().to_string()]);
    }
    let packs = packs
        .iter()
        .map(|pack| json!({"name": pack.name, "server_names": pack.server_names, "contracts": pack.contracts.len()}));
    global.print(&packs.collect::<Vec<_>>(), || rows.to_string())
}

fn compare(global: &GlobalOptions, old: &Path, new: &Path) -> Result<(), CommandFailure> {
    let changes = diff(&read(old)?.value.contracts, &read(new)?.value.contracts);
    let breaking = changes.iter().filter(|change| change.breaking).count();
    if global.json {
        answer_json(&json!({"breaking": breaking, "changes": changes}))?;
    } else {
        for change in &changes {
            let mark = if change.breaking { "breaking" } else { "compatible" };
            answer(&format!("{mark}: {}: {}", change.tool, change.change));
        }
        if changes.is_empty() {
            answer("no difference");
        }
    }
    if breaking == 0 { Ok(()) } else { Err(CommandFailure::AlreadyReported) }
}
