//! The boundary's pure parts.

mod executions;
mod files;
mod tampering;
