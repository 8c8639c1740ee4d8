//! Reach of a rule: the agents, routes, modes and tools that it is about. These keys mean the same in every kind of
//! rule. [`RuleReach`] compiles a rule's globs and tells if agent, route and modes match. [`by_tool`] compiles the tool
//! patterns of all rules.

use anyhow::anyhow;
use globset::{Glob, GlobSet, GlobSetBuilder};

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
    pub fn compile(rule: &str, agents: &[String], routes: &[String], modes: &[String]) -> anyhow::Result<Self> {
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
pub fn by_tool<'a>(rules: impl IntoIterator<Item = (&'a str, &'a [String])>) -> anyhow::Result<ToolPatterns> {
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
        no_glob(place.and_then(|place| names.get(place)).copied().unwrap_or_default(), &pattern)
    })
}

fn no_glob(rule: &str, pattern: &str) -> anyhow::Error {
    anyhow!("rule {rule:?}: {pattern:?} is not a glob: write a name, or a pattern such as github.delete_*")
}

/// Compiles globs; `None` without patterns, which matches everything.
fn glob_set(rule: &str, patterns: &[String]) -> anyhow::Result<Option<GlobSet>> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(Glob::new(pattern).map_err(|_| no_glob(rule, pattern))?);
    }
    set.build().map(Some).map_err(|_| no_glob(rule, &patterns.join(", ")))
}
