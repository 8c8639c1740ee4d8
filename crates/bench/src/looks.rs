//! `umbra-bench looks`: events a second that the built-in checks look at where a budget held the model back, and events
//! that they pass over.
//!
//! Each rate has a server and a schema of its own on the private Postgres. Single events of the corpus are posted at
//! that rate; then the bench waits until no event waits for the checks. Server, Postgres and load share the machine.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::bail;
use clap::Args;
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::{
    BenchGlobalOptions, answer, answer_json,
    load::{self, Load, per_s},
    progress, requests,
    testbed::{Server, Testbed},
};
use umbra::cli::table;

/// Connections of the load.
const CONNECTIONS: u16 = 128;
/// Time before the measurement, in which caps are spent.
const SETTLE: Duration = Duration::from_secs(2);
/// Time between two reads of the server's metrics.
const BETWEEN: Duration = Duration::from_millis(100);
/// Time without waiting events after which the checks have caught up: longer than the server waits between two pages.
const SURELY: Duration = Duration::from_secs(1);
/// Longest time until the checks must have caught up.
const CATCH_UP: Duration = Duration::from_mins(5);

/// Options of the bench.
#[derive(Debug, Args)]
pub struct LooksBenchOptions {
    /// Events a second that are posted; several times for several rates.
    #[arg(long = "rate", value_name = "N", default_values_t = [2_000, 4_000, 8_000], value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rates: Vec<u32>,
    /// Seconds that each rate is posted.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Shadows file; those of a busy installation, most of whose budgets are spent, when not given.
    #[arg(long, value_name = "FILE")]
    shadows: Option<PathBuf>,
}

/// Figures of one rate.
#[derive(Debug, Serialize)]
struct Figures {
    rate: u32,
    accepted_per_s: f64,
    /// Rate while events were posted.
    looked_at_per_s: f64,
    /// Events and reservations that waited when the last event was acknowledged.
    waiting: u64,
    /// Seconds from the last acknowledgement until no event waited.
    caught_up_s: f64,
    looked_at: u64,
    passed_over: u64,
}

pub async fn run(global: &BenchGlobalOptions, options: &LooksBenchOptions) -> anyhow::Result<()> {
    let rates = Testbed::with(global, async |bed| measure(bed, options).await).await?;
    if global.json {
        return answer_json(&json!({ "rates": rates }));
    }
    let headings = ["rate", "accepted/s", "looked at/s", "waiting", "caught up s", "looked at", "passed over"];
    let mut table = table::new(&headings);
    for figures in rates {
        table.add_row([
            figures.rate.to_string(),
            format!("{:.0}", figures.accepted_per_s),
            format!("{:.0}", figures.looked_at_per_s),
            figures.waiting.to_string(),
            format!("{:.1}", figures.caught_up_s),
            figures.looked_at.to_string(),
            figures.passed_over.to_string(),
        ]);
    }
    answer(&table.to_string());
    Ok(())
}

async fn measure(bed: &Testbed, options: &LooksBenchOptions) -> anyhow::Result<Vec<Figures>> {
    let shadows = bed.shadows(options.shadows.as_deref())?;
    let mut measured = Vec::with_capacity(options.rates.len());
    for (at, rate) in options.rates.iter().enumerate() {
        let server = bed.serve(&format!("bench_looks_{at}"), &shadows, &[]).await?;
        progress(&format!("{rate} events a second"));
        measured.push(at_rate(&server, *rate, Duration::from_secs(options.seconds.into())).await?);
    }
    Ok(measured)
}

async fn at_rate(server: &Server, rate: u32, time: Duration) -> anyhow::Result<Figures> {
    let load = Load {
        address: server.address,
        requests: Arc::new(requests::singles()),
        connections: CONNECTIONS.into(),
        round: 0,
        every: Some(Duration::from_secs(CONNECTIONS.into()) / rate),
    };
    let [looked_at_before, ..] = counters(server).await?;
    let answered = load::run(&load, SETTLE, time, || {}).await?;
    let acknowledged = Instant::now();
    let [looked_at_then, waiting, _] = counters(server).await?;
    // The server's figure of waiting events is as old as its last page.
    let (mut looked_at, mut still_waiting, mut passed_over, mut caught_up) = (0, waiting, 0, None);
    while caught_up.is_none_or(|at: Instant| at.elapsed() < SURELY) {
        if acknowledged.elapsed() > CATCH_UP {
            bail!("{still_waiting} events wait for the checks after {} s", CATCH_UP.as_secs());
        }
        sleep(BETWEEN).await;
        [looked_at, still_waiting, passed_over] = counters(server).await?;
        caught_up = (still_waiting == 0).then(|| caught_up.unwrap_or_else(Instant::now));
    }
    let caught_up = caught_up.unwrap_or(acknowledged).duration_since(acknowledged);
    Ok(Figures {
        rate,
        accepted_per_s: per_s(answered.latencies.len() as u64, answered.time),
        looked_at_per_s: per_s(looked_at_then - looked_at_before, SETTLE + time),
        waiting,
        caught_up_s: caught_up.as_secs_f64(),
        looked_at,
        passed_over,
    })
}

/// Reads the events that were looked at, those that wait, and those that were passed over.
async fn counters(server: &Server) -> anyhow::Result<[u64; 3]> {
    let series = ["umbra_looks_total", "umbra_check_backlog", "umbra_check_backlog_shed_total"];
    load::metrics(server.address, series).await
}
