//! What runs hand down: whether any of those that a run descends from is in shadow, as it stands at this decision.
//!
//! A run that began in shadow stays there. One that is named and that nobody knows, or that lies too far up, lets nothing be
//! changed: whether calls run there cannot be said.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Boundary, authenticate::authenticate_parents};
use umbra_boundary::execution::{Configured, Descent, Effective, Whose, effective};
use umbra_domain::{Execution, Override, RunRow, ToolName, tool::Readings};
use umbra_store::{
    StoreError,
    decisions::{MOST_GENERATIONS, MOST_PARENTS},
};

/// What runs are judged by.
#[derive(Clone, Copy)]
pub(super) struct Judged<'a> {
    pub configured: &'a Configured,
    pub overrides: &'a [Override],
    pub now: Timestamp,
    /// What is called.
    pub tool: Option<&'a Readings>,
}

impl Judged<'_> {
    fn is_shadow(self, run: &RunRow) -> bool {
        let whose = Whose { agent: Some(&run.agent), session: run.session.as_deref(), tool: self.tool, descent: None };
        run.execution == Execution::Shadow
            || effective(self.configured, self.overrides, whose, self.now).execution == Execution::Shadow
    }
}

/// What the runs hand down that started one: `names` of the next, and what is known of all. A run's name counts for every
/// agent that uses it.
pub(super) fn handed_down(names: Vec<&str>, known: &[RunRow], judged: Judged<'_>) -> Option<Descent> {
    let unknown = |name: &str| Some(Descent::Unknown(name.to_owned()));
    let mut seen: BTreeSet<&str> = names.iter().copied().collect();
    let (mut next, mut doubt) = (names, None);
    for generation in 0..=MOST_GENERATIONS {
        let mut above = Vec::new();
        for name in std::mem::take(&mut next) {
            let mut of_name = known.iter().filter(|run| run.run == name).peekable();
            if of_name.peek().is_none() || generation == MOST_GENERATIONS || known.len() >= MOST_PARENTS {
                // One that is known to be shadow says more.
                doubt = doubt.or_else(|| unknown(name));
                continue;
            }
            for run in of_name {
                if judged.is_shadow(run) {
                    return Some(Descent::Shadow(run.run.clone()));
                }
                above.extend(run.started_by.as_deref().filter(|name| seen.insert(name)));
            }
        }
        next = above;
    }
    doubt
}

impl Boundary {
    /// Whether a call of these would run, and who decides that; `None` where nothing is known of the parent.
    ///
    /// # Errors
    /// The database does not answer.
    pub async fn effective(
        &self,
        agent: Option<&str>,
        session: Option<&str>,
        tool: Option<&str>,
        parent_run: Option<&str>,
    ) -> Result<Option<Effective>, StoreError> {
        let overrides = self.overrides().await?;
        let [agent, session, tool, parent_run] =
            [agent, session, tool, parent_run].map(|name| name.map(|name| self.name_asked_for(name)));
        let [agent, session, tool, parent_run] = [&agent, &session, &tool, &parent_run].map(Option::as_deref);
        let rules = self.rules.load();
        let tool = tool.map(|tool| rules.tools.readings(&ToolName::bare(tool)));
        let tool = tool.as_ref();
        let now = self.clock.now();
        let judged = Judged { configured: &rules.configured, overrides: &overrides, now, tool };
        let descent = match parent_run {
            Some(run) => {
                let parents = self.store.decisions().descent(run).await?;
                handed_down(vec![run], &authenticate_parents(parents, &self.rows, &self.doubts), judged)
            }
            None => None,
        };
        if matches!(descent, Some(Descent::Unknown(_))) {
            return Ok(None);
        }
        let whose = Whose { agent, session, tool, descent: descent.as_ref() };
        Ok(Some(effective(&rules.configured, &overrides, whose, now)))
    }
}
