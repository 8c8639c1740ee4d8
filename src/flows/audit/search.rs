//! Search in the audit: rows by names or globs of agents and tools, each tool in any spelling.

use globset::{Glob, GlobMatcher};

use umbra_domain::{
    ToolName,
    nearest::nearest,
    tool::{ToolPatterns, is_wild},
};
use umbra_store::{Store, StoreError, audit::AuditFilter};

/// An audit filter, with patterns of agents and tools that are resolved to names in the audit.
#[derive(Debug)]
pub struct AuditSearch {
    /// All other conditions; [`AuditSearch::resolve`] fills in the names of agents and tools.
    pub filter: AuditFilter,
    agents: Option<(String, GlobMatcher)>,
    tools: Option<(String, ToolPatterns)>,
}

impl AuditSearch {
    /// Returns a search for the agent of this name, or those that match a glob; and for a tool in any spelling, or those
    /// that match a glob.
    pub fn new(mut filter: AuditFilter, agent: Option<String>, tools: Option<(String, ToolPatterns)>) -> Self {
        let mut agents = None;
        match agent.map(|pattern| (Glob::new(&pattern), pattern)) {
            Some((Ok(glob), pattern)) if is_wild(&pattern) => agents = Some((pattern, glob.compile_matcher())),
            Some((_, name)) => filter.agents = Some(vec![name]),
            None => {}
        }
        Self { filter, agents, tools }
    }

    /// Resolves the patterns to the names in rows that are numbered above `after`.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn resolve(&mut self, store: &Store, after: i64) -> Result<(), StoreError> {
        if self.agents.is_none() && self.tools.is_none() {
            return Ok(());
        }
        if self.agents.is_some() {
            self.filter.agents = None;
        }
        self.filter.tools = None;
        let (agents, tools): (Vec<_>, Vec<_>) = store.audit().names(&self.filter, after).await?.into_iter().unzip();
        let matching = |names: Vec<Option<String>>, matches: &dyn Fn(&str) -> bool| {
            let mut names: Vec<String> = names.into_iter().flatten().filter(|name| matches(name)).collect();
            names.sort_unstable();
            names.dedup();
            Some(names)
        };
        if let Some((_, glob)) = &self.agents {
            self.filter.agents = matching(agents, &|name| glob.is_match(name));
        }
        if let Some((_, patterns)) = &self.tools {
            self.filter.tools = matching(tools, &|name| is_of(patterns, name));
        }
        Ok(())
    }

    /// Returns a warning, with the nearest name, for each pattern that no row of the audit matches.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn warnings(&self, store: &Store) -> Result<Vec<String>, StoreError> {
        let agent = match (&self.agents, self.filter.agents.as_deref()) {
            (Some((pattern, _)), _) => Some(pattern),
            (None, Some([name])) => Some(name),
            _ => None,
        };
        if agent.is_none() && self.tools.is_none() {
            return Ok(Vec::new());
        }
        let (agents, tools): (Vec<_>, Vec<_>) =
            store.audit().names(&AuditFilter::default(), 0).await?.into_iter().unzip();
        let warning = |kind: &str, asked: &str, known: &[Option<String>], matches: &dyn Fn(&str) -> bool| {
            if known.iter().flatten().any(|name| matches(name)) {
                return None;
            }
            let near = nearest(asked, known.iter().flatten().map(String::as_str));
            let near = near.map(|name| format!("; the nearest name is {name}")).unwrap_or_default();
            Some(format!("no {kind} of the audit matches {asked}{near}"))
        };
        let of_agent = agent.and_then(|asked| {
            let matches = |name: &str| match &self.agents {
                Some((_, glob)) => glob.is_match(name),
                None => name == asked,
            };
            warning("agent", asked, &agents, &matches)
        });
        let of_tool = self.tools.as_ref();
        let of_tool =
            of_tool.and_then(|(asked, patterns)| warning("tool", asked, &tools, &|name| is_of(patterns, name)));
        Ok(of_agent.into_iter().chain(of_tool).collect())
    }
}

fn is_of(patterns: &ToolPatterns, tool: &str) -> bool {
    !patterns.restricting(&ToolName::bare(tool).readings()).is_empty()
}
