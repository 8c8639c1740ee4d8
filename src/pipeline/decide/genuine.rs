//! Which overrides and approvals count: those that a process wrote that has our key, and that the audit does not say are over.
//!
//! An override of which that cannot be said counts as shadow, whatever it says: it may have been a shadow that somebody
//! changed. An approval of which it cannot be said is none.

use std::collections::BTreeSet;

use uuid::Uuid;

use super::Boundary;
use crate::{
    boundary::genuine::{ApprovalSaid, RowKey},
    domain::{Execution, Override},
    store::{
        StoreError,
        decisions::{Judge, KnownApproval},
        execution::{StoredApproval, StoredOverride},
    },
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
        Ok(Judge::overrides(self, self.store.overrides().await?))
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
            self.doubts.approval(approval.id.0);
        }
        is_ours
    }
}
