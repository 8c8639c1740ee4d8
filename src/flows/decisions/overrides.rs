//! Changes by people while calls are decided: overrides of the execution, and confirmations of contracts. Each change
//! commits together with its audit row, and overrides carry a MAC ([`super::authenticate`]).

use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::{Boundary, LastState, bare_audit_row, cleaned};
use umbra_boundary::execution::{is_of_agent, is_of_tool};
use umbra_domain::{
    Execution, KeyId, Override, OverrideId, OverrideScope, ToolContract, ToolName, audit::AuditKind, nearest::nearest,
};
use umbra_store::{StoreError, decisions::NewAudit};

/// An override to set.
#[derive(Debug, Clone)]
pub struct NewOverride {
    /// Scope of the override.
    pub scope: OverrideScope,
    /// Name or glob within the scope; empty for all.
    pub value: String,
    /// Execution that the override sets.
    pub execution: Execution,
    /// Reason given by the person.
    pub reason: String,
    /// Time at which the override ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// Reason why an override is not set.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// Shadow is refused, since the session can write by a way that cannot be intercepted.
    #[error("this session can write by {0}, which Umbra cannot intercept, so it cannot be set to shadow")]
    Uninterceptable(String),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Truncates a time to the precision of the database.
pub(super) fn to_microsecond(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

impl Boundary {
    /// Sets an override. When this returns, every later decision goes by it, in every process.
    ///
    /// # Errors
    /// Shadow is refused for the session, or the database does not answer.
    pub async fn set_override(&self, new: NewOverride, by: Option<KeyId>) -> Result<Override, OverrideError> {
        let NewOverride { scope, value, execution, reason, expires_at } = new;
        let value = self.name_asked_for(&value);
        if scope == OverrideScope::Session
            && execution == Execution::Shadow
            && let Some(path) = self.store.decisions().uninterceptable(&value).await?.into_iter().next()
        {
            return Err(OverrideError::Uninterceptable(path));
        }
        let id = OverrideId(self.clock.new_id());
        // In the precision of the database.
        let (set_at, expires_at) = (to_microsecond(self.store.now().await?), expires_at.map(to_microsecond));
        let one = Override { id, scope, value, execution, reason: cleaned(&reason), set_at, expires_at };
        let said = self.said(AuditKind::Execution, &json!({"change": "set", "override": one, "by": by}));
        let replaced = |other: &Override| {
            let body = json!({"change": "replaced", "override": other, "by": by});
            self.said(AuditKind::Execution, &body)
        };
        let mac = self.rows.of_override(&one);
        let set = self.store.decisions().set_override(&one, &mac, &said, replaced).await;
        // A shadow that may be in force is remembered, even if the database did not confirm it.
        if set.is_ok() || one.execution == Execution::Shadow {
            self.remember(scope, &one.value, Some(&one)).await;
        }
        set?;
        Ok(one)
    }

    /// Returns a warning if no agent or tool seen so far, and no configured tool, matches the override.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn unmatched(&self, one: &Override) -> Result<Option<String>, StoreError> {
        let (kind, known) = match one.scope {
            OverrideScope::Agent => ("agent", self.store.decisions().agents_seen().await?),
            OverrideScope::Tool => ("tool", self.known_tools().await?),
            _ => return Ok(None),
        };
        let is_of = |name: &String| match one.scope {
            OverrideScope::Agent => is_of_agent(one, name),
            _ => is_of_tool(one, &ToolName::bare(name.as_str()).readings()),
        };
        if known.iter().any(is_of) {
            return Ok(None);
        }
        let nearest = nearest(&one.value, known.iter().map(String::as_str));
        let nearest = nearest.map(|name| format!("; the nearest name is {name}")).unwrap_or_default();
        Ok(Some(format!("no {kind} seen so far matches {}{nearest}: the override applies once one matches", one.value)))
    }

    async fn known_tools(&self) -> Result<Vec<String>, StoreError> {
        let rules = self.rules.load();
        let seen = self.store.contracts().tools_seen(rules.gate.tools_seen_within).await?;
        let declared = rules.tools.contracts().all().map(|contract| contract.contract().tool.clone());
        Ok(seen.into_iter().map(|(tool, _)| tool).chain(declared).collect())
    }

    /// Lifts an override and returns it; `None` if there was none.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn lift_override(
        &self,
        scope: OverrideScope,
        value: &str,
        reason: &str,
        by: Option<KeyId>,
    ) -> Result<Option<Override>, StoreError> {
        let reason = cleaned(reason);
        let said = |one: &Override| {
            let body = json!({"change": "lifted", "override": one, "reason": reason, "by": by});
            self.said(AuditKind::Execution, &body)
        };
        let value = self.name_asked_for(value);
        let lifted = self.store.decisions().lift_override(scope, &value, said).await;
        if let Ok(Some(_)) = &lifted {
            self.remember(scope, &value, None).await;
        }
        lifted
    }

    /// Remembers a change, so that calls are decided by it if the database goes away before the next decision.
    async fn remember(&self, scope: OverrideScope, value: &str, one: Option<&Override>) {
        let read = Instant::now();
        if let Some(state) = &mut self.seen.lock().state {
            state.overrides.retain(|known| known.scope != scope || known.value != value);
            state.overrides.extend(one.cloned());
            // A decision under way may have read the earlier state, which must not replace this one.
            (state.now, state.read) = (state.now(), read);
            return;
        }
        // If this process has seen no state yet, it reads all of it.
        if let (Ok(now), Ok(overrides)) = (self.store.now().await, self.overrides().await) {
            self.seen.lock().saw(LastState { overrides, now, read });
        }
    }

    /// Confirms a contract by a person's word, so that it is no longer stale.
    ///
    /// # Errors
    /// The database does not answer; the contract may be confirmed all the same.
    pub async fn confirm_contract(
        &self,
        contract: &ToolContract,
        reason: &str,
        by: Option<KeyId>,
    ) -> Result<(), StoreError> {
        let ToolContract { tool, version, .. } = contract;
        self.store.contracts().record_editions(&[(tool.clone(), *version)]).await?;
        let body = json!({"contract": contract.id(), "decision": "confirm", "note": cleaned(reason), "by": by});
        let said = self.said(AuditKind::Approval, &body);
        self.store.contracts().confirm(tool, *version, &said).await.map(drop)
    }

    /// Builds a row of the audit about no call.
    pub(super) fn said(&self, kind: AuditKind, body: &serde_json::Value) -> NewAudit {
        bare_audit_row(self.clock.new_id(), kind, body.to_string())
    }
}
