//! Calls that a task repeats: the same few tool calls with the same arguments, three times in a row or more. In: the
//! events of a task in their order. Out: a hit on the call that completes the third round, once for each loop. It
//! keeps hashes of the last calls of each agent, never their text.
//!
//! Where each round also brought the same results, the loop is a warning. Where the results differ, the agent may be
//! waiting for something, which is worth knowing and no more.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::domain::{CheckName, Event, FieldName, Hit, Severity};

/// Rounds that make a loop.
const ROUNDS: usize = 3;
/// Most calls in a round.
const LONGEST_ROUND: usize = 4;
/// Agents of a task that are followed; agents choose their names.
const MAX_AGENTS: usize = 100;

/// Looks over a task.
#[derive(Debug, Default)]
pub struct Loops {
    agents: HashMap<String, Calls>,
}

/// One agent's last calls.
#[derive(Debug, Default)]
struct Calls {
    last: VecDeque<Call>,
    /// The loop that is under way was reported.
    reported: bool,
}

/// What was called, and what with its outcome; as hashes.
#[derive(Debug, Clone, Copy)]
struct Call {
    asked: u64,
    outcome: u64,
}

impl Loops {
    /// Looks at the next event of the task.
    pub fn observe(&mut self, event: &Event) -> Option<Hit> {
        let tool = event.tool.as_ref()?;
        if self.agents.len() >= MAX_AGENTS && !self.agents.contains_key(&event.agent) {
            return None;
        }
        let calls = self.agents.entry(event.agent.clone()).or_default();
        // JSON without white space, its keys in order: the same arguments are the same text.
        let asked = hash(&(&tool.name, tool.args.to_string()));
        calls.last.push_back(Call { asked, outcome: hash(&(&tool.result, &tool.error)) });
        if calls.last.len() > ROUNDS * LONGEST_ROUND {
            calls.last.pop_front();
        }
        let Some((round, same)) = calls.looping() else {
            calls.reported = false;
            return None;
        };
        if std::mem::replace(&mut calls.reported, true) {
            return None;
        }
        let what = if round == 1 { "The same call was".to_owned() } else { format!("The same {round} calls were") };
        let results = if same { "the same results each time" } else { "differing results" };
        Some(Hit {
            check: CheckName::Loops,
            rule: "repeated_calls".to_owned(),
            severity: if same { Severity::Warning } else { Severity::Info },
            field: FieldName::fixed("tool.name"),
            start: 0,
            end: tool.name.len(),
            description: format!("{what} made {ROUNDS} times in a row with the same arguments and {results}."),
        })
    }
}

impl Calls {
    /// The shortest round that the last calls repeat, and whether its results repeat as well.
    fn looping(&self) -> Option<(usize, bool)> {
        let newest: Vec<Call> = self.last.iter().rev().copied().collect();
        let repeats = |round: usize, of: fn(&Call) -> u64| {
            let Some(calls) = newest.get(..ROUNDS * round) else { return false };
            calls.iter().zip(calls.iter().skip(round)).all(|(later, earlier)| of(later) == of(earlier))
        };
        let round = (1..=LONGEST_ROUND).find(|round| repeats(*round, |call| call.asked))?;
        Some((round, repeats(round, |call| call.outcome)))
    }
}

fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}
