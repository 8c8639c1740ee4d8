//! The boundary around tools: what a call does, whether it may, whether it runs, and what is answered where it does not.
//!
//! 1. [`effects`] says what a call does: contract, operator, a trusted server, or a classifier.
//! 2. [`contract`] compiles what an operator wrote of a tool: schemas, responses, faults, overlay.
//! 3. [`stub`] answers a call that does not run: typed, valid, and the same for the same seed and calls.
//! 4. [`overlay`] lets a run read back what it only seemed to write.
//! 5. [`execution`] says whether calls run, and who decided that; [`tools`] puts together what is known of a tool.
//! 6. [`decide`] is the whole of one decision, [`answer`] what is told and kept of it.
//! 7. [`drift`] holds what was seen against what was promised and against what was usual; [`gate`] says what stands against
//!    production, [`lately`] whether a process still does anything, and [`diff`] lays two runs beside each other.
//! 8. [`stamp`], [`seal`] and [`verify`] make the audit tamper-evident; [`journal`] and [`checkpoints`] keep it outside of
//!    the database, and [`lines`] compares what lies there. [`genuine`] knows overrides, approvals, runs and answers for
//!    ours; [`standing`] and [`bound`] compare them, and sessions, with the audit.
//!
//! Pure, but for the files of the audit: values in, values out. Nothing here asks a clock, a database or a network.

pub mod answer;
pub mod bound;
pub mod checkpoints;
pub mod contract;
pub mod decide;
pub mod diff;
pub mod drift;
pub mod effects;
pub mod execution;
pub mod gate;
pub mod genuine;
pub mod journal;
pub mod lately;
pub mod line;
pub mod lines;
pub mod overlay;
pub mod seal;
pub mod stamp;
pub mod standing;
pub mod stub;
pub mod tools;
pub mod verify;

#[cfg(test)]
mod tests;
