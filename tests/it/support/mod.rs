//! Support of the tests: one Postgres, a schema of its own for each test, the real binary, a scripted model.

#![expect(clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "a test that cannot go on fails")]

pub mod boundary;
pub mod browser;
pub mod database;
pub mod judge;
pub mod model_server;
pub mod outage;
pub mod server;
pub mod stream;

use std::time::Duration;

pub use database::Schema;
pub use server::Umbra;

/// Longest wait for anything that must come.
pub const DEADLINE: Duration = Duration::from_mins(3);

/// True if the run is to break what the test protects, to see it fail: `UMBRA_SABOTAGE=1 cargo test NAME`.
pub fn sabotage() -> bool {
    std::env::var_os("UMBRA_SABOTAGE").is_some_and(|value| value == "1")
}

/// Polls until `holds` returns a value; fails with `what` at the deadline.
pub async fn until<T>(what: &str, mut holds: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        if let Some(found) = holds().await {
            return found;
        }
        assert!(tokio::time::Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
