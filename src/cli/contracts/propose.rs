//! `umbra contracts propose`: shows or writes the next version of contracts that live results no longer fit.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::{Value, json};

use super::{
    super::{CommandFailure, GlobalOptions, answer, answer_json, complain, remote::Server},
    read,
};
use umbra_config::tools::{self, ToolsFileValidators, replace};
use umbra_domain::ToolContract;

#[derive(Debug, Args)]
pub(in super::super) struct ProposeOptions {
    #[command(flatten)]
    server: Server,
    /// Tool, as its contract names it; all tools with drifting contracts unless given.
    tool: Option<String>,
    /// Write the proposals into this tools file, in place of the contracts; comments within those are lost.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

pub(super) async fn run(global: &GlobalOptions, options: ProposeOptions) -> Result<(), CommandFailure> {
    let drift = options.server.remote(global)?.get("v1/drift", &()).await?;
    let (mut proposed, mut missing) = (Vec::new(), Vec::new());
    for contract in drift["contracts"].as_array().into_iter().flatten() {
        let id = contract["contract"].as_str().unwrap_or_default();
        let tool = id.rsplit_once('@').map_or(id, |(tool, _)| tool);
        if options.tool.as_ref().is_some_and(|wanted| wanted != tool) {
            continue;
        }
        match contract["proposal"].as_str() {
            Some(yaml) => proposed.push(contract_in(yaml)?),
            None => missing.push(json!({"contract": id, "why": contract["proposal_missing"]})),
        }
    }
    for one in &missing {
        let [contract, why] = ["contract", "why"].map(|name| one[name].as_str().unwrap_or_default());
        complain(&format!("{contract}: no proposal: {why}"));
    }
    if let Some(file) = &options.write {
        return put(global, file, &proposed, &missing);
    }
    let yaml = tools::write(&proposed);
    let document = json!({"yaml": yaml, "contracts": proposed.len(), "missing": missing});
    global.print(&document, || match &options.tool {
        _ if !proposed.is_empty() => yaml,
        Some(tool) => format!("no contract of {tool} has drifted"),
        None => "no contract has drifted".to_owned(),
    })
}

/// Returns the one contract of a server's proposal.
fn contract_in(yaml: &str) -> anyhow::Result<ToolContract> {
    let loaded =
        tools::load("the server's proposal", yaml, ToolsFileValidators::NONE).map_err(|report| anyhow!("{report}"))?;
    loaded.value.contracts.into_iter().next().context("the server proposes an empty file")
}

/// Writes contracts into a file, if the result has no faults.
fn put(
    global: &GlobalOptions,
    file: &Path,
    proposed: &[ToolContract],
    missing: &[Value],
) -> Result<(), CommandFailure> {
    let name = file.display();
    let before = read(file).map_err(|report| anyhow!("{report}"))?.value.contracts;
    let mut text = fs::read_to_string(file).with_context(|| format!("{name} cannot be read"))?;
    let mut changed = Vec::new();
    for contract in proposed {
        let old = before.iter().find(|old| old.tool == contract.tool).map(|old| old.version);
        if let Some(version) = old.filter(|version| version + 1 != contract.version) {
            let (tool, next) = (&contract.tool, contract.version);
            return Err(anyhow!(
                "{name} has {tool}@{version}, and the server proposes {tool}@{next}: name the file that the server \
                 uses, or let the server reload this file first"
            )
            .into());
        }
        text = replace(&text, contract).map_err(|why| anyhow!("{name}: {why}"))?;
        changed.push(contract.id());
    }
    if !changed.is_empty() {
        let new = file.with_extension("yaml.new");
        fs::write(&new, &text).with_context(|| format!("{} cannot be written", new.display()))?;
        let judged = read(&new).map_err(|report| anyhow!("{report}"));
        let renamed = judged.and_then(|_| fs::rename(&new, file).with_context(|| format!("{name} cannot be written")));
        if let Err(error) = renamed {
            drop(fs::remove_file(&new));
            return Err(error.context("the file is unchanged").into());
        }
    }
    if global.json {
        return answer_json(&json!({"file": file, "contracts": changed, "missing": missing}));
    }
    for contract in &changed {
        answer(&format!("{name}: {contract} written"));
    }
    answer(match changed.len() {
        0 => "nothing to write: no drifted contract has a proposal",
        _ => "check the file, then reload the server: POST /v1/admin/reload, or signal HUP",
    });
    Ok(())
}
