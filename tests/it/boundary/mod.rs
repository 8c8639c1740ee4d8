//! Calls of tools, over HTTP: what becomes of them, what is kept of them, and that nothing runs where there is doubt.

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
mod guide;
mod names;
mod rehearsal;
mod repeats;
mod rules;
mod run_ends;
mod runs;
mod safe_mode;
mod secrets;
mod unavailable;
