//! `umbra-bench decide`: rate of decisions on tool calls with a durable audit, compared with the same endpoint without
//! a database.
//!
//! The two servers are child processes on one machine; the private Postgres has fsync on, and lies in a temporary
//! directory. They take turns, in rounds; figures are medians of the rounds. Each request is a call of its own: half of
//! them only read, half change something, and all are live. At the end the audit is counted: fewer rows than answered
//! decisions is a failure.

use std::{sync::Arc, time::Duration};

use anyhow::bail;
use clap::Args;
use serde_json::json;

use crate::{
    BenchGlobalOptions, answer, answer_json,
    load::{self, Figures, Load, NUMBER},
    processors, progress, requests,
    testbed::Testbed,
};

/// Turns of each server.
const ROUNDS: u32 = 5;
/// Time before the measurement, in each round.
const SETTLE: Duration = Duration::from_millis(500);

/// Options of the bench.
#[derive(Debug, Args)]
pub struct DecideBenchOptions {
    /// Seconds that each server is measured, in five rounds.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Connections that ask at once.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
}

pub async fn run(global: &BenchGlobalOptions, options: &DecideBenchOptions) -> anyhow::Result<()> {
    let [real, nodb] = Testbed::with(global, async |bed| measure(bed, options).await).await?;
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
    let processors = processors();
    answer(&format!("{ratio:.2} x; servers, Postgres and the generator of the load shared {processors} processors"));
    Ok(())
}

async fn measure(bed: &Testbed, options: &DecideBenchOptions) -> anyhow::Result<[Figures; 2]> {
    let shadows = bed.shadows(None)?;
    let real = bed.serve("bench_decide", &shadows, &[]).await?;
    let nodb = bed.serve_variant("bench_nodb", &shadows, "nodb").await?;
    let requests = Arc::new(vec![call("crm", "get_customer", true), call("mail", "send_email", false)]);
    let round = Duration::from_secs(options.seconds.into()) / ROUNDS;
    let (mut rounds, mut answered) = ([Vec::new(), Vec::new()], 0);
    for number in 1..=ROUNDS {
        for (which, server) in [&real, &nodb].into_iter().enumerate() {
            progress(&format!("round {number} of {ROUNDS}: {}", ["with a durable audit", "without a database"][which]));
            let connections = usize::from(options.connections);
            let (address, requests) = (server.address, Arc::clone(&requests));
            let load = Load { address, requests, connections, round: number, every: None };
            let turn = load::run(&load, SETTLE, round, || {}).await?;
            rounds[which].push(Figures::of(&turn));
            if which == 0 {
                answered += turn.in_all;
            }
        }
    }
    let audited = bed.rows("bench_decide", "audit").await?;
    if audited < answered {
        bail!("{answered} calls were decided, but the audit has only {audited} rows");
    }
    Ok(rounds.map(|rounds| Figures::median(&rounds)))
}

/// Builds a request whose call is numbered when it is sent.
fn call(server: &str, tool: &str, looks: bool) -> Vec<u8> {
    let body = json!({
        "call_id": NUMBER, "agent": "bench-agent", "tool": {"server": server, "name": tool, "annotations": {"readOnlyHint": looks}},
        "arguments": {"id": "cus_0197a3c1", "subject": "Your order of last week", "amount": 49.99, "notify": true},
    });
    requests::request("/v1/decide", "application/json", body.to_string().as_bytes())
}
