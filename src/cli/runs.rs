//! `umbra runs`: two runs of an agent beside each other.

use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

use super::{Failure, Global, answer, answer_json, table};
use crate::flows::audit::runs::{CompareError, Runs, RunsCompared, RunsSummary, compare};
use umbra_boundary::diff::{Difference, Place};

pub(super) const NOTES: &str = "Exit codes: 0 compared, whatever differs; 1 a run is unknown or too large, or what --fail-on \
    names; 2 wrong usage.";

/// Differences that are shown to a person.
const SHOWN: usize = 100;
/// Characters of a value that are shown to a person.
const SHOWN_CHARS: usize = 60;

#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// Say what the second run did otherwise than the first, by the audit of their calls.
    #[command(after_help = NOTES)]
    Diff(Options),
}

#[derive(Debug, Args)]
pub(super) struct Options {
    /// The first run, as its calls name it.
    a: String,
    /// The second run.
    b: String,
    /// A repetition of the first run: where those two differ, a difference is noise.
    #[arg(long, value_name = "RUN")]
    baseline: Option<String>,
    /// End with 1 if anything differs.
    #[arg(long, value_name = "WHAT")]
    fail_on: Option<FailOn>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FailOn {
    /// Any difference that is no noise.
    Difference,
}

pub(super) async fn run(global: &Global, action: Action) -> Result<(), Failure> {
    let Action::Diff(Options { a, b, baseline, fail_on }) = action;
    if baseline.as_ref() == Some(&a) {
        return Err(Failure::Usage("--baseline: this is the first run itself; give a repetition of it".to_owned()));
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
        Some(FailOn::Difference) if compared.summary.agreed < compared.summary.compared => Err(Failure::Said),
        _ => Ok(()),
    }
}

fn show(RunsCompared { summary, differences }: &RunsCompared) {
    if !differences.is_empty() {
        let mut rows = table::new(&["difference", "tool", "effect", "call", "where", "first", "second"]);
        for Difference { kind, tool, effect, a, b, pointer, from, to } in differences.iter().take(SHOWN) {
            let place = |place: &Option<Place>| place.as_ref().map_or("-".to_owned(), |at| at.position.to_string());
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
        answer(&format!("{left_out} differences are noise: the first run and its repetition differ there, too"));
    }
    answer(recommendation);
}

fn value(value: Option<&Value>) -> String {
    let Some(value) = value else { return String::new() };
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let short: String = table::plain(&text).chars().take(SHOWN_CHARS).collect();
    if short.len() < text.len() { format!("{short}...") } else { short }
}
