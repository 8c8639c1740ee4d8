//! Keys that rules of several files share: names, modes, agents, patterns, and rules about calls, which are the same in
//! the tools file and in the sidecar file.

use globset::Glob;

use super::{
    fault::{Faults, is_printable, quoted},
    keys::{Keys, Record},
    shape::{List, word},
    text::{Text, agent_glob, free_text, printable, text},
    tree::Node,
    twins::refuse_twins,
};
use umbra_domain::{Effect, GuardVerdict, PolicyMode, PolicyRule};

/// Key of the rules about calls, and key of a rule's name.
pub(super) const POLICIES: &str = "policies";
pub(super) const NAME: &str = "name";
/// Most rules in a list.
pub(super) const MAX_RULES: usize = 1_000;
/// Most patterns in one list of a rule.
pub(super) const MAX_PATTERNS: usize = 256;
/// Most taint labels of a rule.
const MAX_TAINTS: usize = 16;
/// Longest condition, in characters.
const MAX_CONDITION: usize = 4_096;
/// Longest reason, in characters.
const MAX_REASON: usize = 500;

/// Judges the condition of a rule. The error says what is wrong.
pub type ConditionRule<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// The keys that every rule begins with.
pub(super) struct RuleHead {
    /// Name of the rule; `None` where it is missing or faulty.
    pub name: Option<String>,
    pub mode: PolicyMode,
    pub agents: Vec<String>,
    pub routes: Vec<String>,
    pub modes: Vec<String>,
}

/// Declares the keys that every rule begins with.
pub(super) fn head(keys: &mut Keys<'_>) -> RuleHead {
    let name = keys.required(NAME, "Unique name of the rule.", printable("a rule's name", 100));
    let mode = keys.or_default(
        "mode",
        "enforce (unless set): the verdict of the rule holds. audit: the verdict is recorded, and changes nothing.",
        word(&PolicyMode::ALL, PolicyMode::as_str),
    );
    let agents = keys.or_default(
        "agents",
        "Agents (names or globs); every one unless set.",
        List { len: 1..=MAX_PATTERNS, single: true, item: agent_glob() },
    );
    let routes = keys.or_default(
        "routes",
        "Routes (names or globs); every one, and calls without a route, unless set.",
        List { len: 1..=MAX_PATTERNS, single: true, item: pattern("a route or a glob") },
    );
    let modes = keys.or_default(
        "modes",
        "Modes of the agent (names or globs), one of which must match; every one unless set.",
        List { len: 1..=MAX_PATTERNS, single: true, item: pattern("a mode or a glob") },
    );
    RuleHead { name, mode, agents, routes, modes }
}

/// Declares `tools`.
pub(super) fn tools(keys: &mut Keys<'_>, about: &str) -> Vec<String> {
    keys.or_default("tools", about, List { len: 1..=MAX_PATTERNS, single: true, item: tool_glob() })
}

/// Declares `reason`.
pub(super) fn reason(keys: &mut Keys<'_>, about: &str) -> Option<String> {
    keys.optional("reason", about, free_text(MAX_REASON))
}

/// Declares `policies`.
pub(super) fn policies(keys: &mut Keys<'_>, condition: ConditionRule<'_>) -> Vec<PolicyRule> {
    let item = Record(|keys: &mut Keys<'_>| policy(keys, condition));
    keys.or_default(
        POLICIES,
        "Rules about calls. The gravest verdict of those that match holds: block, ask, warn, allow.",
        List { len: 0..=MAX_RULES, single: false, item },
    )
}

/// Notes a fault for each name that occurs twice in these lists: a caller that is stopped is told the rule's name.
pub(super) fn refuse_namesakes(root: &Node, lists: &[&str], faults: &mut Faults) {
    refuse_twins(root, lists, NAME, faults, str::to_owned, |name, line| {
        let help = format!("the rule at line {line} has this name: choose another name");
        (format!("the name {} occurs twice", quoted(name)), help)
    });
}

/// Declares one rule about calls.
fn policy(keys: &mut Keys<'_>, condition: ConditionRule<'_>) -> Option<PolicyRule> {
    let RuleHead { name, mode, agents, routes, modes } = head(keys);
    let tools = tools(keys, "Tools (names or globs), as `server.tool` or by the name alone; every one unless set.");
    let except = keys.or_default(
        "except",
        "Tools (names or globs) that the rule is not about: with verdict: block, all but these are forbidden. A call \
         that names no server is excepted only by patterns without a server.",
        List { len: 1..=MAX_PATTERNS, single: true, item: tool_glob() },
    );
    let effects = keys.or_default(
        "effects",
        "Effects of the tools: read, write, destructive; every one unless set.",
        List { len: 1..=Effect::ALL.len(), single: true, item: word(&Effect::ALL, Effect::as_str) },
    );
    let when = keys.optional(
        "when",
        "A condition in CEL over args, agent, route, modes, tool.server, tool.name, effect, session.id and \
         session.taint. Where the condition cannot be evaluated, the rule counts.",
        free_text(MAX_CONDITION),
    );
    let verdict = keys.required(
        "verdict",
        "Verdict on a matching call: allow (no objection), warn (the call runs, with the reason), ask (a person must \
         approve) or block (the call does not run).",
        word(&GuardVerdict::ALL, GuardVerdict::as_str),
    );
    let reason = reason(keys, "Reason of the verdict, for the caller that is stopped.");
    let taints = keys.optional(
        "taints",
        "Labels that a matching call adds to its session, where `session.taint` finds them.",
        List { len: 0..=MAX_TAINTS, single: true, item: printable("a label", 64) },
    );
    if let Some(Err(problem)) = when.as_deref().map(condition) {
        keys.fault("when", problem, "write a condition such as: args.amount > 500.0");
    }
    if mode == PolicyMode::Audit && taints.as_ref().is_some_and(|taints| !taints.is_empty()) {
        let message = "a rule in audit mode changes nothing, but a label would change the verdicts of other rules";
        keys.fault("taints", message, "write mode: enforce with verdict: allow, or leave the labels out");
    }
    let (name, verdict) = (name?, verdict?);
    Some(PolicyRule {
        reason: reason.unwrap_or_else(|| format!("the policy {name} says {}", verdict.as_str())),
        name,
        mode,
        agents,
        routes,
        modes,
        tools,
        except,
        effects,
        when,
        verdict,
        taints: taints.unwrap_or_default(),
    })
}

/// Shape of a tool's name, or of a glob over such names.
pub(super) fn tool_glob() -> Text<String> {
    text("a tool's name or a glob", 256, |text| {
        plain_glob(text, "use printable characters without spaces: server.tool, name, server.get_*")
    })
}

/// Shape of a name or a glob of at most 256 characters without spaces.
fn pattern(what: &'static str) -> Text<String> {
    text(what, 256, |text| plain_glob(text, "use printable characters without spaces"))
}

fn plain_glob(text: &str, advice: &str) -> Result<String, String> {
    if !text.chars().all(|c| is_printable(c) && !c.is_whitespace()) {
        return Err(advice.to_owned());
    }
    match Glob::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{}; globs are like stripe.get_*, *.delete_{{user,team}}", error.kind())),
    }
}
