//! Rules about calls. In: the rules of the tools file once, then calls. Out: the verdict on a call, the rules that
//! decided it, and the reason. Pure.
//!
//! The gravest verdict of the matching rules wins (block, ask, warn, allow), so their order decides only the rule that
//! is named. A rule in audit mode changes only the verdict that would hold if it were enforced. If a rule's condition
//! cannot be evaluated, the rule counts: doubt never permits.

use anyhow::{Context as _, anyhow};
use serde_json::{Value, json};

use super::{
    expression::{EvaluationScope, Expression},
    reach::{RuleReach, by_tool},
};
use umbra_domain::{
    Effect, Guard, PolicyMode, PolicyRule, ToolName,
    tool::{Readings, ToolPatterns},
};

/// Variables of a condition.
pub const VARIABLES: [&str; 7] = ["args", "agent", "route", "modes", "tool", "effect", "session"];

/// Agent at work, as rules see it.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentContext<'a> {
    /// Name of the agent.
    pub agent: &'a str,
    /// Route of the agent, if it has one.
    pub route: Option<&'a str>,
    /// Modes that the agent works in.
    pub modes: &'a [String],
    /// Labels of the session: `session.taint` in conditions.
    pub taints: &'a [String],
    /// Id of the session, if there is one: `session.id` in conditions.
    pub session: Option<&'a str>,
}

/// A call, as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct CallFacts<'a> {
    /// Agent that calls.
    pub context: AgentContext<'a>,
    /// Tool that is called.
    pub tool: &'a ToolName,
    /// All readings of the tool's name.
    pub readings: &'a Readings,
    /// Effect of the call.
    pub effect: Effect,
    /// Arguments of the call.
    pub args: &'a Value,
}

/// Compiled rules.
#[derive(Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    version: String,
    by_tool: ToolPatterns,
}

#[derive(Debug)]
struct Rule {
    source: PolicyRule,
    reach: RuleReach,
    /// Tools that the rule leaves out.
    except: ToolPatterns,
    when: Option<Expression>,
}

/// Checks that a text is a valid condition of a rule.
///
/// # Errors
/// The fault of the text, with a remedy.
pub fn check_condition(text: &str) -> Result<(), String> {
    condition(text).map(drop)
}

fn condition(text: &str) -> Result<Expression, String> {
    let expression = Expression::compile(text)?;
    expression.expect_variables(&VARIABLES)?;
    expression.expect_members("session", &["id", "taint"])?;
    Ok(expression)
}

impl Policy {
    /// Compiles rules. Equal lists of rules have the same version.
    ///
    /// # Errors
    /// The first pattern that is no glob, or condition that does not compile.
    pub fn compile(rules: Vec<PolicyRule>) -> anyhow::Result<Self> {
        let text = serde_json::to_string(&rules)
            .context("the rules cannot be written as JSON: this is a fault in Umbra, please report it")?;
        let version = blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect();
        let by_tool = by_tool(rules.iter().map(|rule| (rule.name.as_str(), rule.tools.as_slice())))?;
        let compiled = rules.into_iter().map(Rule::compile).collect::<anyhow::Result<_>>()?;
        Ok(Self { rules: compiled, version, by_tool })
    }

    /// Returns the digest of all rules.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Returns the rules about an agent on a route in these modes, whatever tool it calls, in their order.
    pub fn reaching(&self, agent: &str, route: Option<&str>, modes: &[String]) -> impl Iterator<Item = &PolicyRule> {
        let reached = move |rule: &&Rule| rule.reach.matches(agent, route, modes);
        self.rules.iter().filter(reached).map(|rule| &rule.source)
    }

    /// Returns the rules, in their order.
    pub fn rules(&self) -> impl Iterator<Item = &PolicyRule> {
        self.rules.iter().map(|rule| &rule.source)
    }

    /// Judges a call by the rules.
    pub fn judge(&self, asked: &CallFacts<'_>) -> Guard {
        let mut guard = Guard { policy_version: self.version.clone(), ..Guard::default() };
        let variables = variables(asked);
        // Made at the first condition: many calls meet none.
        let mut known = None;
        let (mut holds, mut would): (Option<&PolicyRule>, Option<&PolicyRule>) = (None, None);
        for rule in self.by_tool.restricting(asked.readings).into_iter().filter_map(|index| self.rules.get(index)) {
            if !rule.concerns(asked) {
                continue;
            }
            let source = &rule.source;
            let mut doubt = String::new();
            if let Some(when) = &rule.when {
                match when.holds(known.get_or_insert_with(|| scope(asked.args, &variables))) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => doubt = format!(", because its condition cannot be evaluated: {error}"),
                }
            }
            let (name, mode, verdict) = (&source.name, source.mode.as_str(), source.verdict.as_str());
            guard.explain.push(format!("{name} ({mode}): {verdict}{doubt}"));
            let graver = |known: Option<&PolicyRule>| known.is_none_or(|known| known.verdict < source.verdict);
            if source.mode == PolicyMode::Enforce {
                if graver(holds) {
                    holds = Some(source);
                }
                for taint in &source.taints {
                    if !guard.taints.contains(taint) {
                        guard.taints.push(taint.clone());
                    }
                }
            }
            if graver(would) {
                would = Some(source);
            }
        }
        guard.verdict = holds.map(|rule| rule.verdict).unwrap_or_default();
        guard.would = would.map(|rule| rule.verdict).unwrap_or_default();
        // Of two equal verdicts, the enforced rule is named, not the one in audit mode.
        let would = if guard.would == guard.verdict { holds.or(would) } else { would };
        if let Some(named) = holds.or(would) {
            guard.mode = Some(named.mode);
            guard.rule = Some(named.name.clone());
            guard.reason = Some(named.reason.clone());
            guard.would_rule = would.filter(|would| would.name != named.name).map(|would| would.name.clone());
        }
        guard
    }
}

impl Rule {
    fn compile(source: PolicyRule) -> anyhow::Result<Self> {
        let reach = RuleReach::compile(&source.name, &source.agents, &source.routes, &source.modes)?;
        let except = by_tool(
            [(source.name.as_str(), source.except.as_slice())].into_iter().filter(|(_, tools)| !tools.is_empty()),
        )?;
        let when = source.when.as_deref().map(condition).transpose();
        let when = when.map_err(|error| anyhow!("rule {:?}: when: {error}", source.name))?;
        Ok(Self { source, reach, except, when })
    }

    /// True if the rule is about the call, apart from `tools` and `when`.
    fn concerns(&self, asked: &CallFacts<'_>) -> bool {
        let effects = &self.source.effects;
        (effects.is_empty() || effects.contains(&asked.effect))
            && self.reach.matches(asked.context.agent, asked.context.route, asked.context.modes)
            // Only the sure name of a tool can except it.
            && self.except.permitting_any_server(asked.readings).is_empty()
    }
}

/// Returns the variables of conditions, except the arguments.
fn variables(asked: &CallFacts<'_>) -> [(&'static str, Value); 6] {
    let ToolName { server, name } = asked.tool;
    let AgentContext { agent, route, modes, taints, session } = asked.context;
    [
        ("agent", json!(agent)),
        ("route", json!(route.unwrap_or_default())),
        ("modes", json!(modes)),
        ("tool", json!({"server": server.as_deref().unwrap_or_default(), "name": name})),
        ("effect", json!(asked.effect)),
        ("session", json!({"id": session.unwrap_or_default(), "taint": taints})),
    ]
}

/// Returns the scope of a condition about a call with these arguments.
fn scope<'a>(args: &'a Value, variables: &'a [(&'static str, Value)]) -> EvaluationScope<'a> {
    let mut scope = EvaluationScope::of([("args", args)]);
    for (name, value) in variables {
        scope.set(name, value);
    }
    scope
}

#[cfg(test)]
mod tests;
