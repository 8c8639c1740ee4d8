//! `umbra bench`: measures judgement on labelled data, as commands that users can run themselves. Load on the service
//! is measured by `umbra-bench`, in `crates/bench`.

mod bag_of_words;
mod checks;
pub mod corpus;
mod effects;
mod judge;
mod labelled;
mod replies;
mod scores;
mod sets;
mod speed;
mod tools;

use clap::Subcommand;

use super::{CommandFailure, GlobalOptions};

/// Measurement to make.
#[derive(Debug, Subcommand)]
pub(super) enum Measurement {
    /// Judge labelled texts by the built-in checks.
    Checks(checks::ChecksBenchOptions),
    /// Have a model review labelled texts, by the same prompt and rules as any review.
    #[command(after_help = judge::NOTES)]
    Judge(judge::JudgeBenchOptions),
    /// Classify tools whose effect is known: how many writes would run as reads, how many reads would be stubbed.
    Effects(effects::EffectsBenchOptions),
    /// Find the tool for a task, with and without a memory of tasks for which tools succeeded.
    Tools(tools::ToolsBenchOptions),
}

pub(super) async fn run(global: &GlobalOptions, what: Measurement) -> Result<(), CommandFailure> {
    match what {
        Measurement::Checks(options) => checks::run(global, &options),
        Measurement::Judge(options) => Box::pin(judge::run(global, &options)).await,
        Measurement::Effects(options) => effects::run(global, &options),
        Measurement::Tools(options) => tools::run(global, &options).await,
    }
}
