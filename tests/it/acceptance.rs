//! Stories of a minute: their names sort before most others, so that they begin first and nobody waits for them at the end.

mod attacks;
mod canaries;
pub mod chaos;
mod editors;
mod spooled;
