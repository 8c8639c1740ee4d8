//! Memory of patterns for the selection of tools. In: patterns. Out: tasks for which tools succeeded or failed.

use std::collections::BTreeSet;

use crate::tools::{Memory, Task};
use umbra_domain::{Pattern, PatternStatus};

/// Most tasks that are remembered of a tool. With that many, the right tool came first for two of three requests of a
/// public set (`umbra bench tools`); more brought little.
const MOST_OF_A_TOOL: usize = 20;

/// Builds the memory of tools from patterns, whatever their order. Each tool of a pattern counts once: as a success if
/// the pattern succeeded at least as often as it failed, as a failure if it failed at least as often. Retired patterns
/// count, quarantined ones do not. If a tool has too many patterns, the most used remain, then the latest.
pub fn memory(patterns: &[Pattern]) -> Memory {
    let mut counted: Vec<&Pattern> =
        patterns.iter().filter(|pattern| pattern.status != PatternStatus::Quarantined).collect();
    counted.sort_by_key(|pattern| (pattern.uses(), pattern.provenance.at, pattern.id));
    let mut memory = Memory::new(MOST_OF_A_TOOL);
    for pattern in counted {
        let task = Task::of(&pattern.task);
        let (successes, failures) = (pattern.successes, pattern.failures);
        let outcomes = [(true, successes > 0 && successes >= failures), (false, failures > 0 && failures >= successes)];
        let mut met = BTreeSet::new();
        for tool in pattern.tools.iter().filter(|tool| met.insert(tool.joined())) {
            for (succeeded, _) in outcomes.into_iter().filter(|(_, holds)| *holds) {
                memory.record(tool, &task, succeeded);
            }
        }
    }
    memory
}
