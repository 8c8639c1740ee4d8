//! Approvals: permission for an agent to make one call with exactly these arguments.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{ApprovalId, HexBytes};

words! {
    /// State of an approval.
    pub enum ApprovalState {
        /// Not answered yet.
        Pending = "pending",
        /// The call may run, once.
        Approved = "approved",
        /// The call may not run.
        Denied = "denied",
        /// The approval was spent on a call.
        Used = "used",
    }
}

/// Row of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// Id of the approval.
    pub id: ApprovalId,
    /// Agent that calls.
    pub agent: String,
    /// The tool, as `server.name`.
    pub tool: String,
    /// Keyed hash of agent, tool and arguments.
    pub digest: HexBytes,
    /// Name of the rule that asks for approval.
    pub rule: Option<String>,
    /// The rule's reason.
    pub reason: Option<String>,
    /// State of the approval.
    pub state: ApprovalState,
    /// Time of the request.
    pub asked_at: Timestamp,
    /// Time at which the approval expires.
    pub expires_at: Timestamp,
    /// Note of the person who answered, redacted. The agent reads that of a denial.
    pub note: Option<String>,
    /// Keyed hash of all fields above; `None` in rows older than keyed hashes.
    pub mac: Option<HexBytes>,
}
