//! What may be offered. In: rules, allowed tools and the gravest effect, once; then a tool and the situation. Out: what the
//! rules say of it, or why it is not offered.

use globset::{Glob, GlobSet, GlobSetBuilder};
use serde_json::Value;

use super::catalogue::Tool;
use crate::{
    domain::{
        Effect, GuardVerdict, PolicyRule, ToolAnnotations, ToolName,
        tool::{canonical, plain_tool_name},
    },
    policy::{Asked, BadRule, Expression, Policy},
};

/// Why limits cannot be compiled.
#[derive(Debug, thiserror::Error)]
pub enum BadLimits {
    /// A rule is none.
    #[error(transparent)]
    Rule(#[from] BadRule),
    /// A pattern of the allowed tools is no glob.
    #[error("{0:?} is no glob: write a tool's name, or a pattern such as github.get_*")]
    Allowed(String),
}

/// What may be offered.
#[derive(Debug)]
pub struct Limits {
    policy: Policy,
    /// Without one, every tool is allowed.
    allowed: Option<GlobSet>,
    most: Effect,
}

/// Who asks, and how things stand.
#[derive(Debug, Clone, Copy, Default)]
pub struct Situation<'a> {
    /// The agent.
    pub agent: &'a str,
    /// The route that it is on, where it has one.
    pub route: Option<&'a str>,
    /// The modes in which it works.
    pub modes: &'a [String],
    /// What clings to its session.
    pub taints: &'a [String],
    /// Its session.
    pub session: Option<&'a str>,
}

impl Limits {
    /// Limits by rules, by patterns of which a tool must match one (none allow all), and by the gravest effect that a
    /// tool may have. Rules that ask for arguments are left to the guard of the call: nobody has chosen them yet.
    ///
    /// # Errors
    /// The first rule or pattern that cannot be compiled.
    pub fn of(rules: &[PolicyRule], allowed: &[String], most: Effect) -> Result<Self, BadLimits> {
        let asks_arguments = |rule: &&PolicyRule| {
            let when = rule.when.as_deref().and_then(|when| Expression::compile(when).ok());
            when.is_some_and(|when| when.variables().any(|name| name == "args"))
        };
        let rules = rules.iter().filter(|rule| !asks_arguments(rule)).cloned().collect();
        let mut globs = GlobSetBuilder::new();
        for pattern in allowed {
            globs.add(Glob::new(&canonical(pattern)).map_err(|_| BadLimits::Allowed(pattern.clone()))?);
        }
        let globs = globs.build().map_err(|_| BadLimits::Allowed(allowed.join(", ")))?;
        Ok(Self { policy: Policy::compile(rules)?, allowed: (!allowed.is_empty()).then_some(globs), most })
    }

    /// Whether a tool may be named to an agent at all.
    pub fn allows(&self, name: &ToolName, effect: Effect, situation: &Situation<'_>) -> bool {
        let tool = Tool {
            name: name.clone(),
            description: String::new(),
            parameters: Vec::new(),
            effect,
            annotations: ToolAnnotations::default(),
        };
        self.judge(&tool, situation).is_ok()
    }

    /// What the rules say of a tool that may be offered.
    ///
    /// # Errors
    /// Why it may not.
    pub(super) fn judge(&self, tool: &Tool, situation: &Situation<'_>) -> Result<GuardVerdict, String> {
        let name = &tool.name;
        if std::iter::once(&name.name).chain(&name.server).any(|name| plain_tool_name(name).is_err()) {
            return Err("its name has characters that cannot be seen or told apart".to_owned());
        }
        let guard = self.policy.judge(&Asked {
            agent: situation.agent,
            route: situation.route,
            modes: situation.modes,
            tool: name,
            effect: tool.effect,
            args: &Value::Null,
            taints: situation.taints,
            session: situation.session,
        });
        if guard.verdict == GuardVerdict::Block {
            let (rule, reason) = (guard.rule.unwrap_or_default(), guard.reason.unwrap_or_default());
            return Err(format!("denied by the rule {rule}: {reason}"));
        }
        // A pattern for one server's tool does not allow a tool of which nobody says whose it is.
        let spelled = name.canonical();
        let among = |globs: &GlobSet| globs.is_match(&spelled.whole) || globs.is_match(&spelled.own);
        if !self.allowed.as_ref().is_none_or(among) {
            return Err("not among the allowed tools".to_owned());
        }
        if tool.effect > self.most {
            let (effect, most) = (tool.effect.as_str(), self.most.as_str());
            return Err(format!("its effect is {effect}, and at most {most} is offered here"));
        }
        Ok(guard.verdict)
    }
}
