//! Finds the shadows that watch an event, and the trigger of each. Shadows are compiled once; matches come in the order
//! of the configuration. Pure: cost and switched-off shadows are not considered here; `budget` does so, and gives the
//! reason.
//!
//! Rules are compiled once for each configuration: exact names into a map, globs into one automaton. The rules that
//! apply to an agent are computed when it is first seen and remembered, so an event costs one look-up and a bit test
//! for each rule.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, PoisonError, RwLock},
};

use globset::{Glob, GlobSet, GlobSetBuilder};

use umbra_domain::{Event, ReviewScope, Shadow, Trigger, TriggerMark, TriggerSource, WatchRule};

#[cfg(test)]
mod tests;

/// Most agents whose rules are remembered; agents choose their names, so this is bounded.
const REMEMBERED_AGENTS: usize = 10_000;

/// Shadow that watches an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Match {
    /// Position of the shadow in the compiled list.
    pub shadow: usize,
    /// Trigger of the pair: the first declared one that the watch names, else the first derived.
    pub trigger: Trigger,
    matched: TriggerBits,
    /// True if the shadow reviews whole tasks.
    pub of_task: bool,
}

/// Set of triggers: one bit for each trigger code.
type TriggerBits = u8;

/// Compiled watch rules.
#[derive(Debug)]
pub struct Watcher {
    rules: Vec<CompiledWatchRule>,
    /// Rules with an exact name, by name.
    exact: HashMap<String, Vec<usize>>,
    globs: GlobSet,
    /// Rule of each glob in `globs`.
    glob_rules: Vec<usize>,
    seen: RwLock<RulesByAgent>,
}

#[derive(Debug)]
struct CompiledWatchRule {
    shadow: usize,
    interest: Interest,
    except: GlobSet,
    source: WatchRule,
}

/// Rule that applies to an agent, with the conditions that decide most events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Interest {
    rule: usize,
    /// Triggers of the rule; with [`Trigger::All`] where it also matches events without triggers.
    triggers: TriggerBits,
    /// True if its shadow reviews whole tasks: steps of tasks match as well.
    of_tasks: bool,
    /// True if its shadow has a cost floor and is switched on.
    has_floor: bool,
}

/// Rules that apply to the agents seen so far, in the order of the configuration.
#[derive(Debug, Default)]
struct RulesByAgent {
    agents: HashMap<String, Arc<[Interest]>>,
    /// Distinct lists: agents that no rule names share the rules of `*`.
    lists: HashSet<Arc<[Interest]>>,
}

impl Match {
    /// True for a step of a task that does not complete it: it does not match, but may come too late for the task's
    /// review.
    pub fn is_step(&self) -> bool {
        self.matched == 0
    }

    /// Returns every trigger of the event that the watch names, the pair's own first: declared ones, then derived ones.
    /// Each of them cools down.
    pub fn matched(&self, triggers: &[TriggerMark]) -> Vec<Trigger> {
        let by = |declared: bool| {
            triggers
                .iter()
                .filter(move |mark| (mark.source == TriggerSource::Declared) == declared)
                .map(|mark| mark.name)
        };
        let all = by(true).chain(by(false)).chain([Trigger::All]);
        all.filter(|trigger| self.matched & bit(*trigger) != 0).collect()
    }
}

impl Watcher {
    /// Compiles the rules of `shadows`; matches name shadows by position in it.
    ///
    /// # Errors
    /// An agent pattern is not a glob.
    pub fn compile<'a>(shadows: impl IntoIterator<Item = &'a Shadow>) -> Result<Self, globset::Error> {
        let mut rules = Vec::new();
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        let mut globs = GlobSetBuilder::new();
        let mut glob_rules = Vec::new();
        for (shadow, observer) in shadows.into_iter().enumerate() {
            for source in &observer.watch {
                let index = rules.len();
                if source.agent.contains(['*', '?', '[', '{', '\\']) {
                    // Agent names are no paths: `*` matches any characters.
                    globs.add(Glob::new(&source.agent)?);
                    glob_rules.push(index);
                } else {
                    exact.entry(source.agent.clone()).or_default().push(index);
                }
                let without_triggers = source.all.then_some(Trigger::All);
                let of_tasks = observer.scope == ReviewScope::Trajectory;
                let named = bits(source.triggers.iter().copied().chain(without_triggers));
                let triggers = if of_tasks { named & bit(Trigger::TaskComplete) } else { named };
                let has_floor = observer.enabled && observer.cost_control.skip_if_task_cost_below.is_some();
                let interest = Interest { rule: index, triggers, of_tasks, has_floor };
                let mut except = GlobSetBuilder::new();
                for pattern in &source.except {
                    except.add(Glob::new(pattern)?);
                }
                rules.push(CompiledWatchRule { shadow, interest, except: except.build()?, source: source.clone() });
            }
        }
        Ok(Self { rules, exact, globs: globs.build()?, glob_rules, seen: RwLock::default() })
    }

    /// Returns the shadows that watch an event with these triggers, each once, in the order of the configuration.
    pub fn matches(&self, event: &Event, triggers: &[TriggerMark]) -> Vec<Match> {
        let carried = if triggers.is_empty() { bit(Trigger::All) } else { bits(triggers.iter().map(|mark| mark.name)) };
        let mut watching: Vec<Match> = Vec::new();
        for interest in &*self.interests(&event.agent) {
            let matched = interest.triggers & carried;
            if matched == 0 && !(interest.of_tasks && event.task_id.is_some()) {
                continue;
            }
            let Some(rule) = self.rules.get(interest.rule).filter(|rule| rule.admits(event)) else { continue };
            match watching.last_mut() {
                // A shadow's rules are next to each other.
                Some(last) if last.shadow == rule.shadow => last.matched |= matched,
                _ => {
                    let (shadow, of_task) = (rule.shadow, interest.of_tasks);
                    watching.push(Match { shadow, trigger: Trigger::All, matched, of_task });
                }
            }
        }
        for found in &mut watching {
            let named = triggers.iter().filter(|mark| found.matched & bit(mark.name) != 0);
            if let Some(first) = named.min_by_key(|mark| mark.source != TriggerSource::Declared) {
                found.trigger = first.name;
            } else if found.of_task {
                found.trigger = Trigger::TaskComplete;
            }
        }
        watching
    }

    /// True if a shadow with a cost floor watches the agent, even for other triggers than those of the present event.
    pub fn sums_costs_of(&self, agent: &str) -> bool {
        self.interests(agent).iter().any(|interest| interest.has_floor)
    }

    /// Returns the rules that apply to an agent, in the order of the configuration.
    fn interests(&self, agent: &str) -> Arc<[Interest]> {
        if let Some(known) = self.seen.read().unwrap_or_else(PoisonError::into_inner).agents.get(agent) {
            return Arc::clone(known);
        }
        let mut found: Vec<usize> = self.exact.get(agent).cloned().unwrap_or_default();
        found.extend(self.globs.matches(agent).into_iter().filter_map(|glob| self.glob_rules.get(glob)));
        found.sort_unstable();
        let rules = found.into_iter().filter_map(|index| self.rules.get(index));
        let interests = rules.filter(|rule| !rule.except.is_match(agent)).map(|rule| rule.interest).collect();
        self.seen.write().unwrap_or_else(PoisonError::into_inner).remember(agent, interests)
    }
}

impl RulesByAgent {
    fn remember(&mut self, agent: &str, interests: Vec<Interest>) -> Arc<[Interest]> {
        if self.agents.len() >= REMEMBERED_AGENTS {
            *self = Self::default();
        }
        let list = self.lists.get(&*interests).cloned().unwrap_or_else(|| interests.into());
        self.lists.insert(Arc::clone(&list));
        self.agents.insert(agent.to_owned(), Arc::clone(&list));
        list
    }
}

impl CompiledWatchRule {
    /// Checks the conditions beyond agent and trigger. An unknown cost passes `min_cost`, as it passes the floor.
    fn admits(&self, event: &Event) -> bool {
        let WatchRule { task_type, min_cost, metadata, .. } = &self.source;
        task_type.as_ref().is_none_or(|wanted| event.task_type.as_ref() == Some(wanted))
            && min_cost.is_none_or(|least| event.floor_cost().is_none_or(|cost| cost >= least))
            && metadata.iter().all(|(key, value)| event.metadata.get(key) == Some(value))
    }
}

fn bit(trigger: Trigger) -> TriggerBits {
    1 << trigger.code()
}

fn bits(triggers: impl IntoIterator<Item = Trigger>) -> TriggerBits {
    triggers.into_iter().fold(0, |bits, trigger| bits | bit(trigger))
}
