//! Logs, the list of all metric names, and spans. Bodies of agents' work reach none of them.

pub mod metric;
pub mod traces;

use std::io::{self, IsTerminal, Write};

use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing_subscriber::EnvFilter;
use umbra_config::{Environment, settings::LogFormat};

/// Starts logging to standard error: standard output stays free for answers. A second call changes nothing. `filter` is a level or tracing directives; an unreadable one means
/// `info`.
pub fn start_logs(format: LogFormat, filter: &str) {
    // Notices of Postgres ("already exists, skipping") are not worth logging.
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    // A slow statement would be logged whole, the schema of a new database among them. The MCP library logs text by
    // agents and servers.
    let quiet = ["sqlx::postgres::notice=warn", "sqlx::query=error", "rmcp=off"];
    let filter = quiet.into_iter().flat_map(str::parse).fold(filter, EnvFilter::add_directive);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| LossyWriter(io::stderr()))
        // It would report a failed write to standard error, and panic where that fails as well.
        .log_internal_errors(false)
        .with_target(false);
    // A second subscriber in one process (tests) is refused; the first one stays.
    drop(match format {
        LogFormat::Text => builder.with_ansi(io::stderr().is_terminal() && !no_color()).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    });
}

/// True if the environment asks for no colours: `NO_COLOR` is set and not empty.
pub fn no_color() -> bool {
    Environment::of_process().get("NO_COLOR").is_some()
}

/// Writer of the log that drops text it cannot write: a full disk or a missing collector stops no service.
struct LossyWriter<W>(W);

impl<W: Write> Write for LossyWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Written whole or dropped whole: a rest would be half a line.
        drop(self.0.write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        drop(self.0.flush());
        Ok(())
    }
}

/// Starts the metrics recorder of the process and returns the handle that renders it; `None` if there is one already.
pub fn start_metrics() -> Option<PrometheusHandle> {
    let builder = PrometheusBuilder::new().set_buckets(metric::SECONDS_BUCKETS).ok()?;
    let handle = builder.install_recorder().ok()?;
    metric::describe();
    Some(handle)
}
