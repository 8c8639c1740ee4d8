//! States, scopes and conclusions of reviews.

words! {
    /// Conclusion of a review. Stricter is greater, so the stricter of two is their maximum: [`Self::Inconclusive`]
    /// only ever replaces an approval.
    #[derive(PartialOrd, Ord, schemars::JsonSchema, utoipa::ToSchema)]
    pub enum Assessment {
        /// Approval by a model.
        Approve = "APPROVE",
        /// Nothing found by the built-in checks where no model was due: relevance, facts and completeness are unjudged.
        Checked = "CHECKED",
        /// No verdict of the model that was due: no approval and no rejection.
        Inconclusive = "INCONCLUSIVE",
        /// Something to improve.
        Suggest = "SUGGEST",
        /// Something that must not pass.
        Flag = "FLAG",
    }
}

impl Assessment {
    /// Conclusions that a model may reply.
    pub const OF_MODELS: [Self; 4] = [Self::Approve, Self::Inconclusive, Self::Suggest, Self::Flag];

    /// True if nothing was found, by a model (APPROVE) or by the built-in checks alone (CHECKED).
    pub fn is_clean(self) -> bool {
        self <= Self::Checked
    }
}

words! {
    /// State of a review.
    #[derive(utoipa::ToSchema)]
    pub enum ReviewState {
        /// Reserved, waiting for a worker.
        Queued = "queued",
        /// A worker holds the review.
        Running = "running",
        /// The review ended with an assessment.
        Done = "done",
        /// Given up without an assessment.
        Failed = "failed",
        /// Given up, and its unit returned to the budget.
        Released = "released",
    }
}

impl ReviewState {
    /// Returns the state as users see it: `Released` shows as `Failed`, since a returned unit concerns only the budget.
    #[must_use]
    pub fn public_state(self) -> Self {
        if self == Self::Released { Self::Failed } else { self }
    }
}

words! {
    /// Scope of a review.
    #[derive(Default, utoipa::ToSchema)]
    pub enum ReviewScope {
        /// One event.
        #[default]
        Event = "event" as 0,
        /// Small events of one agent that share a call; each is judged by itself.
        Batch = "batch" as 1,
        /// All events of a task, judged as a whole.
        Trajectory = "trajectory" as 2,
    }
}

words! {
    /// Kind of reviewer.
    #[derive(utoipa::ToSchema)]
    pub enum Reviewer {
        /// A model; the built-in checks ran as well.
        Model = "model",
        /// The built-in checks alone.
        Checks = "checks",
    }
}
