//! `umbra bench`: measures judgement on labelled data, as commands that users can run themselves. Load on the service
//! is measured by `umbra-bench`, in `crates/bench`.

mod checks;
pub mod corpus;
mod effects;
mod judge;
mod labelled;
mod plot;
mod replies;
mod scores;
mod sets;
mod speed;
mod tools;
mod words;

use clap::Subcommand;

use super::{Failure, Global};

/// Measurement to make.
#[derive(Debug, Subcommand)]
pub(super) enum Measurement {
    /// Judge labelled texts by the built-in checks.
    Checks(checks::Options),
    /// Have a model review labelled texts, by the same prompt and rules as any review.
    #[command(after_help = judge::NOTES)]
    Judge(judge::Options),
    /// Classify tools whose effect is known: how many writes would run as reads, how many reads would be stubbed.
    Effects(effects::Options),
    /// Find the tool for a task, with and without a memory of tasks for which tools succeeded.
    Tools(tools::Options),
}

pub(super) async fn run(global: &Global, what: Measurement) -> Result<(), Failure> {
    match what {
        Measurement::Checks(options) => checks::run(global, &options),
        Measurement::Judge(options) => Box::pin(judge::run(global, &options)).await,
        Measurement::Effects(options) => effects::run(global, &options),
        Measurement::Tools(options) => tools::run(global, &options).await,
    }
}
