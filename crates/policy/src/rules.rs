//! Rules about calls. In: the rules of the tools file once, then calls. Out: what the rules say of a call, which of them
//! decided, and why. Pure.
//!
//! The gravest verdict of the rules that match wins (block, ask, warn, allow), so their order decides nothing but who is
//! named. A rule that is only tried (audit) moves what would hold, and nothing else. Where a rule's condition cannot be
//! evaluated, the rule counts: doubt is never a yes.

use serde_json::{Value, json};

use super::{
    expression::{Expression, ExpressionError, Scope},
    reach::{Reach, by_tool},
};
use umbra_domain::{
    Effect, Guard, PolicyMode, PolicyRule, ToolName,
    tool::{Readings, ToolPatterns},
};

/// What a condition may ask about.
pub const VARIABLES: [&str; 7] = ["args", "agent", "route", "modes", "tool", "effect", "session"];

/// Why rules cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
    /// A defect of ours: the rules have no JSON, so no version.
    #[error("the rules cannot be written as JSON ({0}): this is a fault in Umbra, please report it")]
    Unserialisable(#[from] serde_json::Error),
    /// A pattern is no glob.
    #[error("rule {rule:?}: {pattern:?} is no glob: write a name, or a pattern such as github.delete_*")]
    Glob {
        /// The rule.
        rule: String,
        /// The pattern.
        pattern: String,
    },
    /// A condition is no expression.
    #[error("rule {rule:?}: when: {error}")]
    When {
        /// The rule.
        rule: String,
        /// What is wrong with it.
        error: ExpressionError,
    },
}

/// A call, as rules see it.
#[derive(Debug, Clone, Copy)]
pub struct Asked<'a> {
    /// Who calls.
    pub agent: &'a str,
    /// The route that the agent is on, where it has one.
    pub route: Option<&'a str>,
    /// The modes in which it works.
    pub modes: &'a [String],
    /// What is called.
    pub tool: &'a ToolName,
    /// All that it may be.
    pub readings: &'a Readings,
    /// What that does.
    pub effect: Effect,
    /// With which arguments.
    pub args: &'a Value,
    /// What clings to its session: `session.taint` in conditions.
    pub taints: &'a [String],
    /// Its session: `session.id`.
    pub session: Option<&'a str>,
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
    reach: Reach,
    /// Tools that it is not about.
    except: ToolPatterns,
    when: Option<Expression>,
}

/// Whether a text is a condition that a rule may have.
///
/// # Errors
/// What is wrong with it, and what would be right.
pub fn check_condition(text: &str) -> Result<(), ExpressionError> {
    condition(text).map(drop)
}

fn condition(text: &str) -> Result<Expression, ExpressionError> {
    let expression = Expression::compile(text)?;
    expression.expect_variables(&VARIABLES)?;
    expression.expect_members("session", &["id", "taint"])?;
    Ok(expression)
}

impl Policy {
    /// Compiles rules. Two lists of equal rules have one version.
    ///
    /// # Errors
    /// The first pattern that is no glob, or condition that is none.
    pub fn compile(rules: Vec<PolicyRule>) -> Result<Self, BadRule> {
        let text = serde_json::to_string(&rules)?;
        let version = blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect();
        let by_tool = by_tool(rules.iter().map(|rule| (rule.name.as_str(), rule.tools.as_slice())))?;
        let compiled = rules.into_iter().map(Rule::compile).collect::<Result<_, _>>()?;
        Ok(Self { rules: compiled, version, by_tool })
    }

    /// Names the text of all rules.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The rules about an agent on a route in these modes, whatever it calls; in their order.
    pub fn reaching(&self, agent: &str, route: Option<&str>, modes: &[String]) -> impl Iterator<Item = &PolicyRule> {
        let reached = move |rule: &&Rule| rule.reach.has(agent, route, modes);
        self.rules.iter().filter(reached).map(|rule| &rule.source)
    }

    /// The rules, in their order.
    pub fn rules(&self) -> impl Iterator<Item = &PolicyRule> {
        self.rules.iter().map(|rule| &rule.source)
    }

    /// What the rules say of a call.
    pub fn judge(&self, asked: &Asked<'_>) -> Guard {
        let mut guard = Guard { policy_version: self.version.clone(), ..Guard::default() };
        let variables = Variables::of(asked);
        // Made when the first condition is met: many calls meet none.
        let mut scope = None;
        let (mut holds, mut would): (Option<&PolicyRule>, Option<&PolicyRule>) = (None, None);
        for rule in self.by_tool.restricting(asked.readings).into_iter().filter_map(|index| self.rules.get(index)) {
            if !rule.concerns(asked) {
                continue;
            }
            let source = &rule.source;
            let mut doubt = String::new();
            if let Some(when) = &rule.when {
                match when.holds(scope.get_or_insert_with(|| variables.scope(asked.args))) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(error) => doubt = format!(", since its condition cannot be evaluated: {error}"),
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
        // Where a rule in force says as much as one that is tried, it is the one that is named.
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
    fn compile(source: PolicyRule) -> Result<Self, BadRule> {
        let reach = Reach::compile(&source.name, &source.agents, &source.routes, &source.modes)?;
        let except = by_tool(
            [(source.name.as_str(), source.except.as_slice())].into_iter().filter(|(_, tools)| !tools.is_empty()),
        )?;
        let when = source.when.as_deref().map(condition).transpose();
        let when = when.map_err(|error| BadRule::When { rule: source.name.clone(), error })?;
        Ok(Self { source, reach, except, when })
    }

    /// Whether the rule is about such a call, but for its condition and the tool.
    fn concerns(&self, asked: &Asked<'_>) -> bool {
        let effects = &self.source.effects;
        (effects.is_empty() || effects.contains(&asked.effect))
            && self.reach.has(asked.agent, asked.route, asked.modes)
            // Only what a tool surely is excepts it.
            && self.except.permitting_any_server(asked.readings).is_empty()
    }
}

/// What conditions ask about, but for the arguments.
struct Variables {
    agent: Value,
    route: Value,
    modes: Value,
    tool: Value,
    effect: Value,
    session: Value,
}

impl Variables {
    fn of(asked: &Asked<'_>) -> Self {
        let ToolName { server, name } = asked.tool;
        Self {
            agent: json!(asked.agent),
            route: json!(asked.route.unwrap_or_default()),
            modes: json!(asked.modes),
            tool: json!({"server": server.as_deref().unwrap_or_default(), "name": name}),
            effect: json!(asked.effect),
            session: json!({"id": asked.session.unwrap_or_default(), "taint": asked.taints}),
        }
    }

    fn scope<'a>(&'a self, args: &'a Value) -> Scope<'a> {
        let mut scope = Scope::new();
        for (name, value) in [
            ("args", args),
            ("agent", &self.agent),
            ("route", &self.route),
            ("modes", &self.modes),
            ("tool", &self.tool),
            ("effect", &self.effect),
            ("session", &self.session),
        ] {
            scope.set(name, value);
        }
        scope
    }
}

#[cfg(test)]
mod tests;
