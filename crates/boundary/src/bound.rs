//! Compares runs and sessions with their keyed hashes and with the audit. In: rows of the audit, in order, then rows of the
//! tables. Out: each difference. Pure.
//!
//! The audit says of a run that it stays in shadow, and of a session what it carries. A row that says less was changed or set
//! back. One that is gone may be past; decisions go by the audit then.

use std::collections::{BTreeMap, BTreeSet};

use super::genuine::RowKey;
use umbra_domain::{
    Execution, RunRow,
    audit::{AuditKind, AuditRow, Binding, Labels, StandingSession},
};

/// What is to be thought of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Thought {
    /// It fits.
    Fits,
    /// It is of before rows had keyed hashes, or somebody took that away: it counts as the stricter.
    OfBefore,
    /// It is not known by this key, and what that comes to: somebody changed it, or a server wrote it that has another key.
    OtherKey(String),
    /// It does not fit, and how.
    Unlike(String),
}

/// What the audit says of runs and sessions, each by agent and name.
#[derive(Debug, Default)]
pub struct Bound {
    runs: BTreeSet<(String, String)>,
    sessions: BTreeMap<(String, String), Labels>,
}

impl Bound {
    /// Takes in the next row, which somebody of ours signed.
    pub(super) fn take(&mut self, row: &AuditRow) {
        if let (AuditKind::Execution, Some(agent), Some(run)) = (row.kind, &row.agent, &row.run) {
            // Somebody ended it.
            self.runs.remove(&(agent.clone(), run.clone()));
        }
        let binds = ["\"run_execution\":", "\"labels\":"].iter().any(|member| row.body.contains(member));
        if row.kind != AuditKind::Decision || !binds {
            return;
        }
        let (Some(agent), Ok(Binding { run_execution, labels })) = (&row.agent, serde_json::from_str(&row.body)) else {
            return;
        };
        if let (Some(Execution::Shadow), Some(run)) = (run_execution, &row.run) {
            self.runs.insert((agent.clone(), run.clone()));
        }
        if let (Some(labels), Some(session)) = (labels, &row.session) {
            self.sessions.entry((agent.clone(), session.clone())).or_default().add(labels);
        }
    }

    /// Holds a run against what is known of it. Without a key its keyed hash is not looked at.
    pub fn run(&self, key: Option<&RowKey>, row: &RunRow) -> Thought {
        let RunRow { agent, run, mac, .. } = row;
        let named = format!("the run {run:?} of {agent:?}");
        if mac.is_some() && !row.is_bound() && self.runs.contains(&(agent.clone(), run.clone())) {
            return Thought::Unlike(format!("{named} is not in shadow, and the audit says that it stays there"));
        }
        match key {
            _ if mac.is_none() => Thought::OfBefore,
            Some(key) if !key.is_authentic_run(row) => Thought::OtherKey(format!(
                "{named} is not as a server that holds this key wrote it: it counts as shadow"
            )),
            _ => Thought::Fits,
        }
    }

    /// Holds a session against what the audit says of it.
    pub fn session(&self, StandingSession { agent, session, labels }: &StandingSession) -> Thought {
        let said = self.sessions.get(&(agent.clone(), session.clone())).cloned().unwrap_or_default();
        if labels.clone().add(said) {
            return Thought::Unlike(format!(
                "the session {session:?} of {agent:?} has lost labels that it has by the audit: they count all the same"
            ));
        }
        Thought::Fits
    }
}
