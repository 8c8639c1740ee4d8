//! The command line: one file for each command. Answers go to standard output, everything else to standard error.
//!
//! Exit codes: 0 done (warnings too), 1 faults, 2 wrong usage. `--json` prints one document on standard output.

mod approvals;
mod audit;
mod backtest;
mod batch;
pub mod bench;
mod breakers;
mod briefing;
mod check;
mod completions;
mod contracts;
mod doctor;
mod erase;
mod events;
mod execution;
mod findings;
mod health;
mod hook;
mod keys;
mod man;
mod mcp;
mod migrate;
mod post;
mod progress;
mod promote;
mod remote;
mod review;
mod rules;
mod runs;
mod schema;
mod serve;
mod sessions;
mod sidecar;
mod status;
pub mod table;
mod tail;

use std::{
    io::{IsTerminal, Write},
    net::SocketAddr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{
    Args, Parser, Subcommand,
    error::{ContextKind, ContextValue},
};
use secrecy::SecretString;

use self::remote::RemoteCommand;
use crate::{
    app::{CommandLineOverrides, Database, Setup},
    briefing::Kind,
};
use umbra_config::{Environment, Report};

/// Advice to a user who names a server for a command that asks none.
const ASKS_NO_SERVER: &str = "this command asks no server: it reads files and the database. Run it where the server \
                              runs, or name the database by DATABASE_URL";
/// Time in which threads that read or write files may end, when all other work is done.
const LAST_MOMENT: Duration = Duration::from_millis(250);

/// Watches AI agents work: decides what deserves a second look within hard budgets, reviews it, and says what follows.
///
/// Without a command it serves. Without a database URL it runs its own Postgres in the data directory; without a
/// model's key only the built-in checks review.
#[derive(Debug, Parser)]
#[command(name = "umbra", version, after_help = "Exit codes: 0 done, 1 faults, 2 wrong usage.")]
pub struct Cli {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
struct GlobalOptions {
    /// Settings file (also `UMBRA_CONFIG`); its keys can also be set as `UMBRA__SECTION__KEY`.
    #[arg(long, global = true, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Shadows file; without it config/shadow-agents.yaml or shadow-agents.yaml, else the built-in example.
    #[arg(long, global = true, value_name = "FILE")]
    shadows: Option<PathBuf>,
    /// Tools file: contracts, effects and rules of tools; without it there are none.
    #[arg(long, global = true, value_name = "FILE")]
    tools: Option<PathBuf>,
    /// Postgres to use instead of a private one; `DATABASE_URL` sets it too (and keeps it out of process lists).
    #[arg(long, global = true, value_name = "URL")]
    database_url: Option<String>,
    /// Data directory of the private Postgres.
    #[arg(long, global = true, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Print one JSON document on standard output.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve the API and review events, until a signal.
    Serve {
        /// Address and port; port 0 picks a free one.
        #[arg(long, value_name = "ADDRESS", value_parser = umbra_config::parse_bind)]
        bind: Option<SocketAddr>,
    },
    /// Review an agent's output from standard input now, with or without a server.
    #[command(after_help = review::NOTES)]
    Review(review::ReviewOptions),
    /// Review recent stored events that no shadow has reviewed, newest first, within the caps.
    #[command(after_help = batch::EXIT_CODES)]
    Batch(batch::BatchOptions),
    /// Try a changed shadow on stored events: its findings, its cost, and the differences from the live reviews.
    #[command(after_help = backtest::NOTES)]
    Backtest(backtest::BacktestOptions),
    /// Show shadows, today's counts, caps and skips, and the reviewers.
    Status(status::StatusOptions),
    /// Show a summary of a day, per shadow and agent, as markdown.
    Briefing {
        /// Date such as 2026-02-28, local to each shadow; by default the latest day that is over (on the first day,
        /// that day).
        #[arg(long, value_name = "DATE")]
        date: Option<String>,
    },
    /// Show a summary of a week, Monday to Sunday, as markdown.
    Report {
        /// ISO week such as 2026-W09; by default the latest week that is over (in the first week, that week).
        #[arg(long, value_name = "WEEK")]
        week: Option<String>,
    },
    /// Check the settings, shadows, tools and sidecar files, and the obstacles to production; each fault is listed.
    #[command(after_help = check::NOTES)]
    Check(check::CheckOptions),
    /// Check contracts of tools, infer them from recorded calls, and compare two versions.
    Contracts {
        #[command(subcommand)]
        action: contracts::ContractsAction,
    },
    /// List and explain the rules of the built-in checks, and test files of rules.
    #[command(after_help = rules::NOTES)]
    Rules {
        #[command(subcommand)]
        action: rules::RulesAction,
    },
    /// Make, list and revoke API keys.
    Keys {
        #[command(subcommand)]
        action: keys::KeysAction,
    },
    /// Raise a shadow's mode (passive, review, active), once people have found its findings right often enough.
    Promote(promote::PromoteOptions),
    /// Run a proxy in front of an MCP server: decide each call of a tool, audit it, and show it to the shadows.
    #[command(after_help = mcp::NOTES)]
    Mcp(mcp::McpOptions),
    /// Guard and watch a coding agent by its hooks: the command that they run, and their installation.
    #[command(after_help = hook::NOTES)]
    Hook(hook::HookOptions),
    /// Bring the database's schema up to date.
    Migrate,
    /// Print the JSON Schema of a file, for editors.
    Schema {
        /// Name of the file.
        #[arg(value_enum, default_value = "shadows")]
        file: schema::File,
    },
    /// Check the invariants of the database; exit 1 if one is broken.
    Doctor,
    /// List findings of a server, show one, and say what became of it.
    Findings(RemoteCommand<findings::FindingsAction>),
    /// Print findings of a server as they are made.
    Tail(tail::TailOptions),
    /// List events of a server, and show one.
    Events(RemoteCommand<events::EventsAction>),
    /// Post events to a server, from a file or standard input.
    Post(post::PostOptions),
    /// List the breakers of agents, acknowledge and reset them.
    Breakers(RemoteCommand<breakers::BreakersAction>),
    /// List sessions of the sidecar of a server, and show one.
    Sessions(RemoteCommand<sessions::SessionsAction>),
    /// List calls that wait for approval, and approve or deny them.
    Approvals(RemoteCommand<approvals::ApprovalsAction>),
    /// Show whether calls run and by which setting; set shadow or live for a scope, or lift it.
    #[command(after_help = execution::NOTES)]
    Execution(execution::ExecutionOptions),
    /// List rows of the audit, verify it, or print all of it.
    Audit {
        #[command(subcommand)]
        action: audit::AuditAction,
    },
    /// Judge recorded sessions of the sidecar again by the present rules.
    Sidecar {
        #[command(subcommand)]
        action: sidecar::SidecarAction,
    },
    /// List, end and compare runs of agents.
    Runs {
        #[command(subcommand)]
        action: runs::RunsAction,
    },
    /// Ask a running server for its state; exit 1 if it does not take work.
    Health(health::HealthOptions),
    /// Erase the contents of an agent's or a task's data: texts and quotes go, counters stay.
    Erase(erase::EraseOptions),
    /// Measure judgement on labelled data, on this machine.
    #[command(
        after_help = "The separate program umbra-bench measures the service under load: scripts/bench.sh runs it."
    )]
    Bench {
        #[command(subcommand)]
        what: bench::Measurement,
    },
    /// Print the manual page, for `man -l -`.
    Man {
        /// Directory to which one page for each command is written instead.
        #[arg(value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Print completions for a shell.
    Completions {
        /// Name of the shell.
        shell: clap_complete::Shell,
    },
}

/// Unsuccessful end of a command.
#[derive(Debug)]
enum CommandFailure {
    /// The failure was reported already: only the exit code is left.
    AlreadyReported,
    /// An error, still to be reported.
    Error(anyhow::Error),
    /// Wrong usage of the command.
    Usage(String),
}

impl<E: Into<anyhow::Error>> From<E> for CommandFailure {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

/// Refuses a wrong use of a command.
fn usage<T>(text: impl Into<String>) -> Result<T, CommandFailure> {
    Err(CommandFailure::Usage(text.into()))
}

/// Runs the command that the arguments name.
pub fn run() -> ExitCode {
    if let Some(code) = umbra_shim::run(std::env::args_os()) {
        return code;
    }
    // reqwest and sqlx share one TLS implementation; a second installation is refused and harmless.
    drop(rustls::crypto::ring::default_provider().install_default());
    let cli = Cli::try_parse().unwrap_or_else(|error| refuse(&error));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return say_failure(&CommandFailure::Error(error.into()), false),
    };
    let json = cli.global.json;
    let code = match runtime.block_on(dispatch(cli)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => say_failure(&failure, json),
    };
    // A thread that reads standard input would wait for a line that does not come.
    runtime.shutdown_timeout(LAST_MOMENT);
    code
}

/// Prints a fault of the command line, or the help that was asked for, and ends.
fn refuse(error: &clap::Error) -> ! {
    drop(error.print());
    if matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(name)) if name == "--server") {
        complain(&format!("umbra: {ASKS_NO_SERVER}"));
    }
    std::process::exit(error.exit_code())
}

fn say_failure(failure: &CommandFailure, json: bool) -> ExitCode {
    match failure {
        CommandFailure::AlreadyReported => ExitCode::from(1),
        CommandFailure::Error(error) => {
            match error.downcast_ref::<Report>() {
                // With `--json`, faults of files are an answer for tools.
                Some(report) if json => drop(answer_json(report)),
                Some(report) => {
                    let n = report.faults.len();
                    complain(&format!("{report}\n{n} fault{}", if n == 1 { "" } else { "s" }));
                }
                None => complain(&format!("umbra: {error:#}")),
            }
            ExitCode::from(1)
        }
        CommandFailure::Usage(text) => {
            complain(&format!("umbra: {text}"));
            ExitCode::from(2)
        }
    }
}

async fn dispatch(cli: Cli) -> Result<(), CommandFailure> {
    let Cli { global, command } = cli;
    match command.unwrap_or(Command::Serve { bind: None }) {
        Command::Serve { bind } => serve::run(&global, bind).await,
        Command::Review(options) => Box::pin(review::run(&global, options)).await,
        Command::Batch(options) => Box::pin(batch::run(&global, options)).await,
        Command::Backtest(options) => Box::pin(backtest::run(&global, options)).await,
        Command::Status(options) => status::run(&global, options).await,
        Command::Briefing { date } => briefing::run(&global, Kind::Day, date.as_deref()).await,
        Command::Report { week } => briefing::run(&global, Kind::Week, week.as_deref()).await,
        Command::Check(options) => check::run(&global, &options).await,
        Command::Contracts { action } => contracts::run(&global, action).await,
        Command::Rules { action } => rules::run(&global, action),
        Command::Keys { action } => keys::run(&global, action).await,
        Command::Promote(options) => promote::run(&global, options).await,
        Command::Mcp(options) => Box::pin(mcp::run(&global, options)).await,
        Command::Hook(options) => hook::run(&global, options).await,
        Command::Migrate => migrate::run(&global).await,
        Command::Schema { file } => schema::run(file),
        Command::Findings(options) => findings::run(&global, options).await,
        Command::Tail(options) => tail::run(&global, options).await,
        Command::Events(options) => events::run(&global, options).await,
        Command::Post(options) => post::run(&global, options).await,
        Command::Breakers(options) => breakers::run(&global, options).await,
        Command::Sessions(options) => sessions::run(&global, options).await,
        Command::Approvals(options) => approvals::run(&global, options).await,
        Command::Execution(options) => execution::run(&global, options).await,
        Command::Audit { action } => audit::run(&global, action).await,
        Command::Runs { action } => runs::run(&global, action).await,
        Command::Sidecar { action } => sidecar::run(&global, action).await,
        Command::Doctor => doctor::run(&global).await,
        Command::Health(options) => health::run(&global, options),
        Command::Erase(options) => erase::run(&global, options).await,
        Command::Bench { what } => bench::run(&global, what).await,
        Command::Man { dir } => man::run(&global, dir),
        Command::Completions { shell } => completions::run(&global, shell),
    }
}

impl GlobalOptions {
    /// Prints an answer: the document as JSON where that is wanted, else the text for people.
    fn print(&self, document: &impl serde::Serialize, text: impl FnOnce() -> String) -> Result<(), CommandFailure> {
        if self.json {
            return answer_json(document);
        }
        answer(text().trim_end());
        Ok(())
    }

    /// Reads the settings.
    fn setup(&self, bind: Option<SocketAddr>) -> Result<Setup, CommandFailure> {
        self.setup_in(Environment::of_process(), bind)
    }

    fn setup_in(&self, env: Environment, bind: Option<SocketAddr>) -> Result<Setup, CommandFailure> {
        let overrides = CommandLineOverrides {
            shadows: self.shadows.clone(),
            tools: self.tools.clone(),
            bind,
            data_dir: self.data_dir.clone(),
            database_url: self.database_url.clone().map(SecretString::from),
        };
        let setup = Setup::read(self.config.clone(), env, overrides)?;
        // The built-in rules are made when a text is first judged: most commands judge none.
        if !setup.rules.is_empty() {
            setup.install_rules();
        }
        Ok(setup)
    }

    /// Reads the settings and opens the database, for a command that is not the server: logs warnings only.
    async fn open(&self) -> Result<(Setup, Database), CommandFailure> {
        let setup = self.quiet_setup()?;
        let database = Database::open(&setup, &|line| complain(line)).await?;
        Ok((setup, database))
    }

    /// Reads the settings and opens an existing database; it makes none.
    async fn open_existing(&self) -> Result<(Setup, Database), CommandFailure> {
        let setup = self.quiet_setup()?;
        match Database::open_existing(&setup, &|line| complain(line)).await {
            Err(error) if Environment::of_process().get("UMBRA_URL").is_some() => {
                Err(error.context(ASKS_NO_SERVER).into())
            }
            opened => Ok((setup, opened?)),
        }
    }

    fn quiet_setup(&self) -> Result<Setup, CommandFailure> {
        let setup = self.setup_in(Environment::of_process().sending_nothing(), None)?;
        setup.start_logs("warn");
        Ok(setup)
    }
}

/// Prints an answer. A reader that has gone (`| head`) is no fault.
fn answer(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// Prints a JSON document.
fn answer_json(value: &impl serde::Serialize) -> Result<(), CommandFailure> {
    answer(&serde_json::to_string_pretty(value)?);
    Ok(())
}

/// Prints a message on standard error.
fn complain(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}

/// Asks for confirmation; without a terminal the answer is no.
fn is_confirmed(question: &str) -> bool {
    let mut line = String::new();
    std::io::stdin().is_terminal() && {
        complain(question);
        std::io::stdin().read_line(&mut line).is_ok() && matches!(line.trim(), "y" | "Y" | "yes")
    }
}

/// True if standard output is a terminal.
fn on_terminal() -> bool {
    std::io::stdout().is_terminal()
}
