//! Policy rules, overrides of effects and trusted servers: the keys of the tools file that are not contracts.

use std::collections::BTreeMap;

use globset::Glob;

use super::super::{
    fault::{Faults, Place, is_printable, quoted},
    keys::{Keys, Record},
    shape::{List, word},
    text::{Text, agent_glob, free_text, printable, text},
    tree::{Kind, Node},
};
use crate::domain::{Effect, EffectOverride, GuardVerdict, PolicyMode, PolicyRule};

/// The key of the rules, and of a rule's name.
const POLICIES: &str = "policies";
const NAME: &str = "name";
/// Most rules, and most overrides.
const MAX_RULES: usize = 1_000;
/// Most patterns of one list of a rule.
const MAX_PATTERNS: usize = 256;
/// Most labels of a rule.
const MAX_TAINTS: usize = 16;
/// Longest condition, in characters.
const MAX_CONDITION: usize = 4_096;
/// Longest reason, in characters.
const MAX_REASON: usize = 500;

/// Says what is wrong with a condition, if anything is.
pub type ConditionRule<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Declares `policies`.
pub(super) fn declare(keys: &mut Keys<'_>, condition: ConditionRule<'_>) -> Vec<PolicyRule> {
    let item = Record(|keys: &mut Keys<'_>| rule(keys, condition));
    let rules = keys.optional(
        POLICIES,
        "Rules about calls. The gravest verdict of those that match holds: block, ask, warn, allow.",
        List { len: 0..=MAX_RULES, single: false, item },
    );
    rules.unwrap_or_default()
}

/// Declares `effects`.
pub(super) fn declare_effects(keys: &mut Keys<'_>) -> Vec<EffectOverride> {
    let effects = keys.optional(
        "effects",
        "What tools do that have no contract. A name goes before a glob, the glob with more letters before another.",
        List { len: 0..=MAX_RULES, single: false, item: Record(effect) },
    );
    effects.unwrap_or_default()
}

/// Declares `trusted_servers`.
pub(super) fn declare_trusted_servers(keys: &mut Keys<'_>) -> Vec<String> {
    let servers = keys.optional(
        "trusted_servers",
        "Servers whose annotations of their tools are believed where the MCP proxy asks them. What others say, or callers of \
         POST /v1/decide, can raise an effect and never lower it.",
        List { len: 0..=MAX_PATTERNS, single: true, item: printable("a server's name", 256) },
    );
    servers.unwrap_or_default()
}

/// Names are unique: an audit tells rules apart by them.
pub(super) fn refuse_twins(root: &Node, faults: &mut Faults) {
    let Some(Kind::List(rules)) = root.get(POLICIES).map(|node| &node.kind) else { return };
    let mut first: BTreeMap<&str, Place> = BTreeMap::new();
    for (index, rule) in rules.iter().enumerate() {
        let Some(Node { kind: Kind::Text(name), at }) = rule.get(NAME) else { continue };
        if let Some(earlier) = first.get(name.as_str()) {
            let message = format!("the name {} is taken", quoted(name));
            let help = format!("the rule at line {} has it; choose another", earlier.line);
            faults.within(format!(".{POLICIES}[{index}].{NAME}"), |faults| faults.fault(*at, message, help));
        } else {
            first.insert(name, *at);
        }
    }
}

/// One rule.
fn rule(keys: &mut Keys<'_>, condition: ConditionRule<'_>) -> Option<PolicyRule> {
    let patterns = || List { len: 1..=MAX_PATTERNS, single: true, item: agent_glob() };
    let name = keys.required(NAME, "Its unique name.", printable("a rule's name", 100));
    let mode = keys.optional(
        "mode",
        "enforce (unless set): what it says holds. audit: it is recorded beside what holds.",
        word(&PolicyMode::ALL, PolicyMode::as_str),
    );
    let agents = keys.optional("agents", "Agents (names or globs); every one unless set.", patterns());
    let routes = keys.optional(
        "routes",
        "Routes (names or globs); every one, and calls without a route, unless set.",
        List { len: 1..=MAX_PATTERNS, single: true, item: pattern("a route or a glob") },
    );
    let modes = keys.optional(
        "modes",
        "Modes of the agent (names or globs), of which it must be in one; every one unless set.",
        List { len: 1..=MAX_PATTERNS, single: true, item: pattern("a mode or a glob") },
    );
    let tools = keys.optional(
        "tools",
        "Tools (names or globs), as `server.tool` or by the name alone; every one unless set.",
        List { len: 1..=MAX_PATTERNS, single: true, item: tool_glob() },
    );
    let effects = keys.optional(
        "effects",
        "Effects of the tools: read, write, destructive; every one unless set.",
        List { len: 1..=Effect::ALL.len(), single: true, item: word(&Effect::ALL, Effect::as_str) },
    );
    let when = keys.optional(
        "when",
        "A condition in CEL over args, agent, route, modes, tool.server, tool.name, effect, session.id and \
         session.taint. Where it cannot be evaluated, the rule counts.",
        free_text(MAX_CONDITION),
    );
    let verdict = keys.required(
        "verdict",
        "What it says of a call: allow (nothing against it), warn (it runs, with the reason), ask (a person must approve) \
         or block (it does not run).",
        word(&GuardVerdict::ALL, GuardVerdict::as_str),
    );
    let reason = keys.optional("reason", "Why, for whoever is stopped by it.", free_text(MAX_REASON));
    let taints = keys.optional(
        "taints",
        "Labels that a matching call adds to its session, where `session.taint` finds them.",
        List { len: 0..=MAX_TAINTS, single: true, item: printable("a label", 64) },
    );
    let mode = mode.unwrap_or_default();
    if let Some(Err(problem)) = when.as_deref().map(condition) {
        keys.fault("when", problem, "write a condition such as: args.amount > 500.0");
    }
    if mode == PolicyMode::Audit && taints.as_ref().is_some_and(|taints| !taints.is_empty()) {
        let message = "a rule in audit mode changes nothing, and a label would change what other rules say";
        keys.fault("taints", message, "write mode: enforce with verdict: allow, or leave the labels out");
    }
    let (name, verdict) = (name?, verdict?);
    Some(PolicyRule {
        reason: reason.unwrap_or_else(|| format!("the policy {name} says {}", verdict.as_str())),
        name,
        mode,
        agents: agents.unwrap_or_default(),
        routes: routes.unwrap_or_default(),
        modes: modes.unwrap_or_default(),
        tools: tools.unwrap_or_default(),
        effects: effects.unwrap_or_default(),
        when,
        verdict,
        taints: taints.unwrap_or_default(),
    })
}

/// One override.
fn effect(keys: &mut Keys<'_>) -> Option<EffectOverride> {
    let tool = keys.required(
        "tool",
        "The tools: `server.tool`, the name of a tool without a server, or a glob such as `github.get_*`.",
        tool_glob(),
    );
    let effect = keys.required("effect", "What they do.", word(&Effect::ALL, Effect::as_str));
    Some(EffectOverride { tool: tool?, effect: effect? })
}

fn tool_glob() -> Text<String> {
    pattern("a tool's name or a glob")
}

/// A name or a glob of at most 256 characters without spaces.
fn pattern(what: &'static str) -> Text<String> {
    text(what, 256, |text| {
        if !text.chars().all(|c| is_printable(c) && !c.is_whitespace()) {
            return Err("use printable characters without spaces".to_owned());
        }
        match Glob::new(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => Err(format!("{}; globs are like stripe.get_*, *.delete_{{user,team}}", error.kind())),
        }
    })
}
