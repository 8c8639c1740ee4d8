//! `effects` and `trusted_servers`: the keys of the tools file that are neither contracts nor rules.

use super::super::{
    keys::{Keys, Record},
    rules::{MAX_PATTERNS, MAX_RULES, tool_glob},
    shape::{List, word},
    text::printable,
};
use umbra_domain::{Effect, EffectOverride};

/// Declares `effects`.
pub(super) fn declare(keys: &mut Keys<'_>) -> Vec<EffectOverride> {
    keys.or_default(
        "effects",
        "Effects of tools without a contract. A name goes before a glob, a glob with more letters before another.",
        List { len: 0..=MAX_RULES, single: false, item: Record(effect) },
    )
}

/// Declares `trusted_servers`.
pub(super) fn declare_trusted_servers(keys: &mut Keys<'_>) -> Vec<String> {
    keys.or_default(
        "trusted_servers",
        "Servers whose annotations of their tools are believed where the MCP proxy asks them. Annotations of other \
         servers, and those in POST /v1/decide, can raise an effect and never lower it.",
        List { len: 0..=MAX_PATTERNS, single: true, item: printable("a server's name", 256) },
    )
}

/// Declares one override of an effect.
fn effect(keys: &mut Keys<'_>) -> Option<EffectOverride> {
    let tool = keys.required(
        "tool",
        "The tools: `server.tool`, the name of a tool without a server, or a glob such as `github.get_*`.",
        tool_glob(),
    );
    let effect = keys.required("effect", "Effect of the tools.", word(&Effect::ALL, Effect::as_str));
    Some(EffectOverride { tool: tool?, effect: effect? })
}
