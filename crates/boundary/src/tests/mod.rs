//! Tests of the boundary's pure parts, across modules.

mod executions;
mod files;
mod outside;
mod packs;
mod tampering;
