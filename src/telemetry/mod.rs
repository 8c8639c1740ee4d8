//! Logs, and every metric name in one list. Bodies of agents' work reach neither.

pub mod metric;

use std::io::IsTerminal;

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;

/// How logs are written: to standard error, so that standard output stays for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging; a second call changes nothing. `filter` is a level or tracing directives; what cannot be read
/// means `info`.
pub fn start_logs(format: LogFormat, filter: &str) {
    // Postgres' notices ("already exists, skipping") are no news.
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    // And what the MCP library logs holds what agents and servers wrote.
    let quiet = ["sqlx::postgres::notice=warn", "rmcp=off"];
    let filter = quiet.into_iter().flat_map(str::parse).fold(filter, EnvFilter::add_directive);
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_target(false);
    // A second subscriber in one process (tests) is refused; the first one stays.
    drop(match format {
        LogFormat::Text => builder.with_ansi(std::io::stderr().is_terminal()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    });
}

/// Starts the metrics recorder of the process and answers the handle that renders it; `None` if there is one already.
pub fn start_metrics() -> Option<PrometheusHandle> {
    let builder = PrometheusBuilder::new().set_buckets(metric::SECONDS_BUCKETS).ok()?;
    let handle = builder.install_recorder().ok()?;
    metric::describe();
    Some(handle)
}
