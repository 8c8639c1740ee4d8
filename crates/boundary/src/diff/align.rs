//! Aligns the calls of two runs by longest common subsequences, under ever weaker equality.
//!
//! First by tool and arguments. Equal calls that are left on both sides have moved. Then, between aligned calls, by
//! tool and shape of the arguments, and at last by the tool alone. Calls that are left are in one run only.

use std::collections::HashMap;

/// Numbers of a call: equal numbers stand for equal things.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    /// Tool and arguments.
    pub exact: u32,
    /// Tool and the shape of the arguments.
    pub shape: u32,
    /// The tool.
    pub tool: u32,
}

/// Alignment of the calls of two runs, as indexes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Aligned {
    /// Aligned calls, in the order of both runs.
    pub pairs: Vec<(usize, usize)>,
    /// Equal calls at another place among the others.
    pub moved: Vec<(usize, usize)>,
    /// Calls of the first run only.
    pub missing: Vec<usize>,
    /// Calls of the second run only.
    pub extra: Vec<usize>,
}

/// Aligns two runs.
pub(super) fn align(a: &[Marks], b: &[Marks]) -> Aligned {
    let exact = |marks: &[Marks]| marks.iter().map(|marks| marks.exact).collect::<Vec<_>>();
    let mut pairs = common(&exact(a), &exact(b));
    let (mut taken_a, mut taken_b) = (vec![false; a.len()], vec![false; b.len()]);
    for (at, bt) in &pairs {
        (taken_a[*at], taken_b[*bt]) = (true, true);
    }
    let mut elsewhere: HashMap<u32, Vec<usize>> = HashMap::new();
    for bt in (0..b.len()).rev().filter(|bt| !taken_b[*bt]) {
        elsewhere.entry(b[bt].exact).or_default().push(bt);
    }
    let mut moved = Vec::new();
    for at in (0..a.len()).filter(|at| !taken_a[*at]).collect::<Vec<_>>() {
        if let Some(bt) = elsewhere.get_mut(&a[at].exact).and_then(Vec::pop) {
            (taken_a[at], taken_b[bt]) = (true, true);
            moved.push((at, bt));
        }
    }
    for mark in [|marks: &Marks| marks.shape, |marks: &Marks| marks.tool] {
        let mut found = Vec::new();
        let (mut from_a, mut from_b) = (0, 0);
        for (to_a, to_b) in pairs.iter().copied().chain([(a.len(), b.len())]) {
            let free_a: Vec<usize> = (from_a..to_a).filter(|at| !taken_a[*at]).collect();
            let free_b: Vec<usize> = (from_b..to_b).filter(|bt| !taken_b[*bt]).collect();
            let marks_a: Vec<u32> = free_a.iter().map(|at| mark(&a[*at])).collect();
            let marks_b: Vec<u32> = free_b.iter().map(|bt| mark(&b[*bt])).collect();
            found.extend(common(&marks_a, &marks_b).into_iter().map(|(at, bt)| (free_a[at], free_b[bt])));
            (from_a, from_b) = (to_a + 1, to_b + 1);
        }
        for (at, bt) in &found {
            (taken_a[*at], taken_b[*bt]) = (true, true);
        }
        pairs.extend(found);
        pairs.sort_unstable();
    }
    let free = |taken: Vec<bool>| taken.iter().enumerate().filter(|(_, taken)| !**taken).map(|(at, _)| at).collect();
    Aligned { pairs, moved, missing: free(taken_a), extra: free(taken_b) }
}

/// Finds a longest common subsequence, as indexes into both.
///
/// Bit-parallel (H. Hyyrö, "Bit-parallel LCS-length computation revisited", 2004): 64 calls a step, whatever the
/// sequences are like, and one bit for each pair of calls: 3 MB for the largest runs that are compared.
pub(super) fn common(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    let start = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let (rest_a, rest_b) = (&a[start..], &b[start..]);
    let end = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (middle_a, middle_b) = (&rest_a[..rest_a.len() - end], &rest_b[..rest_b.len() - end]);
    let mut pairs: Vec<(usize, usize)> = (0..start).map(|at| (at, at)).collect();
    pairs.extend(middle(middle_a, middle_b).into_iter().map(|(at, bt)| (at + start, bt + start)));
    pairs.extend((0..end).rev().map(|back| (a.len() - 1 - back, b.len() - 1 - back)));
    pairs
}

/// The same for sequences with different first and different last calls.
fn middle(a: &[u32], b: &[u32]) -> Vec<(usize, usize)> {
    if a.is_empty() || b.is_empty() {
        return Vec::new();
    }
    let mut places: HashMap<u32, Vec<usize>> = HashMap::new();
    for (bt, token) in b.iter().enumerate() {
        places.entry(*token).or_default().push(bt);
    }
    let words = b.len().div_ceil(64);
    // A bit of a row is clear where one more call of `b` makes the common subsequence longer.
    let mut row = vec![u64::MAX; words];
    let mut rows = Vec::with_capacity(a.len() * words);
    let mut matches = vec![0_u64; words];
    for token in a {
        matches.fill(0);
        for bt in places.get(token).into_iter().flatten() {
            matches[bt / 64] |= 1 << (bt % 64);
        }
        let mut carry = 0;
        for (word, matching) in row.iter_mut().zip(&matches) {
            let both = *word & matching;
            let (sum, over) = word.overflowing_add(both);
            let (sum, over_again) = sum.overflowing_add(carry);
            carry = u64::from(over || over_again);
            *word = sum | (*word & !matching);
        }
        rows.extend_from_slice(&row);
    }
    let longer = |at: usize, bt: usize| rows[(at - 1) * words + (bt - 1) / 64] & (1 << ((bt - 1) % 64)) == 0;
    let (mut at, mut bt) = (a.len(), b.len());
    let mut pairs = Vec::new();
    while at > 0 && bt > 0 {
        if a[at - 1] == b[bt - 1] {
            (at, bt) = (at - 1, bt - 1);
            pairs.push((at, bt));
        } else if longer(at, bt) {
            at -= 1;
        } else {
            bt -= 1;
        }
    }
    pairs.reverse();
    pairs
}
