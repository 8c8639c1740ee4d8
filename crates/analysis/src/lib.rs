//! Readers of what agents run: text in, facts out.
//!
//! [`shell`] reads scripts of shells: which programs they run, with which arguments, on what.
//!
//! Pure: no network, no clock, no file is read, nothing is run. No reader judges: rules do, in the crates above.

pub mod shell;
