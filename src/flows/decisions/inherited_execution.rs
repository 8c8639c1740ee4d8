//! Inherited execution: finds out if a run that another run descends from is in shadow at this decision.
//!
//! A run that began in shadow stays there. Under a parent that is unknown, or too far up, nothing may be changed, since
//! the execution there cannot be told.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Boundary, authenticate::authenticate_parents};
use umbra_boundary::execution::{CallOwner, ConfiguredExecution, Effective, InheritedExecution, effective};
use umbra_domain::{Execution, Override, RunRow, ToolName, tool::Readings};
use umbra_store::{
    StoreError,
    decisions::{MOST_GENERATIONS, MOST_PARENTS},
};

/// Configuration and overrides by which runs are judged.
#[derive(Clone, Copy)]
pub(super) struct ExecutionContext<'a> {
    pub configured: &'a ConfiguredExecution,
    pub overrides: &'a [Override],
    pub now: Timestamp,
    /// Called tool; `None` for a run as a whole.
    pub tool: Option<&'a Readings>,
}

impl ExecutionContext<'_> {
    /// Returns the execution of a run by configuration and overrides, whatever the run is bound to.
    pub fn execution(self, run: &RunRow) -> Execution {
        let whose =
            CallOwner { agent: Some(&run.agent), session: run.session.as_deref(), tool: self.tool, descent: None };
        effective(self.configured, self.overrides, whose, self.now).execution
    }

    fn is_shadow(self, run: &RunRow) -> bool {
        run.named && run.execution == Execution::Shadow || self.execution(run) == Execution::Shadow
    }
}

/// Returns the execution inherited from the runs in `names`, the direct parents; `known` are the rows of all ancestors.
/// A run's name counts for every agent that uses it.
pub(super) fn inherited_execution(
    names: Vec<&str>,
    known: &[RunRow],
    judged: ExecutionContext<'_>,
) -> Option<InheritedExecution> {
    let unknown = |name: &str| Some(InheritedExecution::Unknown(name.to_owned()));
    let mut seen: BTreeSet<&str> = names.iter().copied().collect();
    let (mut next, mut doubt) = (names, None);
    for generation in 0..=MOST_GENERATIONS {
        let mut above = Vec::new();
        for name in std::mem::take(&mut next) {
            let mut of_name = known.iter().filter(|run| run.run == name).peekable();
            if of_name.peek().is_none() || generation == MOST_GENERATIONS || known.len() >= MOST_PARENTS {
                // A known shadow says more than an unknown run.
                doubt = doubt.or_else(|| unknown(name));
                continue;
            }
            for run in of_name {
                if judged.is_shadow(run) {
                    return Some(InheritedExecution::Shadow(run.run.clone()));
                }
                above.extend(run.started_by.as_deref().filter(|name| seen.insert(name)));
            }
        }
        next = above;
    }
    doubt
}

/// Calls whose effective execution is asked for.
#[derive(Debug, Clone, Default)]
pub struct EffectiveQuery {
    /// Agent of the calls.
    pub agent: Option<String>,
    /// Session of the calls.
    pub session: Option<String>,
    /// Tool, as `server.name`.
    pub tool: Option<String>,
    /// Run of the calls; of any agent if none is given.
    pub run: Option<String>,
    /// Run that started `run`.
    pub parent_run: Option<String>,
}

impl Boundary {
    /// Returns the effective execution of such calls, with its source; `None` if the parent run is unknown.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn effective(&self, asked: EffectiveQuery) -> Result<Option<Effective>, StoreError> {
        let overrides = self.overrides().await?;
        let EffectiveQuery { agent, session, tool, run, parent_run } = asked;
        let [agent, session, tool, run, parent_run] =
            [agent, session, tool, run, parent_run].map(|name| name.map(|name| self.name_asked_for(&name)));
        let [agent, session, tool, run, parent_run] =
            [&agent, &session, &tool, &run, &parent_run].map(Option::as_deref);
        let rules = self.rules.load();
        let tool = tool.map(|tool| rules.tools.readings(&ToolName::bare(tool)));
        let tool = tool.as_ref();
        let now = self.clock.now();
        let judged = ExecutionContext { configured: &rules.configured, overrides: &overrides, now, tool };
        let names: Vec<&str> = [run, parent_run].into_iter().flatten().collect();
        let descent = if names.is_empty() {
            None
        } else {
            let own = agent.zip(run).map(|(agent, run)| (agent.to_owned(), run.to_owned()));
            let (known, bound) = self.store.decisions().descent(names, own.into_iter().collect()).await?;
            let known = authenticate_parents(known, &self.rows, &self.doubts);
            let of_run = |row: &&RunRow| Some(row.run.as_str()) == run && agent.is_none_or(|agent| agent == row.agent);
            let began = run.filter(|_| !bound.is_empty() || known.iter().filter(of_run).any(RunRow::is_bound));
            let parents: Vec<&str> =
                known.iter().filter(of_run).filter_map(|row| row.started_by.as_deref()).chain(parent_run).collect();
            match began {
                Some(run) => Some(InheritedExecution::Began(run.to_owned())),
                None if parents.is_empty() => None,
                None => inherited_execution(parents, &known, judged),
            }
        };
        if matches!(descent, Some(InheritedExecution::Unknown(_))) {
            return Ok(None);
        }
        let whose = CallOwner { agent, session, tool, descent: descent.as_ref() };
        Ok(Some(effective(&rules.configured, &overrides, whose, now)))
    }
}
