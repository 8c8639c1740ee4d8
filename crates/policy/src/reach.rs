//! Whom and what a rule is about. In: names and globs once, then who acts and which tool it calls. Out: whether a rule is
//! about it. One meaning of `agents`, `routes`, `modes` and `tools` for every kind of rule.

use std::collections::HashMap;

use globset::{Glob, GlobSet, GlobSetBuilder};

use super::rules::BadRule;
use umbra_domain::{
    ToolName,
    tool::{canonical, own_part},
};

/// Whom a rule is about: agents, routes and modes. A list without patterns is about all.
#[derive(Debug)]
pub struct Reach {
    agents: Option<GlobSet>,
    routes: Option<GlobSet>,
    modes: Option<GlobSet>,
}

impl Reach {
    /// Of the lists of a rule.
    ///
    /// # Errors
    /// The first pattern that is no glob.
    pub fn compile(rule: &str, agents: &[String], routes: &[String], modes: &[String]) -> Result<Self, BadRule> {
        let set = |patterns| glob_set(rule, patterns);
        Ok(Self { agents: set(agents)?, routes: set(routes)?, modes: set(modes)? })
    }

    /// Whether the rule is about an agent on a route in these modes. Without a route it is on none.
    pub fn has(&self, agent: &str, route: Option<&str>, modes: &[String]) -> bool {
        let among = |set: &Option<GlobSet>, name: &str| set.as_ref().is_none_or(|set| set.is_match(name));
        among(&self.agents, agent)
            && route.map_or(self.routes.is_none(), |route| among(&self.routes, route))
            && self.modes.as_ref().is_none_or(|set| modes.iter().any(|mode| set.is_match(mode)))
    }
}

/// Rules by the tools that they name; a rule is known by its place.
#[derive(Debug)]
pub struct ToolIndex {
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

impl ToolIndex {
    /// Of rules, each with its name and its patterns. One without a pattern is for every tool.
    ///
    /// # Errors
    /// The first pattern that is no glob.
    pub fn compile<'a>(rules: impl IntoIterator<Item = (&'a str, &'a [String])>) -> Result<Self, BadRule> {
        let (mut any, mut named, mut anyones) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (name, tools)) in rules.into_iter().enumerate() {
            if tools.is_empty() || tools.iter().any(|tool| tool == "*") {
                any.push(index);
            }
            for tool in tools.iter().filter(|tool| *tool != "*") {
                glob(name, tool)?;
                let tool = canonical(tool);
                anyones.extend(own_part(&tool).map(|own| (own.to_owned(), index)));
                named.push((tool, index));
            }
        }
        Ok(Self { any, named: Named::of(named)?, anyones: Named::of(anyones)? })
    }

    /// The rules that may concern a tool, in their order. A pattern is tried on `server.tool` and on the tool's name
    /// alone, so that `delete_*` holds for every server's. A tool that names no server is held to the rules for every
    /// server's tool of its name: leaving the server out skips nothing. So is one to whose name servers are glued, as
    /// clients and proxies do that have one list of tools (`mail__send`, `mcp__proxy__mail__send`).
    pub fn candidates(&self, tool: &ToolName) -> Vec<usize> {
        let mut found = self.any.clone();
        for tool in tool.readings().map(|tool| tool.canonical()) {
            found.extend(self.named.matching(&tool.whole));
            if tool.has_server {
                found.extend(self.named.matching(&tool.own));
            } else {
                found.extend(self.anyones.matching(&tool.own));
            }
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

fn glob(rule: &str, pattern: &str) -> Result<Glob, BadRule> {
    Glob::new(pattern).map_err(|_| BadRule::Glob { rule: rule.to_owned(), pattern: pattern.to_owned() })
}

/// `None` where there is no pattern, which matches everything.
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
