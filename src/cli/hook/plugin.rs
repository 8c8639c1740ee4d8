//! Plugins of hosts whose hooks run in their own process: opencode and pi. They ask the server themselves.

use serde_json::json;

use super::install::{HookFlags, server};
use umbra_hooks::Host;

/// First line of a plugin of ours.
const MARK: &str = "// Umbra: written by `umbra hook`";
/// Question to the server, the same for both hosts.
const ASK: &str = include_str!("plugins/ask.js");
const OPENCODE: &str = include_str!("plugins/opencode.js");
const PI: &str = include_str!("plugins/pi.js");

/// Returns the plugin of a host.
///
/// # Errors
/// The host's hooks are commands, or the address of the server may not be used.
pub(super) fn text(host: &Host, hook: &HookFlags) -> anyhow::Result<String> {
    let own = match host.name {
        "opencode" => OPENCODE,
        "pi" => PI,
        _ => anyhow::bail!("the hooks of {} are commands, and no plugin", host.title),
    };
    let settings = json!({"host": host.name, "mode": hook.mode, "url": server(hook)?, "agent": hook.agent});
    let version = env!("CARGO_PKG_VERSION");
    Ok(format!("{MARK} {version}; changes are lost.\nconst settings = {settings};\n\n{ASK}\n{own}"))
}

/// True if a file is a plugin of ours.
pub(super) fn is_ours(text: &str) -> bool {
    text.starts_with(MARK)
}
