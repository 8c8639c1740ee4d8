//! Load generator: connections that each send a request, wait for its answer, and send the next, at once or at a fixed
//! pace. In: a server, whole requests, a number of connections. Out: the number of answers in a time, and the latency
//! of each. An unsuccessful answer is an error.

use std::{
    net::SocketAddr,
    ops::Range,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use memchr::memmem::{self, Finder};
use serde::Serialize;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, interval, sleep},
};

/// A load: requests, and the server that they are sent to.
#[derive(Debug, Clone)]
pub(super) struct Load {
    /// Address of the server.
    pub address: SocketAddr,
    /// Whole requests, sent in turn.
    pub requests: Arc<Vec<Vec<u8>>>,
    /// Concurrent connections.
    pub connections: usize,
    /// Number that tells calls of one turn from those of another.
    pub round: u32,
    /// Time between two requests of one connection; `None`: the next follows the answer.
    pub every: Option<Duration>,
}

/// Placeholder in a request that is replaced by a unique number.
pub(super) const NUMBER: &str = "call-0000000000000000";

/// Answers of the measured time.
#[derive(Debug, Clone)]
pub(super) struct Answered {
    /// Measured time.
    pub time: Duration,
    /// Latency of each answer, in microseconds, sorted.
    pub latencies: Vec<u32>,
    /// Requests that were answered, before and after the measured time too.
    pub in_all: u64,
}

impl Answered {
    /// Returns the latency within which this share of the answers came, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 answers")]
        let at = (self.latencies.len() as f64 * share) as usize;
        let us = self.latencies.get(at.min(self.latencies.len().saturating_sub(1))).copied().unwrap_or_default();
        f64::from(us) / 1e3
    }
}

/// Figures of one turn, or medians of several.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Figures {
    pub per_s: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Figures {
    /// Returns the figures of a turn.
    pub fn of(turn: &Answered) -> Self {
        let per_s = per_s(turn.latencies.len() as u64, turn.time);
        Self { per_s, p50_ms: turn.quantile_ms(0.5), p99_ms: turn.quantile_ms(0.99) }
    }

    /// Returns the medians of several turns.
    pub fn median(turns: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| median(turns.iter().map(figure).collect()).unwrap_or_default();
        Self { per_s: of(|one| one.per_s), p50_ms: of(|one| one.p50_ms), p99_ms: of(|one| one.p99_ms) }
    }
}

/// Returns the median; `None` of nothing.
pub(super) fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied()
}

/// Returns a rate.
#[expect(clippy::cast_precision_loss, reason = "fewer than 2^52")]
pub(super) fn per_s(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// Rounds a figure to so many digits.
pub(super) fn rounded(figure: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (figure * scale).round() / scale
}

/// Phase of a measurement, which all connections share.
#[derive(Debug, Clone, Default)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    const MEASURING: u8 = 1;
    const OVER: u8 = 2;

    pub fn is_measuring(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::MEASURING
    }

    pub fn is_over(&self) -> bool {
        self.0.load(Ordering::Relaxed) == Self::OVER
    }

    /// Lets the connections run: `warm` unmeasured, then `measured`. `edge` is called at both ends of the measured time.
    /// Returns that time, and the result of each connection.
    ///
    /// # Errors
    /// As a connection.
    pub async fn measure<T: 'static>(
        &self,
        mut connections: JoinSet<anyhow::Result<T>>,
        (warm, measured): (Duration, Duration),
        mut edge: impl FnMut(),
    ) -> anyhow::Result<(Duration, Vec<T>)> {
        sleep(warm).await;
        edge();
        let started = Instant::now();
        self.0.store(Self::MEASURING, Ordering::Relaxed);
        sleep(measured).await;
        self.0.store(Self::OVER, Ordering::Relaxed);
        let time = started.elapsed();
        edge();
        let mut results = Vec::new();
        while let Some(done) = connections.join_next().await {
            results.push(done??);
        }
        Ok((time, results))
    }
}

/// Runs the load: `warm` unmeasured, then `measured`. `edge` is called at both ends of the measured time.
///
/// # Errors
/// A connection broke, or an answer was no success.
pub(super) async fn run(
    load: &Load,
    warm: Duration,
    measured: Duration,
    edge: impl FnMut(),
) -> anyhow::Result<Answered> {
    let (phase, mut connections) = (Phase::default(), JoinSet::new());
    for number in 0..load.connections {
        connections.spawn(ask(load.clone(), number, phase.clone()));
    }
    let (time, results) = phase.measure(connections, (warm, measured), edge).await?;
    let in_all = results.iter().map(|(_, in_all)| in_all).sum();
    let mut latencies: Vec<u32> = results.into_iter().flat_map(|(latencies, _)| latencies).collect();
    latencies.sort_unstable();
    Ok(Answered { time, latencies, in_all })
}

/// Sends one request over a connection of its own and returns the body of the answer.
///
/// # Errors
/// The connection broke, or the answer was no success.
pub(super) async fn once(address: SocketAddr, request: &[u8]) -> anyhow::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(address).await.context("connecting to the server under test")?;
    let mut buffer = Vec::new();
    socket.write_all(request).await?;
    read_answer(&mut socket, &mut buffer).await?;
    let body = memmem::find(&buffer, b"\r\n\r\n").context("no head")?;
    Ok(buffer.split_off(body + 4))
}

/// Reads these series of the server's `/metrics`; 0 for a series that does not exist yet.
///
/// # Errors
/// As [`once`].
pub(super) async fn metrics<const N: usize>(address: SocketAddr, series: [&str; N]) -> anyhow::Result<[u64; N]> {
    let text = once(address, b"GET /metrics HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n").await?;
    let text = String::from_utf8_lossy(&text);
    let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    Ok(series.map(|name| value(name).unwrap_or_default()))
}

/// Sends requests over one connection until the time is over.
async fn ask(load: Load, number: usize, phase: Phase) -> anyhow::Result<(Vec<u32>, u64)> {
    let mut socket = TcpStream::connect(load.address).await.context("connecting to the server under test")?;
    socket.set_nodelay(true)?;
    let (mut latencies, mut in_all) = (Vec::new(), 0);
    let mut buffer = Vec::with_capacity(64 * 1024);
    let turn = load.requests.len();
    let mut numbered = Vec::new();
    let mut paced = load.every.map(interval);
    for request in load.requests.iter().cycle().skip(number * 37 % turn.max(1)) {
        if phase.is_over() {
            break;
        }
        if let Some(paced) = &mut paced {
            paced.tick().await;
        }
        let mut request = request.as_slice();
        if let Some(at) = memmem::find(request, NUMBER.as_bytes()) {
            numbered.clear();
            numbered.extend_from_slice(request);
            let name = format!("call-{:04x}{number:04x}{in_all:08x}", load.round);
            numbered.splice(at..at + NUMBER.len(), name.into_bytes());
            request = &numbered;
        }
        let asked = Instant::now();
        socket.write_all(request).await?;
        read_answer(&mut socket, &mut buffer).await?;
        in_all += 1;
        if phase.is_measuring() {
            latencies.push(u32::try_from(asked.elapsed().as_micros()).unwrap_or(u32::MAX));
        }
    }
    Ok((latencies, in_all))
}

/// Reads one answer into `buffer`, which is reused. Returns the place of its body.
///
/// # Errors
/// The connection broke, or the answer has no length.
pub(super) async fn read_any_answer(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<Range<usize>> {
    // Created once: time of the generator is time that the variants lack.
    static HEAD_ENDS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\r\n\r\n"));
    buffer.clear();
    let (body, end) = loop {
        if socket.read_buf(buffer).await? == 0 {
            bail!("the server under test closed a connection");
        }
        if let Some(head) = HEAD_ENDS.find(buffer) {
            let length = content_length(buffer.get(..head).unwrap_or_default()).context("no content-length")?;
            break (head + 4, head + 4 + length);
        }
    };
    while buffer.len() < end {
        if socket.read_buf(buffer).await? == 0 {
            bail!("the server under test closed a connection");
        }
    }
    Ok(body..end)
}

/// Reads one answer into `buffer`, which is reused. Anything but a success is an error.
async fn read_answer(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> anyhow::Result<()> {
    static REJECTED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"rejected\":"));
    let Range { start: body, end } = read_any_answer(socket, buffer).await?;
    // An answer to a batch begins with the counts of accepted, replayed and rejected events.
    let begins = buffer.get(body..end.min(body + BATCH_HEAD)).unwrap_or_default();
    let rejected = REJECTED.find(begins).and_then(|at| begins.get(at + REJECTED.needle().len()));
    if !buffer.starts_with(b"HTTP/1.1 2") || rejected.is_some_and(|digit| *digit != b'0') {
        bail!(
            "the server under test refused: {}",
            String::from_utf8_lossy(buffer).chars().take(600).collect::<String>()
        );
    }
    Ok(())
}

/// Length of the beginning of a batch's answer that holds its counts, in bytes.
const BATCH_HEAD: usize = 128;

fn content_length(head: &[u8]) -> Option<usize> {
    const NAME: &[u8] = b"content-length:";
    let mut fields = head.split(|byte| *byte == b'\n');
    let length = fields
        .find_map(|line| line.split_at_checked(NAME.len()).filter(|(name, _)| name.eq_ignore_ascii_case(NAME)))?;
    std::str::from_utf8(length.1).ok()?.trim().parse().ok()
}
