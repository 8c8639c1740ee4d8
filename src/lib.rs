//! The service: modules of the root package, lowest first. See `ARCHITECTURE.md`; `tests/it/structure.rs` checks which
//! module may import which.

// Building blocks: they import crates, and no other module.
pub mod breaker;
pub mod briefing;
pub mod budget;
pub mod findings;
pub mod ingest;
pub mod queue;
pub mod reflexion;
pub mod spool;
pub mod telemetry;
pub mod watch;
pub mod webhooks;
pub mod workspace;

// Use cases, which combine blocks and crates.
pub mod flows;

// Interfaces, and the parts that start and stop the process.
pub mod api;
pub mod app;
pub mod cli;
pub mod dashboard;
pub mod lifecycle;
pub mod mcp;
