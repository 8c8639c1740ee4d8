//! Runs of agents, as far as the execution of their calls rests on them.

use serde::{Deserialize, Serialize};

use super::{Execution, HexBytes};

/// Row of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRow {
    /// The agent.
    pub agent: String,
    /// The run's name.
    pub run: String,
    /// Strictest execution of its calls so far.
    pub execution: Execution,
    /// Execution that it began with.
    pub began: Execution,
    /// The shadow run that it descends from.
    pub parent: Option<String>,
    /// The run that started it, in shadow or not.
    pub started_by: Option<String>,
    /// The session of its last call.
    pub session: Option<String>,
    /// True where the caller chose its name; false for the run of a session or a process.
    pub named: bool,
    /// Keyed hash of all fields above; none in rows from before there were such.
    pub mac: Option<HexBytes>,
}

impl RunRow {
    /// Whether it stays in shadow. A run that nobody named never does: it goes by what is in force.
    pub fn is_bound(&self) -> bool {
        self.named && (self.began == Execution::Shadow || self.parent.is_some())
    }
}
