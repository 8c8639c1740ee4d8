//! The boundary around tools: rates the effect of a call, applies the rules, settles whether it runs, and answers calls
//! that do not run.
//!
//! 1. [`effects`] rates a call, by its contract, the operator, a trusted server or a classifier.
//! 2. [`contract`] compiles an operator's description of a tool: schemas, responses, faults, overlay.
//! 3. [`stub`] answers a call that does not run: typed, valid, and the same for the same seed and calls.
//! 4. [`overlay`] lets a run read back what it only seemed to write.
//! 5. [`execution`] settles whether calls run, live or shadow; [`tools`] combines all that is declared about tools.
//! 6. [`decide`] makes one whole decision, [`answer`] builds the answer and the audit's record of it.
//! 7. [`drift`] compares calls with contracts and with past behaviour; [`gate`] lists the reasons against production,
//!    [`recent_outcomes`] notices a process that no longer changes anything, and [`diff`] compares two runs.
//! 8. [`row_signature`], [`seal`] and [`verify`] make the audit tamper-evident; [`journal`] and [`checkpoints`] keep it
//!    outside the database, and [`file_check`] compares those files with it. [`row_mac`] authenticates overrides,
//!    approvals, runs and answers; [`table_check`] and [`run_check`] compare them, and sessions, with the audit.
//!
//! Pure, except for the audit's files: values in, values out. Nothing here asks a clock, a database or a network.

pub mod answer;
mod by_tool;
pub mod checkpoints;
pub mod contract;
pub mod decide;
pub mod diff;
pub mod drift;
pub mod effects;
pub mod execution;
pub mod file_check;
pub mod gate;
pub mod journal;
pub mod overlay;
pub mod recent_outcomes;
pub mod record_json;
pub mod row_mac;
pub mod row_signature;
pub mod run_check;
pub mod seal;
pub mod stub;
pub mod table_check;
pub mod tools;
pub mod verify;

#[cfg(test)]
mod tests;
