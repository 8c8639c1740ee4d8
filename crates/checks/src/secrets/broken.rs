//! Credentials broken by quotes or a line's end: `'ghp_' + '…'`, `"ghp_…" "…"`, a token that continues on the next
//! line. In: a text and the place where a credential begins. Out: the credential without the breaks, and the place of
//! each byte. Used only where a format's literal stands and the format does not match.

use super::{gibberish::is_gibberish, values};

/// Most bytes that are read, breaks included.
const LONGEST: usize = 600;
/// Most breaks in one credential.
const MOST_BREAKS: usize = 8;

/// A joined text, without its breaks.
pub(super) struct JoinedText {
    pub(super) text: String,
    /// Place of each byte of the text.
    pub(super) places: Vec<usize>,
    /// Ends of the parts in the text.
    pub(super) ends: Vec<usize>,
}

/// Joins the parts from `start` on, whose literal ends at `end`; `None` where there is no break. If the first part is
/// `whole`, the next line continues it only if it holds nothing else.
pub(super) fn joined(text: &str, start: usize, end: usize, whole: bool) -> Option<JoinedText> {
    let bytes = text.as_bytes().get(..text.len().min(start + LONGEST))?;
    let goes_on = |at: usize| literals(bytes, at).or_else(|| lines(text, bytes, at, end, whole));
    // Most texts have no break, and a text of beginnings alone would be copied again for each of them.
    goes_on(start + run(bytes, start))?;
    let mut joined = JoinedText { text: String::new(), places: Vec::new(), ends: Vec::new() };
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

/// Returns the beginning of the next literal, from the end of one: a sign or nothing joins them.
fn literals(bytes: &[u8], at: usize) -> Option<usize> {
    let quote = bytes.get(at).filter(|byte| matches!(byte, b'"' | b'\''))?;
    let mut next = at + 1 + blank(bytes, at + 1);
    let sign = bytes.get(next..)?.iter().take(2).take_while(|byte| matches!(byte, b'+' | b'.' | b'&' | b'\\')).count();
    next += sign;
    next += blank(bytes, next);
    (bytes.get(next) == Some(quote) && run(bytes, next + 1) > 0).then_some(next + 1)
}

/// Returns the beginning of the next line, if it continues like a credential.
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
