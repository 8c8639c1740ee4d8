//! Modes of a shadow: the consequences that its findings may have.

words! {
    /// Mode of a shadow, from the least consequence to the greatest.
    #[derive(PartialOrd, Ord, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Mode {
        /// Findings are logged only.
        Passive = "passive",
        /// Findings are comments that people and orchestrators see.
        Review = "review",
        /// Findings may reject an output.
        Active = "active",
    }
}

impl Mode {
    /// Returns the rank in the queue: lower runs first, since callers may wait for active reviews.
    pub fn priority(self) -> i16 {
        match self {
            Self::Active => 0,
            Self::Review => 1,
            Self::Passive => 2,
        }
    }
}
