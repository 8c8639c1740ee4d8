//! Credentials in base64 or in hexadecimal digits. In: a text. Out: each run that decodes to text with a credential in
//! it, as a whole. Runs are found by a test of every 32nd byte, so clean text costs next to nothing; nested encodings
//! are decoded up to three times.

use std::ops::Range;

use base64::{
    Engine,
    alphabet::URL_SAFE,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};

use super::SecretFinding;
use umbra_domain::Severity;

/// Shortest run that is decoded, in bytes: 24 bytes of text.
pub(super) const SHORTEST: usize = 32;

/// Longest run that is decoded, in bytes. Longer ones are images and archives.
const LONGEST: usize = 16 * 1024;

/// Most nested decodings of one run: base64 of base64 of a credential.
const DEEPEST: usize = 3;

/// Accepts both alphabets (after [`decode`] unified them), with or without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Decodes base64 and base64url. A text cut off at a length that no encoder produces loses its last character.
pub(crate) fn decode(value: &str) -> Option<Vec<u8>> {
    let bare = value.trim_end_matches('=');
    let whole = bare.get(..bare.len() - usize::from(bare.len() % 4 == 1))?;
    LENIENT.decode(whole.replace('+', "-").replace('/', "_")).ok()
}

/// Finds the runs that encode a credential. `find` searches the decoded text.
pub(super) fn find(text: &str, find: impl Fn(&str) -> Vec<SecretFinding>) -> Vec<SecretFinding> {
    find_to(text, &find, DEEPEST)
}

fn find_to(text: &str, find: &dyn Fn(&str) -> Vec<SecretFinding>, depth: usize) -> Vec<SecretFinding> {
    let mut found = Vec::new();
    let mut at = SHORTEST - 1;
    while at < text.len() {
        let run = run_around(text.as_bytes(), at);
        // The next multiple of the step behind this place and behind the run.
        at = (run.end.max(at + 1) + SHORTEST) / SHORTEST * SHORTEST - 1;
        if let Some(inner) = decode_run(text, run.clone()).and_then(|inner| {
            let wrapped = if depth > 1 { find_to(&inner, find, depth - 1) } else { Vec::new() };
            worst(find(&inner).into_iter().chain(wrapped))
        }) {
            found.push(SecretFinding { span: run, ..inner });
        }
    }
    found
}

/// Bytes of both alphabets.
static BASE64: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 0x80 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_');
        byte += 1;
    }
    table
};

fn is_base64(byte: u8) -> bool {
    BASE64[usize::from(byte)]
}

/// Returns the run around `at` with its padding, empty if there is none. To the left it reads at most [`SHORTEST`]
/// bytes.
fn run_around(bytes: &[u8], at: usize) -> Range<usize> {
    let (before, after) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
    if !after.first().is_some_and(|byte| is_base64(*byte)) {
        return at..at;
    }
    let left = before.iter().rev().take(SHORTEST).take_while(|byte| is_base64(**byte)).count();
    let mut right = after.iter().take_while(|byte| is_base64(**byte)).count();
    right += after.get(right..).unwrap_or_default().iter().take(2).take_while(|byte| **byte == b'=').count();
    at - left..at + right
}

/// Decodes a run, if the result is text.
fn decode_run(text: &str, run: Range<usize>) -> Option<String> {
    let encoded = text.get(run).filter(|run| (SHORTEST..=LONGEST).contains(&run.len()))?;
    let printable = |bytes: &[u8]| bytes.iter().all(|b| (0x20..0x7f).contains(b) || matches!(b, b'\n' | b'\r' | b'\t'));
    let decode = if encoded.bytes().all(|byte| byte.is_ascii_hexdigit()) { decode_hex } else { decode };
    // The beginning rules out nearly everything that is no text.
    if !printable(&decode(encoded.get(..16)?)?) {
        return None;
    }
    let decoded = decode(encoded)?;
    printable(&decoded).then(|| String::from_utf8(decoded).ok())?
}

/// Decodes pairs of hexadecimal digits.
pub(crate) fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    let value = |digit: &u8| u8::try_from(char::from(*digit).to_digit(16)?).ok();
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|[high, low]| Some(value(high)? << 4 | value(low)?)).collect())?
}

/// Returns the most severe finding that is not a mere example.
fn worst(found: impl Iterator<Item = SecretFinding>) -> Option<SecretFinding> {
    found.filter(|one| one.severity >= Severity::Warning).max_by_key(|one| one.severity)
}
