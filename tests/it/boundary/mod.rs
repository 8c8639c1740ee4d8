//! Calls of tools, over HTTP: decisions, records, and that no call runs in doubt.

mod approvals;
mod audit;
mod bound;
mod closed;
mod contracts;
mod decisions;
mod drift;
mod effects;
mod execution;
mod forged;
mod gate;
mod names;
mod rehearsal;
mod repeats;
mod rules;
mod run_ends;
mod runs;
mod safe_mode;
mod secrets;
mod unavailable;
