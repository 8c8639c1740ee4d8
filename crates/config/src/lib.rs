//! Configuration: YAML and environment in, checked settings and shadows out.
//!
//! Every file takes the same way:
//!
//! 1. [`tree`] (YAML) and [`toml`] read a file, within budgets, into nodes that carry their place.
//! 2. [`environment`] lays `UMBRA__SECTION__KEY` over the settings' tree, each variable a source of its own.
//! 3. [`keys`] walks the tree. Each key is declared once, with its [`shape`] and its description; the same
//!    declaration reads the value, knows the key for "did you mean", and writes the JSON Schema for editors.
//! 4. Every fault is collected ([`fault`]), with file, line, column, the line itself and advice.
//!
//! [`settings`] holds one file per section of the settings, [`shadows`] the observers, [`tools`] contracts, effects and
//! rules of agents' tools, [`checks`] rules of the built-in checks, [`sidecar`] the guardrail rules of sessions. A
//! value is either within its bounds or a fault: nothing is clamped, ignored or half applied, and a file with faults
//! changes nothing.
//!
//! This crate reads files and the process's environment, and nothing else: no network, no database, no clock.

pub mod checks;
pub mod environment;
pub mod fault;
mod file;
mod keys;
mod number;
pub mod quantity;
mod rules;
pub mod settings;
pub mod shadows;
mod shape;
pub mod sidecar;
mod text;
mod toml;
pub mod tools;
mod tree;
mod twins;

#[cfg(test)]
mod tests;

pub use checks::rules_schema;
pub use environment::Environment;
pub use fault::{Fault, Level, Report};
pub use settings::{Settings, UrlRule, settings_schema};
pub use shadows::{Models, shadows_schema};
pub use sidecar::sidecar_schema;
pub use text::parse_bind;
pub use tools::tools_schema;

/// The settings with every default written out and explained: the manual of `--config`.
pub const DEFAULT_SETTINGS: &str = include_str!("../../../config/umbra.default.yaml");

/// The shadows that are used when no shadows file is given.
pub const EXAMPLE_SHADOWS: &str = include_str!("../../../config/shadow-agents.example.yaml");

/// Contracts and rules that show every key of the tools file.
pub const EXAMPLE_TOOLS: &str = include_str!("../../../config/tools.example.yaml");

/// Rules that show every key of the sidecar file.
pub const EXAMPLE_SIDECAR: &str = include_str!("../../../config/sidecar.example.yaml");

/// A value that was read without a fault, and its warnings.
#[derive(Debug, Clone)]
pub struct Loaded<T> {
    /// The value.
    pub value: T,
    /// Warnings, in order of place.
    pub warnings: Vec<Fault>,
}
