//! Authenticates the stored state that decisions rest on. Takes rows as they are stored and the key of their MACs;
//! returns the state that decisions go by, and records each row that failed as a doubt.
//!
//! A row counts if its MAC fits and the audit does not contradict it. An override that fails counts as shadow, whatever
//! its value, since it may have been a shadow before; so does a run. An approval that fails is left out. A session has
//! the labels of its row and of the audit.

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::{
    Boundary,
    integrity_alarms::{IntegrityAlarms, UnauthenticRow},
};
use umbra_boundary::row_mac::RowKey;
use umbra_domain::{ApprovalRow, Execution, HexBytes, Override, RunRow, audit::SessionLabels};
use umbra_store::{
    StoreError,
    decisions::{KnownCall, Named, OpenApproval, StoredRun, StoredState},
    execution::UnverifiedOverride,
};

/// Reason shown in place of a failed override's own.
const UNAUTHENTIC: &str = "the override fails authentication by this server's key, or has ended: it is ignored";

/// State that decisions of a batch go by.
#[derive(Debug, Default)]
pub(super) struct DecisionState {
    /// The database's time.
    pub now: Timestamp,
    /// Overrides in force.
    pub overrides: Vec<Override>,
    /// Calls that were decided before, by agent and id.
    pub calls: HashMap<Named, KnownCall>,
    /// Runs, by agent and name.
    pub runs: HashMap<Named, AuthenticatedRun>,
    /// Runs that these runs descend from.
    pub parents: Vec<RunRow>,
    /// Runs that stay in shadow by the audit, with or without a row.
    pub bound: HashSet<Named>,
    /// Labels of sessions, by agent and name.
    pub sessions: HashMap<Named, SessionLabels>,
    /// The newest approval for each digest.
    pub approvals: HashMap<HexBytes, ApprovalRow>,
}

/// A run; in shadow if its row failed authentication.
#[derive(Debug)]
pub(super) struct AuthenticatedRun {
    pub run: StoredRun,
    pub is_authentic: bool,
}

/// Authenticates all state that decisions rest on.
pub(super) fn authenticate_state(stored: StoredState, key: &RowKey, doubts: &IntegrityAlarms) -> DecisionState {
    let StoredState { now, overrides, calls, runs, parents, bound, mut sessions, audited_labels, approvals } = stored;
    let (overrides, failed) = authenticate_overrides(Some(key), overrides);
    doubts.overrides(failed);
    let runs = authenticate_runs(runs, &bound, key, doubts);
    let stored_sessions: HashSet<Named> = sessions.keys().cloned().collect();
    for (name, labels) in audited_labels {
        let is_lost = sessions.entry(name.clone()).or_default().add(labels);
        // The row of a session may have expired; the audit does not expire.
        if is_lost && stored_sessions.contains(&name) {
            doubts.meet(UnauthenticRow::Session(&name.0, &name.1));
        }
    }
    let parents = authenticate_parents(parents, key, doubts);
    let authenticate = |OpenApproval { row, ended }: OpenApproval| {
        if ended || !key.is_authentic_approval(&row) {
            doubts.meet(UnauthenticRow::Approval(row.id.0));
            return None;
        }
        Some((row.digest.clone(), row))
    };
    let approvals = approvals.into_iter().filter_map(authenticate).collect();
    DecisionState { now, overrides, calls, runs, parents, bound, sessions, approvals }
}

/// Authenticates runs. A run that fails, or that is not in shadow although the audit says so, is put in shadow.
pub(super) fn authenticate_runs(
    runs: HashMap<Named, StoredRun>,
    bound: &HashSet<Named>,
    key: &RowKey,
    doubts: &IntegrityAlarms,
) -> HashMap<Named, AuthenticatedRun> {
    let authenticate = |(name, mut run): (Named, StoredRun)| {
        let is_authentic = (run.row.is_bound() || !bound.contains(&name)) && key.is_authentic_run(&run.row);
        if !is_authentic {
            doubts.meet(UnauthenticRow::Run(&name.0, &name.1));
            (run.row.began, run.row.execution, run.row.named) = (Execution::Shadow, Execution::Shadow, true);
        }
        (name, AuthenticatedRun { run, is_authentic })
    };
    runs.into_iter().map(authenticate).collect()
}

/// Authenticates overrides, and returns the ids of those that failed. Without a key, only ended overrides fail.
pub fn authenticate_overrides(
    key: Option<&RowKey>,
    stored: Vec<UnverifiedOverride>,
) -> (Vec<Override>, BTreeSet<Uuid>) {
    let mut failed = BTreeSet::new();
    let authenticate = |UnverifiedOverride { said, mac, ended }| {
        let is_authentic = key.is_none_or(|key| mac.is_some_and(|mac| mac == key.of_override(&said)));
        if is_authentic && !ended {
            return said;
        }
        failed.insert(said.id.0);
        Override { execution: Execution::Shadow, reason: UNAUTHENTIC.to_owned(), ..said }
    };
    let overrides = stored.into_iter().map(authenticate).collect();
    (overrides, failed)
}

/// Authenticates ancestor runs. A run that fails is put in shadow.
pub(super) fn authenticate_parents(mut parents: Vec<RunRow>, key: &RowKey, doubts: &IntegrityAlarms) -> Vec<RunRow> {
    for row in parents.iter_mut().filter(|row| !key.is_authentic_run(row)) {
        doubts.meet(UnauthenticRow::Run(&row.agent, &row.run));
        (row.execution, row.began, row.named) = (Execution::Shadow, Execution::Shadow, true);
    }
    parents
}

impl Boundary {
    /// Returns the overrides in force, from wide to narrow. An override that failed authentication counts as shadow.
    pub async fn overrides(&self) -> Result<Vec<Override>, StoreError> {
        let stored = self.store.decisions().overrides().await?;
        let (overrides, failed) = authenticate_overrides(Some(&self.rows), stored);
        self.doubts.overrides(failed);
        Ok(overrides)
    }
}
