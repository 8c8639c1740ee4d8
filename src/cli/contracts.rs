//! `umbra contracts`: checks contracts, lists tools without one, infers contracts from recorded calls, and compares two
//! versions of a tools file. For people and for CI: exit 1 where there is a fault.

mod infer;
mod propose;
mod sources;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
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

/// Reads a tools file.
fn read(path: &Path) -> Result<Loaded<ToolDeclarations>, Report> {
    tools::read(path, ToolsFileValidators { contract: &faults, condition: &check_condition })
}

fn lint(global: &GlobalOptions, options: &ContractsLintOptions) -> Result<(), CommandFailure> {
    let Some(path) = options.file.as_ref().or(global.tools.as_ref()) else {
        if options.source.is_none() {
            return usage("name a tools file: umbra contracts lint FILE");
        }
        return finish(global, None, &[], options);
    };
    let (loaded, faults) = match read(path) {
        Ok(loaded) => (Some(loaded), Vec::new()),
        Err(report) => (None, report.faults),
    };
    if !faults.is_empty() {
        if global.json {
            answer_json(&json!({"faults": faults, "warnings": [], "unguarded": []}))?;
        } else {
            for fault in &faults {
                complain(&fault.to_string());
            }
            let n = faults.len();
            complain(&format!("{n} fault{}", if n == 1 { "" } else { "s" }));
        }
        return Err(CommandFailure::AlreadyReported);
    }
    finish(global, loaded.as_ref(), &[path.as_path()], options)
}

/// Prints warnings and unguarded tools.
fn finish(
    global: &GlobalOptions,
    loaded: Option<&Loaded<ToolDeclarations>>,
    files: &[&Path],
    options: &ContractsLintOptions,
) -> Result<(), CommandFailure> {
    let contracts = loaded.map(|loaded| loaded.value.contracts.clone()).unwrap_or_default();
    let count = contracts.len();
    let compiled = Contracts::compile(contracts)?;
    let unguarded = match &options.source {
        Some(folder) => sources::unguarded(folder, &compiled)?,
        None => Vec::new(),
    };
    let warnings = loaded.map(|loaded| loaded.warnings.as_slice()).unwrap_or_default();
    if global.json {
        answer_json(&json!({"faults": [], "warnings": warnings, "unguarded": unguarded, "contracts": count}))?;
    } else {
        for warning in warnings {
            complain(&warning.to_string());
        }
        for tool in &unguarded {
            complain(&tool.to_string());
        }
        for file in files {
            answer(&format!("{}: {count} contract{}, no faults", file.display(), if count == 1 { "" } else { "s" }));
        }
    }
    if unguarded.is_empty() { Ok(()) } else { Err(CommandFailure::AlreadyReported) }
}

fn packs(global: &GlobalOptions, name: Option<&str>) -> Result<(), CommandFailure> {
    let texts: BTreeMap<_, _> = tools::pack_texts().collect();
    if let Some(name) = name {
        let known = || texts.keys().copied().collect::<Vec<_>>().join(", ");
        let text = texts
            .get(name)
            .ok_or_else(|| CommandFailure::Usage(format!("pack {name} not found; the packs: {}", known())))?;
        return global.print(&json!({"name": name, "yaml": text}), || (*text).to_owned());
    }
    let packs = tools::packs(ToolsFileValidators { contract: &faults, condition: &check_condition })
        .map_err(|report| anyhow!("{report}"))?;
    if global.json {
        let packs = packs.iter().map(
            |pack| json!({"name": pack.name, "server_names": pack.server_names, "contracts": pack.contracts.len()}),
        );
        return answer_json(&packs.collect::<Vec<_>>());
    }
    let mut rows = table::new(&["pack", "server names", "contracts"]);
    for pack in &packs {
        rows.add_row([pack.name.clone(), pack.server_names.join(", "), pack.contracts.len().to_string()]);
    }
    answer(&rows.to_string());
    Ok(())
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
