//! Compares overrides and approvals with the audit. In: both tables, read together with the audit's last row number,
//! and the rows of the audit up to it. Out: each difference. Pure.
//!
//! A deleted row leaves no trace in its table, and a row set back to an older state has a valid MAC: only the audit's
//! last word on it can tell. Expired rows are removed by age, so a missing row is a fault only before it expires.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use umbra_domain::{
    ApprovalState, Override, OverrideScope,
    audit::{AuditKind, AuditRecord, AuditedTables, StoredApproval, StoredOverride},
};

/// State of an approval according to the audit.
#[derive(Debug, Default)]
struct AuditedApproval {
    state: Option<ApprovalState>,
    agent: Option<String>,
    tool: Option<String>,
    digest: Option<String>,
    expires_at: Option<Timestamp>,
}

/// Overrides and approvals according to the audit, built row by row.
#[derive(Debug)]
pub(super) struct TableCheck {
    standing: AuditedTables,
    overrides: BTreeMap<(OverrideScope, String), Override>,
    approvals: BTreeMap<String, AuditedApproval>,
}

impl TableCheck {
    /// Starts a comparison with these tables.
    pub fn on(standing: AuditedTables) -> Self {
        Self { standing, overrides: BTreeMap::new(), approvals: BTreeMap::new() }
    }

    /// Reads the next row, whose signature is valid.
    pub fn take(&mut self, AuditRecord { row, payload }: &AuditRecord) {
        let kinds = [AuditKind::Execution, AuditKind::Approval, AuditKind::Decision];
        if row.seq > self.standing.seq || !kinds.contains(&row.kind) {
            return;
        }
        let Ok(body) = serde_json::from_str::<Value>(&row.body) else { return };
        if row.kind == AuditKind::Execution {
            let Ok(said) = Override::deserialize(&body["override"]) else { return };
            let key = (said.scope, said.value.clone());
            match body["change"].as_str() {
                Some("set") => drop(self.overrides.insert(key, said)),
                _ => drop(self.overrides.remove(&key)),
            }
            return;
        }
        let Some(id) = body["approval"].as_str() else { return };
        let word = self.approvals.entry(id.to_owned()).or_default();
        match body["decision"].as_str() {
            // Several calls may wait for one approval.
            Some("ask") if word.state.is_none() => word.state = Some(ApprovalState::Pending),
            Some("approve") => word.state = Some(ApprovalState::Approved),
            Some("deny") => word.state = Some(ApprovalState::Denied),
            Some("used") => word.state = Some(ApprovalState::Used),
            _ => return,
        }
        (word.agent, word.tool) = (row.agent.clone(), row.tool.clone());
        let time = body["expires_at"].as_str().and_then(|at| at.parse().ok());
        word.expires_at = time.or(word.expires_at);
        let said = payload.as_ref().and_then(|payload| serde_json::from_str::<Value>(&payload.body).ok());
        let digest = said.as_ref().and_then(|said| said["digest"].as_str()).map(ToOwned::to_owned);
        word.digest = digest.or_else(|| word.digest.take());
    }

    /// Returns every difference.
    pub fn compare(self) -> Vec<String> {
        let Self { standing: AuditedTables { now, overrides, approvals, .. }, overrides: said, approvals: words } =
            self;
        let mut faults = Vec::new();
        let mut expected = said;
        for StoredOverride { setting: there, keyed } in overrides {
            let name = named(&there);
            match expected.remove(&(there.scope, there.value.clone())) {
                None => faults.push(format!("the override {name} exists, but the audit has no such override")),
                Some(mut said) => {
                    if !keyed {
                        said.set_at = there.set_at;
                    }
                    if there != said {
                        faults.push(format!("the override {name} differs from the override that the audit has"));
                    }
                }
            }
        }
        let lives = |end: Option<Timestamp>| end.is_none_or(|end| now < end);
        for gone in expected.into_values().filter(|gone| lives(gone.expires_at)) {
            let what = format!("the override {} ({}) is missing", named(&gone), gone.execution.as_str());
            faults.push(format!("{what}, although the audit does not say that it was lifted"));
        }
        let mut words = words;
        for there in approvals {
            let word = words.remove(&there.id.to_string()).unwrap_or_default();
            faults.extend(unlike(&there, &word).map(|how| format!("the approval {} {how}", there.id)));
        }
        for (id, word) in words {
            if word.expires_at.is_some_and(|end| now < end) {
                let state = word.state.map_or("", ApprovalState::as_str);
                faults.push(format!("the approval {id} is missing, which is {state} according to the audit"));
            }
        }
        faults
    }
}

/// Describes how an approval differs from the audit.
fn unlike(there: &StoredApproval, word: &AuditedApproval) -> Option<String> {
    let of_before = !there.keyed && (there.state, word.state) == (ApprovalState::Used, Some(ApprovalState::Approved));
    if Some(there.state) != word.state && !of_before {
        let said = word.state.map_or("nothing", ApprovalState::as_str);
        return Some(format!("is {}, and the audit says: {said}", there.state.as_str()));
    }
    let differs = |said: &Option<String>, is: &String| said.as_ref().is_some_and(|said| said != is);
    let is_another = differs(&word.agent, &there.agent)
        || differs(&word.tool, &there.tool)
        || differs(&word.digest, &there.digest)
        || word.expires_at.is_some_and(|end| end != there.expires_at);
    is_another.then(|| "has another call or a later end than the audit says".to_owned())
}

fn named(one: &Override) -> String {
    format!("{} {:?}", one.scope.as_str(), one.value)
}
