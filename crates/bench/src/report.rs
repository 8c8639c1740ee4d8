//! The report of `umbra-bench ingest`: medians over the rounds, as a table or as JSON.

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    answer, answer_json,
    load::{Answered, median, rounded},
};
use umbra::cli::table;

/// Figures of one turn of one variant.
#[derive(Debug, Clone)]
pub(super) struct Round {
    req_per_s: f64,
    events_per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Processor time an event, in microseconds.
    server_us: Option<f64>,
    postgres_us: Option<f64>,
}

impl Round {
    /// Computes the figures from the load's answers and the processor time of server and Postgres.
    pub fn new(
        answered: &Answered,
        events_per_request: usize,
        server: Option<Duration>,
        postgres: Option<Duration>,
    ) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52")]
        let (requests, each) = (answered.latencies.len() as f64, events_per_request as f64);
        let us = |used: Option<Duration>| used.map(|used| used.as_secs_f64() * 1e6 / (requests * each).max(1.0));
        let req_per_s = requests / answered.time.as_secs_f64();
        Self {
            req_per_s,
            events_per_s: req_per_s * each,
            p50_ms: answered.quantile_ms(0.5),
            p99_ms: answered.quantile_ms(0.99),
            server_us: us(server),
            postgres_us: us(postgres),
        }
    }
}

/// Medians of a variant.
#[derive(Debug, Clone, Serialize)]
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

/// Figures of all variants.
#[derive(Debug)]
pub(super) struct IngestReport {
    rows: Vec<VariantMedians>,
    rss_mib: Option<f64>,
}

impl IngestReport {
    /// Computes the medians of these variants. `rss_mib` is the peak memory of the real server.
    pub fn new(names: [&'static str; 4], rounds: &BTreeMap<&'static str, Vec<Round>>, rss_mib: Option<f64>) -> Self {
        let rows = names.into_iter().filter_map(|name| Some(VariantMedians::of(name, rounds.get(name)?))).collect();
        Self { rows, rss_mib: rss_mib.map(|mib| rounded(mib, 1)) }
    }

    fn ratio(&self, name: &str, to: &str) -> Option<f64> {
        let rate = |name: &str| self.rows.iter().find(|row| row.name == name).map(|row| row.req_per_s);
        rate(name).zip(rate(to)).filter(|(_, to)| *to > 0.0).map(|(of, to)| rounded(of / to, 2))
    }

    fn json(&self) -> Value {
        json!({
            "variants": self.rows,
            "real_vs_naive": self.ratio("real", "naive"),
            "real_vs_nodb": self.ratio("real", "nodb"),
            "rss_mib": self.rss_mib,
        })
    }

    /// Prints the report as a table or as JSON.
    pub fn show(&self, as_json: bool) -> anyhow::Result<()> {
        if as_json {
            return answer_json(&self.json());
        }
        let headings = ["variant", "requests/s", "events/s", "p50 ms", "p99 ms", "cpu us/event", "server", "postgres"];
        let mut table = table::new(&headings);
        for row in &self.rows {
            let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
            table.add_row([
                row.name.to_owned(),
                format!("{:.0}", row.req_per_s),
                format!("{:.0}", row.events_per_s),
                format!("{:.2}", row.p50_ms),
                format!("{:.2}", row.p99_ms),
                figure(row.cpu_us_per_event),
                figure(row.server_us_per_event),
                figure(row.postgres_us_per_event),
            ]);
        }
        answer(&table.to_string());
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let times = |ratio: Option<f64>| ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        answer(&format!(
            "real is {} x naive and {} x nodb; its server took {} MiB at most",
            times(self.ratio("real", "naive")),
            times(self.ratio("real", "nodb")),
            times(self.rss_mib),
        ));
        answer(&format!("server, Postgres and the generator of the load shared {processors} processors"));
        Ok(())
    }
}

impl VariantMedians {
    fn of(name: &'static str, rounds: &[Round]) -> Self {
        let of = |figure: fn(&Round) -> Option<f64>| median(rounds.iter().filter_map(figure).collect());
        let whole = |figure: Option<f64>| figure.unwrap_or_default();
        let (server, postgres) = (of(|round| round.server_us), of(|round| round.postgres_us));
        Self {
            name,
            req_per_s: rounded(whole(of(|round| Some(round.req_per_s))), 1),
            events_per_s: rounded(whole(of(|round| Some(round.events_per_s))), 1),
            p50_ms: rounded(whole(of(|round| Some(round.p50_ms))), 3),
            p99_ms: rounded(whole(of(|round| Some(round.p99_ms))), 3),
            cpu_us_per_event: server.zip(postgres).map(|(server, postgres)| rounded(server + postgres, 2)),
            server_us_per_event: server.map(|us| rounded(us, 2)),
            postgres_us_per_event: postgres.map(|us| rounded(us, 2)),
        }
    }
}
