//! The plan of the house, in walking order: ground, rooms, the pipeline that strings them together, windows.
//! `ARCHITECTURE.md` is the guide; `tests/it/structure.rs` holds who may import whom.

// Ground: knows no room.
pub mod telemetry;

// Rooms, in the order in which a fact walks.
pub mod ingest;

pub mod watch;

pub mod budget;

pub mod queue;

pub mod findings;

pub mod breaker;

pub mod briefing;
pub mod reflexion;

pub mod webhooks;

pub mod workspace;

// Wings: beside the rooms, on the same ground.
pub mod pipeline;

// Windows.
pub mod api;

pub mod mcp;

pub mod dashboard;

pub mod cli;

// The frame.
pub mod app;

pub mod lifecycle;
