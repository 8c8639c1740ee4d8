//! What a text says is a cipher: rotated, reversed, Morse, binary, spaced hexadecimal. In: a part of a text. Out: what is
//! quoted in it or stands on a line of its own, decoded in every way that gives English.

use std::ops::Range;

use super::encoded::{MOST_DECODED, base64, byte_of, has_common_words, hex, is_lettered, is_text};

/// What is quoted or stands on a line of its own in a part of a text, decoded in every way that gives English.
pub(super) fn ciphers(part: &str) -> Vec<(Range<usize>, String)> {
    let mut decoded = Vec::new();
    for at in quoted(part) {
        let payload = part.get(at.clone()).unwrap_or_default();
        let lettered = is_lettered(payload);
        let spaced = payload.split_ascii_whitespace();
        let ways = [
            spaced.clone().all(|word| word.len() == 2).then(|| codes(payload, 16)).flatten(),
            spaced.clone().all(|word| word.len() == 8).then(|| codes(payload, 2)).flatten(),
            morse(payload),
            lettered.then(|| payload.chars().rev().collect()),
            base64(payload),
            hex(payload),
        ];
        decoded.extend(ways.into_iter().flatten().map(|text| (at.clone(), text)));
        if lettered && !has_common_words(payload) {
            decoded.extend(turns(payload).map(|by| (at.clone(), rotate(payload, by))));
        }
    }
    decoded
}

/// Stretches between quotes, backticks or line breaks that are long enough to be an order.
fn quoted(part: &str) -> Vec<Range<usize>> {
    const SHORTEST: usize = 16;
    let mut edges: Vec<usize> = part
        .char_indices()
        .filter(|(at, c)| {
            matches!(c, '"' | '`' | '“' | '”' | '‘' | '’' | '\n')
                // An apostrophe in a word is no quote.
                || *c == '\'' && !(part.get(..*at).is_some_and(ends_with_letter) && part.get(at + 1..).is_some_and(begins_with_letter))
        })
        .map(|(at, _)| at)
        .collect();
    edges.push(part.len());
    let mut from = 0;
    let mut stretches = Vec::new();
    for edge in edges {
        let stretch = part.get(from..edge).unwrap_or_default();
        let start = from + stretch.len()
            - stretch.trim_start_matches(|c: char| c.is_whitespace() || "\"'`“”‘’".contains(c)).len();
        if edge.saturating_sub(start) >= SHORTEST {
            stretches.push(start..edge);
        }
        // A text that ends with its payload says what it is before a colon.
        if let Some((lead, tail)) = stretch.rsplit_once(": ")
            && tail.trim_end().len() >= SHORTEST
        {
            stretches.push(from + lead.len() + 2..edge);
        }
        from = edge;
    }
    stretches
}

fn ends_with_letter(text: &str) -> bool {
    text.ends_with(char::is_alphabetic)
}

fn begins_with_letter(text: &str) -> bool {
    text.starts_with(char::is_alphabetic)
}

/// Numbers of characters, parted by spaces.
fn codes(payload: &str, radix: u32) -> Option<String> {
    let codes = payload.split_ascii_whitespace().take(MOST_DECODED);
    codes.map(|code| byte_of(code.as_bytes(), radix).filter(|byte| is_text(*byte)).map(char::from)).collect()
}

/// By how much the letters may have been moved: what makes a word one that sentences or orders have.
fn turns(payload: &str) -> impl Iterator<Item = u8> {
    const WORDS: [&[u8]; 24] = [
        b"the",
        b"you",
        b"and",
        b"all",
        b"for",
        b"how",
        b"your",
        b"what",
        b"this",
        b"that",
        b"with",
        b"tell",
        b"show",
        b"send",
        b"ignore",
        b"forget",
        b"please",
        b"prompt",
        b"reveal",
        b"secret",
        b"system",
        b"previous",
        b"password",
        b"instructions",
    ];
    let mut seen = 0_u32;
    for word in payload.as_bytes().split(|byte| !byte.is_ascii_alphabetic()) {
        for known in WORDS.iter().filter(|known| known.len() == word.len()) {
            let mut by = word.iter().zip(*known).map(|(here, meant)| (meant + 26 - (here | 0x20)) % 26);
            let first = by.next().unwrap_or_default();
            if by.all(|next| next == first) {
                seen |= 1 << first;
            }
        }
    }
    (1..26).filter(move |by| seen >> by & 1 == 1)
}

fn rotate(payload: &str, by: u8) -> String {
    let turn = |c: char, first: u8| char::from(first + (c as u8 - first + by) % 26);
    payload
        .chars()
        .map(|c| match c {
            'a'..='z' => turn(c, b'a'),
            'A'..='Z' => turn(c, b'A'),
            _ => c,
        })
        .collect()
}

/// Dots and dashes (ITU-R M.1677), words parted by a slash or more than one space.
fn morse(payload: &str) -> Option<String> {
    const LETTERS: [&str; 36] = [
        ".-", "-...", "-.-.", "-..", ".", "..-.", "--.", "....", "..", ".---", "-.-", ".-..", "--", "-.", "---",
        ".--.", "--.-", ".-.", "...", "-", "..-", "...-", ".--", "-..-", "-.--", "--..", "-----", ".----", "..---",
        "...--", "....-", ".....", "-....", "--...", "---..", "----.",
    ];
    const NAMES: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    if !payload.bytes().all(|b| matches!(b, b'.' | b'-' | b'/' | b' ')) {
        return None;
    }
    let mut text = String::new();
    for code in payload.replace('/', " / ").split(' ').filter(|code| !code.is_empty()).take(MOST_DECODED) {
        let letter = LETTERS.iter().position(|letter| *letter == code);
        text.push(match letter {
            Some(at) => char::from(NAMES[at]),
            None if code == "/" => ' ',
            None => return None,
        });
    }
    Some(text)
}
