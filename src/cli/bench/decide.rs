//! `umbra bench decide`: how fast calls of tools are decided with a durable audit, beside the same endpoint without a
//! database.
//!
//! Both servers are child processes of this program on one machine; the private Postgres has fsync on, and lies in a
//! temporary directory. They take turns, in rounds; figures are medians of the rounds. Each request is a call of its own:
//! half of them only look, half change something, and all are live. At the end the audit is counted: fewer rows than
//! decisions that were answered is a failure.

use std::{sync::Arc, time::Duration};

use anyhow::bail;
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    super::{Failure, Global, answer, answer_json, complain, start_logs},
    children::{Scratch, Server},
    load::{self, Load, NUMBER},
    sent,
};
use crate::{
    app::{Database, Overrides, Setup},
    lifecycle::Tasks,
};
use umbra_config::Environment;
use umbra_domain::clock::Clock;

/// Turns of each server.
const ROUNDS: u32 = 5;
/// Before what is measured, in each round.
const SETTLE: Duration = Duration::from_millis(500);

/// How to measure.
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    /// Seconds that each server is measured, in five rounds.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Connections that ask at once.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
}

/// What a round has shown.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
struct Figures {
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
}

pub(in crate::cli) async fn run(global: &Global, options: &Options) -> Result<(), Failure> {
    let tasks = Tasks::new();
    tasks.listen()?;
    let base = global.data_dir.clone().unwrap_or_else(std::env::temp_dir);
    let scratch = Scratch::make(&base, &Clock::system().new_id().simple().to_string())?;
    let overrides = Overrides { data_dir: Some(scratch.path().to_owned()), ..Overrides::default() };
    let mut setup = Setup::read(None, Environment::of_process(), overrides)?;
    setup.settings.database.url = None;
    start_logs(&setup, "warn");
    let database = Database::open(&setup, &|line| complain(line)).await?;
    let measured = measure(&database, &scratch, options, tasks.soft()).await;
    database.close().await;
    drop(scratch);
    let [real, nodb] = measured?;
    let ratio = real.per_s / nodb.per_s.max(f64::MIN_POSITIVE);
    if global.json {
        let Figures { per_s, p50_ms, p99_ms } = real;
        return answer_json(
            &json!({"per_s": per_s, "p50_ms": p50_ms, "p99_ms": p99_ms, "nodb": nodb, "real_vs_nodb": ratio}),
        );
    }
    for (name, Figures { per_s, p50_ms, p99_ms }) in [("with a durable audit", real), ("without a database", nodb)] {
        answer(&format!("{name}: {per_s:.0} decisions/s, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms"));
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    answer(&format!("{ratio:.2} x; servers, Postgres and the generator of the load shared {processors} processors"));
    Ok(())
}

async fn measure(
    database: &Database,
    scratch: &Scratch,
    options: &Options,
    stop: &CancellationToken,
) -> anyhow::Result<[Figures; 2]> {
    let shadows = scratch.path().join("shadows.yaml");
    std::fs::write(&shadows, super::ingest::SHADOWS)?;
    let real = Server::start(&["serve"], scratch.path(), "bench_decide", &shadows).await?;
    let nodb = Server::start(&["bench", "serve-variant", "nodb"], scratch.path(), "bench_nodb", &shadows).await?;
    let requests = Arc::new(vec![call("crm", "get_customer", true), call("mail", "send_email", false)]);
    let round = Duration::from_secs(options.seconds.into()) / ROUNDS;
    let (mut rounds, mut answered) = ([Vec::new(), Vec::new()], 0);
    for number in 1..=ROUNDS {
        for (which, server) in [&real, &nodb].into_iter().enumerate() {
            complain(&format!("round {number} of {ROUNDS}: {}", ["with a durable audit", "without a database"][which]));
            let connections = usize::from(options.connections);
            let load = Load { address: server.address, requests: Arc::clone(&requests), connections, round: number };
            let Some(turn) = stop.run_until_cancelled(load::run(&load, SETTLE, round, || {})).await else {
                bail!("stopped")
            };
            let turn = turn?;
            #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 answers")]
            let per_s = turn.latencies.len() as f64 / turn.time.as_secs_f64();
            rounds[which].push(Figures { per_s, p50_ms: turn.quantile_ms(0.5), p99_ms: turn.quantile_ms(0.99) });
            if which == 0 {
                answered += turn.in_all;
            }
        }
    }
    let audited = u64::try_from(database.store.audited_in("bench_decide").await?)?;
    if audited < answered {
        bail!("{answered} calls were decided, but the audit has only {audited} rows");
    }
    Ok(rounds.map(|rounds| Figures {
        per_s: median(&rounds, |round| round.per_s),
        p50_ms: median(&rounds, |round| round.p50_ms),
        p99_ms: median(&rounds, |round| round.p99_ms),
    }))
}

fn median(rounds: &[Figures], of: fn(&Figures) -> f64) -> f64 {
    let mut figures: Vec<f64> = rounds.iter().map(of).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// A request whose call is numbered when it is sent.
fn call(server: &str, tool: &str, looks: bool) -> Vec<u8> {
    let body = json!({
        "call_id": NUMBER, "agent": "bench-agent", "tool": {"server": server, "name": tool, "annotations": {"readOnlyHint": looks}},
        "arguments": {"id": "cus_0197a3c1", "subject": "Your order of last week", "amount": 49.99, "notify": true},
    });
    sent::request("/v1/decide", "application/json", body.to_string().as_bytes())
}
