//! Rows of the audit: a part that never changes, and beside it a payload that may be erased.

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::{ApprovalId, ApprovalState, Execution, Override};

words! {
    /// Kind of an audit row.
    #[derive(ToSchema)]
    pub enum AuditKind {
        /// A call was decided.
        Decision = "decision",
        /// The outcome of a call was reported.
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

/// Row of the audit: inserted, never updated or deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Number of the row in feed `audit`: 1, 2, 3, without a gap.
    pub seq: i64,
    /// Id, minted by the process that wrote the row; in the row of a decision it is the [`super::DecisionId`].
    pub id: Uuid,
    /// Database time of the transaction that wrote the row.
    pub at: Timestamp,
    /// Kind of the row.
    pub kind: AuditKind,
    /// Agent, if the row concerns one.
    pub agent: Option<String>,
    /// Session, if there was one.
    pub session: Option<String>,
    /// Run, if there was one.
    pub run: Option<String>,
    /// Id of the call, if the row concerns one.
    pub call_id: Option<String>,
    /// Tool, if the row concerns one.
    pub tool: Option<String>,
    /// Everything else except the payload, as JSON; kept byte for byte.
    pub body: String,
    /// HMAC-SHA256 of the payload under its salt; `None` without a payload.
    pub payload_mac: Option<Vec<u8>>,
    /// Signature of the process that wrote the row, over this row and the rows that follow it in the same transaction;
    /// `None` if an earlier row's signature covers this row.
    pub signature: Option<Vec<u8>>,
}

/// Content of an audit row that is known before the database assigns its number and time.
#[derive(Debug, Clone, Copy)]
pub struct AuditContent<'r> {
    /// Id of the row.
    pub id: Uuid,
    /// Kind of the row.
    pub kind: AuditKind,
    /// Agent, session, run, call and tool, each if the row concerns one.
    pub names: [Option<&'r str>; 5],
    /// Everything else except the payload, as JSON.
    pub body: &'r str,
    /// Keyed hash of the payload.
    pub payload_mac: Option<&'r [u8]>,
}

/// Signs the rows of a transaction, in order, with a key that is not in the database.
pub type AuditSigner = Arc<dyn Fn(&[AuditContent<'_>]) -> Vec<u8> + Send + Sync>;

impl AuditRow {
    /// Returns the content that is signed: the row without number, time and signature.
    pub fn signed_content(&self) -> AuditContent<'_> {
        let Self { id, kind, agent, session, run, call_id, tool, body, payload_mac, .. } = self;
        let names = [agent, session, run, call_id, tool].map(Option::as_deref);
        AuditContent { id: *id, kind: *kind, names, body, payload_mac: payload_mac.as_deref() }
    }
}

/// Progress of one folder of audit files, as reported to the database after the files were written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFolder {
    /// Public key of the folder's checkpoints.
    pub key: Vec<u8>,
    /// Number of the newest block with a checkpoint in the folder.
    pub block: i64,
    /// Number of the last row that is written to the folder.
    pub written: i64,
}

/// Arguments, stub, result and error of a call: redacted, and erasable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPayload {
    /// 16 random bytes. Without them, guesses at an erased payload cannot be tested against its MAC.
    pub salt: Vec<u8>,
    /// JSON object with arguments, stub, result and error; kept byte for byte.
    pub body: String,
}

/// Audit row with its payload, unless that was erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRecord {
    /// The row.
    pub row: AuditRow,
    /// Payload; `None` if the row has none, or if it was erased.
    pub payload: Option<AuditPayload>,
}

/// Block of rows that the sealer has chained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditSeal {
    /// Number of the block: 1, 2, 3.
    pub block: i64,
    /// Number of the first row.
    pub first: i64,
    /// Number of the last row.
    pub last: i64,
    /// Hash of the previous block's hash and of this block's rows.
    pub hash: Vec<u8>,
}

/// Lasting effects of a decision on its run and its session, stored in the body of its row.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionEffects {
    /// Shadow if the run stays in shadow, since it began there or descends from a run in shadow.
    #[serde(default)]
    pub run_execution: Option<Execution>,
    /// Labels that the session got by this call.
    #[serde(default)]
    pub labels: Option<SessionLabels>,
}

/// Labels of a session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionLabels {
    /// Taint labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<String>,
    /// Ways to write that cannot be intercepted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uninterceptable: Vec<String>,
}

impl SessionLabels {
    /// Adds the labels that are missing. Returns true if there were any.
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

/// Row of the table of overrides.
#[derive(Debug, Clone, Deserialize)]
pub struct StoredOverride {
    /// The override.
    #[serde(flatten)]
    pub setting: Override,
    /// True if the row has a keyed hash. In rows without one, `set_at` may differ from the time in the audit.
    pub keyed: bool,
}

/// Row of the table of approvals.
#[derive(Debug, Clone, Deserialize)]
pub struct StoredApproval {
    /// Id of the approval.
    pub id: ApprovalId,
    /// Agent that calls.
    pub agent: String,
    /// Tool, as `server.name`.
    pub tool: String,
    /// Keyed hash of agent, tool and arguments, in hex.
    pub digest: String,
    /// State of the approval.
    pub state: ApprovalState,
    /// Time at which the approval expires.
    pub expires_at: Timestamp,
    /// True if the row has a keyed hash. The use of an approval without one was not written to the audit.
    pub keyed: bool,
}

/// Row of the table of sessions.
#[derive(Debug, Clone)]
pub struct StoredBoundarySession {
    /// Agent of the session.
    pub agent: String,
    /// Name of the session.
    pub session: String,
    /// Labels of the session.
    pub labels: SessionLabels,
}

/// Tables of overrides and approvals, read together with the audit's last number.
#[derive(Debug, Clone, Default)]
pub struct AuditedTables {
    /// Database time of the reading.
    pub now: Timestamp,
    /// Last number of the audit.
    pub seq: i64,
    /// Overrides, including expired ones.
    pub overrides: Vec<StoredOverride>,
    /// Approvals, including expired ones.
    pub approvals: Vec<StoredApproval>,
}
