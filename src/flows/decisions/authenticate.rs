//! Authenticates overrides, approvals and runs: a row counts if its keyed hash fits and the audit does not contradict it.
//!
//! An override that fails counts as shadow, whatever it says: it may have been a shadow before. So does a run. An approval
//! that fails approves nothing.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::{Boundary, doubts::Row};
use umbra_boundary::genuine::{ApprovalSaid, RowKey, RunSaid};
use umbra_domain::{Execution, Override};
use umbra_store::{
    StoreError,
    decisions::{Judge, KnownApproval, KnownParent, KnownRun, Named},
    execution::{StoredApproval, StoredOverride},
};

/// What is said of an override that nobody vouches for.
const DOUBTED: &str = "no server that holds our key wrote this override as it is, or it is over: it lets nothing run";

/// What overrides come to for who has this key, and the ids of those that nobody vouches for. Without a key they stand as they
/// are, but for those that are over.
pub fn believed(key: Option<&RowKey>, stored: Vec<StoredOverride>) -> (Vec<Override>, BTreeSet<Uuid>) {
    let mut doubted = BTreeSet::new();
    let judged = stored.into_iter().map(|StoredOverride { said, mac, ended }| {
        let is_ours = key.is_none_or(|key| mac == Some(hex::encode(key.of_override(&said))));
        if is_ours && !ended {
            return said;
        }
        doubted.insert(said.id.0);
        Override { execution: Execution::Shadow, reason: DOUBTED.to_owned(), ..said }
    });
    let judged = judged.collect();
    (judged, doubted)
}

/// What an approval says, but for its digest, which its owner has to decode.
pub(super) fn said<'a>(known: &'a KnownApproval, digest: &'a [u8], state: &'a str) -> ApprovalSaid<'a> {
    let KnownApproval { id, agent, tool, rule, reason, asked_at, expires_at, .. } = known;
    let rule = [rule.as_deref(), reason.as_deref()];
    ApprovalSaid { id: *id, agent, tool, digest, rule, state, asked_at: *asked_at, expires_at: *expires_at }
}

impl Boundary {
    /// The overrides that are in force, from wide to narrow, as they count.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn overrides(&self) -> Result<Vec<Override>, StoreError> {
        Ok(Judge::overrides(self, self.store.decisions().overrides().await?))
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

impl Judge for Boundary {
    fn overrides(&self, stored: Vec<StoredOverride>) -> Vec<Override> {
        let (judged, doubted) = believed(Some(&self.rows), stored);
        self.doubts.overrides(doubted);
        judged
    }

    fn is_ours(&self, approval: &KnownApproval) -> bool {
        let digest = hex::decode(&approval.digest).unwrap_or_default();
        let mac = self.rows.of_approval(&said(approval, &digest, &approval.state));
        let is_ours = !approval.ended && approval.mac == Some(hex::encode(mac));
        if !is_ours {
            self.doubts.meet(Row::Approval(approval.id.0));
        }
        is_ours
    }

    fn is_our_run(&self, name: &Named, run: &KnownRun, bound: bool) -> bool {
        let KnownRun { in_shadow, began_in_shadow, .. } = *run;
        let KnownRun { parent, started_by, session, mac, .. } = run;
        let (agent, name) = (name.0.as_str(), name.1.as_str());
        let [parent, started_by, session] = [parent, started_by, session].map(Option::as_deref);
        let said = RunSaid { agent, run: name, in_shadow, began_in_shadow, parent, started_by, session };
        let is_ours = (run.is_bound() || !bound) && *mac == Some(hex::encode(self.rows.of_run(&said)));
        if !is_ours {
            self.doubts.meet(Row::Run(agent, name));
        }
        is_ours
    }

    fn parents(&self, mut parents: Vec<KnownParent>) -> Vec<KnownParent> {
        for run in &mut parents {
            let KnownParent { agent, run: name, in_shadow, began_in_shadow, .. } = &*run;
            let [parent, started_by, session] =
                [&run.parent, &run.started_by, &run.session].map(|name| name.as_deref());
            let (in_shadow, began_in_shadow) = (*in_shadow, *began_in_shadow);
            let said = RunSaid { agent, run: name, in_shadow, began_in_shadow, parent, started_by, session };
            if run.mac != Some(hex::encode(self.rows.of_run(&said))) {
                self.doubts.meet(Row::Run(agent, name));
                run.in_shadow = true;
            }
        }
        parents
    }

    fn lost_labels(&self, name: &Named) {
        self.doubts.meet(Row::Session(&name.0, &name.1));
    }
}
