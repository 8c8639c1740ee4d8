//! Memory of earlier uses of tools. In: tasks for which a tool was used, and whether it succeeded. Out: for a word, the
//! tools that have it in such tasks; for a tool, how many similar tasks succeeded and failed.

use std::collections::{HashMap, VecDeque};

use super::{catalogue::length_norm, embedding::Embedding};
use crate::word_stems::{LIKE, Task};
use umbra_domain::ToolName;

/// Weight of a word in one remembered task of a tool. Chosen like the weights of fields.
const WEIGHT: f64 = 0.6;
/// Length normalization for tools with much memory (b of BM25).
const LENGTH: f64 = 0.6;
/// Most tools that are remembered.
const MOST_TOOLS: usize = 20_000;

/// Memory of tools: the latest few tasks of each.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    most_of_a_tool: usize,
    tools: Vec<ToolMemory>,
    named: HashMap<String, usize>,
    /// Tools whose tasks have a stem, by stem, in the order of `tools`, with the number of such tasks.
    stems: HashMap<String, Vec<(usize, Tally)>>,
    /// Sums over all tools, by outcome.
    totals: [Total; 2],
}

/// Counts by outcome: successes, then failures.
pub(super) type Tally = [u32; 2];

#[derive(Debug, Clone, Default)]
struct ToolMemory {
    /// Name in its canonical spelling.
    name: String,
    /// Tasks, oldest first, and true for each that succeeded.
    tasks: VecDeque<(Task, bool)>,
    /// Number of words of its tasks, by outcome.
    lengths: [usize; 2],
    /// Direction of the tasks that succeeded.
    meaning: Embedding,
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    words: usize,
    tools: usize,
}

impl Memory {
    /// Creates an empty memory that keeps this many tasks of each tool.
    pub fn new(most_of_a_tool: usize) -> Self {
        Self { most_of_a_tool, ..Self::default() }
    }

    /// Records the outcome of using a tool for a task. If the tool has too many tasks, its oldest is dropped. A task
    /// without words, and a tool beyond the first twenty thousand, are not recorded.
    pub fn record(&mut self, tool: &ToolName, task: &Task, succeeded: bool) {
        let name = tool.joined();
        let known = self.named.get(&name).copied();
        if task.words().is_empty() || self.most_of_a_tool == 0 || known.is_none() && self.tools.len() == MOST_TOOLS {
            return;
        }
        let at = known.unwrap_or_else(|| {
            self.named.insert(name.clone(), self.tools.len());
            self.tools.push(ToolMemory { name, ..ToolMemory::default() });
            self.tools.len() - 1
        });
        let Some(tool) = self.tools.get_mut(at) else { return };
        let oldest = if tool.tasks.len() == self.most_of_a_tool { tool.tasks.pop_front() } else { None };
        tool.tasks.push_back((task.clone(), succeeded));
        self.count(at, task, succeeded, true);
        if let Some((task, succeeded)) = &oldest {
            self.count(at, task, *succeeded, false);
        }
        let Some(tool) = self.tools.get_mut(at) else { return };
        let mut known = tool.tasks.len() - 1;
        if oldest.is_some() {
            (tool.meaning, known) = (Embedding::default(), 0);
        }
        for (task, _) in tool.tasks.iter().skip(known).filter(|(_, succeeded)| *succeeded) {
            tool.meaning.turn(1.0, &Embedding::of(task.words()));
        }
    }

    /// Adds a task to the counts, or removes it.
    fn count(&mut self, at: usize, task: &Task, succeeded: bool, add: bool) {
        let side = usize::from(!succeeded);
        let Some(tool) = self.tools.get_mut(at) else { return };
        let (length, total) = (&mut tool.lengths[side], &mut self.totals[side]);
        let had = *length > 0;
        let words = task.words().len();
        if add {
            *length += words;
            total.words += words;
            total.tools += usize::from(!had);
        } else {
            *length -= words;
            total.words -= words;
            total.tools -= usize::from(*length == 0);
        }
        for word in task.words() {
            let tools = self.stems.entry(word.stem.clone()).or_default();
            let place = tools.binary_search_by_key(&at, |(tool, _)| *tool);
            let place = place.unwrap_or_else(|place| {
                tools.insert(place, (at, [0; 2]));
                place
            });
            let Some((_, tally)) = tools.get_mut(place) else { continue };
            tally[side] = if add { tally[side] + 1 } else { tally[side].saturating_sub(1) };
            if *tally == [0, 0] {
                tools.remove(place);
            }
            if tools.is_empty() {
                self.stems.remove(&word.stem);
            }
        }
    }

    /// Returns the number of remembered tools. They are numbered in the order of their first use.
    pub(super) fn len(&self) -> usize {
        self.tools.len()
    }

    /// Returns the canonical name of a remembered tool.
    pub(super) fn name(&self, number: usize) -> &str {
        self.tools.get(number).map_or("", |tool| &tool.name)
    }

    /// Returns the tools that have a word in their tasks, by number, with its weight for and against each.
    pub(super) fn with(&self, stem: &str) -> impl Iterator<Item = (usize, [f64; 2])> {
        let averages = self.totals.map(Total::average);
        self.stems.get(stem).into_iter().flatten().filter_map(move |(number, tally)| {
            let tool = self.tools.get(*number)?;
            let weight =
                |side: usize| WEIGHT * f64::from(tally[side]) / length_norm(LENGTH, tool.lengths[side], averages[side]);
            Some((*number, [weight(0), weight(1)]))
        })
    }

    /// Returns the canonical name of each tool, with the direction of its tasks that succeeded.
    pub(super) fn meanings(&self) -> impl Iterator<Item = (&str, &Embedding)> {
        self.tools.iter().map(|tool| (tool.name.as_str(), &tool.meaning))
    }

    /// Counts the remembered tasks of a tool that are like this one.
    pub(super) fn like(&self, canonical: &str, task: &Task) -> Tally {
        let mut tally = [0; 2];
        let tool = self.named.get(canonical).and_then(|at| self.tools.get(*at));
        for (known, succeeded) in tool.into_iter().flat_map(|tool| &tool.tasks) {
            tally[usize::from(!succeeded)] += u32::from(known.likeness(task) >= LIKE);
        }
        tally
    }
}

impl Total {
    #[expect(clippy::cast_precision_loss, reason = "counts of words")]
    fn average(self) -> f64 {
        self.words as f64 / self.tools.max(1) as f64
    }
}
