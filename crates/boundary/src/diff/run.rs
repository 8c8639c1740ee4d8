//! A run as the audit records it: its calls in order, each with its decision and outcome.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;

use crate::decide::Decision;
use umbra_domain::{
    Effect, Execution,
    audit::{AuditKind, AuditRecord},
};

/// Calls of a run. Rows of its audit are added in order, and need not be kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    pub(super) calls: Vec<RunCall>,
    /// Indexes of calls, by agent and call id.
    places: HashMap<(String, String), usize>,
}

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RunCall {
    /// Row of the first decision about the call.
    pub seq: i64,
    pub call_id: String,
    pub agent: String,
    pub tool: String,
    pub effect: Effect,
    pub execution: Execution,
    pub decision: Decision,
    pub reason: Option<String>,
    /// `ok` or `error`, once it is known.
    pub outcome: Option<String>,
    /// Arguments as canonical JSON; none where they were erased.
    pub args: Option<String>,
    /// Hash of the names and types of the arguments' members.
    pub shape: [u8; 32],
}

/// Body of a decision's row.
#[derive(Deserialize)]
struct DecisionBody {
    decision: Decision,
    effect: Effect,
    execution: Execution,
    reason: Option<String>,
    fault: Option<String>,
}

/// Body of an outcome's row.
#[derive(Deserialize)]
struct OutcomeBody {
    status: String,
    /// Last decision that the caller was told.
    decision: Option<Decision>,
}

/// Compared part of a payload.
#[derive(Deserialize)]
struct Payload {
    args: Value,
}

impl Run {
    /// Number of calls so far.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// True if there are no calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds a row. A call that is decided again, after its approval was answered, keeps its place. Rows that are about
    /// no call, or cannot be read, add nothing.
    pub fn add(&mut self, AuditRecord { row, payload }: &AuditRecord) {
        let (Some(agent), Some(call_id)) = (row.agent.clone(), row.call_id.clone()) else { return };
        let place = (agent, call_id);
        match row.kind {
            AuditKind::Decision | AuditKind::Merged => {
                let (Ok(decided), Some(tool)) = (serde_json::from_str::<DecisionBody>(&row.body), row.tool.clone())
                else {
                    return;
                };
                let said: Option<Payload> = payload.as_ref().and_then(|said| serde_json::from_str(&said.body).ok());
                let args = said.map(|said| said.args);
                let (agent, call_id) = place.clone();
                let DecisionBody { decision, effect, execution, reason, fault } = decided;
                let stubbed = if fault.is_some() { "error" } else { "ok" };
                let mut call = RunCall {
                    seq: row.seq,
                    call_id,
                    agent,
                    tool,
                    effect,
                    execution,
                    decision,
                    reason,
                    outcome: (decision == Decision::Stub).then(|| stubbed.to_owned()),
                    shape: args.as_ref().map(shape).unwrap_or_default(),
                    args: args.map(canonical),
                };
                if let Some(known) = self.places.get(&place).and_then(|at| self.calls.get_mut(*at)) {
                    // A decision made while the database was away may be merged after a later one that ran.
                    let ran = known.decision == Decision::Execute && known.outcome.is_some();
                    if row.kind == AuditKind::Merged && ran {
                        return;
                    }
                    call.seq = known.seq;
                    *known = call;
                } else {
                    self.places.insert(place, self.calls.len());
                    self.calls.push(call);
                }
            }
            AuditKind::Outcome => {
                let known = self.places.get(&place).and_then(|at| self.calls.get_mut(*at));
                if let (Some(call), Ok(came)) = (known, serde_json::from_str::<OutcomeBody>(&row.body))
                    && matches!(came.status.as_str(), "ok" | "error")
                {
                    call.outcome = Some(came.status);
                    call.decision = came.decision.unwrap_or(call.decision);
                }
            }
            AuditKind::Execution | AuditKind::Approval | AuditKind::Erasure => {}
        }
    }
}

/// JSON text that is the same for equal values.
pub(super) fn canonical(mut value: Value) -> String {
    value.sort_all_objects();
    value.to_string()
}

/// Hash of the names and types of members, whatever their values; all lists have the same shape.
fn shape(value: &Value) -> [u8; 32] {
    fn walk(value: &Value, hasher: &mut blake3::Hasher) {
        let Value::Object(members) = value else {
            let kind: &[u8] = match value {
                Value::Null => b"0",
                Value::Bool(_) => b"b",
                Value::Number(_) => b"n",
                Value::String(_) => b"s",
                Value::Array(_) | Value::Object(_) => b"a",
            };
            hasher.update(kind);
            return;
        };
        let mut members: Vec<_> = members.iter().collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        hasher.update(b"{");
        for (name, value) in members {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
            walk(value, hasher);
        }
        hasher.update(b"}");
    }
    let mut hasher = blake3::Hasher::new();
    walk(value, &mut hasher);
    *hasher.finalize().as_bytes()
}
