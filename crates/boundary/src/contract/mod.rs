//! Contracts, ready to be applied: which one holds for a tool, what its arguments and results must be.

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

use serde_json::Value;
use thiserror::Error;

use super::{
    effects::specificity,
    overlay::{Lister, Reader},
    stub::template::Template,
};
use umbra_domain::{
    Effect, ToolName,
    contract::{ContractFault, ToolContract},
    tool::{BadPattern, NormalName, Readings, ToolPatterns, is_wild, joined, normal_pattern},
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
    readers: Vec<Reader>,
    listers: Vec<Lister>,
}

/// One way to answer.
#[derive(Debug)]
pub(super) struct CompiledResponse {
    pub when: Option<Expression>,
    pub result: Template,
}

/// An error that is shown at a rate.
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

    /// The contract as it was written.
    pub fn contract(&self) -> &ToolContract {
        &self.contract
    }

    /// What calling the tool does.
    pub fn effect(&self) -> Effect {
        self.contract.effect
    }

    /// Whether it says what the tool answers.
    pub fn answers(&self) -> bool {
        let ToolContract { responses, output_schema, example, .. } = &self.contract;
        !responses.is_empty() || output_schema.is_some() || example.is_some()
    }

    /// Whether arguments fit its input schema; anything does where it has none.
    ///
    /// # Errors
    /// What does not fit, without repeating what was written.
    pub fn check_arguments(&self, arguments: &Value) -> Result<(), Vec<Mismatch>> {
        self.input.as_ref().map_or(Ok(()), |schema| schema.check(arguments))
    }

    /// Whether a result fits its output schema; anything but null does where it has none.
    ///
    /// # Errors
    /// What does not fit, without repeating what was written.
    pub fn check_result(&self, result: &Value) -> Result<(), Vec<Mismatch>> {
        self.output.as_ref().map_or(Ok(()), |schema| schema.check(result))
    }
}

/// Faults of contracts that should have been refused when their file was read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{} contracts have faults; the first is {}: {}", .0.len(), .0.first().map_or("", |(tool, _)| tool), .0.first().map_or("", |(_, fault)| &fault.message))]
pub struct ContractsError(pub Vec<(String, ContractFault)>);

/// Every contract that is in force.
#[derive(Debug, Default)]
pub struct Contracts {
    all: Vec<Arc<CompiledContract>>,
    /// Places in `all`: names first, then globs by their literal characters, then in order of the file.
    specific_first: Vec<usize>,
    /// Places in `specific_first`.
    patterns: ToolPatterns,
    /// Those without wildcards.
    names: ToolPatterns,
    /// Servers of the tools that contracts name, by the tools' own names.
    servers: BTreeMap<String, BTreeSet<String>>,
    /// By joined name.
    readers: BTreeMap<String, Vec<(usize, usize)>>,
    listers: BTreeMap<String, Vec<(usize, usize)>>,
}

impl Contracts {
    /// Compiles contracts.
    ///
    /// # Errors
    /// Every fault, with its tool.
    pub fn compile(contracts: Vec<ToolContract>) -> Result<Self, ContractsError> {
        let (mut compiled, mut faults) = (Self::default(), Vec::new());
        for contract in contracts {
            let tool = contract.tool.clone();
            match compile(contract) {
                Ok(contract) => compiled.all.push(Arc::new(contract)),
                Err(found) => faults.extend(found.into_iter().map(|fault| (tool.clone(), fault))),
            }
        }
        if !faults.is_empty() {
            return Err(ContractsError(faults));
        }
        compiled.index().map_err(|BadPattern(tool)| {
            let fault = ContractFault::of(
                "tool",
                format!("{tool:?} is no glob"),
                "write a name, or a pattern such as github.delete_*",
            );
            ContractsError(vec![(tool, fault)])
        })?;
        Ok(compiled)
    }

    fn index(&mut self) -> Result<(), BadPattern> {
        let tool = |place: &usize| self.all.get(*place).map_or("", |contract| contract.contract.tool.as_str());
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|place| specificity(tool(place)));
        let patterns = || order.iter().map(tool).enumerate().map(|(place, tool)| (tool, place));
        self.patterns = ToolPatterns::compile(patterns())?;
        self.names = ToolPatterns::compile(patterns().filter(|(tool, _)| !is_wild(tool)))?;
        self.specific_first = order;
        for (index, contract) in self.all.iter().enumerate() {
            if let (tool, false) = (&contract.contract.tool, is_wild(&contract.contract.tool))
                && let NormalName { server: Some(server), own } = ToolName::bare(tool).normal()
            {
                self.servers.entry(own).or_default().insert(server);
            }
            for (at, reader) in contract.readers.iter().enumerate() {
                self.readers.entry(joined(&normal_pattern(&reader.tool))).or_default().push((index, at));
            }
            for (at, lister) in contract.listers.iter().enumerate() {
                self.listers.entry(joined(&normal_pattern(&lister.tool))).or_default().push((index, at));
            }
        }
        Ok(())
    }

    fn at(&self, place: usize) -> Option<&Arc<CompiledContract>> {
        self.specific_first.get(place).and_then(|index| self.all.get(*index))
    }

    /// The contract of a tool: one of its very name before globs, a more specific glob before another, then the first.
    pub fn find(&self, tool: &ToolName) -> Option<&Arc<CompiledContract>> {
        self.patterns.permitting(&tool.readings()).first().and_then(|place| self.at(*place))
    }

    /// True if one names this very tool, without wildcards.
    pub fn names(&self, tool: &Readings) -> bool {
        !self.names.permitting(tool).is_empty()
    }

    /// The gravest effect of the tools that contracts name and that it may be.
    pub fn at_least(&self, tool: &Readings) -> Option<Effect> {
        self.names.restricting(tool).iter().filter_map(|place| self.at(*place)).map(|contract| contract.effect()).max()
    }

    /// Servers of the tools of this name that contracts name, in normal form.
    pub(super) fn servers_of(&self, own: &str) -> Vec<String> {
        self.servers.get(own).into_iter().flatten().cloned().collect()
    }

    /// Every contract, in order of the file.
    pub fn all(&self) -> impl Iterator<Item = &Arc<CompiledContract>> {
        self.all.iter()
    }

    /// How records of a run are read by this tool.
    pub(super) fn readers(&self, tool: &str) -> impl Iterator<Item = &Reader> {
        let places = self.readers.get(&ToolName::bare(tool).joined()).into_iter().flatten();
        places.filter_map(|(index, at)| self.all.get(*index)?.readers.get(*at))
    }

    /// How records of a run are listed by this tool.
    pub(super) fn listers(&self, tool: &str) -> impl Iterator<Item = &Lister> {
        let places = self.listers.get(&ToolName::bare(tool).joined()).into_iter().flatten();
        places.filter_map(|(index, at)| self.all.get(*index)?.listers.get(*at))
    }
}
