//! Line difference of two texts, to show and to apply again.

use std::{collections::HashMap, fmt::Write as _, hash::Hash};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Lines shown around a change.
const CONTEXT: usize = 3;

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

/// A patch does not fit a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("hunk {hunk} does not fit: the text at line {line} is different")]
pub struct PatchError {
    /// Number of the hunk, counted from 1.
    pub hunk: usize,
    /// Line number, counted from 1.
    pub line: usize,
}

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

    /// Applies the patch to a text.
    ///
    /// # Errors
    /// The text differs from the patch where a hunk would change it.
    pub fn apply(&self, before: &str) -> Result<String, PatchError> {
        let lines: Vec<&str> = before.split_inclusive('\n').collect();
        let (mut out, mut from) = (String::with_capacity(before.len()), 0);
        for (place, hunk) in self.0.iter().enumerate() {
            let fault = PatchError { hunk: place + 1, line: hunk.at.saturating_add(1) };
            let to = hunk.at.checked_add(hunk.removed.len()).ok_or(fault)?;
            let there = lines.get(hunk.at..to).filter(|there| hunk.at >= from && *there == hunk.removed);
            there.ok_or(fault)?;
            out.extend(lines[from..hunk.at].iter().copied().chain(hunk.added.iter().map(String::as_str)));
            from = to;
        }
        out.extend(lines[from..].iter().copied());
        Ok(out)
    }

    /// Formats the patch as a unified diff, with three lines of context around each change.
    pub fn unified(&self, before: &str) -> String {
        let lines: Vec<&str> = before.split_inclusive('\n').collect();
        let mut out = String::new();
        let mut shift: isize = 0;
        let near = |a: &Hunk, b: &Hunk| a.at + a.removed.len() + 2 * CONTEXT >= b.at;
        for group in self.0.chunk_by(near) {
            let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
            let from = first.at.saturating_sub(CONTEXT).min(lines.len());
            let to = (last.at + last.removed.len() + CONTEXT).min(lines.len()).max(from);
            let grown = group.iter().map(|hunk| hunk.added.len().cast_signed() - hunk.removed.len().cast_signed());
            let grown: isize = grown.sum();
            let (old, new) = (to - from, (to - from).saturating_add_signed(grown));
            let start = |from: usize, count: usize| if count == 0 { from } else { from + 1 };
            let (left, right) = (start(from, old), start(from.saturating_add_signed(shift), new));
            let _ = writeln!(out, "@@ -{left},{old} +{right},{new} @@");
            let mut at = from;
            for hunk in group {
                mark(&mut out, ' ', lines.get(at..hunk.at).unwrap_or_default().iter().copied());
                mark(&mut out, '-', hunk.removed.iter().map(String::as_str));
                mark(&mut out, '+', hunk.added.iter().map(String::as_str));
                at = hunk.at + hunk.removed.len();
            }
            mark(&mut out, ' ', lines.get(at..to).unwrap_or_default().iter().copied());
            shift += grown;
        }
        out
    }
}

fn mark<'a>(out: &mut String, sign: char, lines: impl Iterator<Item = &'a str>) {
    for line in lines {
        out.push(sign);
        out.push_str(line);
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
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
pub(super) fn longest_rising(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
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
