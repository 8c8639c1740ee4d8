//! Runs of agents, as far as they decide the execution of calls.

use serde::{Deserialize, Serialize};

use super::{Execution, HexBytes};

/// Row of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// Agent of the run.
    pub agent: String,
    /// Name of the run.
    pub run: String,
    /// Strictest execution of the run's calls so far.
    pub execution: Execution,
    /// Execution that the run began with.
    pub began: Execution,
    /// Shadow run that this run descends from.
    pub parent: Option<String>,
    /// Run that started this run, in shadow or not.
    pub started_by: Option<String>,
    /// Session of the last call.
    pub session: Option<String>,
    /// True if the caller chose the name; false for the run of a session or a process.
    pub named: bool,
    /// Keyed hash of all fields above; `None` in rows older than keyed hashes.
    pub mac: Option<HexBytes>,
}

impl RunRow {
    /// True if the run stays in shadow. A run without a chosen name never does: it follows the execution in force.
    pub fn is_bound(&self) -> bool {
        self.named && (self.began == Execution::Shadow || self.parent.is_some())
    }
}
