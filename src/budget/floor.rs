//! Cost floor: skips an event whose task has cost less than the shadow's floor. The task's cost is the one that the
//! event states, else the sum over the task's events, which the flush knows, else the event's own; an unknown cost
//! passes.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use umbra_domain::{Event, NanoUsd, Shadow};

/// Most tasks that are remembered; agents choose their names, so this is bounded.
const REMEMBERED: usize = 50_000;

/// Cost of an event's task, as far as it is known when the event arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskCost {
    /// Known cost; `None` where nothing is known, even later.
    Known(Option<NanoUsd>),
    /// Least cost, the event's own, if that is known; the sum over the task's events decides.
    Summed(Option<NanoUsd>),
}

/// Outcome of a comparison with the floor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FloorCheck {
    /// The task has cost enough, or there is no floor.
    Passed,
    /// The task has cost less than the floor.
    Below,
    /// The sum over the task's events decides.
    Undecided,
}

impl TaskCost {
    /// Returns the cost that the event itself states.
    pub fn of(event: &Event) -> Self {
        match (event.task_cost_usd, &event.task_id) {
            (Some(cost), _) => Self::Known(Some(cost)),
            (None, Some(_)) => Self::Summed(event.cost_usd),
            (None, None) => Self::Known(event.cost_usd),
        }
    }

    /// Compares the cost with a shadow's floor.
    pub fn check(self, shadow: &Shadow) -> FloorCheck {
        let Some(floor) = shadow.cost_control.skip_if_task_cost_below else { return FloorCheck::Passed };
        match self {
            Self::Known(cost) if cost.is_none_or(|cost| cost >= floor) => FloorCheck::Passed,
            Self::Known(_) => FloorCheck::Below,
            Self::Summed(own) if own.is_some_and(|own| own >= floor) => FloorCheck::Passed,
            Self::Summed(_) => FloorCheck::Undecided,
        }
    }
}

/// Tasks that have cost as much as the highest floor in force: no sums are needed for them any more. Each configuration
/// has its own, empty at a reload.
#[derive(Debug, Default)]
pub struct PassedTasks {
    highest: Option<NanoUsd>,
    tasks: Mutex<HashSet<String>>,
}

impl PassedTasks {
    /// Returns an empty set under these shadows.
    pub fn under<'a>(shadows: impl IntoIterator<Item = &'a Shadow>) -> Self {
        let enabled = shadows.into_iter().filter(|shadow| shadow.enabled);
        let highest = enabled.filter_map(|shadow| shadow.cost_control.skip_if_task_cost_below).max();
        Self { highest, tasks: Mutex::default() }
    }

    /// True if the task has cost enough for every floor, or there is no floor.
    pub fn contains(&self, task: &str) -> bool {
        self.highest.is_none() || self.tasks.lock().unwrap_or_else(PoisonError::into_inner).contains(task)
    }

    /// Remembers a task whose events cost this much by a committed sum.
    pub fn note(&self, task: &str, cost: NanoUsd) {
        if self.highest.is_some_and(|highest| cost >= highest) {
            let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
            if tasks.len() >= REMEMBERED {
                tasks.clear();
            }
            tasks.insert(task.to_owned());
        }
    }
}
