//! The boundary's pure parts.

mod executions;
mod files;
mod outside;
mod packs;
mod tampering;
