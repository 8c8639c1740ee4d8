//! Comparison of two runs of an agent: read from the audit, aligned by `boundary::diff`, and put into words.
//!
//! The result is a recommendation and changes nothing.

use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

use umbra_boundary::diff::{
    MAX_CALLS, Noise, Run, RunComparison, RunDifference, RunDifferenceKind, RunNoise, diff, noise,
};
use umbra_domain::Share;
use umbra_store::{Store, StoreError};

/// Rows per read from the store.
const PAGE: i64 = 200;
/// Most bytes of a run's stored decisions (arguments and stubs).
const MAX_BYTES: i64 = 32 * 1024 * 1024;
/// Most rows of a run: decisions and outcomes.
const MAX_ROWS: i64 = 15_000;

/// Names of the runs to compare.
#[derive(Debug, Clone)]
pub struct Runs {
    /// First run.
    pub a: String,
    /// Second run.
    pub b: String,
    /// Repetition of the first run.
    pub baseline: Option<String>,
}

/// Comparison of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunsCompared {
    /// Summary of the comparison.
    pub summary: RunsSummary,
    /// The differences, in the order of the runs; at most 10,000.
    pub differences: Vec<RunDifference>,
}

/// Summary of a comparison of two runs.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct RunsSummary {
    /// The first run.
    pub a: String,
    /// The second run.
    pub b: String,
    /// Repetition of the first run; its differences from the first run count as noise.
    pub baseline: Option<String>,
    /// Calls of the first run.
    pub calls_a: usize,
    /// Calls of the second run.
    pub calls_b: usize,
    /// Calls that could be compared: calls in both runs, and calls in one of them.
    pub compared: u64,
    /// Compared calls that do not differ.
    pub agreed: u64,
    /// Share of compared calls that do not differ; null if nothing could be compared.
    pub agreement: Option<f64>,
    /// Lower end of the 95 % interval of the agreement (Wilson).
    pub low: f64,
    /// Upper end of the 95 % interval of the agreement.
    pub high: f64,
    /// Differing calls that are not reads.
    pub changing: u64,
    /// Number of differences of each kind, including those that are not listed.
    #[schema(value_type = BTreeMap<String, u64>)]
    pub counts: BTreeMap<RunDifferenceKind, u64>,
    /// Differences that the first run and its repetition show as well; left out.
    pub noise: Vec<RunNoise>,
    /// Recommendation in words.
    pub recommendation: String,
}

/// Reason why runs are not compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// The run is unknown, or none of its calls is visible to the caller.
    #[error(
        "the run given as {0} has no decided calls: give a name that calls have in `run` (GET /v1/audit shows decided \
         calls)"
    )]
    Unknown(&'static str),
    /// The run is too large.
    #[error(
        "the run given as {side} is too large to be compared: a run may have {MAX_CALLS} calls and {} MiB of arguments \
         and stubs; give each task a run of its own",
        MAX_BYTES / 1024 / 1024
    )]
    TooLarge {
        /// Parameter that names the run: `a`, `b` or `baseline`.
        side: &'static str,
    },
    /// The database does not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The comparison has failed.
    #[error("the comparison failed because of a fault in Umbra")]
    Failed(#[from] tokio::task::JoinError),
}

/// Compares two runs. Only calls of agents for which `sees` is true are read.
///
/// # Errors
/// A run is unknown or too large, or the database does not answer.
pub async fn compare(
    store: &Store,
    runs: Runs,
    sees: impl Fn(&str) -> bool + Sync,
) -> Result<RunsCompared, CompareError> {
    let a = read(store, "a", &runs.a, &sees).await?;
    let b = read(store, "b", &runs.b, &sees).await?;
    let again = match &runs.baseline {
        Some(baseline) => Some(read(store, "baseline", baseline, &sees).await?),
        None => None,
    };
    // Comparing long runs takes a while, so it runs on a blocking thread and holds up no requests.
    let compared = tokio::task::spawn_blocking(move || {
        let noise = again.map_or_else(Noise::default, |again| noise(&a, &again));
        let compared = diff(&a, &b, &noise);
        summed_up(runs, &a, &b, compared)
    });
    Ok(compared.await?)
}

async fn read(
    store: &Store,
    side: &'static str,
    name: &str,
    sees: &(impl Fn(&str) -> bool + Sync),
) -> Result<Run, CompareError> {
    let large = store.decisions().run_size(name, MAX_ROWS + 1).await?;
    let decisions = usize::try_from(large.decisions).unwrap_or(usize::MAX);
    if decisions > MAX_CALLS || large.rows > MAX_ROWS || large.bytes > MAX_BYTES {
        return Err(CompareError::TooLarge { side });
    }
    let (mut run, mut after) = (Run::default(), 0);
    loop {
        let page = store.decisions().run_rows(name, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = last.row.seq;
        for record in &page {
            if record.row.agent.as_deref().is_some_and(sees) {
                run.add(record);
            }
        }
        // More calls may have come meanwhile.
        if run.len() > MAX_CALLS {
            return Err(CompareError::TooLarge { side });
        }
    }
    if run.is_empty() { Err(CompareError::Unknown(side)) } else { Ok(run) }
}

fn summed_up(Runs { a, b, baseline }: Runs, run_a: &Run, run_b: &Run, compared: RunComparison) -> RunsCompared {
    let recommendation = recommend(&compared, baseline.is_some());
    let RunComparison { differences, counts, calls, agreed, changing, noise } = compared;
    let Share { share: agreement, low, high } = Share::of(agreed, calls);
    let summary = RunsSummary {
        a,
        b,
        baseline,
        calls_a: run_a.len(),
        calls_b: run_b.len(),
        compared: calls,
        agreed,
        agreement,
        low,
        high,
        changing,
        counts,
        noise,
        recommendation,
    };
    RunsCompared { summary, differences }
}

fn recommend(compared: &RunComparison, has_baseline: bool) -> String {
    let RunComparison { calls, agreed, changing, counts, .. } = compared;
    let differ = calls - agreed;
    let erased = counts.get(&RunDifferenceKind::Erased).copied().unwrap_or(0);
    let mut words = match (*calls, differ) {
        (0, _) => "Nothing could be compared.".to_owned(),
        (_, 0) => {
            let low = Share::of(*agreed, *calls).low * 100.0;
            format!(
                "All {calls} calls agree: from these calls alone, at least {low:.1} % of such calls would agree (95 % \
                 confidence). Compare more runs if that is too little to rely on."
            )
        }
        _ if *changing > 0 => format!(
            "{differ} of {calls} calls differ, and {changing} of them would change something: look at those before the \
             second run's agent replaces the agent of the first run."
        ),
        _ => format!("{differ} of {calls} calls differ, all of them reads: look at how the agent uses their results."),
    };
    if erased > 0 {
        words.push_str(" The arguments of ");
        words.push_str(&erased.to_string());
        words.push_str(" calls were erased, and were not compared.");
    }
    if differ > 0 && !has_baseline {
        words += " Without a baseline, ids and times that are new in each run count as differences: repeat the first run, and \
                  give the repetition as baseline.";
    }
    words
}
