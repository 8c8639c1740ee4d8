//! Rules with their scope. In: a moment. Out: the rules that apply to it, in the order of the file.

use super::moment::{Moment, MomentSubject};
use umbra_domain::{
    PolicyMode,
    sidecar::{DocumentRule, ModelRule, SidecarVerdict, TextRule},
    tool::ToolPatterns,
};
use umbra_policy::{RuleReach, by_tool};

/// Fields that every kind of rule has.
pub(super) struct RuleHeader<'a> {
    pub name: &'a str,
    pub mode: PolicyMode,
    pub verdict: SidecarVerdict,
    pub reason: &'a str,
    agents: &'a [String],
    routes: &'a [String],
    modes: &'a [String],
    tools: &'a [String],
}

/// A rule of any kind.
pub(super) trait GuardrailRule: Clone {
    /// Returns the fields that every kind of rule has.
    fn head(&self) -> RuleHeader<'_>;
}

/// Builds the head of a rule with these tools.
macro_rules! head {
    ($rule:ident, $tools:expr) => {
        RuleHeader {
            name: &$rule.name,
            mode: $rule.mode,
            verdict: $rule.verdict,
            reason: &$rule.reason,
            agents: &$rule.agents,
            routes: &$rule.routes,
            modes: &$rule.modes,
            tools: $tools,
        }
    };
}

impl GuardrailRule for DocumentRule {
    fn head(&self) -> RuleHeader<'_> {
        head!(self, &self.tools)
    }
}

impl GuardrailRule for TextRule {
    fn head(&self) -> RuleHeader<'_> {
        head!(self, &[])
    }
}

impl GuardrailRule for ModelRule {
    fn head(&self) -> RuleHeader<'_> {
        head!(self, &self.tools)
    }
}

/// Rules of one kind, compiled.
#[derive(Debug)]
pub(super) struct ScopedRules<R> {
    rules: Vec<(R, RuleReach)>,
    by_tool: ToolPatterns,
}

impl<R: GuardrailRule> ScopedRules<R> {
    pub(super) fn compile(rules: &[R]) -> anyhow::Result<Self> {
        let by_tool = by_tool(rules.iter().map(|rule| (rule.head().name, rule.head().tools)))?;
        let compiled = rules.iter().map(|rule| {
            let RuleHeader { name, agents, routes, modes, .. } = rule.head();
            RuleReach::compile(name, agents, routes, modes).map(|reach| (rule.clone(), reach))
        });
        Ok(Self { rules: compiled.collect::<anyhow::Result<_>>()?, by_tool })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Returns the rules for an agent on a route in these modes.
    pub(super) fn reaching(&self, agent: &str, route: Option<&str>, modes: &[String]) -> Vec<R> {
        self.rules
            .iter()
            .filter(|(_, reach)| reach.matches(agent, route, modes))
            .map(|(rule, _)| rule.clone())
            .collect()
    }

    /// Returns the rules that apply to a moment. A rule that names tools applies to calls of these alone.
    pub(super) fn about<'a>(&'a self, moment: &Moment<'_>) -> impl Iterator<Item = &'a R> {
        let called = match moment.subject {
            MomentSubject::Call { tool, .. } => Some(self.by_tool.restricting(&tool.readings())),
            MomentSubject::Turn | MomentSubject::Message { .. } | MomentSubject::Result { .. } => None,
        };
        let is_about = move |place: usize, rule: &R| match &called {
            Some(places) => places.binary_search(&place).is_ok(),
            None => rule.head().tools.is_empty(),
        };
        let reached =
            move |reach: &RuleReach| reach.matches(moment.context.agent, moment.context.route, moment.context.modes);
        let rules = self.rules.iter().enumerate();
        rules.filter(move |(place, (rule, reach))| is_about(*place, rule) && reached(reach)).map(|(_, (rule, _))| rule)
    }
}
