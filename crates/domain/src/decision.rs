//! Decisions about tool calls, as told to the caller and as stored.

use utoipa::ToSchema;

words! {
    /// Decision about a call.
    #[derive(ToSchema)]
    pub enum Decision {
        /// Let it run.
        Execute = "execute",
        /// Do not let it run; answer with the stub.
        Stub = "stub",
        /// Do not let it run before a person has approved it.
        Ask = "ask",
        /// Do not let it run.
        Block = "block",
    }
}

words! {
    /// Decision in the row of a call.
    pub enum StoredDecision {
        /// Told as [`Decision::Execute`].
        Execute = "execute",
        /// Told as [`Decision::Stub`].
        Stub = "stub",
        /// Told as [`Decision::Ask`].
        Ask = "ask",
        /// Told as [`Decision::Block`].
        Block = "block",
        /// Refused while the database was away: the next question about the call is decided anew.
        Closed = "closed",
    }
}

impl StoredDecision {
    /// Returns the decision that the caller was told.
    pub fn told(self) -> Decision {
        match self {
            Self::Execute => Decision::Execute,
            Self::Stub => Decision::Stub,
            Self::Ask => Decision::Ask,
            Self::Block | Self::Closed => Decision::Block,
        }
    }
}

impl From<Decision> for StoredDecision {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Execute => Self::Execute,
            Decision::Stub => Self::Stub,
            Decision::Ask => Self::Ask,
            Decision::Block => Self::Block,
        }
    }
}
