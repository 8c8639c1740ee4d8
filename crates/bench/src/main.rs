//! `umbra-bench`: load on the service, and simpler variants to compare it with. The service under test is the `umbra`
//! program beside this one, or `--umbra PATH`, so the shipped program is measured.

mod decide;
mod fidelity;
mod hooks;
mod ingest;
mod load;
mod looks;
mod otlp;
mod requests;
mod sidecar;
mod testbed;
mod usage;
mod variants;

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Parser, Subcommand};

// The service's own allocator, so variants differ from it only in the work that they do.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures an Umbra on this machine: throughput and latency beside simpler variants, and the fidelity of stubs.
#[derive(Debug, Parser)]
#[command(name = "umbra-bench", version, after_help = "Exit codes: 0 done, 1 faults, 2 wrong usage.")]
struct Cli {
    #[command(flatten)]
    global: BenchGlobalOptions,
    #[command(subcommand)]
    what: BenchCommand,
}

/// Options of every bench.
#[derive(Debug, Clone, Args)]
struct BenchGlobalOptions {
    /// Program to measure; the `umbra` beside this program when not given.
    #[arg(long, global = true, value_name = "PATH")]
    umbra: Option<PathBuf>,
    /// Directory for the bench's temporary files; the system's when not given.
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print one JSON document on standard output.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Post events to the service, and to two servers that do less, on one Postgres with fsync on.
    Ingest(ingest::IngestBenchOptions),
    /// Decide calls of tools with a durable audit, and without a database.
    Decide(decide::DecideBenchOptions),
    /// Post watched events at fixed rates, and count what the built-in checks look at and what they pass over.
    Looks(looks::LooksBenchOptions),
    /// Replay real exports of OpenTelemetry, each time as other traces, until their calls are filed as events.
    Otlp(otlp::OtlpBenchOptions),
    /// Take steps of agents beside their sidecar, with few and many tools, and with the database stopped.
    Sidecar(sidecar::SidecarBenchOptions),
    /// Count how many branches an agent takes in a rehearsal as it does live, with null stubs and with contract stubs.
    Fidelity(fidelity::FidelityOptions),
    /// Run real coding agents with hooks, and with every fault of a guard, and tell which calls ran.
    Hooks(hooks::HooksBenchOptions),
    /// Serve a variant to compare with; `ingest` and `decide` start it.
    #[command(hide = true)]
    ServeVariant(variants::VariantOptions),
}

impl BenchCommand {
    /// Returns the threads of a bench that only sends and waits: half as many as there are processors. With more, the
    /// bench would compete for processors with the server that it measures.
    fn threads(&self) -> Option<usize> {
        let sends =
            matches!(self, Self::Ingest(_) | Self::Decide(_) | Self::Looks(_) | Self::Otlp(_) | Self::Sidecar(_));
        sends.then(|| processors().div_ceil(2))
    }
}

/// Returns the number of processors that a bench and its servers share.
fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = cli.what.threads() {
        builder.worker_threads(threads);
    }
    let measured = builder.enable_all().build().map_err(Into::into).and_then(|runtime| runtime.block_on(run(cli)));
    match measured {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            progress(&format!("umbra-bench: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(Cli { global, what }: Cli) -> anyhow::Result<()> {
    match what {
        BenchCommand::Ingest(options) => ingest::run(&global, &options).await,
        BenchCommand::Decide(options) => decide::run(&global, &options).await,
        BenchCommand::Looks(options) => looks::run(&global, &options).await,
        BenchCommand::Otlp(options) => otlp::run(&global, &options).await,
        BenchCommand::Sidecar(options) => sidecar::run(&global, &options).await,
        BenchCommand::Fidelity(options) => fidelity::run(&global, &options),
        BenchCommand::Hooks(options) => hooks::run(&global, &options).await,
        BenchCommand::ServeVariant(options) => variants::serve(&global, options).await,
    }
}

/// Prints a line of the answer.
fn answer(text: &str) {
    println!("{text}");
}

/// Prints the answer as one JSON document.
fn answer_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    answer(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints a line of progress on standard error.
fn progress(text: &str) {
    eprintln!("{text}");
}
