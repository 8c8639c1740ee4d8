//! The MCP proxy, before a scripted server.

#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on fails; the server is told by variables"
)]

mod client;
mod http;
mod pins;
mod scripted;
mod stdio;

use std::path::Path;

/// Settings with the scripted server as the profile `notes`.
fn settings(folder: &Path, modern: bool, more: &str) -> String {
    let upstream = scripted::upstream(folder, modern);
    format!(
        "mcp:\n  max_result_bytes: 64KiB\n{more}  profiles:\n    notes:\n      agent: writer\n      upstreams:\n        files:\n          {upstream}"
    )
}
