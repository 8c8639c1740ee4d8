//! Finds the state of a document that a text from a file was made from. In: the history, and the text. Out: the state
//! to merge from.
//!
//! Usually it is the latest state, which was written to the file. But an editor may have read an older one, and saving
//! the file is not meant to undo changes that it never saw. So the text is compared with each state since the workspace
//! last changed the document, and with the text of its file then. The state with the fewest added and removed lines is
//! chosen, the latest of equal ones. A line with only another box, or with words corrected or added, does not count as
//! different. A text that equals an older state is taken literally: it removes all later changes.

use std::collections::HashSet;

use super::{
    lines::{Marker, substance},
    patch::{Hunk, Patch},
    revision::{DocumentChange, Entry, Etag, WORKSPACE, states},
};

/// Most states that a text is compared with.
const MOST_STATES: usize = 400;

/// The state that a text was made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeBase {
    /// Text of the state.
    pub text: String,
    /// True if the document has a newer state, and the text does not contain its changes.
    pub is_older: bool,
    /// Number of lines that others added since the workspace last changed the document, and that the text removes.
    pub without: usize,
}

/// Reason for a history that does not lead from its first text to its last.
pub const UNREADABLE_HISTORY: &str = "the history of the document cannot be read";

/// Returns the state of a history that a text was made from.
///
/// # Errors
/// The reason in words: the history cannot be replayed, or the state lies too far back.
pub fn merge_base(first: &str, entries: &[Entry], text: &str) -> Result<MergeBase, String> {
    let all = states(first, entries).collect::<Option<Vec<String>>>().ok_or(UNREADABLE_HISTORY)?;
    let others = entries.iter().rev().take_while(|entry| entry.by != WORKSPACE).count();
    let since = &all[all.len() - 1 - others..];
    let (Some(ours), Some(last)) = (since.first(), since.last()) else { return Err(UNREADABLE_HISTORY.to_owned()) };
    let said = entries.iter().rev().nth(others).and_then(|entry| match &entry.change {
        DocumentChange::Merge { said: Some(said), .. } => said.apply(ours),
        _ => None,
    });
    let is_state = since.iter().any(|state| Etag::of(state) == Etag::of(text));
    let near = &since[since.len().saturating_sub(MOST_STATES)..];
    let is_whole = near.len() == since.len();
    let candidates = said.iter().filter(|_| is_whole).chain(near);
    let nearest = candidates.rev().min_by_key(|state| difference(state, text)).filter(|_| !is_state).unwrap_or(last);
    if !is_whole && !is_state && nearest == &near[0] {
        let unknown = "so the state that the file was made from is unknown";
        return Err(format!("the document was changed more than {MOST_STATES} times since, {unknown}"));
    }
    let (was, there): (HashSet<&str>, HashSet<&str>) = (ours.lines().collect(), text.lines().collect());
    let gone = Patch::between(nearest, text).0;
    let gone = gone.iter().flat_map(|hunk| changed_lines(hunk).0).map(|line| line.trim_end_matches(['\r', '\n']));
    let without = gone.filter(|line| nearest == last && !was.contains(line) && !there.contains(line)).count();
    Ok(MergeBase { text: nearest.clone(), is_older: nearest != last, without })
}

/// Counts the lines to add to a state and to remove from it: first without lines that only have another box or
/// corrected words, then all.
fn difference(state: &str, text: &str) -> (usize, usize) {
    Patch::between(state, text).0.iter().fold((0, 0), |(lines, all), hunk| {
        let (removed, added) = changed_lines(hunk);
        (lines + removed.len() + added.len(), all + hunk.removed.len() + hunk.added.len())
    })
}

/// Returns the removed and the added lines of a hunk, without pairs in which one line became the other.
fn changed_lines(hunk: &Hunk) -> (Vec<&str>, Vec<&str>) {
    let mut added: Vec<&str> = hunk.added.iter().map(String::as_str).filter(|line| says_something(line)).collect();
    let mut removed: Vec<&str> = hunk.removed.iter().map(String::as_str).filter(|line| says_something(line)).collect();
    removed.retain(|was| match added.iter().position(|is| is_made_of(was, is)) {
        Some(at) => {
            added.remove(at);
            false
        }
        None => true,
    });
    (removed, added)
}

fn says_something(line: &str) -> bool {
    line.contains(char::is_alphanumeric)
}

/// True if a line has the words of another one in the same order, with corrections or words between allowed.
pub(super) fn is_made_of(was: &str, is: &str) -> bool {
    let words = |line: &str| {
        let text = Marker::of(line).map_or(line, |marker| line.get(marker.text..).unwrap_or_default());
        substance(text).to_lowercase().split(|c: char| !c.is_alphanumeric()).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut there = words(is).into_iter();
    words(was).iter().all(|word| there.any(|other| other == *word || is_corrected(word, &other)))
}

/// True if two words differ by one spelling mistake.
fn is_corrected(was: &str, is: &str) -> bool {
    const SHORTEST: usize = 4;
    let is_word = |word: &str| word.len() >= SHORTEST && !word.contains(|c: char| c.is_ascii_digit());
    is_word(was) && is_word(is) && strsim::osa_distance(was, is) == 1
}
