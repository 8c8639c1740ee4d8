//! Two texts that came from the same one become one again, element by element: what one side did to an element is done, what
//! both did alike is done once, and what both did differently is a conflict.
//!
//! Which element is which is told by `identity`; by place, if by nothing else. An element's place, its state and its words are
//! apart (`own`), and so are the lines of a block that is no item (`lines`). A conflict names section and item: other words on
//! both sides, other states, and what one side removed or replaced while the other changed it or put something into it.
//!
//! Where both put something at the same place, ours stands first. Blank lines belong to the two that they stand between
//! (`text`). The result is read again at last: if it is not what was meant (a fence that one side left open swallows what the
//! other wrote), that is a conflict too. So no item is lost.

mod lines;
mod order;
mod own;
mod plan;
mod text;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Document, Format, LimitError, Limits, line_end};

/// What two sides cannot both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ConflictKind {
    /// Both gave it other words, or other contents.
    Words,
    /// Both gave it other states.
    State,
    /// Ours removed what theirs changed, or put something into.
    RemovedByOurs,
    /// Theirs removed what ours changed, or put something into.
    RemovedByTheirs,
    /// One marked it, moved it or put something into it; the other gave it words so different that it may be another one.
    Reworded,
    /// Each moved a part into what the other one moved.
    Moved,
    /// Joined, the texts would not be read as what they are apart: a fence or a comment is open, or it would be no YAML.
    Layout,
}

/// One place where two sides contradict each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Conflict {
    /// What it is.
    pub kind: ConflictKind,
    /// The section's slug; empty before the first and where the whole document is meant.
    pub section: String,
    /// The item's words, the paragraph's or the key's; none where a section is meant.
    pub item: Option<String>,
    /// What stood there, with its box.
    pub base: Option<String>,
    /// What ours has.
    pub ours: Option<String>,
    /// What theirs has.
    pub theirs: Option<String>,
}

/// Two texts cannot be merged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// They contradict each other.
    #[error("both sides changed the document: {} places contradict each other; read it again, and decide", .0.len())]
    Conflicts(Vec<Conflict>),
    /// One of them, or both together, are too large.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// Merges two texts that came from `base`. Equal texts are themselves, and where one side changed nothing the other stands.
///
/// # Errors
/// They contradict each other, or a text is more than a document may be.
pub fn merge(base: &str, ours: &str, theirs: &str, format: Format, limits: &Limits) -> Result<String, MergeError> {
    if ours == theirs || base == theirs {
        return Ok(Document::parse(ours, format, limits)?.text);
    }
    if base == ours {
        return Ok(Document::parse(theirs, format, limits)?.text);
    }
    let end = of_three(line_end(base), line_end(ours), line_end(theirs));
    let whole = of_three(base.ends_with('\n'), ours.ends_with('\n'), theirs.ends_with('\n'));
    // The line ends that a side changed are not what it changed of each line.
    let read = |text: &str| {
        let mut text = if line_end(text) == end { text.to_owned() } else { with_ends(text, end) };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push_str(end);
        }
        Document::parse(text, format, &Limits { bytes: limits.bytes.saturating_mul(2), ..*limits })
    };
    let mut merged = plan::Plan::new(&read(base)?, &read(ours)?, &read(theirs)?).join(end, limits)?;
    if !whole && merged.ends_with(end) {
        merged.truncate(merged.len() - end.len());
    }
    Ok(Document::parse(merged, format, limits)?.text)
}

/// What only one side changed; ours where both did.
fn of_three<T: PartialEq + Copy>(base: T, ours: T, theirs: T) -> T {
    if ours == base { theirs } else { ours }
}

fn with_ends(text: &str, end: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .flat_map(|line| match line.strip_suffix('\n') {
            Some(line) => [line.strip_suffix('\r').unwrap_or(line), end],
            None => [line, ""],
        })
        .collect()
}
