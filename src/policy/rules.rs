//! Rules about calls. In: the rules of the tools file once, then calls. Out: what the rules say of a call, which of them
//! decided, and why. Pure.
//!
//! The gravest verdict of the rules that match wins (block, ask, warn, allow), so their order decides nothing but who is
//! named. A rule that is only tried (audit) moves what would hold, and nothing else. Where a rule's condition cannot be
//! evaluated, the rule counts: doubt is never a yes.

use std::collections::HashMap;

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::{Value, json};

use super::expression::{Expression, ExpressionError, Scope};
use crate::domain::{
    Effect, Guard, PolicyMode, PolicyRule, ToolName,
    tool::{canonical, own_part},
};

/// What a condition may ask about.
pub const VARIABLES: [&str; 7] = ["args", "agent", "route", "modes", "tool", "effect", "session"];

/// Why rules cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum BadRule {
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
    /// Rules for every tool.
    any: Vec<usize>,
    /// By the tools that they name.
    named: Named,
    /// By the names alone of the tools that they name, whichever server's: for calls that do not say whose tool it is.
    anyones: Named,
}

/// Rules by names and globs, in their canonical spelling.
#[derive(Debug, Default)]
struct Named {
    exact: HashMap<String, Vec<usize>>,
    globs: GlobSet,
    /// The rule of each glob in `globs`.
    glob_rules: Vec<usize>,
}

#[derive(Debug)]
struct Rule {
    source: PolicyRule,
    agents: Option<GlobSet>,
    routes: Option<GlobSet>,
    modes: Option<GlobSet>,
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
    Ok(expression)
}

impl Policy {
    /// Compiles rules. Two lists of equal rules have one version.
    ///
    /// # Errors
    /// The first pattern that is no glob, or condition that is none.
    pub fn compile(rules: Vec<PolicyRule>) -> Result<Self, BadRule> {
        let text = serde_json::to_string(&rules).unwrap_or_default();
        let version = blake3::hash(text.as_bytes()).to_hex().chars().take(16).collect();
        let (mut any, mut named, mut anyones) = (Vec::new(), Vec::new(), Vec::new());
        let mut compiled = Vec::with_capacity(rules.len());
        for (index, source) in rules.into_iter().enumerate() {
            if source.tools.is_empty() || source.tools.iter().any(|tool| tool == "*") {
                any.push(index);
            }
            for tool in source.tools.iter().filter(|tool| *tool != "*") {
                glob(&source.name, tool)?;
                let tool = canonical(tool);
                anyones.extend(own_part(&tool).map(|own| (own.to_owned(), index)));
                named.push((tool, index));
            }
            compiled.push(Rule {
                agents: glob_set(&source.name, &source.agents)?,
                routes: glob_set(&source.name, &source.routes)?,
                modes: glob_set(&source.name, &source.modes)?,
                when: match &source.when {
                    Some(text) => {
                        Some(condition(text).map_err(|error| BadRule::When { rule: source.name.clone(), error })?)
                    }
                    None => None,
                },
                source,
            });
        }
        Ok(Self { rules: compiled, version, any, named: Named::of(named)?, anyones: Named::of(anyones)? })
    }

    /// Names the text of all rules.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What the rules say of a call.
    pub fn judge(&self, asked: &Asked<'_>) -> Guard {
        let mut guard = Guard { policy_version: self.version.clone(), ..Guard::default() };
        let variables = Variables::of(asked);
        // Made when the first condition is met: many calls meet none.
        let mut scope = None;
        let (mut holds, mut would): (Option<&PolicyRule>, Option<&PolicyRule>) = (None, None);
        for rule in self.candidates(asked.tool).into_iter().filter_map(|index| self.rules.get(index)) {
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

    /// The rules that may concern a tool, in the order of the file. A pattern is tried on `server.tool` and on the tool's
    /// name alone, so that `delete_*` holds for every server's. A tool that names no server is held to the rules for every
    /// server's tool of its name: leaving the server out skips nothing.
    fn candidates(&self, tool: &ToolName) -> Vec<usize> {
        let tool = tool.canonical();
        let mut found = self.any.clone();
        found.extend(self.named.matching(&tool.whole));
        if tool.has_server {
            found.extend(self.named.matching(&tool.own));
        } else {
            found.extend(self.anyones.matching(&tool.own));
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Named {
    fn of(patterns: Vec<(String, usize)>) -> Result<Self, BadRule> {
        let (mut named, mut globs) = (Self::default(), GlobSetBuilder::new());
        for (pattern, rule) in patterns {
            if pattern.contains(['*', '?', '[', '{', '\\']) {
                globs.add(glob("", &pattern)?);
                named.glob_rules.push(rule);
            } else {
                named.exact.entry(pattern).or_default().push(rule);
            }
        }
        named.globs =
            globs.build().map_err(|_| BadRule::Glob { rule: String::new(), pattern: "all of them".to_owned() })?;
        Ok(named)
    }

    fn matching(&self, name: &str) -> impl Iterator<Item = &usize> {
        let globbed = self.globs.matches(name).into_iter().filter_map(|glob| self.glob_rules.get(glob));
        self.exact.get(name).into_iter().flatten().chain(globbed)
    }
}

impl Rule {
    /// Whether the rule is about such a call, but for its condition and the tool.
    fn concerns(&self, asked: &Asked<'_>) -> bool {
        let among = |set: &Option<GlobSet>, name: &str| set.as_ref().is_none_or(|set| set.is_match(name));
        let effects = &self.source.effects;
        (effects.is_empty() || effects.contains(&asked.effect))
            && among(&self.agents, asked.agent)
            && asked.route.map_or(self.routes.is_none(), |route| among(&self.routes, route))
            && self.modes.as_ref().is_none_or(|set| asked.modes.iter().any(|mode| set.is_match(mode)))
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

fn glob(rule: &str, pattern: &str) -> Result<Glob, BadRule> {
    Glob::new(pattern).map_err(|_| BadRule::Glob { rule: rule.to_owned(), pattern: pattern.to_owned() })
}

/// `None` where there is no pattern, which matches everything.
fn glob_set(rule: &str, patterns: &[String]) -> Result<Option<GlobSet>, BadRule> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(glob(rule, pattern)?);
    }
    let built = set.build();
    built.map(Some).map_err(|_| BadRule::Glob { rule: rule.to_owned(), pattern: patterns.join(", ") })
}

#[cfg(test)]
mod tests;
