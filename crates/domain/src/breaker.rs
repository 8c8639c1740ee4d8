//! What is recommended about an agent.

words! {
    /// Where an agent's breaker stands: what is recommended to whoever steers the agent.
    #[derive(PartialOrd, Ord, Default, utoipa::ToSchema)]
    pub enum BreakerState {
        /// Let the agent work.
        #[default]
        Closed = "closed",
        /// Let it try: its next reviews decide.
        HalfOpen = "half_open",
        /// Hold it back.
        Open = "open",
    }
}
