//! What people change while calls are decided: overrides of the execution, and their word on contracts. Each change commits
//! together with the audit row that says so, and overrides carry a keyed hash ([`super::authenticate`]).

use jiff::Timestamp;
use serde_json::json;
use tokio::time::Instant;

use super::{Boundary, LastState, clean};
use umbra_boundary::execution::{is_of_agent, is_of_tool};
use umbra_domain::{
    Execution, KeyId, Override, OverrideId, OverrideScope, ToolContract, ToolName, audit::AuditKind, nearest::nearest,
};
use umbra_store::{StoreError, decisions::NewAudit};

/// An override to be set.
#[derive(Debug, Clone)]
pub struct NewOverride {
    /// What it is for.
    pub scope: OverrideScope,
    /// Which: a name or a glob; empty for all.
    pub value: String,
    /// Whether calls run.
    pub execution: Execution,
    /// Why.
    pub reason: String,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// Why an override is not set.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    /// Shadow would promise too much.
    #[error("this session can write by {0}, which nobody can intercept: it is refused shadow")]
    Uninterceptable(String),
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// As exactly as the database keeps a time.
pub(super) fn to_microsecond(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

impl Boundary {
    /// Sets an override. When this answers, every decision that comes after it goes by it, in every process.
    ///
    /// # Errors
    /// Shadow for a session that cannot have it, or the database does not answer.
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
        // As exactly as the database keeps them.
        let (set_at, expires_at) = (to_microsecond(self.store.now().await?), expires_at.map(to_microsecond));
        let one = Override { id, scope, value, execution, reason: clean(&reason), set_at, expires_at };
        let said = self.said(AuditKind::Execution, &json!({"change": "set", "override": one, "by": by}));
        let replaced = |other: &Override| {
            let body = json!({"change": "replaced", "override": other, "by": by});
            self.said(AuditKind::Execution, &body)
        };
        let mac = self.rows.of_override(&one);
        let set = self.store.decisions().set_override(&one, &mac, &said, replaced).await;
        // What may be in force is held to, also where nobody has heard that it is.
        if set.is_ok() || one.execution == Execution::Shadow {
            self.remember(scope, &one.value, Some(&one)).await;
        }
        set?;
        Ok(one)
    }

    /// A warning where no agent or tool that was seen, and no tool of the file, has the name that an override is for.
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
        Ok(Some(format!("no {kind} seen so far matches {}{nearest}: it is in force for one that comes", one.value)))
    }

    async fn known_tools(&self) -> Result<Vec<String>, StoreError> {
        let rules = self.rules.load();
        let seen = self.store.contracts().tools_seen(rules.gate.tools_seen_within).await?;
        let declared = rules.tools.contracts().all().map(|contract| contract.contract().tool.clone());
        Ok(seen.into_iter().map(|(tool, _)| tool).chain(declared).collect())
    }

    /// Lifts an override; answers which one, if there was one.
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
        let reason = clean(reason);
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

    /// Keeps in mind what was set or lifted: should the database go away before the next decision, calls are answered by it.
    async fn remember(&self, scope: OverrideScope, value: &str, one: Option<&Override>) {
        let read = Instant::now();
        if let Some(state) = &mut self.last_seen().state {
            state.overrides.retain(|known| known.scope != scope || known.value != value);
            state.overrides.extend(one.cloned());
            // A decision that is under way may have read what was before.
            (state.now, state.read) = (state.now(), read);
            return;
        }
        // The first that this process sees is all of it.
        if let (Ok(now), Ok(overrides)) = (self.store.now().await, self.overrides().await) {
            self.last_seen().saw(LastState { overrides, now, read });
        }
    }

    /// Believes a contract again, by a person's word.
    ///
    /// # Errors
    /// The database does not answer: it may be so all the same.
    pub async fn confirm_contract(
        &self,
        contract: &ToolContract,
        reason: &str,
        by: Option<KeyId>,
    ) -> Result<(), StoreError> {
        let ToolContract { tool, version, .. } = contract;
        self.store.contracts().know(&[(tool.clone(), *version)]).await?;
        let body = json!({"contract": contract.id(), "decision": "confirm", "note": clean(reason), "by": by});
        let said = self.said(AuditKind::Approval, &body);
        self.store.contracts().confirm(tool, *version, &said).await.map(drop)
    }

    /// A row of the audit that is about no call.
    pub(super) fn said(&self, kind: AuditKind, body: &serde_json::Value) -> NewAudit {
        NewAudit {
            id: self.clock.new_id(),
            kind,
            agent: None,
            session: None,
            run: None,
            call_id: None,
            tool: None,
            body: body.to_string(),
            payload: None,
        }
    }
}
