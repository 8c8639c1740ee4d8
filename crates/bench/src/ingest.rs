//! `umbra-bench ingest`: rate at which events are accepted, compared with a server that stores nothing (`nodb`) and one
//! that inserts each event by itself (`naive`).
//!
//! Everything runs side by side on one machine, in one run, on one private Postgres with fsync on, in a temporary
//! directory that is removed at the end. Four variants take turns, in rounds, and each figure is the median of its
//! rounds. A disturbance of the machine affects all variants, so the ratios hold where absolute figures do not.
//!
//! | variant | request | work of the server |
//! | --- | --- | --- |
//! | `nodb` | one event | HTTP, keys, parsing, screening, matching; answers and forgets (`variants`) |
//! | `naive` | one event | HTTP, keys, parsing; one INSERT of the same row with the same indexes, pool of 16 |
//! | `real` | one event | `umbra serve`: all of `nodb`, and budget checks, counters, jobs, reviews, group commit |
//! | `real_batch` | 100 events as NDJSON | the same server |
//!
//! `naive` leaves out the parts that only Umbra needs: screening, matching, counting, and the feed's order. Each
//! server is a child process (`umbra serve`, or the hidden `umbra-bench serve-variant`) in a schema of its own; it
//! idles while another one is measured. The load comes from this process, in a closed loop over keep-alive connections,
//! on half as many threads as there are processors. It shares the processors with server and Postgres: the more of
//! them, the higher the figures. Processor time an event is that of the server and of Postgres, without the
//! generator's. At the end the stored events are counted: fewer than were acknowledged is a failure.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;

use crate::{
    BenchGlobalOptions, answer, answer_json,
    load::{self, Figures, Load, median, rounded},
    processors, progress, requests,
    testbed::{Server, Testbed},
    usage,
};
use umbra::cli::table;

/// Turns of each variant.
const ROUNDS: u32 = 5;
/// Most connections that post batches: more than 5,000 events under way only wait, and 10,000 are refused.
const BATCH_CONNECTIONS: usize = 16;
/// Time before the first round, in which caps are spent, and caches and connections get warm.
const WARM_UP: Duration = Duration::from_secs(2);
/// Unmeasured time at the beginning of each round.
const SETTLE: Duration = Duration::from_millis(300);

/// Schemas of the servers.
const SCHEMAS: [&str; 3] = ["bench_nodb", "bench_naive", "bench_real"];

/// Options of the bench.
#[derive(Debug, Args)]
pub struct IngestBenchOptions {
    /// Seconds that each variant is measured, in five rounds.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Connections that post at once, as in a busy installation; batches use at most 16 of them.
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// Shadows file; those of a busy installation, most of whose budgets are spent, when not given.
    #[arg(long, value_name = "FILE")]
    shadows: Option<PathBuf>,
}

/// One way to accept events.
struct Variant {
    name: &'static str,
    server: usize,
    load: Load,
    events_per_request: u32,
    answered: u64,
    rounds: Vec<Round>,
}

/// Figures of one turn of one variant.
#[derive(Debug, Clone, Copy)]
struct Round {
    requests: Figures,
    /// Processor time an event, in microseconds.
    server_us: Option<f64>,
    postgres_us: Option<f64>,
}

/// Medians of a variant over its rounds.
#[derive(Debug, Serialize)]
struct VariantMedians {
    name: &'static str,
    req_per_s: f64,
    events_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time of server and Postgres together, in microseconds.
    cpu_us_per_event: Option<f64>,
    server_us_per_event: Option<f64>,
    postgres_us_per_event: Option<f64>,
}

pub async fn run(global: &BenchGlobalOptions, options: &IngestBenchOptions) -> anyhow::Result<()> {
    // The figure of memory is the peak of the real server.
    let (variants, rss_mib) = Testbed::with(global, async |bed| measure(bed, options).await).await?;
    let mut rows: Vec<VariantMedians> = variants.iter().map(VariantMedians::of).collect();
    rows.sort_by_key(|row| row.name);
    let rate = |name: &str| rows.iter().find(|row| row.name == name).map(|row| row.req_per_s).unwrap_or_default();
    let ratio = |to: &str| Some(rate(to)).filter(|to| *to > 0.0).map(|to| rounded(rate("real") / to, 2));
    let (naive, nodb, rss_mib) = (ratio("naive"), ratio("nodb"), rss_mib.map(|mib| rounded(mib, 1)));
    if global.json {
        return answer_json(
            &json!({"variants": rows, "real_vs_naive": naive, "real_vs_nodb": nodb, "rss_mib": rss_mib}),
        );
    }
    let headings = ["variant", "requests/s", "events/s", "p50 ms", "p99 ms", "cpu us/event", "server", "postgres"];
    let mut table = table::new(&headings);
    let figure = |value: Option<f64>, digits| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
    for row in &rows {
        table.add_row([
            row.name.to_owned(),
            format!("{:.0}", row.req_per_s),
            format!("{:.0}", row.events_per_s),
            format!("{:.2}", row.p50_ms),
            format!("{:.2}", row.p99_ms),
            figure(row.cpu_us_per_event, 1),
            figure(row.server_us_per_event, 1),
            figure(row.postgres_us_per_event, 1),
        ]);
    }
    answer(&table.to_string());
    let [naive, nodb, rss_mib] = [naive, nodb, rss_mib].map(|value| figure(value, 2));
    answer(&format!("real is {naive} x naive and {nodb} x nodb; its server took {rss_mib} MiB at most"));
    answer(&format!("server, Postgres and the generator of the load shared {} processors", processors()));
    Ok(())
}

impl VariantMedians {
    fn of(Variant { name, events_per_request, rounds, .. }: &Variant) -> Self {
        let requests = Figures::median(&rounds.iter().map(|round| round.requests).collect::<Vec<_>>());
        let us = |figure: fn(&Round) -> Option<f64>| median(rounds.iter().filter_map(figure).collect());
        let (server, postgres) = (us(|round| round.server_us), us(|round| round.postgres_us));
        Self {
            name,
            req_per_s: rounded(requests.per_s, 1),
            events_per_s: rounded(requests.per_s * f64::from(*events_per_request), 1),
            p50_ms: rounded(requests.p50_ms, 3),
            p99_ms: rounded(requests.p99_ms, 3),
            cpu_us_per_event: server.zip(postgres).map(|(server, postgres)| rounded(server + postgres, 2)),
            server_us_per_event: server.map(|us| rounded(us, 2)),
            postgres_us_per_event: postgres.map(|us| rounded(us, 2)),
        }
    }
}

/// Measures the variants, and the peak memory of the real server.
async fn measure(bed: &Testbed, options: &IngestBenchOptions) -> anyhow::Result<([Variant; 4], Option<f64>)> {
    let shadows = bed.shadows(options.shadows.as_deref())?;
    let servers = [
        bed.serve_variant(SCHEMAS[0], &shadows, "nodb").await?,
        bed.serve_variant(SCHEMAS[1], &shadows, "naive").await?,
        bed.serve(SCHEMAS[2], &shadows, &[]).await?,
    ];
    let (singles, batches) = (Arc::new(requests::singles()), Arc::new(requests::batches()));
    let connections = usize::from(options.connections);
    let single = |name, server: usize| variant(name, server, &servers, &singles, connections, 1);
    let batch = u32::try_from(requests::BATCH)?;
    let mut variants = [
        single("nodb", 0),
        single("naive", 1),
        single("real", 2),
        variant("real_batch", 2, &servers, &batches, connections.min(BATCH_CONNECTIONS), batch),
    ];
    let round = Duration::from_secs(options.seconds.into()) / ROUNDS;
    let mut rss_mib = None;
    for number in 0..=ROUNDS {
        for variant in &mut variants {
            progress(&match number {
                0 => format!("warming up {}", variant.name),
                _ => format!("round {number} of {ROUNDS}: {}", variant.name),
            });
            let server = &servers[variant.server];
            let (settle, time) = if number == 0 { (WARM_UP, SETTLE) } else { (SETTLE, round) };
            let turn = turn(variant, server, bed.database.postmaster(), settle, time).await;
            let measured = turn.with_context(|| format!("variant {}", variant.name))?;
            if number > 0 {
                variant.rounds.push(measured);
            }
            if variant.name == "real" {
                rss_mib = usage::peak_memory_mib(server.pid);
            }
        }
    }
    count_stored(bed, &variants).await?;
    Ok((variants, rss_mib))
}

fn variant(
    name: &'static str,
    server: usize,
    servers: &[Server; 3],
    requests: &Arc<Vec<Vec<u8>>>,
    connections: usize,
    events_per_request: u32,
) -> Variant {
    let (address, requests) = (servers[server].address, Arc::clone(requests));
    let load = Load { address, requests, connections, round: 0, every: None };
    Variant { name, server, load, events_per_request, answered: 0, rounds: Vec::new() }
}

/// Measures one turn of a variant.
async fn turn(
    variant: &mut Variant,
    server: &Server,
    postmaster: Option<u32>,
    settle: Duration,
    time: Duration,
) -> anyhow::Result<Round> {
    let mut used = Vec::with_capacity(2);
    let edge = || used.push((usage::of_process(server.pid), postmaster.and_then(usage::of_family)));
    let answered = load::run(&variant.load, settle, time, edge).await?;
    variant.answered += answered.in_all;
    let (first, last) = (used.first().copied().unwrap_or_default(), used.last().copied().unwrap_or_default());
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52")]
    let events = (answered.latencies.len() as f64 * f64::from(variant.events_per_request)).max(1.0);
    let us = |from: Option<Duration>, to: Option<Duration>| {
        from.zip(to).map(|(from, to)| to.saturating_sub(from).as_secs_f64() * 1e6 / events)
    };
    let (server_us, postgres_us) = (us(first.0, last.0), us(first.1, last.1));
    Ok(Round { requests: Figures::of(&answered), server_us, postgres_us })
}

/// Fails where a schema holds fewer events than were acknowledged.
async fn count_stored(bed: &Testbed, variants: &[Variant]) -> anyhow::Result<()> {
    for (server, schema) in SCHEMAS.into_iter().enumerate().skip(1) {
        let of_server = variants.iter().filter(|variant| variant.server == server);
        let acknowledged: u64 = of_server.map(|variant| variant.answered * u64::from(variant.events_per_request)).sum();
        let stored = bed.rows(schema, "event").await?;
        if stored < acknowledged {
            bail!("{schema}: {acknowledged} events were acknowledged, but only {stored} are stored");
        }
    }
    Ok(())
}
