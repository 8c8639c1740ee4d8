//! Readers of what agents run: text in, facts out.
//!
//! [`shell`] reads scripts of shells: which programs they run, with which arguments, on what. [`code`] tells which language a
//! text is in, and which commands a program in another language starts. [`sql`] tells what statements do, by each dialect.
//!
//! Pure: no network, no clock, no file is read, nothing is run. No reader judges: rules do, in the crates above.

pub mod code;
pub mod shell;
pub mod sql;
