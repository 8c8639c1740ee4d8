//! Scan of every word of a text, once. Disguises of single words are undone: misspellings, look-alikes from other
//! scripts, digits for letters, a space behind every letter. Only the few words count that orders need. In: a text.
//! Out: the text with those words restored, and runs that look like an encoded payload.

use std::ops::Range;

use super::lookalikes::{EITHER, skeleton};
use crate::{screening::moved, word_lists};

/// Results of the scan.
pub(super) struct WordScan {
    /// The text with disguised words restored, if it has any.
    pub(super) view: Option<View>,
    /// Unbroken runs of letters and digits that are long enough to hold an encoded order.
    pub(super) blobs: Vec<Range<usize>>,
}

/// A text with words replaced.
pub(super) struct View {
    pub(super) text: String,
    /// Range of each replaced word in the view, and in the original.
    changes: Vec<(Range<usize>, Range<usize>)>,
}

/// Words that are recognized in disguise, by their first letter, which disguises keep.
const fn keys(first: u8) -> &'static [&'static str] {
    match first {
        b'a' => &["approve", "assistant"],
        b'b' => &["bypass"],
        b'd' => &["developer", "directives", "disregard"],
        b'f' => &["forget"],
        b'g' => &["guidelines"],
        b'i' => &["ignore", "instructions", "instruction"],
        b'o' => &["override", "overlook"],
        b'p' => &["passphrase", "password", "preceding", "previous", "prompt"],
        b'r' => &["restrictions", "reveal", "reviewer"],
        b's' => &["secret", "system"],
        _ => &[],
    }
}

/// Short words in orders; they count only with a digit or a foreign letter in them.
const SMALL: [&str; 6] = ["above", "all", "prior", "rules", "the", "your"];

/// Shortest payload that can hold an order, in characters.
const BLOB: usize = 24;
const MOST_BLOBS: usize = 10_000;
const MOST_CHANGES: usize = 10_000;
/// Fewest single letters in a row that make a spaced word.
const SPACED: usize = 6;
/// Most bytes between spaced letters of two words.
const WIDEST: usize = 8;
/// Longest disguised word, in bytes.
const LONGEST: usize = 48;

impl View {
    /// Returns the original range of a range of the view, if it holds a replaced word.
    pub(super) fn origin(&self, at: &Range<usize>) -> Option<Range<usize>> {
        self.changes.iter().any(|(now, _)| now.start < at.end && at.start < now.end).then_some(())?;
        Some(moved(at.clone(), &self.changes))
    }
}

/// Scans every word once.
pub(super) fn scan_words(text: &str) -> WordScan {
    let bytes = text.as_bytes();
    let mut blobs = Vec::new();
    let mut changes: Vec<(Range<usize>, String)> = Vec::new();
    let mut letters = Letters::default();
    let mut at = 0;
    while let Some(first) = bytes.get(at) {
        let mut class = CLASS[usize::from(*first)];
        if class & WORD == 0 {
            at += 1;
            continue;
        }
        let start = at;
        at += 1;
        while let Some(byte) = bytes.get(at)
            && CLASS[usize::from(*byte)] & WORD != 0
        {
            class |= CLASS[usize::from(*byte)];
            at += 1;
        }
        let length = at - start;
        if length >= BLOB && blobs.len() < MOST_BLOBS && class & FOREIGN == 0 {
            blobs.push(start..at);
        }
        if length == 1 {
            letters.push(start);
            continue;
        }
        if letters.count > 0
            && let Some(spelt) = std::mem::take(&mut letters).spelt(text)
            && changes.len() < MOST_CHANGES
        {
            changes.push(spelt);
        }
        if may_mean(bytes.get(start..at).unwrap_or_default(), class)
            && changes.len() < MOST_CHANGES
            && let Some(key) = text.get(start..at).and_then(|word| meant(word, class))
        {
            changes.push((start..at, key.to_owned()));
        }
    }
    if changes.len() < MOST_CHANGES {
        changes.extend(letters.spelt(text));
    }
    WordScan { view: View::new(text, changes), blobs }
}

/// True if a word may be a key in disguise, by its length and, in plain letters, by its first letter.
fn may_mean(word: &[u8], class: u8) -> bool {
    if class & FOREIGN != 0 {
        return (3..=LONGEST).contains(&word.len());
    }
    let lengths = match word.first() {
        Some(first) if class & LEET == 0 => LENGTHS.get(usize::from(first & 0x1f)).copied().unwrap_or_default(),
        _ => DISGUISED,
    };
    word.len() < 32 && lengths >> word.len() & 1 == 1
}

/// Lengths that a misspelt key may have, as bits, by the place of its first letter in the alphabet.
const LENGTHS: [u32; 32] = {
    let mut lengths = [0; 32];
    let mut letter = 1;
    while letter <= 26 {
        let keys = keys(b'a' - 1 + letter);
        let mut at = 0;
        while at < keys.len() {
            // One letter more or less.
            lengths[letter as usize] |= 0b111 << (keys[at].len() - 1);
            at += 1;
        }
        letter += 1;
    }
    lengths
};

/// Lengths that any disguised key or small word may have, as bits.
const DISGUISED: u32 = {
    let (mut lengths, mut at) = (0b1_1000, 0);
    while at < LENGTHS.len() {
        lengths |= LENGTHS[at];
        at += 1;
    }
    lengths
};

impl View {
    /// Creates the view of a text from its replacements, in order.
    pub(super) fn new(text: &str, changes: Vec<(Range<usize>, String)>) -> Option<Self> {
        if changes.is_empty() {
            return None;
        }
        let mut view = Self { text: String::with_capacity(text.len()), changes: Vec::with_capacity(changes.len()) };
        let mut copied = 0;
        for (was, word) in changes {
            view.text.push_str(text.get(copied..was.start)?);
            let start = view.text.len();
            view.text.push_str(&word);
            copied = was.end;
            view.changes.push((start..view.text.len(), was));
        }
        view.text.push_str(text.get(copied..)?);
        Some(view)
    }
}

/// A row of single letters.
#[derive(Default)]
struct Letters {
    at: Range<usize>,
    count: usize,
}

impl Letters {
    fn push(&mut self, at: usize) {
        if self.count == 0 || at.saturating_sub(self.at.end) > WIDEST {
            *self = Self { at: at..at, count: 0 };
        }
        self.at.end = at + 1;
        self.count += 1;
    }

    /// Returns the words that the letters spell, if one of them is a key.
    fn spelt(self, text: &str) -> Option<(Range<usize>, String)> {
        if self.count < SPACED {
            return None;
        }
        let mut spelt = String::with_capacity(self.at.len());
        let mut gap = 0;
        for byte in text.get(self.at.clone())?.bytes() {
            if CLASS[usize::from(byte)] & WORD == 0 {
                gap += 1;
                continue;
            }
            // One character separates letters of a word, several separate words.
            if gap > 1 {
                spelt.push(' ');
            }
            spelt.push(char::from(byte.to_ascii_lowercase()));
            gap = 0;
        }
        let mut known = false;
        // The plural form covers the singular.
        for key in (b'a'..=b'z').flat_map(keys).filter(|key| **key != "instruction") {
            if spelt.contains(key) {
                spelt = spelt.replace(key, &format!(" {key} "));
                known = true;
            }
        }
        known.then(|| (self.at, spelt.split_whitespace().collect::<Vec<_>>().join(" ")))
    }
}

/// Class of bytes that are part of a word.
const WORD: u8 = 1;
/// Class of letters beyond unaccented Latin.
const FOREIGN: u8 = 2;
/// Class of digits and signs that may stand for a letter.
const LEET: u8 = 4;

static CLASS: [u8; 256] = {
    let mut class = [0; 256];
    let mut byte = 0_u8;
    loop {
        class[byte as usize] = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'+' | b'/' | b'=' | b'_' => WORD,
            b'0'..=b'9' | b'@' | b'$' => WORD | LEET,
            128.. => WORD | FOREIGN,
            _ => 0,
        };
        if byte == u8::MAX {
            break class;
        }
        byte += 1;
    }
};

/// Returns the key that a disguised or misspelt word means.
fn meant(word: &str, class: u8) -> Option<&'static str> {
    let disguised = class & (FOREIGN | LEET) != 0;
    let mut buffer = [0_u8; LONGEST];
    let plain = if disguised {
        if !word.bytes().any(|byte| byte.is_ascii_alphabetic()) && class & FOREIGN == 0 {
            return None;
        }
        let mut length = 0;
        for c in word.chars() {
            *buffer.get_mut(length)? = skeleton(c)?;
            length += 1;
        }
        buffer.get_mut(..length)?
    } else {
        let plain = buffer.get_mut(..word.len())?;
        plain.copy_from_slice(word.as_bytes());
        plain.make_ascii_lowercase();
        plain
    };
    let plain = &*plain;
    if disguised && let Some(small) = SMALL.iter().find(|small| is_same(plain, small.as_bytes())) {
        return Some(small);
    }
    let first = if plain.first() == Some(&EITHER) { b'i' } else { *plain.first()? };
    let key = keys(first).iter().find(|key| is_near(plain, key.as_bytes(), disguised))?;
    let other = str::from_utf8(plain).is_ok_and(|word| word_lists::lists("resembling_words", word));
    (!other).then_some(key)
}

/// True if a word differs from a key by one slip: one letter more, less or wrong, or two swapped. A difference at the
/// end is an ending, not a slip. An identical word counts only if it was in disguise.
fn is_near(word: &[u8], key: &[u8], disguised: bool) -> bool {
    if word.len().abs_diff(key.len()) > 1 {
        return false;
    }
    let head = word.iter().zip(key).take_while(|(a, b)| is_letter(**a, **b)).count();
    let (word, key) = (word.get(head..).unwrap_or_default(), key.get(head..).unwrap_or_default());
    if word.is_empty() && key.is_empty() {
        return disguised;
    }
    let tail = word.iter().rev().zip(key.iter().rev()).take_while(|(a, b)| is_letter(**a, **b)).count();
    let (word, key) = (word.get(..word.len() - tail), key.get(..key.len() - tail));
    match (word.unwrap_or_default(), key.unwrap_or_default()) {
        ([] | [_], [_]) | ([_], []) => tail > 0,
        ([a, b], [c, d]) => a == d && b == c,
        _ => false,
    }
}

fn is_same(word: &[u8], key: &[u8]) -> bool {
    word.len() == key.len() && word.iter().zip(key).all(|(a, b)| is_letter(*a, *b))
}

fn is_letter(a: u8, b: u8) -> bool {
    a == b || a == EITHER && matches!(b, b'i' | b'l')
}
