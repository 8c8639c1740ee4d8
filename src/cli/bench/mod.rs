//! `umbra bench`: what is claimed about speed and judgement, as commands that anyone can run.

mod checks;
mod children;
mod decide;
mod effects;
mod fidelity;
mod ingest;
mod judge;
mod labelled;
mod load;
mod plot;
mod replies;
mod report;
mod scores;
mod sent;
mod sets;
mod sidecar;
mod speed;
mod tools;
mod usage;
mod words;

use clap::Subcommand;

use super::{Failure, Global, answer, start_logs};
use crate::app::{self, Rival};

/// What to measure.
#[derive(Debug, Subcommand)]
pub(super) enum What {
    /// Post events to the service, and to two servers that do less, on one Postgres with fsync on.
    Ingest(ingest::Options),
    /// Decide calls of tools with a durable audit, and without a database.
    Decide(decide::Options),
    /// Judge labelled texts by the built-in checks.
    Checks(checks::Options),
    /// Have a model review labelled texts, by the same prompt and rules as any review.
    #[command(after_help = judge::NOTES)]
    Judge(judge::Options),
    /// Tell the effect of tools whose effect is known: what would run as a read and is none, what would be stubbed.
    Effects(effects::Options),
    /// Count how many branches an agent takes in a rehearsal as it does live, with null stubs and with contract stubs.
    /// `--tools` names other contracts than those of the bench.
    Fidelity(fidelity::Options),
    /// Find the tool that a task wants, with and without a memory of tasks for which tools succeeded.
    Tools(tools::Options),
    /// Take steps of agents beside their sidecar, with few and many tools, and with the database stopped.
    Sidecar(sidecar::Options),
    /// Serve an endpoint to compare with; `bench ingest` starts it.
    #[command(hide = true)]
    ServeVariant {
        /// Which.
        #[arg(value_enum)]
        name: Rival,
    },
}

impl What {
    /// Threads of one that only sends and waits: half as many as there are processors. With more it would take turns
    /// with the server that it measures, rather than send while that works.
    pub(super) fn threads(&self) -> Option<usize> {
        let sends = matches!(self, Self::Ingest(_) | Self::Decide(_) | Self::Sidecar(_));
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        sends.then(|| processors.div_ceil(2))
    }
}

pub(super) async fn run(global: &Global, what: What) -> Result<(), Failure> {
    match what {
        What::Ingest(options) => ingest::run(global, &options).await,
        What::Decide(options) => decide::run(global, &options).await,
        What::Checks(options) => checks::run(global, &options),
        What::Judge(options) => Box::pin(judge::run(global, &options)).await,
        What::Effects(options) => effects::run(global, &options),
        What::Fidelity(options) => fidelity::run(global, &options),
        What::Tools(options) => tools::run(global, &options),
        What::Sidecar(options) => sidecar::run(global, &options).await,
        What::ServeVariant { name } => {
            let setup = global.setup(None)?;
            start_logs(&setup, setup.settings.logging.level.as_str());
            let ready = |ready: app::Ready| answer(&format!("listening on http://{}", ready.address));
            Ok(app::serve_rival(setup, name, ready).await?)
        }
    }
}
