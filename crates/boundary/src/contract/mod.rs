//! Contracts, ready to be applied: which one holds for a tool, what its arguments and results must be.

mod compile;
pub mod diff;
mod schema;
pub mod source;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use globset::{Glob, GlobMatcher};
use serde_json::Value;
use thiserror::Error;

use super::{
    overlay::{Lister, Reader},
    stub::template::Template,
};
use umbra_domain::{
    Effect, ToolName,
    contract::{ContractFault, ToolContract},
    tool::{canonical, own_part},
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
    exact: HashMap<String, usize>,
    /// More literal characters first, then in order of the file.
    globs: Vec<(GlobMatcher, usize)>,
    readers: BTreeMap<String, Vec<(usize, usize)>>,
    listers: BTreeMap<String, Vec<(usize, usize)>>,
    /// The gravest effect by the name alone of a tool that a contract names, whichever server's.
    anyones: HashMap<String, Effect>,
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
        compiled.index();
        Ok(compiled)
    }

    fn index(&mut self) {
        let mut globs = Vec::new();
        for (index, contract) in self.all.iter().enumerate() {
            let tool = canonical(&contract.contract.tool);
            if is_glob(&tool) {
                let literal = tool.chars().filter(|c| !matches!(c, '*' | '?')).count();
                globs.extend(Glob::new(&tool).ok().map(|glob| (literal, glob.compile_matcher(), index)));
            } else {
                if let Some(own) = own_part(&tool) {
                    let gravest = self.anyones.entry(own.to_owned()).or_insert(Effect::Read);
                    *gravest = contract.effect().max(*gravest);
                }
                self.exact.insert(tool, index);
            }
            for (at, reader) in contract.readers.iter().enumerate() {
                self.readers.entry(canonical(&reader.tool)).or_default().push((index, at));
            }
            for (at, lister) in contract.listers.iter().enumerate() {
                self.listers.entry(canonical(&lister.tool)).or_default().push((index, at));
            }
        }
        globs.sort_by_key(|(literal, _, index)| (std::cmp::Reverse(*literal), *index));
        self.globs = globs.into_iter().map(|(_, glob, index)| (glob, index)).collect();
    }

    /// The contract of a tool: one of its very name before globs, a more specific glob before another, then the first.
    pub fn find(&self, tool: &ToolName) -> Option<&Arc<CompiledContract>> {
        let name = tool.canonical().whole;
        let index = self.exact.get(&name).copied();
        let index = index.or_else(|| self.globs.iter().find(|(glob, _)| glob.is_match(&name)).map(|(_, index)| *index));
        index.and_then(|index| self.all.get(index))
    }

    /// The least effect of a tool that names no server, by the contracts of tools of its name: it may be any of them.
    pub fn at_least(&self, tool: &ToolName) -> Option<Effect> {
        let tool = tool.canonical();
        if tool.has_server { None } else { self.anyones.get(&tool.own).copied() }
    }

    /// Every contract, in order of the file.
    pub fn all(&self) -> impl Iterator<Item = &Arc<CompiledContract>> {
        self.all.iter()
    }

    /// How records of a run are read by this tool.
    pub(super) fn readers(&self, tool: &str) -> impl Iterator<Item = &Reader> {
        let places = self.readers.get(&canonical(tool)).into_iter().flatten();
        places.filter_map(|(index, at)| self.all.get(*index)?.readers.get(*at))
    }

    /// How records of a run are listed by this tool.
    pub(super) fn listers(&self, tool: &str) -> impl Iterator<Item = &Lister> {
        let places = self.listers.get(&canonical(tool)).into_iter().flatten();
        places.filter_map(|(index, at)| self.all.get(*index)?.listers.get(*at))
    }
}

/// Whether a name stands for several.
pub fn is_glob(tool: &str) -> bool {
    tool.contains(['*', '?', '[', '{'])
}
