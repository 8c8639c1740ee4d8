//! Breaker of an agent: a recommendation to let it work or to hold it back.

words! {
    /// State of an agent's breaker: a recommendation to the person or program that steers the agent.
    #[derive(PartialOrd, Ord, Default, utoipa::ToSchema)]
    pub enum BreakerState {
        /// Let the agent work.
        #[default]
        Closed = "closed",
        /// Let the agent try; its next reviews decide.
        HalfOpen = "half_open",
        /// Hold the agent back.
        Open = "open",
    }
}
