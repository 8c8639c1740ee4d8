//! Splice of a document's text, and the check of the elements that result.

use super::EditError;
use crate::document::{Document, DocumentLimits, lines};

/// Replacement for a range of the text, with the number of elements that it replaces and adds.
pub(super) struct Splice {
    pub from: usize,
    pub to: usize,
    pub by: String,
    /// Elements that are replaced, by their indexes before the splice.
    pub touched: std::ops::Range<usize>,
    /// Number of elements in their place; `None` for any number.
    pub left: Option<usize>,
}

impl Document {
    pub(super) fn apply_splice(&self, splice: &Splice, limits: &DocumentLimits) -> Result<Self, EditError> {
        let text = [&self.text[..splice.from], &splice.by, &self.text[splice.to..]].concat();
        let edited = Self::parse(text, self.format, limits)?;
        let before = splice.touched.start;
        let behind = self.nodes.len() - splice.touched.end;
        let same = |at: usize, other: usize| {
            let (a, b) = (&self.nodes[at], &edited.nodes[other]);
            let ends = |own| str::trim_end_matches(own, ['\r', '\n']);
            a.kind == b.kind && a.level == b.level && ends(self.own(at)) == ends(edited.own(other))
        };
        let count = edited.nodes.len();
        let stays = count >= before + behind
            && splice.left.is_none_or(|left| count == before + behind + left)
            && (0..before).all(|at| same(at, at))
            && (1..=behind).all(|back| same(self.nodes.len() - back, count - back));
        if stays { Ok(edited) } else { Err(EditError::BeyondItsPlace) }
    }

    /// Removes an element with its nested ones; the blank lines before it stay if a sibling of its kind follows.
    pub(super) fn cut(&self, at: usize) -> Splice {
        let node = &self.nodes[at];
        let next = self.nodes.get(node.until).filter(|next| next.parent == node.parent && next.kind == node.kind);
        let (from, to) = match next {
            Some(next) => (node.own.start, next.own.start),
            None => (node.start, self.end_of(at)),
        };
        Splice { from, to, by: String::new(), touched: at..node.until, left: Some(0) }
    }

    /// Returns the end of the last line of an element and its nested ones, in bytes.
    pub(super) fn end_of(&self, at: usize) -> usize {
        self.nodes[self.nodes[at].until - 1].own.end
    }

    /// Inserts text in front of element `before`, as lines of its own, with blank lines around it if `apart`.
    pub(super) fn insert(&self, before: usize, lines: &str, apart: bool, left: Option<usize>) -> Splice {
        let end = self.line_end();
        let at = before.checked_sub(1).map_or(0, |last| self.nodes[last].own.end);
        let (above, below) = (&self.text[..at], &self.text[at..]);
        let mut by = String::new();
        if !above.is_empty() && !above.ends_with('\n') {
            by.push_str(end);
        }
        if apart && !above.is_empty() {
            by.push_str(end);
        }
        by.extend(lines.trim_end().lines().flat_map(|line| [line, end]));
        if apart && !below.is_empty() && !below.lines().next().is_some_and(lines::is_blank) {
            by.push_str(end);
        }
        Splice { from: at, to: at, by, touched: before..before, left }
    }
}
