//! `umbra-bench otlp`: spans and logs of OpenTelemetry that are accepted a second, and the calls among them that are
//! filed as events.
//!
//! Real exports (`replay`) are sent over HTTP as protobuf in a closed loop: each connection sends the exports of one
//! run of a framework in their order, then those of the next. An export that is refused because the server is busy is
//! sent again after a second, as exporters do. The server answers when the records are durable and files the calls
//! later, so the bench waits until no trace is due. Processor time is that from the first export until then. At the end
//! the filed calls are counted: other than those of the exports is a failure.
//!
//! `--peer` sends the same to another receiver of OTLP that runs on this machine, such as an OpenTelemetry Collector
//! with the exporter `nop`, after the service has been measured and stopped.

mod replay;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use sqlx::PgConnection;
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep},
};

use self::replay::{Replay, read_captures};
use crate::{
    BenchGlobalOptions, answer, answer_json,
    load::{self, Answered, Phase, per_s, rounded},
    processors, progress,
    testbed::Testbed,
    usage,
};
use umbra::cli::table;

/// Schema of the server.
const SCHEMA: &str = "bench_otlp";
/// Time before the measurement, in which budgets are spent, and caches and connections get warm.
const WARM_UP: Duration = Duration::from_secs(2);
/// Pause before an export that was refused is sent again.
const AGAIN: Duration = Duration::from_secs(1);
/// Time between two looks at the traces that wait.
const BETWEEN: Duration = Duration::from_millis(100);
/// Longest time until all traces must be assembled.
const CATCH_UP: Duration = Duration::from_mins(10);
/// Counters of filed calls in the server's `/metrics`.
const CALLS: [&str; 2] = [r#"umbra_otel_calls_total{kind="model"}"#, r#"umbra_otel_calls_total{kind="tool"}"#];

/// Options of the bench.
#[derive(Debug, Args)]
pub struct OtlpBenchOptions {
    /// Seconds that exports are measured.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Connections that export at once.
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=256))]
    connections: u16,
    /// Folder of captured exports; that of the source tree when not given.
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
    /// Shadows file; those of a busy installation, most of whose budgets are spent, when not given.
    #[arg(long, value_name = "FILE")]
    shadows: Option<PathBuf>,
    /// Address of another receiver of OTLP over HTTP on this machine, which gets the same exports.
    #[arg(long, value_name = "ADDRESS")]
    peer: Option<SocketAddr>,
    /// Process of that receiver, for its processor time and memory.
    #[arg(long, value_name = "PID", requires = "peer")]
    peer_pid: Option<u32>,
}

/// Figures of one receiver.
#[derive(Debug, Serialize)]
struct Figures {
    receiver: &'static str,
    /// Spans and logs that were acknowledged a second.
    records_per_s: f64,
    exports_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Exports that were refused because the receiver was busy, and sent again.
    refused: u64,
    /// Spans and logs that answers named as unusable.
    rejected: u64,
    /// Processor time a span or log, in microseconds, from the first export to the end of the work.
    server_us_per_record: Option<f64>,
    postgres_us_per_record: Option<f64>,
    rss_mib: Option<f64>,
    filed: Option<Filed>,
}

/// Figures of the events that the calls became.
#[derive(Debug, Serialize)]
struct Filed {
    events: u64,
    /// Rate from the first export until no trace waited.
    events_per_s: f64,
    /// Traces that were not assembled when the last export was acknowledged.
    waiting: u64,
    /// Time that the oldest of them was late, in seconds.
    late_s: f64,
    /// Time from the last acknowledgement until no trace waited, in seconds.
    caught_up_s: f64,
}

/// Processor time that server and Postgres have used.
type Used = (Option<Duration>, Option<Duration>);

/// Exports that one or all connections sent.
#[derive(Debug, Default)]
struct Sent {
    /// Latencies in the measured time, in microseconds.
    latencies: Vec<u32>,
    /// Spans and logs that were acknowledged in the measured time.
    measured_records: u64,
    /// Spans and logs that were acknowledged.
    records: u64,
    /// Calls that the exports tell of.
    calls: u64,
    refused: u64,
    rejected: u64,
}

pub async fn run(global: &BenchGlobalOptions, options: &OtlpBenchOptions) -> anyhow::Result<()> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/otlp");
    let replays = Arc::new(read_captures(options.captures.as_deref().unwrap_or(&own))?);
    let measured = Testbed::with(global, async |bed| {
        let mut figures = vec![of_service(bed, options, &replays).await?];
        if let Some(peer) = options.peer {
            figures.push(of_peer(peer, options, &replays).await?);
        }
        Ok(figures)
    });
    show(&measured.await?, global.json)
}

/// Measures the service until the last call is filed.
async fn of_service(bed: &Testbed, options: &OtlpBenchOptions, replays: &Arc<Vec<Replay>>) -> anyhow::Result<Figures> {
    let shadows = bed.shadows(options.shadows.as_deref())?;
    let server = bed.serve(SCHEMA, &shadows, &[]).await?;
    let mut database = bed.connect(SCHEMA).await?;
    let used = || (usage::of_process(server.pid), bed.database.postmaster().and_then(usage::of_family));
    let (began, before) = (Instant::now(), used());
    progress("umbra: exports");
    let (sent, time) = send(server.address, options, replays).await?;
    let acknowledged = Instant::now();
    let (waiting, late_s) = due(&mut database).await?;
    progress(&format!("umbra: {waiting} traces wait"));
    while due(&mut database).await?.0 > 0 {
        if acknowledged.elapsed() > CATCH_UP {
            bail!("traces wait to be assembled after {} s", CATCH_UP.as_secs());
        }
        sleep(BETWEEN).await;
    }
    let (over, after) = (Instant::now(), used());
    let filed: u64 = load::metrics(server.address, CALLS).await?.iter().sum();
    if filed != sent.calls {
        bail!("the exports tell of {} calls, but {filed} are filed", sent.calls);
    }
    let events = bed.rows(SCHEMA, "event").await?;
    let filed = Filed {
        events,
        events_per_s: rate(events, over - began),
        waiting,
        late_s: rounded(late_s, 2),
        caught_up_s: rounded((over - acknowledged).as_secs_f64(), 1),
    };
    let memory = usage::peak_memory_mib(server.pid);
    Ok(Figures {
        filed: Some(filed),
        rss_mib: memory.map(|mib| rounded(mib, 1)),
        ..figures("umbra", sent, time, before, after)
    })
}

/// Measures another receiver. Its work counts as done when the last export is acknowledged.
async fn of_peer(
    address: SocketAddr,
    options: &OtlpBenchOptions,
    replays: &Arc<Vec<Replay>>,
) -> anyhow::Result<Figures> {
    let used = || (options.peer_pid.and_then(usage::of_process), None);
    let before = used();
    progress("peer: exports");
    let (sent, time) = send(address, options, replays).await?;
    let memory = options.peer_pid.and_then(usage::peak_memory_mib);
    Ok(Figures { rss_mib: memory.map(|mib| rounded(mib, 1)), ..figures("peer", sent, time, before, used()) })
}

fn figures(receiver: &'static str, sent: Sent, time: Duration, before: Used, after: Used) -> Figures {
    let each = |from: Option<Duration>, to: Option<Duration>| {
        let used = to?.saturating_sub(from?);
        Some(rounded(1e6 / per_s(sent.records.max(1), used), 1))
    };
    let exports = sent.latencies.len() as u64;
    let answered = Answered { time, latencies: sent.latencies, in_all: 0 };
    Figures {
        receiver,
        records_per_s: rate(sent.measured_records, time),
        exports_per_s: rate(exports, time),
        p50_ms: rounded(answered.quantile_ms(0.5), 2),
        p99_ms: rounded(answered.quantile_ms(0.99), 2),
        refused: sent.refused,
        rejected: sent.rejected,
        server_us_per_record: each(before.0, after.0),
        postgres_us_per_record: each(before.1, after.1),
        rss_mib: None,
        filed: None,
    }
}

/// Returns the number of traces that wait to be assembled, and the time that the oldest is late, in seconds.
async fn due(database: &mut PgConnection) -> anyhow::Result<(u64, f64)> {
    let due = sqlx::query_as(
        "SELECT count(*), greatest(extract(epoch FROM clock() - min(due_at)), 0)::float8 FROM otel_trace
         WHERE due_at IS NOT NULL OR lease_until IS NOT NULL",
    );
    let (waiting, late): (i64, f64) = due.fetch_one(database).await?;
    Ok((u64::try_from(waiting)?, late))
}

/// Sends exports over all connections. A replay that is begun is sent to its end. Returns the measured time.
async fn send(
    address: SocketAddr,
    options: &OtlpBenchOptions,
    replays: &Arc<Vec<Replay>>,
) -> anyhow::Result<(Sent, Duration)> {
    let (phase, mut connections) = (Phase::default(), JoinSet::new());
    for number in 0..options.connections {
        let numbers = (u64::from(number)..).step_by(options.connections.into());
        connections.spawn(export(address, Arc::clone(replays), numbers, phase.clone()));
    }
    let times = (WARM_UP, Duration::from_secs(options.seconds.into()));
    let (time, results) = phase.measure(connections, times, || {}).await?;
    let mut sent = Sent::default();
    for one in results {
        sent.latencies.extend(one.latencies);
        sent.measured_records += one.measured_records;
        sent.records += one.records;
        sent.calls += one.calls;
        sent.refused += one.refused;
        sent.rejected += one.rejected;
    }
    sent.latencies.sort_unstable();
    Ok((sent, time))
}

/// Sends replays of these numbers over one connection until the time is over.
async fn export(
    address: SocketAddr,
    replays: Arc<Vec<Replay>>,
    numbers: impl Iterator<Item = u64>,
    phase: Phase,
) -> anyhow::Result<Sent> {
    let connect = async || {
        let socket = TcpStream::connect(address).await.context("connecting to the receiver")?;
        socket.set_nodelay(true)?;
        anyhow::Ok(socket)
    };
    let (mut socket, mut sent) = (connect().await?, Sent::default());
    let (mut bytes, mut buffer) = (Vec::new(), Vec::with_capacity(64 * 1024));
    for number in numbers {
        if phase.is_over() {
            break;
        }
        let at = usize::try_from(number)? % replays.len();
        let replay = replays.get(at).context("no capture")?;
        for request in &replay.requests {
            request.write(number, &mut bytes);
            loop {
                let asked = Instant::now();
                socket.write_all(&bytes).await?;
                let body = load::read_any_answer(&mut socket, &mut buffer).await?;
                if buffer.starts_with(b"HTTP/1.1 429") || buffer.starts_with(b"HTTP/1.1 503") {
                    sent.refused += 1;
                    sleep(AGAIN).await;
                    socket = connect().await?;
                    continue;
                }
                if !buffer.starts_with(b"HTTP/1.1 2") {
                    let told = String::from_utf8_lossy(&buffer).chars().take(600).collect::<String>();
                    bail!("{}: the receiver refused an export: {told}", replay.name);
                }
                sent.rejected += request.rejected(buffer.get(body).unwrap_or_default())?;
                sent.records += request.records;
                if phase.is_measuring() {
                    sent.measured_records += request.records;
                    sent.latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
                }
                break;
            }
        }
        sent.calls += replay.calls;
    }
    Ok(sent)
}

fn show(figures: &[Figures], as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return answer_json(&json!({ "receivers": figures }));
    }
    let headings =
        ["receiver", "records/s", "exports/s", "p50 ms", "p99 ms", "refused", "rejected", "server us", "postgres us"];
    let mut table = table::new(&headings);
    for one in figures {
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        table.add_row([
            one.receiver.to_owned(),
            format!("{:.0}", one.records_per_s),
            format!("{:.0}", one.exports_per_s),
            format!("{:.2}", one.p50_ms),
            format!("{:.2}", one.p99_ms),
            one.refused.to_string(),
            one.rejected.to_string(),
            figure(one.server_us_per_record),
            figure(one.postgres_us_per_record),
        ]);
    }
    answer(&table.to_string());
    for one in figures {
        if let Some(filed) = &one.filed {
            answer(&format!(
                "{} filed {} events, {:.0} a second; after the last export {} traces waited, the oldest {:.1} s late, \
                 and {:.1} s later none did",
                one.receiver, filed.events, filed.events_per_s, filed.waiting, filed.late_s, filed.caught_up_s
            ));
        }
        if let Some(mib) = one.rss_mib {
            answer(&format!("{} took {mib:.1} MiB at most", one.receiver));
        }
    }
    let processors = processors();
    answer(&format!(
        "a record is a span or a log; receiver, Postgres and the exporters shared {processors} processors"
    ));
    Ok(())
}

fn rate(count: u64, time: Duration) -> f64 {
    rounded(per_s(count, time), 1)
}
