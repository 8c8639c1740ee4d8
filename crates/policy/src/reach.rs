//! Reach of a rule: the agents, routes, modes and tools that it is about. These keys mean the same in every kind of
//! rule. [`RuleReach`] compiles a rule's globs and tells if agent, route and modes match. [`by_tool`] compiles the tool
//! patterns of all rules.

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::rules::BadRule;
use umbra_domain::tool::{BadPattern, ToolPatterns};

/// Agents, routes and modes that a rule is about. A list without patterns matches all.
#[derive(Debug)]
pub struct RuleReach {
    agents: Option<GlobSet>,
    routes: Option<GlobSet>,
    modes: Option<GlobSet>,
}

impl RuleReach {
    /// Compiles the lists of a rule.
    ///
    /// # Errors
    /// The first pattern that is no glob.
    pub fn compile(rule: &str, agents: &[String], routes: &[String], modes: &[String]) -> Result<Self, BadRule> {
        let set = |patterns| glob_set(rule, patterns);
        let above = routes.iter().filter_map(|route| parent_of(route)).map(str::to_owned);
        let routes: Vec<String> = routes.iter().cloned().chain(above).collect();
        Ok(Self { agents: set(agents)?, routes: set(&routes)?, modes: set(modes)? })
    }

    /// True if the rule is about an agent on a route in these modes. Without a route, only an empty list of routes
    /// matches.
    pub fn matches(&self, agent: &str, route: Option<&str>, modes: &[String]) -> bool {
        let among = |set: &Option<GlobSet>, name: &str| set.as_ref().is_none_or(|set| set.is_match(name));
        among(&self.agents, agent)
            && route.map_or(self.routes.is_none(), |route| among(&self.routes, route))
            && self.modes.as_ref().is_none_or(|set| modes.iter().any(|mode| set.is_match(mode)))
    }
}

/// Returns the route above all that a pattern matches, such as `/research` of `/research/*`: the rule is about it, too.
fn parent_of(pattern: &str) -> Option<&str> {
    pattern.strip_suffix("/**").or_else(|| pattern.strip_suffix("/*")).filter(|parent| !parent.is_empty())
}

/// Compiles the tool patterns of rules, each with the place of its rule. A rule without a pattern is for every tool.
///
/// # Errors
/// The first pattern that is no glob.
pub fn by_tool<'a>(rules: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Result<ToolPatterns, BadRule> {
    let (mut patterns, mut names) = (Vec::new(), Vec::new());
    for (place, (name, tools)) in rules.into_iter().enumerate() {
        names.push(name);
        patterns.extend(tools.iter().map(|tool| (tool.as_str(), place)));
        if tools.is_empty() {
            patterns.push(("*", place));
        }
    }
    ToolPatterns::compile(patterns.iter().copied()).map_err(|BadPattern(pattern)| {
        let place = patterns.iter().find(|(known, _)| *known == pattern).map(|(_, place)| *place);
        let rule = place.and_then(|place| names.get(place)).copied().unwrap_or_default().to_owned();
        BadRule::Glob { rule, pattern }
    })
}

fn glob(rule: &str, pattern: &str) -> Result<Glob, BadRule> {
    Glob::new(pattern).map_err(|_| BadRule::Glob { rule: rule.to_owned(), pattern: pattern.to_owned() })
}

/// Compiles globs; `None` without patterns, which matches everything.
pub(super) fn glob_set(rule: &str, patterns: &[String]) -> Result<Option<GlobSet>, BadRule> {
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
