//! Authenticates the stored state that decisions rest on. In: rows as they are stored, the key of their hashes. Out: the state
//! that decisions go by, and each row that failed noted as a doubt.
//!
//! A row counts if its keyed hash fits and the audit does not contradict it. An override that fails counts as shadow, whatever
//! it says: it may have been a shadow before. So does a run. An approval that fails is left out. A session has the labels of
//! its row and of the audit.

use std::collections::{BTreeSet, HashMap, HashSet};

use jiff::Timestamp;
use uuid::Uuid;

use super::{
    Boundary,
    doubts::{Doubts, Row},
};
use umbra_boundary::genuine::{ApprovalSaid, RowKey, RunSaid};
use umbra_domain::{Execution, Override, audit::Labels};
use umbra_store::{
    StoreError,
    decisions::{KnownApproval, KnownCall, KnownParent, KnownRun, Named, StoredState},
    execution::{StoredApproval, StoredOverride},
};

/// Reason shown instead of that of an override that failed.
const UNAUTHENTIC: &str =
    "no server that holds our key wrote this override as it is, or it is over: it lets nothing run";

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
    /// Runs that any of these descends from.
    pub parents: Vec<KnownParent>,
    /// Runs that stay in shadow by the audit, whether they have a row or not.
    pub bound: HashSet<Named>,
    /// Labels of sessions, by agent and name.
    pub sessions: HashMap<Named, Labels>,
    /// The newest approval for each digest, in hex.
    pub approvals: HashMap<String, KnownApproval>,
}

/// A run, in shadow if its row failed.
#[derive(Debug)]
pub(super) struct AuthenticatedRun {
    pub run: KnownRun,
    pub is_authentic: bool,
}

/// Authenticates everything that decisions rest on.
pub(super) fn authenticate_state(stored: StoredState, key: &RowKey, doubts: &Doubts) -> DecisionState {
    let StoredState { now, overrides, calls, runs, parents, bound, mut sessions, audited_labels, approvals } = stored;
    let (overrides, failed) = authenticate_overrides(Some(key), overrides);
    doubts.overrides(failed);
    let authenticate = |(name, mut run): (Named, KnownRun)| {
        let is_authentic = (run.is_bound() || !bound.contains(&name)) && is_authentic_run(key, &name, &run);
        if !is_authentic {
            doubts.meet(Row::Run(&name.0, &name.1));
            (run.began_in_shadow, run.in_shadow) = (true, true);
        }
        (name, AuthenticatedRun { run, is_authentic })
    };
    let runs = runs.into_iter().map(authenticate).collect();
    let stored_sessions: HashSet<Named> = sessions.keys().cloned().collect();
    for (name, labels) in audited_labels {
        let is_lost = sessions.entry(name.clone()).or_default().add(labels);
        // The row of a session may have expired; the audit does not.
        if is_lost && stored_sessions.contains(&name) {
            doubts.meet(Row::Session(&name.0, &name.1));
        }
    }
    let parents = authenticate_parents(parents, key, doubts);
    let approvals = approvals.into_iter().filter(|approval| is_authentic_approval(approval, key, doubts));
    let approvals = approvals.map(|approval| (approval.digest.clone(), approval)).collect();
    DecisionState { now, overrides, calls, runs, parents, bound, sessions, approvals }
}

/// Authenticates overrides, and returns the ids of those that failed. Without a key only those fail that are over.
pub fn authenticate_overrides(key: Option<&RowKey>, stored: Vec<StoredOverride>) -> (Vec<Override>, BTreeSet<Uuid>) {
    let mut failed = BTreeSet::new();
    let authenticate = |StoredOverride { said, mac, ended }| {
        let is_authentic = key.is_none_or(|key| mac == Some(hex::encode(key.of_override(&said))));
        if is_authentic && !ended {
            return said;
        }
        failed.insert(said.id.0);
        Override { execution: Execution::Shadow, reason: UNAUTHENTIC.to_owned(), ..said }
    };
    let overrides = stored.into_iter().map(authenticate).collect();
    (overrides, failed)
}

/// Authenticates runs further up. One that fails is in shadow.
pub(super) fn authenticate_parents(mut parents: Vec<KnownParent>, key: &RowKey, doubts: &Doubts) -> Vec<KnownParent> {
    for run in &mut parents {
        let KnownParent { agent, run: name, in_shadow, began_in_shadow, .. } = &*run;
        let [parent, started_by, session] = [&run.parent, &run.started_by, &run.session].map(|name| name.as_deref());
        let (in_shadow, began_in_shadow) = (*in_shadow, *began_in_shadow);
        let said = RunSaid { agent, run: name, in_shadow, began_in_shadow, parent, started_by, session };
        if run.mac != Some(hex::encode(key.of_run(&said))) {
            doubts.meet(Row::Run(agent, name));
            run.in_shadow = true;
        }
    }
    parents
}

fn is_authentic_run(key: &RowKey, (agent, name): &Named, run: &KnownRun) -> bool {
    let KnownRun { in_shadow, began_in_shadow, parent, started_by, session, mac, .. } = run;
    let (in_shadow, began_in_shadow) = (*in_shadow, *began_in_shadow);
    let [parent, started_by, session] = [parent, started_by, session].map(Option::as_deref);
    let said = RunSaid { agent, run: name, in_shadow, began_in_shadow, parent, started_by, session };
    *mac == Some(hex::encode(key.of_run(&said)))
}

fn is_authentic_approval(approval: &KnownApproval, key: &RowKey, doubts: &Doubts) -> bool {
    let digest = hex::decode(&approval.digest).unwrap_or_default();
    let mac = key.of_approval(&said(approval, &digest, &approval.state));
    let is_authentic = !approval.ended && approval.mac == Some(hex::encode(mac));
    if !is_authentic {
        doubts.meet(Row::Approval(approval.id.0));
    }
    is_authentic
}

/// Content of an approval in this state, but for its digest, which the caller has decoded.
pub(super) fn said<'a>(known: &'a KnownApproval, digest: &'a [u8], state: &'a str) -> ApprovalSaid<'a> {
    let KnownApproval { id, agent, tool, rule, reason, asked_at, expires_at, .. } = known;
    let rule = [rule.as_deref(), reason.as_deref()];
    ApprovalSaid { id: *id, agent, tool, digest, rule, state, asked_at: *asked_at, expires_at: *expires_at }
}

impl Boundary {
    /// The overrides that are in force, from wide to narrow. One that failed authentication is a shadow.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn overrides(&self) -> Result<Vec<Override>, StoreError> {
        let stored = self.store.decisions().overrides().await?;
        let (overrides, failed) = authenticate_overrides(Some(&self.rows), stored);
        self.doubts.overrides(failed);
        Ok(overrides)
    }

    /// The keyed hash of an approval in this state.
    pub(super) fn mac_of(&self, stored: &StoredApproval, state: &str) -> [u8; 32] {
        let (item, digest) = (&stored.item, stored.digest.as_slice());
        let rule = [item.rule.as_deref(), item.reason.as_deref()];
        self.rows.of_approval(&ApprovalSaid {
            id: item.id,
            agent: &item.agent,
            tool: &item.tool,
            digest,
            rule,
            state,
            asked_at: item.asked_at,
            expires_at: item.expires_at,
        })
    }
}
