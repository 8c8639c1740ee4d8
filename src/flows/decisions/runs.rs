//! Runs of agents: their execution, the runs that stay in shadow when it is lifted, and their end.
//!
//! A named run that began in shadow, or that a shadow run started, stays there until a person ends it. A default run
//! (of a session or a process) has only the memory of its stubs, which is gone when calls run again.

use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use super::{Boundary, cleaned, inherited_execution::ExecutionContext};
use umbra_domain::{Execution, KeyId, Override, OverrideScope, RunRow, audit::AuditKind};
use umbra_store::{
    StoreError,
    decisions::{Named, NewAudit},
    execution::{ListedRun, RunFilter},
};

/// Most runs that a change of the execution is checked against.
const MOST_RUNS: i64 = 1_000;

/// A run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = Run)]
pub struct RunItem {
    /// Agent of the run.
    pub agent: String,
    /// Name of the run.
    pub run: String,
    /// True if the caller chose the name; false for the default run of a session or a process.
    pub named: bool,
    /// Execution of the run's next call, overrides of single tools aside.
    pub execution: Execution,
    /// True if the run is in shadow only because it began there, or was started by a run in shadow: other calls run.
    pub stays_in_shadow: bool,
    /// Run that started this run.
    pub started_by: Option<String>,
    /// Session of the run's last call.
    pub session: Option<String>,
    /// Time of the last call that changed the run.
    pub changed_at: Timestamp,
}

/// Name of a run, with its agent.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[schema(as = RunName)]
pub struct RunName {
    /// Agent of the run.
    pub agent: String,
    /// Name of the run.
    pub run: String,
}

impl RunName {
    fn of(row: RunRow) -> Self {
        Self { agent: row.agent, run: row.run }
    }
}

/// Consequences of a change of the execution for runs.
#[derive(Debug, Clone, Default)]
pub struct RunsAfter {
    /// Runs that the change leaves in shadow.
    pub stay: Vec<RunName>,
    /// Default runs (of sessions and processes) that end with the change.
    pub ended: Vec<RunName>,
}

/// True if any call of the run may be in shadow.
fn may_be_shadow(row: &RunRow, applying: ExecutionContext<'_>) -> bool {
    let is_tool = |one: &&Override| one.scope == OverrideScope::Tool && one.execution == Execution::Shadow;
    let in_force = |one: &Override| one.expires_at.is_none_or(|end| applying.now < end);
    applying.overrides.iter().filter(is_tool).any(in_force) || applying.execution(row) == Execution::Shadow
}

impl Boundary {
    /// Returns runs, those with the newest calls first.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn runs(&self, filter: RunFilter) -> Result<Vec<RunItem>, StoreError> {
        let [agent, run] = [filter.agent, filter.run].map(|name| name.map(|name| self.name_asked_for(&name)));
        let rows = self.authentic_runs(&RunFilter { agent, run, ..filter }).await?;
        let (overrides, now) = (self.overrides().await?, self.store.now().await?);
        let rules = self.rules.load();
        let applying = ExecutionContext { configured: &rules.configured, overrides: &overrides, now, tool: None };
        Ok(rows.into_iter().map(|listed| item(listed, applying)).collect())
    }

    async fn authentic_runs(&self, filter: &RunFilter) -> Result<Vec<ListedRun>, StoreError> {
        let mut rows = self.store.decisions().runs(filter).await?;
        for ListedRun { row, .. } in rows.iter_mut().filter(|listed| !self.rows.is_authentic_run(&listed.row)) {
            // A run that fails authentication counts as one that began in shadow.
            (row.began, row.named) = (Execution::Shadow, true);
        }
        Ok(rows)
    }

    /// Ends the default runs whose calls do not stay in shadow, and returns them with the named runs that do. The
    /// overrides in `before` were in force up to `changed_at`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn settle_runs(&self, before: &[Override], changed_at: Timestamp) -> Result<RunsAfter, StoreError> {
        let filter = RunFilter { in_shadow: true, limit: MOST_RUNS, ..RunFilter::default() };
        let rows = self.authentic_runs(&filter).await?;
        let (overrides, now) = (self.overrides().await?, self.store.now().await?);
        let rules = self.rules.load();
        let after = ExecutionContext { configured: &rules.configured, overrides: &overrides, now, tool: None };
        let before = ExecutionContext { overrides: before, now: changed_at, ..after };
        let (mut runs, mut over) = (RunsAfter::default(), Vec::new());
        for ListedRun { row, updated_at } in rows {
            if row.named {
                let is_left = before.execution(&row) == Execution::Shadow && after.execution(&row) == Execution::Live;
                runs.stay.extend(is_left.then(|| RunName::of(row)));
                continue;
            }
            let (was, is) = (may_be_shadow(&row, before), may_be_shadow(&row, after));
            if updated_at <= changed_at && !(was && is) {
                over.push((row.agent.clone(), row.run.clone()));
                runs.ended.extend((was && !is).then(|| RunName::of(row)));
            }
        }
        if !over.is_empty() {
            self.store.decisions().end_runs(&over, &[]).await?;
        }
        runs.stay.sort_unstable();
        runs.ended.sort_unstable();
        Ok(runs)
    }

    /// Ends the runs of this name, of one agent or of all agents, and returns them; the next call of the name begins a
    /// new run.
    ///
    /// # Errors
    /// The database does not answer; the runs may be ended all the same.
    pub async fn end_run(
        &self,
        run: &str,
        agent: Option<&str>,
        reason: &str,
        by: Option<KeyId>,
    ) -> Result<Vec<RunName>, StoreError> {
        let (run, agent) = (self.name_asked_for(run), agent.map(|agent| self.name_asked_for(agent)));
        let mut agents = self.store.decisions().agents_of_run(&run).await?;
        agents.retain(|one| agent.as_ref().is_none_or(|agent| agent == one));
        let runs: Vec<Named> = agents.into_iter().map(|agent| (agent, run.clone())).collect();
        if runs.is_empty() {
            return Ok(Vec::new());
        }
        let body = json!({"change": "run_ended", "run": run, "reason": cleaned(reason), "by": by});
        let said = |(agent, run): &Named| {
            let said = self.said(AuditKind::Execution, &body);
            NewAudit { agent: Some(agent.clone()), run: Some(run.clone()), ..said }
        };
        let said: Vec<NewAudit> = runs.iter().map(said).collect();
        self.store.decisions().end_runs(&runs, &said).await?;
        for run in &runs {
            self.seen.lock().runs.remove(run);
        }
        Ok(runs.into_iter().map(|(agent, run)| RunName { agent, run }).collect())
    }
}

fn item(ListedRun { row, updated_at: changed_at }: ListedRun, applying: ExecutionContext<'_>) -> RunItem {
    let otherwise = applying.execution(&row);
    let is_bound = row.is_bound();
    let RunRow { agent, run, named, started_by, session, .. } = row;
    RunItem {
        agent,
        run,
        named,
        execution: if is_bound { Execution::Shadow } else { otherwise },
        stays_in_shadow: is_bound && otherwise == Execution::Live,
        started_by,
        session,
        changed_at,
    }
}
