//! Tests that take a minute: their names sort before most others, so they begin first and do not delay the end.

mod attacks;
mod canaries;
pub mod chaos;
mod editors;
mod spooled;
