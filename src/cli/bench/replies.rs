//! File of a judge's replies, a JSON line each, so that a run that was ended can be resumed. A reply is reused for the
//! same text, model and shadow; new ones are appended.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{Read, Seek, SeekFrom, Write},
    path::Path,
    time::Duration,
};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use umbra_domain::{Assessment, FindingCategory, NanoUsd, Severity};

/// Reply about one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct JudgeReply {
    /// Hash of text, model and shadow, made in `judge.rs`.
    pub key: String,
    /// Id of the row.
    pub id: String,
    pub assessment: Assessment,
    pub score: Option<u8>,
    pub recommendation: String,
    pub findings: Vec<Found>,
    pub notes: Vec<String>,
    /// Reason why the model gave no opinion; such a row is sent again.
    pub failure: Option<String>,
    pub calls: i16,
    pub tokens: u64,
    /// Cost in nano-dollars.
    pub cost: NanoUsd,
    /// Milliseconds in calls.
    pub ms: u64,
}

/// Parts of a finding that are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Found {
    pub severity: Severity,
    pub category: FindingCategory,
    pub rule: String,
    pub description: String,
    pub verified: bool,
}

/// File of replies, open for appending.
#[derive(Debug)]
pub(super) struct Replies(File);

impl Replies {
    /// Opens or makes a file, and returns its replies by key; of several with one key, the last.
    ///
    /// # Errors
    /// The file cannot be written, or a line is no reply: it is another file, and stays unchanged. An incomplete last
    /// line is removed, since its run was ended while writing.
    pub fn open(path: &Path) -> anyhow::Result<(Self, HashMap<String, JudgeReply>)> {
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .with_context(|| format!("{} cannot be written", path.display()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).with_context(|| format!("{} cannot be read", path.display()))?;
        let mut known = HashMap::new();
        let mut whole = 0;
        for (number, line) in text.split_inclusive('\n').enumerate() {
            match serde_json::from_str::<JudgeReply>(line) {
                Ok(reply) if line.ends_with('\n') => {
                    known.insert(reply.key.clone(), reply);
                }
                Err(error) if line.ends_with('\n') => {
                    bail!("{}:{}: not a reply of an earlier run: {error}", path.display(), number + 1);
                }
                _ => break,
            }
            whole += line.len();
        }
        if whole < text.len() {
            file.set_len(whole as u64)?;
            file.seek(SeekFrom::End(0))?;
        }
        Ok((Self(file), known))
    }

    /// Appends a reply.
    pub fn add(&mut self, reply: &JudgeReply) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(reply)?;
        line.push(b'\n');
        self.0.write_all(&line).context("the file of replies cannot be written")
    }
}

/// Cost of the judgements, including rows that the file of replies already had.
#[derive(Debug, Serialize)]
pub(super) struct JudgementCost {
    pub usd: f64,
    /// `None` where the model's prices are unknown.
    pub usd_per_1000: Option<f64>,
    pub tokens: u64,
    pub calls: u64,
    /// Time in calls, without waits between them; `None` where no model was asked.
    pub latency_p50_ms: Option<u64>,
    pub latency_p99_ms: Option<u64>,
    /// Rows on which the model gave no opinion: the checks' opinion counts.
    pub failures: usize,
    /// Rows that were not sent, for want of money.
    pub left: usize,
}

impl JudgementCost {
    /// Sums the replies. `model` is `None` without a model; otherwise it is true if the model's prices are known.
    #[expect(clippy::cast_precision_loss, reason = "a count of rows")]
    pub fn of(replies: &[&JudgeReply], left: usize, model: Option<bool>) -> Self {
        let mut cost = NanoUsd::ZERO;
        let (mut tokens, mut calls) = (0_u64, 0);
        let mut latencies: Vec<u64> = Vec::new();
        for reply in replies {
            cost += reply.cost;
            tokens = tokens.saturating_add(reply.tokens);
            calls += u64::from(reply.calls.unsigned_abs());
            latencies.extend((reply.calls > 0).then_some(reply.ms));
        }
        latencies.sort_unstable();
        // By the nearest rank.
        let quantile = |per_cent: usize| {
            let rank = (latencies.len() * per_cent).div_ceil(100);
            latencies.get(rank.saturating_sub(1)).copied()
        };
        Self {
            usd: cost.usd(),
            usd_per_1000: (model != Some(false)).then(|| cost.usd() * 1_000.0 / replies.len() as f64),
            tokens,
            calls,
            latency_p50_ms: quantile(50),
            latency_p99_ms: quantile(99),
            failures: replies.iter().filter(|reply| reply.failure.is_some()).count(),
            left,
        }
    }

    /// Renders the bill as text.
    pub fn line(&self, rows: usize) -> String {
        let Self { usd, tokens, calls, failures, .. } = self;
        let price =
            self.usd_per_1000.map_or_else(|| "at unknown prices".into(), |usd| format!("${usd:.4} per 1,000 rows"));
        let latency = match (self.latency_p50_ms, self.latency_p99_ms) {
            (Some(half), Some(most)) => {
                format!("; in calls p50 {:.2?}, p99 {:.2?}", Duration::from_millis(half), Duration::from_millis(most))
            }
            _ => String::new(),
        };
        format!(
            "{rows} rows in {calls} calls with {tokens} tokens: ${usd:.6}, {price}{latency}; without a verdict \
             {failures}"
        )
    }
}
