//! Approvals: permission for one call of an agent with just these arguments.

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
        /// The call was let run.
        Used = "used",
    }
}

/// Row of an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalRow {
    /// Its id.
    pub id: ApprovalId,
    /// The agent that calls.
    pub agent: String,
    /// The tool, as `server.name`.
    pub tool: String,
    /// Keyed hash of agent, tool and arguments.
    pub digest: HexBytes,
    /// The rule that asks.
    pub rule: Option<String>,
    /// The rule's reason.
    pub reason: Option<String>,
    /// Its state.
    pub state: ApprovalState,
    /// Time of the request.
    pub asked_at: Timestamp,
    /// End of its validity.
    pub expires_at: Timestamp,
    /// Keyed hash of all fields above; none in rows from before there were such.
    pub mac: Option<HexBytes>,
}
