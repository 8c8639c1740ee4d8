//! What an element says by itself, and what it says after two sides have changed it.

use super::{ConflictKind, of_three};
use crate::sidecar::document::{Document, ItemState, Kind};

/// An element's own lines, in parts. Only items have a lead, a state and a gap.
pub(super) struct Own<'a> {
    /// All of it.
    pub all: &'a str,
    kind: Kind,
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
        let Some(marker) = document.marker(at) else {
            return Self { all, kind, lead: "", state: None, sign: "", gap: "", words: all };
        };
        let (sign, text) = (&all[marker.prefix..marker.text], &all[marker.text..]);
        let words = text.trim_start_matches([' ', '\t']);
        let gap = &text[..text.len() - words.len()];
        Self { all, kind, lead: &all[..marker.prefix], state: marker.state, sign, gap, words }
    }

    /// Whether two say the same; blanks are nothing, but where they may be code.
    pub fn says_as(&self, other: &Self) -> bool {
        self.state == other.state
            && (same(self.words, other.words)
                || self.kind != Kind::Prose && squeezed(self.words) == squeezed(other.words))
    }

    fn words_of(base: &Self, ours: &Self, theirs: &Self) -> Result<&'a str, ConflictKind> {
        let squeeze = |own: &Self| if own.kind == Kind::Prose { own.words.to_owned() } else { squeezed(own.words) };
        if same(ours.words, base.words) {
            return Ok(theirs.words);
        }
        if same(theirs.words, base.words) || same(ours.words, theirs.words) {
            return Ok(ours.words);
        }
        let (base, mine, other) = (squeeze(base), squeeze(ours), squeeze(theirs));
        match () {
            () if mine == base => Ok(theirs.words),
            () if other == base || mine == other => Ok(ours.words),
            () => Err(ConflictKind::Words),
        }
    }
}

/// What both sides have made of an element that was there.
pub(super) fn join(base: &Own<'_>, ours: &Own<'_>, theirs: &Own<'_>) -> Result<String, ConflictKind> {
    let words = Own::words_of(base, ours, theirs)?;
    let boxed = match (base.state, ours.state, theirs.state) {
        (was, mine, _) if mine == was => theirs,
        (was, mine, other) if other == was || other == mine => ours,
        _ => return Err(ConflictKind::State),
    };
    Ok([of_three(base.lead, ours.lead, theirs.lead), boxed.sign, boxed.gap, words].concat())
}

/// But for blanks at the end.
fn same(a: &str, b: &str) -> bool {
    a.trim_end() == b.trim_end()
}

fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
