//! Use case: the service over time: due work, retention, erasure, status.

pub mod erasure;
pub mod retention;
pub mod status;
pub mod tick;
