//! Authenticates the stored state that decisions rest on. Takes rows as they are stored and the key of their MACs;
//! returns the state that decisions go by, and records each row that failed as a doubt.
//!
//! A row counts if its MAC fits and the audit does not contradict it. An override that fails counts as shadow, whatever
//! its value, since it may have been a shadow before; so does a run. An approval that fails is left out. A session has
//! the labels of its row and of the audit.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::{
    Boundary,
    decision_plan::{Origin, PlannedRun, inconsistent},
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
pub(super) struct DecisionState {
    /// The database's time.
    pub now: Timestamp,
    /// Overrides in force.
    pub overrides: Vec<Override>,
    /// Calls that were decided before, by agent and id.
    pub calls: HashMap<Named, KnownCall>,
    /// Runs, by agent and name; in shadow if their rows failed authentication.
    pub runs: BTreeMap<Named, PlannedRun>,
    /// Runs that these runs descend from.
    pub parents: Vec<RunRow>,
    /// Runs that stay in shadow by the audit, with or without a row.
    pub bound: HashSet<Named>,
    /// Labels of sessions, by agent and name.
    pub sessions: HashMap<Named, SessionLabels>,
    /// The newest approval for each digest.
    pub approvals: HashMap<HexBytes, ApprovalRow>,
}

/// Authenticates all state that decisions rest on.
///
/// # Errors
/// The memory of a run cannot be read.
pub(super) fn authenticate_state(
    stored: StoredState,
    key: &RowKey,
    doubts: &IntegrityAlarms,
) -> Result<DecisionState, StoreError> {
    let StoredState { now, overrides, calls, runs, parents, bound, mut sessions, audited_labels, approvals } = stored;
    let (overrides, failed) = authenticate_overrides(Some(key), overrides);
    doubts.overrides(failed);
    let runs = authenticate_runs(runs, &bound, key, doubts)?;
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
        let id = row.id;
        let Some(row) = key.authenticate_approval(row).filter(|_| !ended) else {
            doubts.meet(UnauthenticRow::Approval(id.0));
            return None;
        };
        Some((row.digest.clone(), row))
    };
    let approvals = approvals.into_iter().filter_map(authenticate).collect();
    Ok(DecisionState { now, overrides, calls, runs, parents, bound, sessions, approvals })
}

/// Authenticates runs. A run that fails, or that is not in shadow although the audit says so, is put in shadow.
pub(super) fn authenticate_runs(
    runs: HashMap<Named, StoredRun>,
    bound: &HashSet<Named>,
    key: &RowKey,
    doubts: &IntegrityAlarms,
) -> Result<BTreeMap<Named, PlannedRun>, StoreError> {
    let authenticate = |(name, StoredRun { mut row, state }): (Named, StoredRun)| {
        let is_authentic = (row.is_bound() || !bound.contains(&name)) && key.is_authentic_run(&row);
        if !is_authentic {
            put_in_shadow(&mut row, doubts);
        }
        let origin = if is_authentic { Origin::Authentic } else { Origin::Failed };
        let state =
            state.map(|state| serde_json::from_str(&state)).transpose().map_err(inconsistent("boundary_run"))?;
        Ok((name, PlannedRun { row, origin, is_changed: false, state }))
    };
    runs.into_iter().map(authenticate).collect()
}

fn put_in_shadow(row: &mut RunRow, doubts: &IntegrityAlarms) {
    doubts.meet(UnauthenticRow::Run(&row.agent, &row.run));
    (row.execution, row.began, row.named) = (Execution::Shadow, Execution::Shadow, true);
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
    let failed = parents.iter_mut().filter(|row| !key.is_authentic_run(row));
    failed.for_each(|row| put_in_shadow(row, doubts));
    parents
}

impl Boundary {
    /// Returns the overrides in force, from wide to narrow. An override that failed authentication counts as shadow.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn overrides(&self) -> Result<Vec<Override>, StoreError> {
        let stored = self.store.decisions().overrides().await?;
        let (overrides, failed) = authenticate_overrides(Some(&self.rows), stored);
        self.doubts.overrides(failed);
        Ok(overrides)
    }
}
