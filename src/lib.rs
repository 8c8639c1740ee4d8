//! The service: modules of the root package, lowest first. `ARCHITECTURE.md` is the guide; `tests/it/structure.rs` holds
//! which of them may import which.

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

// Use cases: they string blocks and crates together.
pub mod flows;

// Interfaces and the frame.
pub mod api;
pub mod app;
pub mod cli;
pub mod dashboard;
pub mod lifecycle;
pub mod mcp;
