//! `umbra schema`: prints JSON Schemas for editors.

use clap::ValueEnum;

use super::{CommandFailure, answer_json};
use umbra_config::{rules_schema, settings_schema, shadows_schema, sidecar_schema, tools_schema};

/// File that has a schema.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum File {
    /// The shadows file.
    Shadows,
    /// The settings file.
    Settings,
    /// The tools file.
    Tools,
    /// The sidecar file.
    Sidecar,
    /// A file of rules of the built-in checks.
    Rules,
}

pub(super) fn run(file: File) -> Result<(), CommandFailure> {
    answer_json(&match file {
        File::Shadows => shadows_schema(),
        File::Settings => settings_schema(),
        File::Tools => tools_schema(),
        File::Sidecar => sidecar_schema(),
        File::Rules => rules_schema(),
    })
}
