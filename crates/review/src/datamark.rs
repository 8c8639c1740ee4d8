//! Datamarks: each line of data begins with a mark of this call and, if the shadow says so, a sign replaces each space.
//! So a model sees on every line that it is data, not an order (Hines et al., "Defending Against Indirect Prompt
//! Injection Attacks With Spotlighting", arXiv:2403.14720).
//!
//! In: a nonce and a text. Out: the text with marks; and the text of a reply without them. Never: a quote that is
//! looked up only with its marks, since the stored text has none.

use umbra_domain::Datamark;

/// Bytes that a mark adds to a line.
pub(super) const LINE_BYTES: usize = 5;
/// Bytes that a sign adds to a space.
pub(super) const SPACE_BYTES: usize = 1;
/// Signs that stand for a space: rare, short for tokenizers, of two bytes each.
const SIGNS: [char; 8] = ['¦', '¤', '¬', '§', '¶', 'ˆ', '˜', '¸'];

/// Marks on the data of one item.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Marks {
    line: Option<String>,
    space: Option<char>,
}

impl Marks {
    /// Draws the marks of the item with this nonce.
    pub(super) fn of(wanted: Datamark, nonce: &str) -> Self {
        let drawn = blake3::hash(format!("umbra-datamark {nonce}").as_bytes());
        let line = || format!("{}|", drawn.to_hex().get(..LINE_BYTES - 1).unwrap_or_default());
        let sign = || drawn.as_bytes().last().and_then(|byte| SIGNS.get(usize::from(*byte) % SIGNS.len())).copied();
        match wanted {
            Datamark::Off => Self { line: None, space: None },
            Datamark::Lines => Self { line: Some(line()), space: None },
            Datamark::Words => Self { line: Some(line()), space: sign() },
        }
    }

    /// Returns the mark that each line begins with.
    pub(super) fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }

    /// Returns the sign that replaces a space.
    pub(super) fn space(&self) -> Option<char> {
        self.space
    }

    /// Adds the marks to a text.
    pub(super) fn put(&self, text: &str) -> String {
        let spaced =
            self.space.map_or_else(|| text.to_owned(), |sign| text.replace(' ', sign.encode_utf8(&mut [0; 4])));
        let Some(mark) = &self.line else { return spaced };
        spaced.split('\n').map(|line| format!("{mark}{line}")).collect::<Vec<_>>().join("\n")
    }

    /// Removes the marks from a text of the reply.
    pub(super) fn remove(&self, text: &str) -> String {
        let bare = self.line.as_ref().map_or_else(|| text.to_owned(), |mark| text.replace(mark, ""));
        self.space.map_or_else(|| bare.clone(), |sign| bare.replace(sign, " "))
    }
}
