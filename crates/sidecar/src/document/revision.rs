//! The history of a document: what its states are called, which change led from one to the next, and what moved on.

use std::{collections::HashMap, fmt, ops::Range, str::FromStr};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Document, ItemState, Kind,
    edit::Edit,
    patch::{Patch, PatchError},
    state::words,
};

/// What a text is called: the first half of its BLAKE3. Equal texts have equal ones, and no others do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(into = "String", try_from = "String")]
#[schema(value_type = String, example = "9f64a747e1b97f131fabb6b447296c9b")]
pub struct Etag([u8; 16]);

/// A text is no etag of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an etag is 32 hexadecimal digits")]
pub struct EtagError;

impl Etag {
    /// Of a text.
    pub fn of(text: &str) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&blake3::hash(text.as_bytes()).as_bytes()[..16]);
        Self(half)
    }

    /// As the header `ETag` has it: strong, in quotes.
    pub fn header(self) -> String {
        format!("\"{self}\"")
    }

    /// Whether a header `If-Match` lets a change of this state through: `*`, or a list with its etag. Weak ones never
    /// match (RFC 9110, 13.1.1).
    pub fn matches(self, if_match: &str) -> bool {
        let own = self.header();
        if_match.trim() == "*" || if_match.split(',').any(|etag| etag.trim() == own)
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Etag {
    type Err = EtagError;

    fn from_str(text: &str) -> Result<Self, EtagError> {
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(EtagError);
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| EtagError)?;
        }
        Ok(Self(bytes))
    }
}

impl From<Etag> for String {
    fn from(etag: Etag) -> Self {
        etag.to_string()
    }
}

impl TryFrom<String> for Etag {
    type Error = EtagError;

    fn try_from(text: String) -> Result<Self, EtagError> {
        text.parse()
    }
}

/// How a state came about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[schema(as = DocumentChange)]
pub enum Change {
    /// The whole text was put.
    Put,
    /// These edits were made.
    Edits {
        /// In their order.
        edits: Vec<Edit>,
    },
    /// What came in started from an older state, and was merged.
    Merge {
        /// That state.
        from: Etag,
        /// What a file of the workspace said by itself: from the state after it to that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<Patch>,
    },
}

/// Who `by` is where a file of the workspace was changed by somebody else.
pub const WORKSPACE: &str = "workspace";

/// One step of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Entry {
    /// Who did it: an agent, a person, [`WORKSPACE`].
    pub by: String,
    /// When, if whoever keeps the history says so.
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// What was done.
    pub change: Change,
    /// The state before it.
    pub before: Etag,
    /// The state after it.
    pub after: Etag,
    /// From the one to the other, whatever the rules of edits and merges have become since.
    pub patch: Patch,
}

impl Entry {
    /// The step from one text to the next.
    pub fn between(by: impl Into<String>, at: Option<Timestamp>, change: Change, before: &str, after: &str) -> Self {
        let patch = Patch::between(before, after);
        Self { by: by.into(), at, change, before: Etag::of(before), after: Etag::of(after), patch }
    }
}

/// A history does not lead from its first text to its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// An entry starts from another state than the one before it ended with.
    #[error("entry {entry} does not start where the one before it ends")]
    Gap {
        /// Counted from 1.
        entry: usize,
    },
    /// An entry's patch does not fit.
    #[error("entry {entry}: {cause}")]
    Patch {
        /// Counted from 1.
        entry: usize,
        /// Why.
        cause: PatchError,
    },
    /// An entry's patch leads to another state than it says.
    #[error("entry {entry} leads to another text than it says")]
    Other {
        /// Counted from 1.
        entry: usize,
    },
}

/// Goes through a history from its first text, and answers the last. Each state is compared with what its entry says.
///
/// # Errors
/// An entry is missing, changed, or in another place.
pub fn replay<'a>(first: &str, entries: impl IntoIterator<Item = &'a Entry>) -> Result<String, ReplayError> {
    states(first, entries).try_fold(String::new(), |_, state| state)
}

/// Every text of a history, from the first to the last, or the fault that ends it.
pub(super) fn states<'a>(
    first: &str,
    entries: impl IntoIterator<Item = &'a Entry>,
) -> impl Iterator<Item = Result<String, ReplayError>> {
    let mut text = first.to_owned();
    let later = (1..).zip(entries).map(move |(entry, step): (usize, &Entry)| {
        if step.before != Etag::of(&text) {
            return Err(ReplayError::Gap { entry });
        }
        text = step.patch.apply(&text).map_err(|cause| ReplayError::Patch { entry, cause })?;
        if step.after == Etag::of(&text) { Ok(text.clone()) } else { Err(ReplayError::Other { entry }) }
    });
    std::iter::once(Ok(first.to_owned())).chain(later)
}

/// What became of a section between two states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moved {
    /// It says nothing that it did not say: at most something was removed, or blanks, case, signs, titles, comments, front
    /// matter or the order are others.
    Unchanged,
    /// It says more or something else, or an item of it has another state.
    Updated,
    /// It is new, and says something.
    Added,
    /// It was there, and is gone.
    Removed,
    /// It is in neither.
    Missing,
}

/// Whether a section was updated in substance, with the sections within it, by its slug; an empty one is the whole document.
pub fn moved(before: &Document, after: &Document, slug: &str) -> Moved {
    match (part(before, slug), part(after, slug)) {
        (Some(was), Some(is)) if says_more((before, was.clone()), (after, is.clone())) => Moved::Updated,
        (Some(_), Some(is)) if has_other_states(before, after, is.clone()) => Moved::Updated,
        (None, Some(is)) if says_more((before, 0..0), (after, is.clone())) => Moved::Added,
        (_, Some(_)) => Moved::Unchanged,
        (Some(_), None) => Moved::Removed,
        (None, None) => Moved::Missing,
    }
}

/// The elements of a section.
fn part(document: &Document, slug: &str) -> Option<Range<usize>> {
    if slug.is_empty() {
        return Some(0..document.nodes.len());
    }
    let (at, _) = document.slugs.iter().find(|(_, name)| name == slug)?;
    Some(*at..document.nodes[*at].until)
}

/// Whether a part of a text has words that one of another has not, or has them more often.
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

/// True if an item of a part has another state than every item that said the same before. One without a box is open.
fn has_other_states(before: &Document, after: &Document, part: Range<usize>) -> bool {
    let item = |document: &Document, at: usize| {
        let (words, state) = document.item(at);
        let name = document.id(at).map_or(words, |id| format!("#{id}"));
        (document.nodes[at].kind == Kind::Item).then_some((name, state.unwrap_or(ItemState::Open)))
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
