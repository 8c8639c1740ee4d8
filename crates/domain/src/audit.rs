//! What the audit holds: a row that never changes, and beside it a payload that may be erased.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{ApprovalId, ApprovalState, Execution, Override};

words! {
    /// What an audit row says happened.
    #[derive(ToSchema)]
    pub enum AuditKind {
        /// A call was decided.
        Decision = "decision",
        /// What came of a call.
        Outcome = "outcome",
        /// An override of the execution was set or lifted.
        Execution = "execution",
        /// An approval was given or denied.
        Approval = "approval",
        /// Payloads were erased.
        Erasure = "erasure",
        /// A call that was decided while the database was away, added later.
        Merged = "merged",
    }
}

/// A row of the audit. It is inserted, never updated or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its number in feed `audit`: 1, 2, 3, without a gap.
    pub seq: i64,
    /// Its id, minted by the process that wrote it; a decision's is its [`super::DecisionId`].
    pub id: Uuid,
    /// The database's time of its transaction.
    pub at: Timestamp,
    /// What happened.
    pub kind: AuditKind,
    /// The agent, if it is about one.
    pub agent: Option<String>,
    /// The session, if there was one.
    pub session: Option<String>,
    /// The run, if there was one.
    pub run: Option<String>,
    /// The call, if it is about one.
    pub call_id: Option<String>,
    /// The tool, if it is about one.
    pub tool: Option<String>,
    /// Everything else that is no payload, as JSON; kept byte by byte.
    pub body: String,
    /// HMAC-SHA256 of the payload under its salt; none where there is no payload.
    pub payload_mac: Option<Vec<u8>>,
    /// The signature of the process that wrote it, over this row and those of the same transaction that follow it; none
    /// where an earlier row's covers it.
    pub stamp: Option<Vec<u8>>,
}

/// What a row says: all of it that is known before the database gives it a number and a time.
#[derive(Debug, Clone, Copy)]
pub struct AuditSaid<'r> {
    /// Its id.
    pub id: Uuid,
    /// What happened.
    pub kind: AuditKind,
    /// Agent, session, run, call and tool, as far as it is about any.
    pub names: [Option<&'r str>; 5],
    /// Everything else, as JSON.
    pub body: &'r str,
    /// The keyed hash of its payload.
    pub payload_mac: Option<&'r [u8]>,
}

/// Signs the rows of a transaction, in order. What it signs with is not in the database.
pub type AuditSigner = Arc<dyn Fn(&[AuditSaid<'_>]) -> Vec<u8> + Send + Sync>;

impl AuditRow {
    /// What it says.
    pub fn said(&self) -> AuditSaid<'_> {
        let Self { id, kind, agent, session, run, call_id, tool, body, payload_mac, .. } = self;
        let names = [agent, session, run, call_id, tool].map(Option::as_deref);
        AuditSaid { id: *id, kind: *kind, names, body, payload_mac: payload_mac.as_deref() }
    }
}

/// How far the files of one folder are, as the database was told after they were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFolder {
    /// The public key of its checkpoints.
    pub key: Vec<u8>,
    /// The newest block that has a checkpoint there.
    pub block: i64,
    /// The last row that is written there.
    pub written: i64,
}

/// What an agent or a tool said in a call: redacted, and erasable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPayload {
    /// 16 random bytes. Without them nobody can try out what an erased payload was.
    pub salt: Vec<u8>,
    /// Arguments, stub, result, error: a JSON object, kept byte by byte.
    pub body: String,
}

/// A row with what is left of its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// The row.
    pub row: AuditRow,
    /// Its payload; none where it has none, or where it was erased.
    pub payload: Option<AuditPayload>,
}

/// A block of rows that the sealer has chained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSeal {
    /// Its number: 1, 2, 3.
    pub block: i64,
    /// The first row.
    pub first: i64,
    /// The last row.
    pub last: i64,
    /// The hash of the block before and of the rows of this one.
    pub hash: Vec<u8>,
}

/// What binds those who come later, as the body of a decision's row says it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// Shadow where the run stays there: it began so, or descends from a run in shadow.
    #[serde(default)]
    pub run_execution: Option<Execution>,
    /// What the session got by this call.
    #[serde(default)]
    pub labels: Option<Labels>,
}

/// What a session carries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labels {
    /// Its labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// Its ways to write that nobody can intercept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uninterceptable: Vec<String>,
}

impl Labels {
    /// Adds what is not there yet; answers whether anything was.
    pub fn add(&mut self, more: Self) -> bool {
        let mut new = false;
        for (to, more) in [(&mut self.taints, more.taints), (&mut self.uninterceptable, more.uninterceptable)] {
            for one in more {
                if !to.contains(&one) {
                    to.push(one);
                    new = true;
                }
            }
        }
        new
    }
}

/// An override, as the table has it.
#[derive(Debug, Clone, Deserialize)]
pub struct StandingOverride {
    /// What it says.
    #[serde(flatten)]
    pub said: Override,
    /// Whether it has a keyed hash: without one it is of before, when its time was not that of the audit.
    pub keyed: bool,
}

/// An approval, as the table has it.
#[derive(Debug, Clone, Deserialize)]
pub struct StandingApproval {
    /// Its id.
    pub id: ApprovalId,
    /// Who calls.
    pub agent: String,
    /// Which tool.
    pub tool: String,
    /// Keyed hash of agent, tool and arguments, in hex.
    pub digest: String,
    /// Its state.
    pub state: ApprovalState,
    /// When it is past.
    pub expires_at: Timestamp,
    /// Whether it has a keyed hash: without one it is of before, when the audit had no word of its use.
    pub keyed: bool,
}

/// A session, as the table has it.
#[derive(Debug, Clone)]
pub struct StandingSession {
    /// Whose.
    pub agent: String,
    /// Its name.
    pub session: String,
    /// What it carries.
    pub labels: Labels,
}

/// Both tables, as they stood when the audit had its last number.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// The database's time.
    pub now: Timestamp,
    /// The audit's last number.
    pub seq: i64,
    /// Overrides, also past ones.
    pub overrides: Vec<StandingOverride>,
    /// Approvals, also past ones.
    pub approvals: Vec<StandingApproval>,
}
