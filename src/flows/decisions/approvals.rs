//! Approvals: the calls that wait for a person, the person's answer, and messages about both.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Boundary, cleaned, decision_plan::sealed, integrity_alarms::UnauthenticRow};
use crate::{
    flows::rounds::{FailureLog, pause},
    webhooks::Endpoints,
};
use umbra_domain::{
    ApprovalId, ApprovalRow, ApprovalState, KeyId, ToolName,
    audit::AuditKind,
    notice::{Notice, NoticeKind},
    tool::ToolPatterns,
};
use umbra_store::{
    StoreError,
    execution::{ApprovalChange, ApprovalFilter, ApprovalItem, UnverifiedApproval},
};

/// Pause between looks for new approvals.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);
/// Messages per transaction.
const PAGE: i64 = 100;
/// Most approvals that are read for a filter by tools.
const MOST_LOOKED: i64 = 5_000;
/// Largest arguments that a message shows, in bytes of JSON; larger ones are left out.
const SHOWN_BYTES: usize = 4_096;

/// Reason why an approval is not answered.
#[derive(Debug, thiserror::Error)]
pub enum ApprovalError {
    /// The row fails authentication.
    #[error("the approval fails authentication by this server's key: let the agent ask again with a new call_id")]
    Unauthentic,
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Boundary {
    /// Returns the approvals for these tools, the newest first. Rows that fail authentication are left out.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn approvals(
        &self,
        mut filter: ApprovalFilter,
        tools: Option<&ToolPatterns>,
    ) -> Result<Vec<ApprovalItem>, StoreError> {
        filter.agent = filter.agent.map(|agent| self.name_asked_for(&agent));
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        if tools.is_some() {
            // Tool names are compared here, and approvals of other tools must not use up the limit.
            filter.limit = MOST_LOOKED;
        }
        let is_wanted = |stored: &UnverifiedApproval| {
            let readings = ToolName::bare(stored.row.tool.as_str()).readings();
            tools.is_none_or(|tools| !tools.restricting(&readings).is_empty())
        };
        let stored = self.store.decisions().approvals(&filter).await?;
        let authentic = stored.into_iter().filter(is_wanted).filter_map(|stored| self.authenticate(stored));
        Ok(authentic.take(limit).map(UnverifiedApproval::item).collect())
    }

    /// Returns an approval; `None` if there is none of this id, or its row fails authentication.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn approval(&self, id: ApprovalId) -> Result<Option<ApprovalItem>, StoreError> {
        let stored = self.store.decisions().approval(id).await?;
        Ok(stored.and_then(|stored| self.authenticate(stored)).map(UnverifiedApproval::item))
    }

    fn authenticate(&self, mut stored: UnverifiedApproval) -> Option<UnverifiedApproval> {
        let id = stored.row.id;
        let Some(row) = self.rows.authenticate_approval(stored.row) else {
            self.doubts.meet(UnauthenticRow::Approval(id.0));
            return None;
        };
        stored.row = row;
        Some(stored)
    }

    /// Approves or denies a call. Returns the approval as it is then, and whether this changed it; `None` if there is
    /// no such approval.
    ///
    /// # Errors
    /// The row fails authentication, or the database does not answer.
    pub async fn answer_approval(
        &self,
        id: ApprovalId,
        approve: bool,
        note: Option<&str>,
        by: Option<KeyId>,
        webhooks: &Endpoints,
    ) -> Result<Option<(ApprovalItem, bool)>, ApprovalError> {
        let Some(stored) = self.store.decisions().approval(id).await? else { return Ok(None) };
        let stored = self.authenticate(stored).ok_or(ApprovalError::Unauthentic)?;
        let row = stored.row.clone();
        let note = note.map(|note| cleaned(note).trim().to_owned()).filter(|note| !note.is_empty());
        let body = json!({"approval": id, "decision": if approve { "approve" } else { "deny" }, "note": note,
            "rule": row.rule, "asked_at": row.asked_at, "expires_at": row.expires_at, "by": by});
        let mut said = self.said(AuditKind::Approval, &body);
        (said.agent, said.tool) = (Some(row.agent.clone()), Some(row.tool.clone()));
        // The digest of the agent's words is in the payload, so that it is erased with them.
        said.payload = Some(sealed(json!({"digest": row.digest}).to_string()));
        let state = if approve { ApprovalState::Approved } else { ApprovalState::Denied };
        let mut to = ApprovalRow { state, note: note.clone(), ..row.clone() };
        to.mac = Some(self.rows.of_approval(&to).into());
        let mut told = shown(&stored.item());
        told["state"] = json!(state);
        told["note"] = json!(note);
        told["answered_by"] = json!(by);
        let notice = Notice::new(NoticeKind::ApprovalDecided, self.clock.now(), Some(&row.agent), told);
        let message = webhooks.address(&notice, self.clock.new_id());
        let by = by.map(|key| key.to_string());
        let change = ApprovalChange { from: &row, to: &to, by, message: message.as_ref() };
        let changed = self.store.decisions().answer_approval(change, &said).await?;
        Ok(self.store.decisions().approval(id).await?.map(|stored| (stored.item(), changed)))
    }

    /// Sends messages about new approvals until `stop`, if they have receivers.
    pub async fn tell_of_approvals_until(self, webhooks: Arc<ArcSwap<Endpoints>>, stop: CancellationToken) {
        let mut log =
            FailureLog::new("requests for approval cannot be delivered", "requests for approval are delivered again");
        loop {
            log.note(&self.tell_of_approvals(&webhooks.load_full()).await);
            if !pause(&stop, BETWEEN_LOOKS).await {
                return;
            }
        }
    }

    async fn tell_of_approvals(&self, webhooks: &Endpoints) -> Result<(), StoreError> {
        if webhooks.all().is_empty() {
            return Ok(());
        }
        let message = |stored: UnverifiedApproval| {
            let (agent, at) = (stored.row.agent.clone(), stored.row.asked_at);
            let is_open = stored.row.state == ApprovalState::Pending && !stored.is_past;
            let notice = Notice::new(NoticeKind::ApprovalRequested, at, Some(&agent), shown(&stored.item()));
            is_open.then(|| webhooks.address(&notice, self.clock.new_id())).flatten()
        };
        while self.store.decisions().tell_approvals(PAGE, message).await? == usize::try_from(PAGE).unwrap_or(0) {}
        Ok(())
    }
}

/// Returns an approval as a message shows it, without large arguments.
fn shown(item: &ApprovalItem) -> Value {
    let mut shown = json!(item);
    if item.arguments.as_ref().is_some_and(|arguments| arguments.to_string().len() > SHOWN_BYTES)
        && let Some(members) = shown.as_object_mut()
    {
        members.remove("arguments");
    }
    shown
}
