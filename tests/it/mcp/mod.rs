//! The MCP proxy, in front of a scripted server.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails; the server is told by variables"
)]

mod client;
mod clients;
mod http;
mod pins;
mod scripted;
mod selection;
mod servers;
mod stdio;

use std::path::Path;

use tempfile::TempDir;

const SHADOW: (&str, &str) = ("AGENT_SAFE_MODE", "1");
const SERVE: [&str; 3] = ["mcp", "--profile", "notes"];

/// Returns a folder with a note.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    std::fs::write(folder.path().join("a.note"), "hello").expect("a note");
    folder
}

/// Returns settings with the scripted server as the profile `notes`.
fn settings(folder: &Path, modern: bool, more: &str) -> String {
    let upstream = scripted::upstream(folder, modern);
    format!(
        "mcp:\n  max_result_bytes: 64KiB\n{more}  profiles:\n    notes:\n      agent: writer\n      upstreams:\n        files:\n          {upstream}"
    )
}
