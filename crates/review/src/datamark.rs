//! Marks what is data: each line of it begins with a mark of this call, and, where the shadow says so, a sign stands for
//! each space. A model sees line by line what is not its orders (Hines et al., "Defending Against Indirect Prompt Injection
//! Attacks With Spotlighting", arXiv:2403.14720).
//!
//! In: a nonce and a text. Out: the text with marks; and what a reply says without them. Never: a quote that is looked up
//! only with its marks, since the stored text has none.

use umbra_domain::Datamark;

/// Bytes that a line gains.
pub(super) const LINE_BYTES: usize = 5;
/// Bytes that a space gains.
pub(super) const SPACE_BYTES: usize = 1;
/// Signs that stand for a space: rare, short for tokenizers, of two bytes each.
const SIGNS: [char; 8] = ['¦', '¤', '¬', '§', '¶', 'ˆ', '˜', '¸'];

/// How the data of one item is marked.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Marks {
    line: Option<String>,
    space: Option<char>,
}

impl Marks {
    /// The marks of the item with this nonce.
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

    /// What each line begins with.
    pub(super) fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }

    /// What stands for a space.
    pub(super) fn space(&self) -> Option<char> {
        self.space
    }

    /// The text with its marks.
    pub(super) fn put(&self, text: &str) -> String {
        let spaced =
            self.space.map_or_else(|| text.to_owned(), |sign| text.replace(' ', sign.encode_utf8(&mut [0; 4])));
        let Some(mark) = &self.line else { return spaced };
        spaced.split('\n').map(|line| format!("{mark}{line}")).collect::<Vec<_>>().join("\n")
    }

    /// What the reply says, without the marks.
    pub(super) fn remove(&self, text: &str) -> String {
        let bare = self.line.as_ref().map_or_else(|| text.to_owned(), |mark| text.replace(mark, ""));
        self.space.map_or_else(|| bare.clone(), |sign| bare.replace(sign, " "))
    }
}
