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

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use clap::Args;

use crate::{
    BenchGlobalOptions,
    load::{self, Load},
    progress,
    report::{IngestReport, Round},
    requests,
    testbed::{Server, Testbed},
    usage,
};

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
    events_per_request: usize,
    answered: u64,
    rounds: Vec<Round>,
}

pub async fn run(global: &BenchGlobalOptions, options: &IngestBenchOptions) -> anyhow::Result<()> {
    let bed = Testbed::open(global).await?;
    let measured = measure(&bed, options).await;
    bed.close().await;
    measured?.show(global.json)
}

/// Measures between the start of Postgres and its stop; the servers stop at the end.
async fn measure(bed: &Testbed, options: &IngestBenchOptions) -> anyhow::Result<IngestReport> {
    let shadows = bed.shadows(options.shadows.as_deref())?;
    let servers = [
        bed.serve_variant(SCHEMAS[0], &shadows, "nodb").await?,
        bed.serve_variant(SCHEMAS[1], &shadows, "naive").await?,
        bed.serve(SCHEMAS[2], &shadows, &[]).await?,
    ];
    let (singles, batches) = (Arc::new(requests::singles()), Arc::new(requests::batches()));
    let connections = usize::from(options.connections);
    let single = |name, server: usize| variant(name, server, &servers, &singles, connections, 1);
    let mut variants = [
        single("nodb", 0)?,
        single("naive", 1)?,
        single("real", 2)?,
        variant("real_batch", 2, &servers, &batches, connections.min(BATCH_CONNECTIONS), requests::BATCH)?,
    ];
    let round = Duration::from_secs(options.seconds.into()) / ROUNDS;
    let mut rss_mib = None;
    for number in 0..=ROUNDS {
        for variant in &mut variants {
            let Some(server) = servers.get(variant.server) else { continue };
            progress(&match number {
                0 => format!("warming up {}", variant.name),
                _ => format!("round {number} of {ROUNDS}: {}", variant.name),
            });
            let (settle, time) = if number == 0 { (WARM_UP, SETTLE) } else { (SETTLE, round) };
            let turn = turn(variant, server, bed.database.postmaster(), settle, time);
            let Some(measured) = bed.tasks.soft().run_until_cancelled(turn).await else { bail!("stopped") };
            let measured = measured.with_context(|| format!("variant {}", variant.name))?;
            if number > 0 {
                variant.rounds.push(measured);
            }
            if variant.name == "real" {
                rss_mib = usage::peak_memory_mib(server.pid);
            }
        }
    }
    count_stored(bed, &variants).await?;
    let rounds: BTreeMap<_, _> = variants.into_iter().map(|variant| (variant.name, variant.rounds)).collect();
    Ok(IngestReport::new(["naive", "nodb", "real", "real_batch"], &rounds, rss_mib))
}

fn variant(
    name: &'static str,
    server: usize,
    servers: &[Server],
    requests: &Arc<Vec<Vec<u8>>>,
    connections: usize,
    events_per_request: usize,
) -> anyhow::Result<Variant> {
    let address = servers.get(server).context("no such server")?.address;
    let load = Load { address, requests: Arc::clone(requests), connections, round: 0, every: None };
    Ok(Variant { name, server, load, events_per_request, answered: 0, rounds: Vec::new() })
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
    let between = |from: Option<Duration>, to: Option<Duration>| from.zip(to).map(|(from, to)| to.saturating_sub(from));
    Ok(Round::new(&answered, variant.events_per_request, between(first.0, last.0), between(first.1, last.1)))
}

/// Fails where a schema holds fewer events than were acknowledged.
async fn count_stored(bed: &Testbed, variants: &[Variant]) -> anyhow::Result<()> {
    for (server, schema) in SCHEMAS.into_iter().enumerate().skip(1) {
        let of_server = variants.iter().filter(|variant| variant.server == server);
        let acknowledged: u64 = of_server.map(|variant| variant.answered * variant.events_per_request as u64).sum();
        let stored = bed.rows(schema, "event").await?;
        if stored < acknowledged {
            bail!("{schema}: {acknowledged} events were acknowledged, but only {stored} are stored");
        }
    }
    Ok(())
}
