//! What an element says by itself, and what it says after two sides have changed it.

use super::{ConflictKind, lines, of_three};
use crate::document::{
    Document, Format, ItemState, Kind,
    identity::same_matter,
    lines::{indent, key},
};

/// An element's own lines, in parts. Only items have a lead, a state and a gap.
pub(super) struct Own<'a> {
    /// All of it.
    pub all: &'a str,
    kind: Kind,
    format: Format,
    /// Its explicit id.
    id: Option<&'a str>,
    /// Indentation and bullet.
    lead: &'a str,
    state: Option<ItemState>,
    sign: &'a str,
    /// Blanks between box and words.
    gap: &'a str,
    words: &'a str,
}

impl<'a> Own<'a> {
    pub fn of(document: &'a Document, at: usize) -> Self {
        let (all, kind) = (document.own(at), document.nodes[at].kind);
        let (format, id) = (document.format, document.id(at));
        let Some(marker) = document.marker(at) else {
            return Self { all, kind, format, id, lead: "", state: None, sign: "", gap: "", words: all };
        };
        let (sign, text) = (&all[marker.prefix..marker.text], &all[marker.text..]);
        let words = text.trim_start_matches([' ', '\t']);
        let gap = &text[..text.len() - words.len()];
        Self { all, kind, format, id, lead: &all[..marker.prefix], state: marker.state, sign, gap, words }
    }

    /// Whether two say the same; blanks are nothing, but where they may be code.
    pub fn says_as(&self, other: &Self) -> bool {
        self.mark() == other.mark() && self.has_words_of(other)
    }

    fn has_words_of(&self, other: &Self) -> bool {
        same(self.words, other.words) || self.kind != Kind::Prose && squeezed(self.words) == squeezed(other.words)
    }

    /// What its box says. There are many ways to write that something is open, and each may mean more.
    fn mark(&self) -> (Option<ItemState>, &'a str) {
        (self.state, if self.state == Some(ItemState::Open) { self.sign } else { "" })
    }

    /// Whether other words are those of the same thing: by its name, or since most of them stay.
    fn is_of_same_matter(&self, other: &Self) -> bool {
        self.id.is_some() && self.id == other.id || same_matter(self.words, other.words)
    }

    /// Whether each of its lines stands for itself: rows of a table, keys of a mapping.
    fn is_rows(&self) -> bool {
        if self.format == Format::Markdown {
            return self.words.lines().all(|line| line.trim_start().starts_with('|'));
        }
        let column = |line| indent(line).0;
        let mut below = self.words.lines().skip(1);
        let column_below = below.clone().next().map(column);
        key(self.words).is_some()
            && below.all(|line| key(line.trim_start()).is_some() && Some(column(line)) == column_below)
    }
}

/// What both sides have made of an element that was there.
pub(super) fn join(base: &Own<'_>, ours: &Own<'_>, theirs: &Own<'_>) -> Result<String, ConflictKind> {
    let words = words_of(base, ours, theirs).ok_or(ConflictKind::Words)?;
    let boxed = match (base.mark(), ours.mark(), theirs.mark()) {
        (was, mine, _) if mine == was => theirs,
        (was, mine, other) if other == was || other == mine => ours,
        _ => return Err(ConflictKind::State),
    };
    // State and words are apart, so that a mark meets a better wording. But who marks something done has read what it says:
    // that other words than those are done, nobody has said.
    let strays = |marks: &Own<'_>, rewords: &Own<'_>| {
        let of_others = !rewords.has_words_of(base) && !rewords.has_words_of(marks);
        marks.state != base.state && of_others && !rewords.is_of_same_matter(base)
    };
    if strays(ours, theirs) || strays(theirs, ours) {
        return Err(ConflictKind::Reworded);
    }
    Ok([of_three(base.lead, ours.lead, theirs.lead), boxed.sign, boxed.gap, &words].concat())
}

fn words_of(base: &Own<'_>, ours: &Own<'_>, theirs: &Own<'_>) -> Option<String> {
    if same(ours.words, base.words) {
        return Some(theirs.words.to_owned());
    }
    if same(theirs.words, base.words) || same(ours.words, theirs.words) {
        return Some(ours.words.to_owned());
    }
    match () {
        () if ours.has_words_of(base) => Some(theirs.words.to_owned()),
        () if theirs.has_words_of(base) || ours.has_words_of(theirs) => Some(ours.words.to_owned()),
        // The lines of an item of markdown are one sentence.
        () if matches!(base.kind, Kind::Prose | Kind::Entry) || base.format == Format::Yaml => {
            let rows = [base, ours, theirs].into_iter().all(Own::is_rows);
            lines::join(base.words, ours.words, theirs.words, rows)
        }
        () => None,
    }
}

/// But for blanks at the end.
fn same(a: &str, b: &str) -> bool {
    a.trim_end() == b.trim_end()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
