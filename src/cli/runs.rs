//! `umbra runs`: lists, ends and compares runs of agents.

use clap::{Args, Subcommand, ValueEnum};
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    CommandFailure, GlobalOptions, answer, answer_json,
    remote::{Server, cell, distance, items, path_with},
    table, usage,
};
use crate::flows::audit::runs::{CompareError, Runs, RunsCompared, RunsSummary, compare};
use umbra_boundary::diff::{RunDifference, RunPlace};

pub(super) const NOTES: &str = "Exit codes: 0 compared, whatever differs; 1 a run is unknown or too large, or there is \
                                a difference that --fail-on names; 2 wrong usage.";

/// Most differences in the table.
const SHOWN: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum RunsAction {
    /// Compare two runs by the audit of their calls.
    #[command(after_help = NOTES)]
    Diff(RunsDiffOptions),
    /// List runs of a running server, those with the newest calls first.
    List {
        #[command(flatten)]
        server: Server,
        /// Agent of the runs.
        #[arg(long)]
        agent: Option<String>,
        /// Only runs that stay in shadow, and runs of sessions and processes.
        #[arg(long)]
        in_shadow: bool,
        /// Most runs to list, 1 to 500.
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
    },
    /// End a run, so that it no longer stays in shadow; the state of its stubs is dropped.
    End {
        #[command(flatten)]
        server: Server,
        /// Name of the run.
        run: String,
        /// Agent of the run; without it, the runs of this name of every agent.
        #[arg(long)]
        agent: Option<String>,
        /// Reason; kept in the audit.
        #[arg(long)]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub(super) struct RunsDiffOptions {
    /// First run, as its calls name it.
    a: String,
    /// Second run.
    b: String,
    /// Repetition of the first run: where those two differ, a difference is noise.
    #[arg(long, value_name = "RUN")]
    baseline: Option<String>,
    /// Exit 1 if anything differs.
    #[arg(long, value_name = "WHAT")]
    fail_on: Option<FailOn>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FailOn {
    /// Any difference that is not noise.
    Difference,
}

pub(super) async fn run(global: &GlobalOptions, action: RunsAction) -> Result<(), CommandFailure> {
    match action {
        RunsAction::Diff(options) => diff(global, options).await,
        RunsAction::List { server, agent, in_shadow, limit } => {
            let query = json!({"agent": agent, "in_shadow": in_shadow.then_some(true), "limit": limit});
            let runs = server.remote(global)?.get("v1/runs", &query).await?;
            let mut rows = table::new(&["run", "agent", "of", "execution", "started by", "last call"]);
            for item in items(&runs) {
                let of = if item["named"] == true { "its name" } else { "session or process" }.to_owned();
                let stays = item["stays_in_shadow"] == true;
                let execution = if stays { "shadow (it began there)".to_owned() } else { cell(&item["execution"]) };
                let [run, agent, started_by] = ["run", "agent", "started_by"].map(|name| cell(&item[name]));
                let last = format!("{} ago", distance(&item["changed_at"]));
                rows.add_row([run, agent, of, execution, started_by, last]);
            }
            global.print(&runs, || rows.to_string())
        }
        RunsAction::End { server, run, agent, reason } => {
            let said = json!({"agent": agent, "reason": reason});
            let path = path_with("v1/runs/", &run, "/end");
            let ended = server.remote(global)?.send(Method::POST, &path, &said).await?;
            global.print(&ended, || {
                let ended = ended["ended"].as_array().into_iter().flatten();
                let line = |one: &Value| format!("{} of {} has ended\n", cell(&one["run"]), cell(&one["agent"]));
                ended.map(line).collect()
            })
        }
    }
}

async fn diff(
    global: &GlobalOptions,
    RunsDiffOptions { a, b, baseline, fail_on }: RunsDiffOptions,
) -> Result<(), CommandFailure> {
    if baseline.as_ref() == Some(&a) {
        return usage("--baseline: this is the first run itself: give a repetition of that run");
    }
    let (_, database) = global.open_existing().await?;
    let compared = compare(&database.store, Runs { a, b, baseline }, |_| true).await;
    database.close().await;
    let compared = compared.map_err(|error| match error {
        CompareError::Store(error) => anyhow::Error::from(error),
        error => error.into(),
    })?;
    if global.json {
        answer_json(&compared)?;
    } else {
        show(&compared);
    }
    match fail_on {
        Some(FailOn::Difference) if compared.summary.agreed < compared.summary.compared => {
            Err(CommandFailure::AlreadyReported)
        }
        _ => Ok(()),
    }
}

fn show(RunsCompared { summary, differences }: &RunsCompared) {
    if !differences.is_empty() {
        let mut rows = table::new(&["difference", "tool", "effect", "call", "where", "first", "second"]);
        for RunDifference { kind, tool, effect, a, b, pointer, from, to } in differences.iter().take(SHOWN) {
            let place = |place: &Option<RunPlace>| place.as_ref().map_or("-".to_owned(), |at| at.position.to_string());
            rows.add_row([
                kind.as_str().to_owned(),
                table::plain(tool),
                effect.as_str().to_owned(),
                format!("{} / {}", place(a), place(b)),
                pointer.as_deref().map(table::plain).unwrap_or_default(),
                value(from.as_ref()),
                value(to.as_ref()),
            ]);
        }
        answer(&rows.to_string());
        let total: u64 = summary.counts.values().sum();
        let more = total.saturating_sub(differences.len().min(SHOWN) as u64);
        if more > 0 {
            answer(&format!("and {more} more: --json lists up to 10,000"));
        }
    }
    let RunsSummary { compared, agreed, agreement, low, high, noise, recommendation, .. } = summary;
    let share = agreement.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0));
    let (low, high) = (low * 100.0, high * 100.0);
    answer(&format!("{agreed} of {compared} calls agree: {share} (95 % interval {low:.1} to {high:.1} %)"));
    let left_out: u64 = noise.iter().map(|noise| noise.count).sum();
    if left_out > 0 {
        answer(&format!("{left_out} differences are noise: the first run and its repetition also differ there"));
    }
    answer(recommendation);
}

fn value(value: Option<&Value>) -> String {
    match value {
        None => String::new(),
        Some(Value::String(text)) => table::short(text),
        Some(other) => table::short(&other.to_string()),
    }
}
