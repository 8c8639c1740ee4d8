//! Compiled contracts: finds the contract of a tool, and checks arguments and results against it.

mod compile;
pub mod diff;
mod schema;
pub mod source;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use anyhow::anyhow;
use serde_json::Value;

use super::{
    by_tool::ByTool,
    overlay::{Lister, RecordReader},
    stub::template::Template,
};
use umbra_domain::{
    Effect, ToolName,
    contract::{ContractFault, ToolContract},
    tool::{BadPattern, NormalName, is_wild},
};
use umbra_policy::Expression;

pub use compile::{compile, faults};
pub use schema::{Mismatch, Schema};

/// A contract with its schemas, predicates and templates compiled.
#[derive(Debug)]
pub struct CompiledContract {
    pub(super) contract: ToolContract,
    id: String,
    pub(super) input: Option<Schema>,
    pub(super) output: Option<Schema>,
    pub(super) responses: Vec<CompiledResponse>,
    pub(super) faults: Vec<CompiledFault>,
    pub(super) put: Option<CompiledPut>,
    pub(super) delete: Option<CompiledDelete>,
    readers: Vec<RecordReader>,
    listers: Vec<Lister>,
}

/// One response of a contract.
#[derive(Debug)]
pub(super) struct CompiledResponse {
    pub when: Option<Expression>,
    pub result: Template,
}

/// Simulated error, returned at a rate.
#[derive(Debug)]
pub(super) struct CompiledFault {
    pub rate: f64,
    pub error: String,
    pub result: Template,
}

/// A record that a call stores.
#[derive(Debug)]
pub(super) struct CompiledPut {
    pub collection: String,
    pub key: Expression,
    pub value: Option<Template>,
    pub partial: bool,
    pub edits: Option<Expression>,
    pub from: Option<Expression>,
}

/// A record that a call removes.
#[derive(Debug)]
pub(super) struct CompiledDelete {
    pub collection: String,
    pub key: Expression,
}

impl CompiledContract {
    /// `tool@version`, as the audit keeps it.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Contract as it was written.
    pub fn contract(&self) -> &ToolContract {
        &self.contract
    }

    /// Effect of calling the tool.
    pub fn effect(&self) -> Effect {
        self.contract.effect
    }

    /// True if the contract describes the tool's answer.
    pub fn answers(&self) -> bool {
        let ToolContract { responses, output_schema, example, .. } = &self.contract;
        !responses.is_empty() || output_schema.is_some() || example.is_some()
    }

    /// Checks arguments against the input schema; without one, anything fits.
    ///
    /// # Errors
    /// Mismatches, which repeat nothing of the arguments.
    pub fn check_arguments(&self, arguments: &Value) -> Result<(), Vec<Mismatch>> {
        self.input.as_ref().map_or(Ok(()), |schema| schema.check(arguments))
    }

    /// Checks a result against the output schema; without one, anything fits.
    ///
    /// # Errors
    /// Mismatches, which repeat nothing of the result.
    pub fn check_result(&self, result: &Value) -> Result<(), Vec<Mismatch>> {
        self.output.as_ref().map_or(Ok(()), |schema| schema.check(result))
    }
}

/// All contracts in force.
#[derive(Debug)]
pub struct Contracts {
    all: Vec<Arc<CompiledContract>>,
    pub(super) by_tool: ByTool<Arc<CompiledContract>>,
    /// Servers of the tools that contracts name, by the tools' own names.
    servers: BTreeMap<String, BTreeSet<String>>,
}

impl Contracts {
    /// Compiles contracts.
    ///
    /// # Errors
    /// The first fault, with its tool. The reader of the contracts' file should have refused it.
    pub fn compile(contracts: Vec<ToolContract>) -> anyhow::Result<Self> {
        let compiled = |contract: ToolContract| {
            let tool = contract.tool.clone();
            let fault = |faults: Vec<ContractFault>| faults.into_iter().next().map(|fault| fault.message);
            let compiled = compile(contract).map(Arc::new);
            compiled.map_err(|faults| anyhow!("the contract of {tool}: {}", fault(faults).unwrap_or_default()))
        };
        let all: Vec<_> = contracts.into_iter().map(compiled).collect::<anyhow::Result<_>>()?;
        let by_tool = ByTool::compile(all.clone(), |contract| &contract.contract.tool);
        let by_tool = by_tool.map_err(|BadPattern(tool)| anyhow!("{tool:?} is not a valid glob"))?;
        let mut servers = BTreeMap::<String, BTreeSet<String>>::new();
        for tool in all.iter().map(|contract| &contract.contract.tool).filter(|tool| !is_wild(tool)) {
            if let NormalName { server: Some(server), own } = ToolName::bare(tool).normal() {
                servers.entry(own).or_default().insert(server);
            }
        }
        Ok(Self { all, by_tool, servers })
    }

    /// Finds the contract of a tool: an exact name before globs, a more specific glob before another, then the first.
    pub fn find(&self, tool: &ToolName) -> Option<&Arc<CompiledContract>> {
        self.by_tool.find(&tool.readings())
    }

    /// Servers that contracts name with a tool of this name, in normal form.
    pub(super) fn servers_of(&self, own: &str) -> Vec<String> {
        self.servers.get(own).into_iter().flatten().cloned().collect()
    }

    /// Every contract, in order of the file.
    pub fn all(&self) -> impl Iterator<Item = &Arc<CompiledContract>> {
        self.all.iter()
    }

    /// Rules by which this tool reads records of a run.
    pub(super) fn readers(&self, tool: &ToolName) -> impl Iterator<Item = &RecordReader> {
        let name = ToolName::bare(tool.to_string()).joined();
        self.all.iter().flat_map(|contract| &contract.readers).filter(move |reader| reader.tool == name)
    }

    /// Rules by which this tool lists records of a run.
    pub(super) fn listers(&self, tool: &ToolName) -> impl Iterator<Item = &Lister> {
        let name = ToolName::bare(tool.to_string()).joined();
        self.all.iter().flat_map(|contract| &contract.listers).filter(move |lister| lister.tool == name)
    }
}
