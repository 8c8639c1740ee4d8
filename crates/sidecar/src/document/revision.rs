//! History of a document: etags of its states, the changes between them, and which sections were updated.

use std::{collections::HashMap, fmt, ops::Range};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Document, ElementKind, ItemState, edit::Edit, patch::Patch, state::words};

/// Identifier of a text: the first half of its BLAKE3 hash, in hex. Equal texts have equal etags, and only they do.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = String, example = "9f64a747e1b97f131fabb6b447296c9b")]
pub struct Etag(String);

impl Etag {
    /// Computes the etag of a text.
    pub fn of(text: &str) -> Self {
        Self(blake3::hash(text.as_bytes()).to_hex().chars().take(32).collect())
    }

    /// Formats the etag for the header `ETag`: strong, in quotes.
    pub fn header(&self) -> String {
        format!("\"{self}\"")
    }

    /// True if a header `If-Match` admits a change of this state: `*`, or a list with its etag. Weak etags never match
    /// (RFC 9110, 13.1.1).
    pub fn matches(&self, if_match: &str) -> bool {
        let own = self.header();
        if_match.trim() == "*" || if_match.split(',').any(|etag| etag.trim() == own)
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Cause of a new state of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(as = DocumentChange)]
pub enum DocumentChange {
    /// The whole text was replaced.
    Put,
    /// A list of edits was made.
    Edits {
        /// Edits, in order.
        edits: Vec<Edit>,
    },
    /// A change that started from an older state was merged.
    Merge {
        /// Etag of the older state.
        from: Etag,
        /// For a file of the workspace: the patch from the state after the merge to the text of the file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<Patch>,
    },
}

/// Author of changes that others made to a file of the workspace.
pub const WORKSPACE: &str = "workspace";

/// One step in the history of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Author: an agent, a person, or [`WORKSPACE`].
    pub by: String,
    /// Time of the change, if it is recorded.
    pub at: Option<Timestamp>,
    /// Cause of the change.
    pub change: DocumentChange,
    /// Etag of the state before it.
    pub before: Etag,
    /// Etag of the state after it.
    pub after: Etag,
    /// Patch from one state to the other. Replay uses it, so later rules of edits and merges do not matter.
    pub patch: Patch,
}

impl Entry {
    /// Builds the entry for the step from one text to the next.
    pub fn between(
        by: impl Into<String>,
        at: Option<Timestamp>,
        change: DocumentChange,
        before: &str,
        after: &str,
    ) -> Self {
        let patch = Patch::between(before, after);
        Self { by: by.into(), at, change, before: Etag::of(before), after: Etag::of(after), patch }
    }
}

/// Replays a history from its first text and returns the last; `None` if an entry is missing, changed or out of order.
pub fn replay<'a>(first: &str, entries: impl IntoIterator<Item = &'a Entry>) -> Option<String> {
    states(first, entries).try_fold(String::new(), |_, state| state)
}

/// Yields every text of a history, from the first to the last, or `None` where it ends before. Each state is compared
/// with the etags of its entry.
pub(super) fn states<'a>(
    first: &str,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> impl Iterator<Item = Option<String>> {
    let mut text = first.to_owned();
    let later = entries.into_iter().map(move |step| {
        if step.before != Etag::of(&text) {
            return None;
        }
        text = step.patch.apply(&text)?;
        (step.after == Etag::of(&text)).then(|| text.clone())
    });
    std::iter::once(Some(first.to_owned())).chain(later)
}

/// Change of a section between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    /// No new words: at most text was removed, or blanks, case, punctuation, titles, comments, front matter or order
    /// changed.
    Unchanged,
    /// New words, or a new state of an item.
    Updated,
    /// The section is new, and has content.
    Added,
    /// The section was removed.
    Removed,
    /// The section is in neither state.
    Missing,
}

/// Compares a section, given by its slug, in two states, subsections included. An empty slug is the whole document.
pub fn compare_section(before: &Document, after: &Document, slug: &str) -> Moved {
    match (part(before, slug), part(after, slug)) {
        (Some(was), Some(is)) if says_more((before, was.clone()), (after, is.clone())) => Moved::Updated,
        (Some(_), Some(is)) if has_other_states(before, after, is.clone()) => Moved::Updated,
        (None, Some(is)) if says_more((before, 0..0), (after, is.clone())) => Moved::Added,
        (_, Some(_)) => Moved::Unchanged,
        (Some(_), None) => Moved::Removed,
        (None, None) => Moved::Missing,
    }
}

/// Returns the elements of a section, subsections included; all elements for an empty slug.
fn part(document: &Document, slug: &str) -> Option<Range<usize>> {
    if slug.is_empty() {
        return Some(0..document.nodes.len());
    }
    let (at, _) = document.slugs.iter().find(|(_, name)| name == slug)?;
    Some(*at..document.nodes[*at].until)
}

/// True if a part of the new text has words that a part of the old text lacks, or has them more often.
fn says_more((before, was): (&Document, Range<usize>), (after, is): (&Document, Range<usize>)) -> bool {
    let mut left: HashMap<String, usize> = HashMap::new();
    was.flat_map(|at| words(&before.says(at)).collect::<Vec<_>>()).for_each(|word| *left.entry(word).or_default() += 1);
    let mut said = is.flat_map(|at| words(&after.says(at)).collect::<Vec<_>>());
    said.any(|word| match left.get_mut(&word) {
        Some(more) if *more > 0 => {
            *more -= 1;
            false
        }
        _ => true,
    })
}

/// True if an item has another state than every item with the same id or text before. An item without a box is open.
fn has_other_states(before: &Document, after: &Document, part: Range<usize>) -> bool {
    let item = |document: &Document, at: usize| {
        let (words, state) = document.item(at);
        let name = document.id(at).map_or(words, |id| format!("#{id}"));
        (document.nodes[at].kind == ElementKind::Item).then_some((name, state.unwrap_or(ItemState::Open)))
    };
    let mut was: HashMap<String, Vec<ItemState>> = HashMap::new();
    for (name, state) in (0..before.nodes.len()).filter_map(|at| item(before, at)) {
        was.entry(name).or_default().push(state);
    }
    part.filter_map(|at| item(after, at)).any(|(name, state)| match was.get_mut(&name) {
        Some(states) if !states.is_empty() => match states.iter().position(|was| *was == state) {
            Some(same) => {
                states.remove(same);
                false
            }
            None => true,
        },
        _ => false,
    })
}
