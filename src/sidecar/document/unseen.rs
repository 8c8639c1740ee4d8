//! Which state of a document a text was made from that came back from a file.
//!
//! Mostly the last one that the file was given. But an editor may have read the file before, and who saves what it had read does
//! not mean to undo what it never saw. So where nothing shows in the text of what others did last (what they added is not there,
//! what they changed or removed stands as it was), it was made before that. Who does undo such a change, and changes something
//! else at once, finds it there again and has to undo it once more; who writes an older state back as it was means that.

use super::{
    Document, Format, Limits,
    identity::{Pairs, Said, pair},
    lines::substance,
    revision::{Entry, ReplayError, WORKSPACE, replay},
};

/// Changes of others that may not have been seen.
const MOST_UNSEEN: usize = 16;

/// The state of a history that a text was made from, mostly the last.
///
/// # Errors
/// The history does not lead from its first text to its last.
pub fn made_from(first: &str, entries: &[Entry], text: &str, format: Format) -> Result<String, ReplayError> {
    let others = entries.iter().rev().take(MOST_UNSEEN).take_while(|entry| entry.by != WORKSPACE).count();
    let (seen, unseen) = entries.split_at(entries.len() - others);
    let mut states = vec![replay(first, seen)?];
    for (entry, step) in (seen.len() + 1..).zip(unseen) {
        let last = states.last().map_or("", String::as_str);
        states.push(step.patch.apply(last).map_err(|cause| ReplayError::Patch { entry, cause })?);
    }
    let last = states.pop().unwrap_or_default();
    if states.iter().any(|state| state == text) {
        return Ok(last);
    }
    let (Some(now), Some(said)) = (Read::of(&last, format), Read::of(text, format)) else { return Ok(last) };
    let mut made = None;
    for state in states.into_iter().rev() {
        match Read::of(&state, format).map(|before| before.shows(&now, &said)) {
            Some(Shows::Nothing) => made = Some(state),
            Some(Shows::NoChange) => {}
            Some(Shows::Something) | None => break,
        }
    }
    Ok(made.unwrap_or(last))
}

/// What shows in a text of what led from one state to another.
enum Shows {
    Nothing,
    Something,
    /// Both say the same.
    NoChange,
}

struct Read {
    document: Document,
    said: Said,
}

impl Read {
    /// What is more than a document may be is told when it is merged.
    fn of(text: &str, format: Format) -> Option<Self> {
        let document = Document::parse(text, format, &Limits::default()).ok()?;
        Some(Self { said: Said::of(&document), document })
    }

    fn shows(&self, now: &Self, text: &Self) -> Shows {
        let count = |read: &Self| read.document.nodes.len();
        let (moved, kept, taken) = (self.certain(now), self.certain(text), now.certain(text));
        let changed: Vec<usize> =
            (0..count(self)).filter(|at| !moved.to[*at].is_some_and(|is| self.says(*at, now, is))).collect();
        let added: Vec<usize> = (0..count(now)).filter(|at| moved.from[*at].is_none()).collect();
        if changed.is_empty() && added.is_empty() {
            return Shows::NoChange;
        }
        let is_unseen = |at: usize| match kept.to[at] {
            Some(is) if self.says(at, text, is) => true,
            // Where something that was added is missing, it is enough that what was changed does not show.
            Some(is) => !added.is_empty() && !moved.to[at].is_some_and(|at| now.says(at, text, is)),
            None => !added.is_empty(),
        };
        if changed.into_iter().all(is_unseen) && added.iter().all(|at| taken.to[*at].is_none()) {
            Shows::Nothing
        } else {
            Shows::Something
        }
    }

    /// Which element is which in another text, as far as more tells it than the place: whoever never saw an item has
    /// something else in its place.
    fn certain(&self, other: &Self) -> Pairs {
        let mut pairs = pair((&self.document, &self.said), (&other.document, &other.said));
        for at in (0..pairs.to.len()).filter(|at| pairs.supposed[*at]).collect::<Vec<_>>() {
            if let Some(is) = pairs.to[at].take() {
                pairs.from[is] = None;
            }
        }
        pairs
    }

    /// Whether an element says what one of another text says, with its box.
    fn says(&self, at: usize, other: &Self, is: usize) -> bool {
        substance(self.document.own(at)) == substance(other.document.own(is))
    }
}
