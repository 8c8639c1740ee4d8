//! Selection of tools. In: a catalogue, a memory, limits and a task. Out: tools in order, with scores and reasons, and
//! excluded tools, with reasons.
//!
//! A score has two parts, each between 0 and 1:
//!
//! 1. By words: BM25F (Robertson, Zaragoza, Taylor 2004), as a share of the score of a tool that has exactly the words
//!    of the task. The mentions of a word over all fields are added by weight before they saturate. Tasks that
//!    succeeded are one more field.
//! 2. By meaning: the cosine of the task and of the tool's name and summary, or of the tasks for which it succeeded.
//!
//! The parts are added. Reciprocal rank fusion, which adds ranks, has fewer right tools among the first three for
//! users' words and for `MetaTool`, and lets a tool that does not fit move two others against each other. Tasks that
//! failed are counted by words and take up to half of a score, so a tool that keeps failing sinks and does not vanish.

use std::collections::HashSet;

use serde::Serialize;

use super::{
    catalogue::{Catalogue, FIELD_NAMES, Tool},
    embedding::Embedding,
    limits::OfferRules,
    memory::Memory,
};
use crate::word_stems::Task;
use umbra_domain::{GuardVerdict, ToolAnnotations, ToolName};
use umbra_policy::AgentContext;

/// Saturation of the count of a word (k1 of BM25).
const SATURATION: f64 = 1.5;
/// Weights of the part by words and of the part by meaning; chosen with `umbra bench tools`.
const PARTS: [f64; 2] = [2.0 / 3.0, 1.0 / 3.0];
/// Cosine up to which two texts count as unrelated.
const STRANGE: f64 = 0.1;
/// Part by meaning from which a tool is called close.
const CLOSE: f64 = 0.3;
/// Largest share of a score that failures can take.
const MOST_FAILED: f64 = 0.5;
/// Most words that a reason names.
const MOST_NAMED: usize = 6;
/// Request for the tools of a task.
#[derive(Debug, Clone, Copy)]
pub struct SelectionRequest<'a> {
    /// The task.
    pub task: &'a Task,
    /// Closeness of each tool in meaning by an embedding model, 0 to 1, in the order of [`Catalogue::summaries`].
    /// Default: by the built-in word vectors.
    pub closeness: Option<&'a [f64]>,
    /// Outcomes of earlier uses of tools.
    pub memory: &'a Memory,
    /// Rules about the tools that may be offered.
    pub limits: &'a OfferRules,
    /// Agent and session that the tools are for.
    pub context: AgentContext<'a>,
    /// Most tools that are ranked for the task.
    pub limit: usize,
    /// Tools that are ranked in addition, whatever the task, if they may be offered.
    pub always: &'a [ToolName],
}

/// Result of a selection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Selection<'a> {
    /// Tools that may be offered, best first: by score, then by name. Tools of [`SelectionRequest::always`] that are
    /// not among the best come last.
    pub ranked: Vec<Ranked<'a>>,
    /// Probability that the first is the right one, 0 to 1.
    pub confidence: f64,
    /// All tools that may be offered now, fitting or not, by name.
    pub allowed: Vec<&'a ToolName>,
    /// All tools that may not be offered now, by name.
    pub excluded: Vec<Excluded<'a>>,
}

/// A tool with its score.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ranked<'a> {
    /// Name of the tool.
    pub tool: &'a ToolName,
    /// Fit, from 0 to 1; greater is better.
    pub score: f64,
    /// Words of the task that the tool has, with their fields, and the number of similar tasks that it was used for.
    pub reason: String,
    /// Verdict of the rules.
    pub guard: GuardVerdict,
    /// Annotations by its server.
    pub annotations: ToolAnnotations,
}

/// A tool that may not be offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Excluded<'a> {
    /// Name of the tool.
    pub tool: &'a ToolName,
    /// Reason.
    pub reason: String,
}

impl<'a> SelectionRequest<'a> {
    /// Creates a request for the ten best tools, for no agent.
    pub fn new(task: &'a Task, memory: &'a Memory, limits: &'a OfferRules) -> Self {
        Self { task, closeness: None, memory, limits, context: AgentContext::default(), limit: 10, always: &[] }
    }
}

impl Catalogue {
    /// Lists the tools that may be offered, and ranks the best of them. The limits are asked about each tool.
    pub fn select(&self, request: &SelectionRequest<'_>) -> Selection<'_> {
        let mut selection =
            Selection { ranked: Vec::new(), confidence: 0.0, allowed: Vec::new(), excluded: Vec::new() };
        let mut guards = Vec::with_capacity(self.len());
        for tool in self.tools() {
            let guard = request.limits.judge(&tool.name, tool.effect, &request.context);
            guards.push(guard.as_ref().ok().copied());
            match guard {
                // Tools of the same name are neighbours.
                Ok(_) if selection.allowed.last() == Some(&&tool.name) => {}
                Ok(_) => selection.allowed.push(&tool.name),
                Err(reason) => selection.excluded.push(Excluded { tool: &tool.name, reason }),
            }
        }
        // If a server lists a name twice, one denied tool denies the name.
        let denied: HashSet<&ToolName> = selection.excluded.iter().map(|one| one.tool).collect();
        selection.allowed.retain(|name| !denied.contains(name));
        let always: HashSet<String> = request.always.iter().map(ToolName::joined).collect();
        let mut offered = Vec::new();
        for standing in self.standings(request) {
            let ScoredTool { score, place, .. } = standing;
            let (Some(tool), Some(Some(guard))) = (self.tool(place), guards.get(place).copied()) else { continue };
            offered.push(score);
            let beside = offered.len() > request.limit;
            if !beside || always.contains(&tool.name.joined()) {
                let reason = self.reason(&standing, tool, request);
                selection.ranked.push(Ranked {
                    tool: &tool.name,
                    score,
                    reason: if beside { format!("always included; {reason}") } else { reason },
                    guard,
                    annotations: tool.annotations,
                });
            } else if always.is_empty() && offered.len() > 1 {
                break;
            }
        }
        selection.confidence = confidence(&offered);
        selection
    }

    /// Ranks all tools, best first, then by place, without those whose texts give orders and whose names have no word
    /// of the task.
    fn standings(&self, request: &SelectionRequest<'_>) -> Vec<ScoredTool> {
        let SelectionRequest { task, memory, closeness, .. } = *request;
        let (sums, most) = self.by_words(task, memory);
        let meant = Embedding::of(task.words());
        let close = |meaning: &Embedding| above(STRANGE, meant.cosine(meaning));
        let given = closeness.filter(|given| given.len() == self.len()).map(<[f64]>::to_vec);
        let mut closest = given.unwrap_or_else(|| self.meanings().iter().map(close).collect());
        for (name, meaning) in memory.meanings() {
            for closest in closest.get_mut(self.named(name)).into_iter().flatten() {
                *closest = closest.max(close(meaning));
            }
        }
        let standing = |(place, ([good, bad], meaning)): (usize, ([f64; 2], f64))| {
            let words = if most > 0.0 { good / most } else { 0.0 };
            let failed = if bad > 0.0 { MOST_FAILED * bad / (good + bad) } else { 0.0 };
            let score = (PARTS[0] * words + PARTS[1] * meaning) * (1.0 - failed);
            let has_meaning = meaning > 0.0 || self.meanings().get(place).is_some_and(Embedding::is_known);
            (good > 0.0 || has_meaning).then_some(ScoredTool { score, place, words: good > 0.0, meaning })
        };
        let mut standings: Vec<ScoredTool> = sums.into_iter().zip(closest).enumerate().filter_map(standing).collect();
        standings.sort_unstable_by(|a, b| b.score.total_cmp(&a.score).then(a.place.cmp(&b.place)));
        standings
    }

    /// Sums the words of a task for and against each tool. Also returns the sum for a tool with exactly these words.
    fn by_words(&self, task: &Task, memory: &Memory) -> (Vec<[f64; 2]>, f64) {
        let (mut sums, mut most) = (vec![[0.0; 2]; self.len()], 0.0);
        let mut having: Vec<(usize, [f64; 2])> = Vec::new();
        // Places of the remembered tools, looked up on first use.
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
            most += rarity;
            for (place, weights) in &having {
                let Some(sum) = sums.get_mut(*place) else { continue };
                for (sum, weight) in sum.iter_mut().zip(weights) {
                    *sum += rarity * weight / (SATURATION + weight);
                }
            }
        }
        (sums, most)
    }

    /// Explains a score in words of the task and fixed words; no text of the tool is used.
    fn reason(&self, standing: &ScoredTool, tool: &Tool, request: &SelectionRequest<'_>) -> String {
        let mut parts = Vec::new();
        for word in request.task.words() {
            let postings = self.with(&word.stem);
            let Ok(at) = postings.binary_search_by_key(&standing.place, |posting| posting.place) else { continue };
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
        if standing.meaning >= CLOSE {
            parts.push("close in meaning".to_owned());
        }
        let [succeeded, failed] = request.memory.like(&tool.name.joined(), request.task);
        for (count, outcome) in [(succeeded, "succeeded"), (failed, "failed")] {
            if count > 0 {
                parts.push(format!("{count} like {} {outcome}", if count == 1 { "task" } else { "tasks" }));
            }
        }
        if !parts.is_empty() {
            return parts.join(", ");
        }
        if standing.words { "words of earlier tasks" } else { "no word in common" }.to_owned()
    }
}

/// Returns the closeness of tools to a task by vectors of an embedding model, 0 to 1, in the order of the tools. A
/// cosine counts as far as it is above the mean of all: models differ in how close they put unrelated texts.
#[expect(clippy::cast_precision_loss, reason = "counts of tools")]
pub fn closeness<'a>(task: &[f32], tools: impl IntoIterator<Item = Option<&'a [f32]>>) -> Vec<f64> {
    let task = Embedding::given(task);
    let cosine = |tool: Option<&[f32]>| tool.map(|tool| task.cosine(&Embedding::given(tool)));
    let cosines: Vec<Option<f64>> = tools.into_iter().map(cosine).collect();
    let known: Vec<f64> = cosines.iter().copied().flatten().collect();
    let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
    cosines.into_iter().map(|cosine| cosine.map_or(0.0, |cosine| above(mean, cosine))).collect()
}

/// Returns the part of a cosine above a floor, as a share of what can be above it.
fn above(floor: f64, cosine: f64) -> f64 {
    if floor < 1.0 { ((cosine - floor) / (1.0 - floor)).clamp(0.0, 1.0) } else { 0.0 }
}

/// Returns the weight of a word by the number of tools that have it (inverse document frequency).
#[expect(clippy::cast_precision_loss, reason = "counts of tools")]
fn rarity(all: usize, having: usize) -> f64 {
    let (all, having) = (all as f64, having as f64);
    (1.0 + (all - having + 0.5) / (having + 0.5)).ln()
}

/// Estimates the probability that the first tool is right, by the scores of the first two: a logistic function, fitted
/// to halves of `MetaTool` and `BFCL`. `umbra bench tools` compares it with the facts.
fn confidence(scores: &[f64]) -> f64 {
    let [first, second] = [0, 1].map(|at| scores.get(at).copied().unwrap_or_default());
    let share = 1.0 / (1.0 + (1.7 - 1.9 * first - 21.0 * (first - second)).exp());
    if first > 0.0 { (share * 1000.0).round() / 1000.0 } else { 0.0 }
}

/// Score of a tool.
#[derive(Debug, Clone, Copy)]
struct ScoredTool {
    score: f64,
    place: usize,
    /// True if the tool, or a task for which it succeeded, has a word of the task.
    words: bool,
    /// Closeness in meaning, 0 to 1.
    meaning: f64,
}
