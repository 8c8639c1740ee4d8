//! What two sides have made of the lines of one element: both changes, as long as they are of different lines.

use crate::document::patch::{Hunk, Patch};

/// Joins two texts that came from the same one, line by line; `None` where both changed the same lines, or lines that touch.
/// Where each line is a `row` that stands for itself, those that touch may both be changed, and both sides may add some at
/// the same place.
pub(super) fn join(base: &str, ours: &str, theirs: &str, rows: bool) -> Option<String> {
    let Patch(mut hunks) = Patch::between(base, ours);
    let Patch(others) = Patch::between(base, theirs);
    let others: Vec<Hunk> = others.into_iter().filter(|hunk| !hunks.contains(hunk)).collect();
    hunks.extend(others);
    // What is only added stands before what is changed there; of the same, ours comes first.
    hunks.sort_by_key(|hunk| (hunk.at, hunk.removed.len().min(1)));
    let apart = |first: &Hunk, second: &Hunk| {
        let end = first.at + first.removed.len();
        let both = || first.added.iter().any(|line| second.added.contains(line));
        end < second.at || rows && end == second.at && !both()
    };
    let joins = hunks.windows(2).all(|pair| apart(&pair[0], &pair[1]));
    joins.then(|| Patch(hunks).apply(base).ok())?
}
