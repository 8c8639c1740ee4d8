//! An operator's word on effects. In: globs with effects. Out: the effect of a tool, where one of them names it.

use std::collections::HashMap;

use globset::{Glob, GlobMatcher};

use umbra_domain::{
    Effect, EffectOverride, ToolName,
    tool::{canonical, own_part},
};

/// The pattern of an override is no glob.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no glob: write server.tool, or a pattern such as github.get_*")]
pub struct BadGlob(String);

/// Compiled overrides. They go by the whole name, `server.tool`: a pattern for one server says nothing of another's.
#[derive(Debug, Default)]
pub struct Overrides {
    exact: HashMap<String, Effect>,
    /// The gravest by the name alone of a tool, whichever server's.
    anyones: HashMap<String, Effect>,
    /// The most specific first.
    globs: Vec<(GlobMatcher, Effect)>,
}

impl Overrides {
    /// Compiles overrides. A name goes before a glob, a glob with more letters of its own before one with fewer, and
    /// then the first in the list.
    ///
    /// # Errors
    /// A pattern is no glob.
    pub fn compile(overrides: &[EffectOverride]) -> Result<Self, BadGlob> {
        let (mut exact, mut anyones) = (HashMap::new(), HashMap::new());
        let mut globs = Vec::new();
        for EffectOverride { tool, effect } in overrides {
            let wild = |c: char| matches!(c, '*' | '?' | '[' | ']' | '{' | '}' | ',' | '\\');
            let spelled = canonical(tool);
            if tool.contains(wild) {
                let glob = Glob::new(&spelled).map_err(|_| BadGlob(tool.clone()))?;
                globs.push((tool.chars().filter(|c| !wild(*c)).count(), glob.compile_matcher(), *effect));
            } else {
                if let Some(own) = own_part(&spelled) {
                    let gravest = anyones.entry(own.to_owned()).or_insert(*effect);
                    *gravest = (*effect).max(*gravest);
                }
                exact.entry(spelled).or_insert(*effect);
            }
        }
        globs.sort_by_key(|(letters, ..)| std::cmp::Reverse(*letters));
        Ok(Self { exact, anyones, globs: globs.into_iter().map(|(_, glob, effect)| (glob, effect)).collect() })
    }

    /// What the operator says of a tool.
    pub fn of(&self, tool: &ToolName) -> Option<Effect> {
        let name = tool.canonical().whole;
        let globbed = || self.globs.iter().find(|(glob, _)| glob.is_match(&name)).map(|(_, effect)| *effect);
        self.exact.get(&name).copied().or_else(globbed)
    }

    /// The least effect of a tool that names no server, by what the operator says of tools of its name: it may be any of
    /// them.
    pub fn at_least(&self, tool: &ToolName) -> Option<Effect> {
        let tool = tool.canonical();
        if tool.has_server { None } else { self.anyones.get(&tool.own).copied() }
    }
}
