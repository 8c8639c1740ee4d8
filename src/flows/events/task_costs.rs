//! Task costs in a flush: the sums that its events add to, and the cost that each event is decided by.

use std::collections::HashMap;

use crate::flows::{active_configuration::ActiveConfiguration, events::pending::Pending};
use umbra_domain::NanoUsd;
use umbra_store::{StoreError, intake::Flush};

/// Costs of the tasks of a flush.
#[derive(Debug, Default)]
pub(in crate::flows) struct TaskCosts {
    /// Cost of each event's task, the event included; `None` if it is not needed or not known.
    of_events: Vec<Option<NanoUsd>>,
    /// Sums as the flush leaves them.
    sums: HashMap<String, NanoUsd>,
}

impl TaskCosts {
    /// True if an event adds to a sum or is decided by one.
    pub fn concern(pending: &Pending) -> bool {
        pending.cost.is_some() || asks(pending)
    }

    /// Adds the costs of these events, in order of receipt, and reads the sums.
    ///
    /// # Errors
    /// Contention or a lost connection; nothing is stored.
    pub async fn count(flush: &mut Flush, events: &[&Pending]) -> Result<Self, StoreError> {
        let mut added: HashMap<&str, NanoUsd> = HashMap::new();
        for (task, cost) in events.iter().filter_map(|pending| Some((pending.task_id.as_deref()?, pending.cost?))) {
            *added.entry(task).or_default() += cost;
        }
        let asking = events.iter().filter(|pending| asks(pending)).filter_map(|pending| pending.task_id.as_deref());
        let others: Vec<&str> = asking.filter(|task| !added.contains_key(task)).collect();
        if added.is_empty() && others.is_empty() {
            return Ok(Self::default());
        }
        let sums = flush.task_costs(&added, &others).await?;
        // Each event sees the sum before the flush, and the costs in the flush up to the event.
        let mut ahead = added;
        let of_event = |pending: &&Pending| {
            let task = pending.task_id.as_deref()?;
            let sum = *sums.get(task)?;
            let Some(left) = ahead.get_mut(task) else { return Some(sum) };
            *left = *left - pending.cost.unwrap_or_default();
            Some(sum - *left)
        };
        let of_events = events.iter().map(of_event).collect();
        Ok(Self { of_events, sums })
    }

    /// Returns the task cost of an event of the flush, by its position.
    pub fn of(&self, event: usize) -> Option<NanoUsd> {
        self.of_events.get(event).copied().flatten()
    }

    /// Remembers tasks that have passed every floor. Call it after the commit.
    pub fn remember(self, rules: &ActiveConfiguration) {
        for (task, sum) in self.sums {
            rules.passed.note(&task, sum);
        }
    }
}

fn asks(pending: &Pending) -> bool {
    let undecided = |fate: &Result<crate::budget::ReviewCandidate, _>| {
        fate.as_ref().is_ok_and(|candidate| candidate.floor.is_some() && candidate.task_cost.is_none())
    };
    pending.pairs.iter().any(|pair| undecided(&pair.fate))
}
