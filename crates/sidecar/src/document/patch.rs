//! Line difference of two texts, to show and to apply again.

use std::{collections::HashMap, hash::Hash};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Lines that are removed, and lines that are added in their place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Hunk {
    /// Number of lines before it in the first text.
    pub at: usize,
    /// Removed lines, with line ends.
    pub removed: Vec<String>,
    /// Added lines, with line ends.
    pub added: Vec<String>,
}

/// Changes that lead from one text to another, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
pub struct Patch(pub Vec<Hunk>);

impl Patch {
    /// Returns a patch from one text to the other, not always the shortest. Lines that occur once in each text are
    /// matched as far as their order allows, together with equal lines around them (B. Cohen's patience diff, without
    /// recursion).
    pub fn between(before: &str, after: &str) -> Self {
        let (old, new): (Vec<&str>, Vec<&str>) =
            (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
        let mut hunks = Vec::new();
        let (mut from, mut to) = (0, 0);
        for (a, b) in align(&old, &new).into_iter().chain([(old.len(), new.len())]) {
            if from < a || to < b {
                let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
                hunks.push(Hunk { at: from, removed: lines(&old[from..a]), added: lines(&new[to..b]) });
            }
            (from, to) = (a + 1, b + 1);
        }
        Self(hunks)
    }

    /// Applies the patch to a text; `None` if the text differs from the patch where a hunk would change it.
    pub fn apply(&self, before: &str) -> Option<String> {
        let lines: Vec<&str> = before.split_inclusive('\n').collect();
        let (mut out, mut from) = (String::with_capacity(before.len()), 0);
        for hunk in &self.0 {
            let to = hunk.at.checked_add(hunk.removed.len())?;
            lines.get(hunk.at..to).filter(|there| hunk.at >= from && *there == hunk.removed)?;
            out.extend(lines[from..hunk.at].iter().copied().chain(hunk.added.iter().map(String::as_str)));
            from = to;
        }
        out.extend(lines[from..].iter().copied());
        Some(out)
    }
}

/// Returns the pairs of indexes at which two sequences have equal elements, in the order of both.
pub(super) fn align<T: Eq + Hash>(old: &[T], new: &[T]) -> Vec<(usize, usize)> {
    let mut seen: HashMap<&T, [Option<usize>; 2]> = HashMap::new();
    let mut twice: HashMap<&T, [bool; 2]> = HashMap::new();
    for (side, lines) in [old, new].into_iter().enumerate() {
        for (at, line) in lines.iter().enumerate() {
            if seen.entry(line).or_default()[side].replace(at).is_some() {
                twice.entry(line).or_default()[side] = true;
            }
        }
    }
    let once = |line: &T| match (seen.get(line), twice.get(line)) {
        (Some([Some(_), Some(b)]), None) => Some(*b),
        _ => None,
    };
    let candidates: Vec<(usize, usize)> =
        old.iter().enumerate().filter_map(|(a, line)| once(line).map(|b| (a, b))).collect();
    let mut pairs: Vec<(usize, usize)> = Vec::new();
    let (mut from_a, mut from_b) = (0, 0);
    for (to_a, to_b) in longest_rising(&candidates).into_iter().chain([(old.len(), new.len())]) {
        // Equal elements behind the last anchor, then equal elements before this one.
        while from_a < to_a && from_b < to_b && old[from_a] == new[from_b] {
            pairs.push((from_a, from_b));
            (from_a, from_b) = (from_a + 1, from_b + 1);
        }
        let equal = (1..=(to_a - from_a).min(to_b - from_b)).take_while(|back| old[to_a - back] == new[to_b - back]);
        let count = equal.count();
        pairs.extend((1..=count).rev().map(|back| (to_a - back, to_b - back)));
        if to_a < old.len() && to_b < new.len() {
            pairs.push((to_a, to_b));
        }
        (from_a, from_b) = (to_a + 1, to_b + 1);
    }
    pairs
}

/// Returns a longest subsequence of pairs, sorted by their first part, that also rises in the second part.
fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the pair with the lowest second part that ends such a sequence; for each pair, its predecessor.
    let (mut ends, mut before): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::with_capacity(pairs.len()));
    for (at, (_, b)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|end| pairs[*end].1 < *b);
        before.push(length.checked_sub(1).map(|last| ends[last]));
        match ends.get_mut(length) {
            Some(end) => *end = at,
            None => ends.push(at),
        }
    }
    let mut out: Vec<_> = std::iter::successors(ends.last().copied(), |at| before[*at]).map(|at| pairs[at]).collect();
    out.reverse();
    out
}
