//! Stories of a minute: their names sort behind all others, so that they run last.

mod attacks;
mod canaries;
pub mod chaos;
mod editors;
mod spooled;
