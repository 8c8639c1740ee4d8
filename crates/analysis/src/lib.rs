//! Readers of what agents run: text in, facts out.
//!
//! [`shell`] reads shell scripts: the programs they run, their arguments, and their targets. [`code`] finds a text's
//! language, and the commands that a program in another language starts. [`sql`] reads what statements do, by each
//! dialect.
//!
//! Pure: no network, no clock, no file is read, nothing is run. The readers give facts; rules in other crates judge
//! them.

pub mod code;
pub mod shell;
pub mod sql;
