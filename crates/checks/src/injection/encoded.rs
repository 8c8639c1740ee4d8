//! Search for encoded orders: Base64, hexadecimal digits, percent signs and escapes. In: a text. Out: hits. A payload
//! is decoded once, to a bounded length, and judged by the same forms as plain text.

use std::ops::Range;

use memchr::{memchr3, memmem};

use super::{
    OrderFinding,
    search::{self, OrderForms},
};
use crate::secrets::{decode, decode_hex};
use umbra_domain::TextScope;

const ORDER: &str = "The text contains an encoded order to its reader.";
/// Longest part of a payload that is decoded, in bytes.
const MOST_DECODED: usize = 2048;
/// Most runs with escapes that are read in one text.
const MOST_RUNS: usize = 1000;

/// Adds the encoded orders of a text. `blobs` are its long unbroken runs.
pub(super) fn find(
    index: &OrderForms,
    text: &str,
    blobs: &[Range<usize>],
    reaches: impl Fn(TextScope) -> bool + Copy,
    found: &mut Vec<OrderFinding>,
) {
    let mut note = |at: Range<usize>, decoded: &str| {
        let mut order = false;
        search::find(index, decoded, reaches, |_, _| order = true);
        if order {
            found.push(OrderFinding::warning("encoded_order", at, ORDER));
        }
    };
    for at in blobs {
        let blob = text.get(at.clone()).unwrap_or_default();
        let blob = blob.get(..blob.len().min(MOST_DECODED)).unwrap_or_default();
        let digits = blob.strip_prefix("0x").unwrap_or(blob);
        for decoded in [decode(blob), decode_hex(digits)].into_iter().flatten().filter_map(text_of) {
            note(at.clone(), &decoded);
        }
    }
    for run in escaped(text) {
        if let Some(decoded) = text.get(run.clone()).and_then(unescape) {
            note(run, &decoded);
        }
    }
}

/// Returns decoded bytes as text if all are printable ASCII; bytes of a picture fail early.
fn text_of(bytes: Vec<u8>) -> Option<String> {
    bytes.iter().copied().all(is_text).then(|| String::from_utf8(bytes).ok())?
}

fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\r' | 0x20..=0x7e)
}

fn byte_of(digits: &[u8], radix: u32) -> Option<u8> {
    std::str::from_utf8(digits).ok().and_then(|digits| u8::from_str_radix(digits, radix).ok())
}

/// Returns the runs without a space in which characters are written as `%69`, `\x69`, `\u0069` or `&#105;`.
fn escaped(text: &str) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    if memchr3(b'%', b'\\', b'&', text.as_bytes()).is_none() {
        return runs;
    }
    for mark in ["%20", "%69", "%49", "\\x", "\\u00", "&#"] {
        let mut end = 0;
        for at in memmem::find_iter(text.as_bytes(), mark.as_bytes()) {
            if runs.len() >= MOST_RUNS {
                return runs;
            }
            if at < end {
                continue;
            }
            let floor = text.ceil_char_boundary(at.saturating_sub(MOST_DECODED)).max(end);
            let before = text.get(floor..at).unwrap_or_default();
            let start = before.rfind(is_edge).map_or(floor, |edge| floor + edge + 1);
            let ceiling = text.floor_char_boundary((at + 3 * MOST_DECODED).min(text.len()));
            let behind = text.get(at..ceiling).unwrap_or_default();
            end = behind.find(is_edge).map_or(ceiling, |edge| at + edge);
            runs.push(start..end);
        }
    }
    runs
}

fn is_edge(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\r' | '\t' | '"' | '\'' | '<' | '>' | '`')
}

/// Decodes the escapes in a run. Returns `None` if it has fewer than three.
fn unescape(run: &str) -> Option<String> {
    let mut out = String::with_capacity(run.len().min(MOST_DECODED));
    let (mut rest, mut count) = (run, 0);
    while let Some(c) = rest.chars().next() {
        let escape =
            [("%", 2, 16, ""), ("\\x", 2, 16, ""), ("\\u00", 2, 16, ""), ("&#x", 2, 16, ";"), ("&#", 0, 10, ";")];
        let known = escape.into_iter().find_map(|(mark, digits, radix, end)| {
            let body = rest.strip_prefix(mark)?;
            let digits = if digits == 0 { body.bytes().take(3).take_while(u8::is_ascii_digit).count() } else { digits };
            let byte = byte_of(body.as_bytes().get(..digits)?, radix).filter(|byte| is_text(*byte))?;
            Some((byte, body.get(digits..)?.strip_prefix(end)?))
        });
        if let Some((byte, behind)) = known {
            out.push(char::from(byte));
            count += 1;
            rest = behind;
        } else {
            out.push(if c == '+' { ' ' } else { c });
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
        }
        if out.len() >= MOST_DECODED {
            break;
        }
    }
    (count >= 3).then_some(out)
}
