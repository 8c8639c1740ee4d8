//! Joins what quotes or a line's end break within a credential: `'ghp_' + '…'`, `"ghp_…" "…"`, a token that goes on in
//! the next line. In: a text and the place where a credential begins. Out: what stands there without the breaks, and the
//! place of each byte. It is asked only where a format's literal stands and the format does not match.

use super::{gibberish::is_gibberish, values};

/// Most bytes that are read, breaks included.
const LONGEST: usize = 600;
/// Most breaks in one credential.
const MOST_BREAKS: usize = 8;

/// What stands at a place without its breaks.
pub(super) struct Joined {
    pub(super) text: String,
    /// By byte of the text: its place.
    pub(super) places: Vec<usize>,
    /// Where its parts end.
    pub(super) ends: Vec<usize>,
}

/// What begins at `start`, whose literal ends at `end`; `None` where it is not broken. Where the first part is `whole`, a
/// line goes on with it only if nothing else stands there.
pub(super) fn joined(text: &str, start: usize, end: usize, whole: bool) -> Option<Joined> {
    let bytes = text.as_bytes().get(..text.len().min(start + LONGEST))?;
    let goes_on = |at: usize| literals(bytes, at).or_else(|| lines(text, bytes, at, end, whole));
    // Most are not broken, and a text of beginnings alone would be copied again for each of them.
    goes_on(start + run(bytes, start))?;
    let mut joined = Joined { text: String::new(), places: Vec::new(), ends: Vec::new() };
    let mut at = start;
    let mut breaks = 0;
    loop {
        let length = run(bytes, at);
        joined.text.push_str(text.get(at..at + length)?);
        joined.places.extend(at..at + length);
        joined.ends.push(joined.text.len());
        at += length;
        let Some(next) = goes_on(at).filter(|_| breaks < MOST_BREAKS) else { break };
        at = next;
        breaks += 1;
    }
    Some(joined)
}

fn run(bytes: &[u8], at: usize) -> usize {
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'~');
    bytes.get(at..).unwrap_or_default().iter().take_while(part).count()
}

fn blank(bytes: &[u8], at: usize) -> usize {
    const MOST: usize = 40;
    bytes.get(at..).unwrap_or_default().iter().take(MOST).take_while(|byte| byte.is_ascii_whitespace()).count()
}

/// From the end of a literal's text to the beginning of the next one's, which a sign or nothing joins to it.
fn literals(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes.get(at).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let mut next = at + 1 + blank(bytes, at + 1);
    let sign = bytes.get(next..)?.iter().take(2).take_while(|byte| matches!(byte, b'+' | b'.' | b'&' | b'\\')).count();
    next += sign;
    next += blank(bytes, next);
    (bytes.get(next) == Some(quote) && run(bytes, next + 1) > 0).then_some(next + 1)
}

/// From a line's end to the beginning of the next, where that goes on as a credential does.
fn lines(text: &str, bytes: &[u8], at: usize, literal_end: usize, alone: bool) -> Option<usize> {
    let mut next = at;
    next += usize::from(bytes.get(next) == Some(&b'\\'));
    next += usize::from(bytes.get(next) == Some(&b'\r'));
    if bytes.get(next) != Some(&b'\n') || at < literal_end + 4 {
        return None;
    }
    next += 1;
    next += bytes.get(next..)?.iter().take(40).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let part = text.get(next..next + run(bytes, next))?;
    let random = values::is_mixed(part) || part.len() >= 8 && is_gibberish(part);
    let fits = if alone {
        let ends = bytes.get(next + part.len()).is_none_or(|byte| matches!(byte, b'\n' | b'\r' | b'"' | b'\'' | b'\\'));
        ends && part.len() >= 8 && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    } else {
        part.len() >= 4
    };
    (random && fits).then_some(next)
}
