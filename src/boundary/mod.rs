//! The execution boundary: what a tool call does, whether it may run, and what it is answered where it may not.
//!
//! 1. [`effects`] says what a call does: contract, operator, a trusted server, or a classifier.
//! 2. [`contract`] compiles what an operator wrote of a tool: schemas, responses, faults, overlay.
//! 3. [`stub`] answers a call that does not run: typed, valid, and the same for the same seed and calls.
//! 4. [`overlay`] lets a run read back what it only seemed to write.
//!
//! Pure: values in, values out. Nothing here asks a clock, a database or a network.

pub mod contract;
pub mod effects;
pub mod overlay;
pub mod stub;
