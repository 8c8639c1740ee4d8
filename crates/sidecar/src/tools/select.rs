//! The choice of tools for a task. In: a catalogue, a memory, limits and a task. Out: tools in order with scores and
//! reasons, and tools that fit and are left out, with why.
//!
//! BM25F (Robertson, Zaragoza, Taylor 2004): the mentions of a word over all fields are added by weight before they saturate.
//! Tasks that succeeded are one more field. Tasks that failed are counted in the same way and take up to half of a score,
//! so a tool that keeps failing sinks and does not vanish.

use std::{
    cmp::Ordering,
    collections::{BinaryHeap, HashSet},
};

use serde::Serialize;

use super::{
    catalogue::{Catalogue, FIELD_NAMES, Tool},
    limits::{Limits, Situation},
    memory::Memory,
};
use crate::words::Task;
use umbra_domain::{GuardVerdict, ToolAnnotations, ToolName};

/// Where the count of a word saturates (k1 of BM25).
const SATURATION: f64 = 1.5;
/// The share of a score that failures can take.
const MOST_FAILED: f64 = 0.5;
/// Most words that a reason names.
const MOST_NAMED: usize = 6;
/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The task.
    pub task: &'a Task,
    /// What came of tools before.
    pub memory: &'a Memory,
    /// What may be offered.
    pub limits: &'a Limits,
    /// To whom, and when.
    pub situation: Situation<'a>,
    /// Most tools that are ranked.
    pub limit: usize,
}

/// Which tools fit.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Selection<'a> {
    /// Tools that fit the task and may be offered, best first: by score, then by name.
    pub ranked: Vec<Ranked<'a>>,
    /// Every tool that may be offered now, whether they fit or not, by name.
    pub allowed: Vec<&'a ToolName>,
    /// Every tool that may not be offered now, by name.
    pub excluded: Vec<Excluded<'a>>,
}

/// A tool that fits.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked<'a> {
    /// Which.
    pub tool: &'a ToolName,
    /// How well: greater is better. Scores of different tasks cannot be compared.
    pub score: f64,
    /// Which words of the task it has, and where; how many tasks like this it was used for before.
    pub reason: String,
    /// What the rules say of it.
    pub guard: GuardVerdict,
    /// What its server claims of it.
    pub annotations: ToolAnnotations,
}

/// A tool that may not be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Excluded<'a> {
    /// Which.
    pub tool: &'a ToolName,
    /// Why.
    pub reason: String,
}

impl Catalogue {
    /// Lists the tools that may be offered, and ranks those that have a word in common with a task. The limits are asked
    /// about each tool.
    pub fn select(&self, request: &Request<'_>) -> Selection<'_> {
        let mut selection = Selection { ranked: Vec::new(), allowed: Vec::new(), excluded: Vec::new() };
        let mut guards = Vec::with_capacity(self.len());
        for tool in self.tools() {
            let guard = request.limits.judge(tool, &request.situation);
            guards.push(guard.as_ref().ok().copied());
            match guard {
                // Tools of one name stand side by side.
                Ok(_) if selection.allowed.last() == Some(&&tool.name) => {}
                Ok(_) => selection.allowed.push(&tool.name),
                Err(reason) => selection.excluded.push(Excluded { tool: &tool.name, reason }),
            }
        }
        // Where a server lists a name twice, one tool that is denied denies the name.
        let denied: HashSet<&ToolName> = selection.excluded.iter().map(|one| one.tool).collect();
        selection.allowed.retain(|name| !denied.contains(name));
        let mut standings = self.standings(request.task, request.memory);
        while selection.ranked.len() < request.limit {
            let Some(Standing { score, place }) = standings.pop() else { break };
            let (Some(tool), Some(Some(guard))) = (self.tool(place), guards.get(place).copied()) else { continue };
            selection.ranked.push(Ranked {
                tool: &tool.name,
                score,
                reason: self.reason(place, tool, request),
                guard,
                annotations: tool.annotations,
            });
        }
        selection
    }

    fn standings(&self, task: &Task, memory: &Memory) -> BinaryHeap<Standing> {
        let mut sums = vec![[0.0; 2]; self.len()];
        let mut having: Vec<(usize, [f64; 2])> = Vec::new();
        // Where the remembered tools stand here, looked up when they are met.
        let mut places = vec![None; memory.len()];
        for word in task.words() {
            having.clear();
            having.extend(self.with(&word.stem).iter().map(|posting| (posting.place, [posting.weight, 0.0])));
            let listed = having.len();
            for (number, weights) in memory.with(&word.stem) {
                let Some(places) = places.get_mut(number) else { continue };
                let places = places.get_or_insert_with(|| self.named(memory.name(number)));
                having.extend(places.clone().map(|place| (place, weights)));
            }
            if having.len() > listed {
                having.sort_by_key(|(place, _)| *place);
                having.dedup_by(|(place, [good, bad]), (first, sum)| {
                    let same = place == first;
                    if same {
                        *sum = [sum[0] + *good, sum[1] + *bad];
                    }
                    same
                });
            }
            let rarity = rarity(self.len(), having.iter().filter(|(_, [good, _])| *good > 0.0).count());
            for (place, weights) in &having {
                let Some(sum) = sums.get_mut(*place) else { continue };
                for (sum, weight) in sum.iter_mut().zip(weights) {
                    *sum += rarity * weight / (SATURATION + weight);
                }
            }
        }
        let standing = |(place, [good, bad]): (usize, [f64; 2])| {
            (good > 0.0).then(|| Standing { score: good * (1.0 - MOST_FAILED * bad / (good + bad)), place })
        };
        sums.into_iter().enumerate().filter_map(standing).collect()
    }

    /// Words of the task and of ours; nothing of what the tool says.
    fn reason(&self, place: usize, tool: &Tool, request: &Request<'_>) -> String {
        let mut parts = Vec::new();
        for word in request.task.words() {
            let postings = self.with(&word.stem);
            let Ok(at) = postings.binary_search_by_key(&place, |posting| posting.place) else { continue };
            let fields = postings.get(at).map_or(0, |posting| posting.fields);
            let names: Vec<&str> = FIELD_NAMES
                .into_iter()
                .enumerate()
                .filter(|(bit, _)| fields & 1 << bit != 0)
                .map(|(_, name)| name)
                .collect();
            parts.push(format!("`{}` in its {}", word.shown, names.join(" and ")));
        }
        if parts.len() > MOST_NAMED {
            let more = parts.len() - MOST_NAMED;
            parts.truncate(MOST_NAMED);
            parts.push(format!("{more} more words"));
        }
        let [succeeded, failed] = request.memory.like(&tool.name.joined(), request.task);
        for (count, outcome) in [(succeeded, "succeeded"), (failed, "failed")] {
            if count > 0 {
                parts.push(format!("{count} like {} {outcome}", if count == 1 { "task" } else { "tasks" }));
            }
        }
        if parts.is_empty() { "words of tasks before".to_owned() } else { parts.join(", ") }
    }
}

/// How much a word says that so many of all tools have.
#[expect(clippy::cast_precision_loss, reason = "counts of tools")]
fn rarity(all: usize, having: usize) -> f64 {
    let (all, having) = (all as f64, having as f64);
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

/// A tool's score. The greatest is the best: by score, then by the earlier place.
#[derive(Debug, Clone, Copy)]
struct Standing {
    score: f64,
    place: usize,
}

impl Ord for Standing {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.place.cmp(&self.place))
    }
}

impl PartialOrd for Standing {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Standing {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Standing {}
