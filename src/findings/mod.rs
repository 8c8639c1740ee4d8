//! Results of reviews for people: observations, pages of markdown, and the files that hold them.

mod artifacts;
mod erase;
mod journal;
mod markdown;
mod observation;
mod pages;
mod precision;
mod private;

pub use self::{
    artifacts::{ArtifactError, Artifacts},
    erase::{ErasedFiles, ErasureTarget, Places, erase_files},
    markdown::page,
    observation::{Observation, ObservedFinding},
    precision::{Precision, Tally},
};

#[cfg(test)]
mod tests;
