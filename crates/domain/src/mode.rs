//! What a shadow may do with what it finds.

words! {
    /// How far a shadow's opinion reaches; further is greater.
    #[derive(PartialOrd, Ord, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Mode {
        /// Logged only.
        Passive = "passive",
        /// Comments that people and orchestrators see.
        Review = "review",
        /// May reject an output.
        Active = "active",
    }
}

impl Mode {
    /// Rank in the queue: lower runs first (somebody may be waiting for an active review).
    pub fn priority(self) -> i16 {
        match self {
            Self::Active => 0,
            Self::Review => 1,
            Self::Passive => 2,
        }
    }
}
