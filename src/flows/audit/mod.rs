//! Use case: the audit of decisions: chained and signed, and compared with contracts, calls and runs.

pub mod contracts;
pub mod drift;
pub mod gate;
pub mod runs;
pub mod seal;
pub mod unguarded;
