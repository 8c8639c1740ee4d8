//! Compares runs and sessions with their MACs and with the audit. In: rows of the audit, in order, then rows of the
//! tables. Out: each difference. Pure.
//!
//! The audit records that a run stays in shadow, and which labels a session carries. A row that says less was changed
//! or set back. A missing row may have expired; decisions go by the audit then.

use std::collections::{BTreeMap, BTreeSet};

use super::row_mac::RowKey;
use umbra_domain::{
    Execution, RunRow,
    audit::{AuditKind, AuditRow, DecisionEffects, SessionLabels, StoredBoundarySession},
};

/// Judgement of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowCheck {
    /// The row matches the audit.
    Fits,
    /// The row has no MAC: it is older than MACs, or its MAC was removed. The stricter reading counts.
    WithoutMac,
    /// The MAC is not by this key, with a message: the row was changed, or a server with another key wrote it.
    OtherKey(String),
    /// The row contradicts the audit, with a message.
    Contradicted(String),
}

/// Shadow runs and session labels according to the audit, by agent and name.
#[derive(Debug, Default)]
pub struct AuditedBindings {
    runs: BTreeSet<(String, String)>,
    sessions: BTreeMap<(String, String), SessionLabels>,
}

impl AuditedBindings {
    /// Reads the next row, whose signature is valid.
    pub(super) fn take(&mut self, row: &AuditRow) {
        if let (AuditKind::Execution, Some(agent), Some(run)) = (row.kind, &row.agent, &row.run) {
            // The run was ended by hand.
            self.runs.remove(&(agent.clone(), run.clone()));
        }
        let binds = ["\"run_execution\":", "\"labels\":"].iter().any(|member| row.body.contains(member));
        if row.kind != AuditKind::Decision || !binds {
            return;
        }
        let (Some(agent), Ok(DecisionEffects { run_execution, labels })) =
            (&row.agent, serde_json::from_str(&row.body))
        else {
            return;
        };
        if let (Some(Execution::Shadow), Some(run)) = (run_execution, &row.run) {
            self.runs.insert((agent.clone(), run.clone()));
        }
        if let (Some(labels), Some(session)) = (labels, &row.session) {
            self.sessions.entry((agent.clone(), session.clone())).or_default().add(labels);
        }
    }

    /// Compares a run with the audit, and with its MAC if a key is given.
    pub fn run(&self, key: Option<&RowKey>, row: &RunRow) -> RowCheck {
        let RunRow { agent, run, mac, .. } = row;
        let named = format!("the run {run:?} of {agent:?}");
        if mac.is_some() && !row.is_bound() && self.runs.contains(&(agent.clone(), run.clone())) {
            return RowCheck::Contradicted(format!(
                "{named} is not in shadow, but the audit says that it stays in shadow"
            ));
        }
        match key {
            _ if mac.is_none() => RowCheck::WithoutMac,
            Some(key) if !key.is_authentic_run(row) => {
                RowCheck::OtherKey(format!("{named} fails authentication by this key: it counts as shadow"))
            }
            _ => RowCheck::Fits,
        }
    }

    /// Compares a session with the audit.
    pub fn session(&self, StoredBoundarySession { agent, session, labels }: &StoredBoundarySession) -> RowCheck {
        let said = self.sessions.get(&(agent.clone(), session.clone())).cloned().unwrap_or_default();
        if labels.clone().add(said) {
            return RowCheck::Contradicted(format!(
                "the session {session:?} of {agent:?} has lost labels that the audit has: the labels still count"
            ));
        }
        RowCheck::Fits
    }
}
