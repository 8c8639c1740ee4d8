//! Patterns as the choice of tools remembers them. In: patterns. Out: tasks for which tools succeeded or failed.

use std::collections::BTreeSet;

use crate::tools::{Memory, Task};
use umbra_domain::{Pattern, PatternStatus};

/// Tasks that are remembered of a tool. With so many the right tool stood first for two of three requests of a public set
/// (`umbra bench tools`), and more brought little.
const MOST_OF_A_TOOL: usize = 20;

/// What these patterns say of tools, whatever their order: each tool of a pattern once, as a success where it went well at
/// least as often as not, as a failure where it failed as often. What is retired counts, what is quarantined does not. Where a
/// tool has too many, those remain that were used most, then the latest.
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
