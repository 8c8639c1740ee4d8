//! What opens a wallet: private keys in Wallet Import Format, and seed phrases. In: a word, or a text and the place of
//! what announces a phrase. Out: whether it is one, or the phrase.

use std::ops::Range;

use sha2::{Digest, Sha256};

use super::Found;
use umbra_domain::Severity;

type Find = fn(&str, Range<usize>) -> Option<Found>;

/// What announces a phrase.
pub(super) const NEEDLES: &[(&str, Find)] = &[
    ("mnemonic", seed_phrase),
    ("seed phrase", seed_phrase),
    ("seed_phrase", seed_phrase),
    ("seedphrase", seed_phrase),
    ("recovery phrase", seed_phrase),
    ("secret phrase", seed_phrase),
];

/// Twelve to 24 words behind their name (BIP 39: three to eight small letters each, their count a multiple of three).
fn seed_phrase(text: &str, hit: Range<usize>) -> Option<Found> {
    const LONGEST: usize = 260;
    /// Frequent words of prose that the list of BIP 39 does not have.
    const PROSE: [&str; 16] = [
        "the", "and", "for", "are", "was", "were", "with", "from", "which", "your", "our", "its", "has", "not", "been",
        "but",
    ];
    let window = text.get(hit.end..text.floor_char_boundary(hit.end + LONGEST))?;
    let sign = window.find([':', '=']).filter(|at| *at <= 16)? + 1;
    let lead = sign + window.get(sign..)?.bytes().take(8).take_while(|byte| b" \t\"'`\\".contains(byte)).count();
    let mut end = lead;
    let mut count = 0;
    for word in window.get(lead..)?.split(' ') {
        let bare = word.bytes().take_while(u8::is_ascii_lowercase).count();
        let own = word.get(..bare)?;
        if !(3..=8).contains(&bare) || PROSE.contains(&own) {
            break;
        }
        end += bare + usize::from(count > 0);
        count += 1;
        if bare < word.len() {
            break;
        }
    }
    matches!(count, 12 | 15 | 18 | 21 | 24).then_some(Found {
        span: hit.end + lead..hit.end + end,
        rule: "seed_phrase",
        title: "a wallet's seed phrase",
        severity: Severity::Critical,
    })
}

/// A private key of Bitcoin with its checksum: base 58 of a version, 32 bytes, perhaps a mark, and four bytes of a
/// double SHA-256. <https://en.bitcoin.it/wiki/Wallet_import_format>
pub(super) fn is_wallet_key(word: &str) -> bool {
    const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    if !(51..=52).contains(&word.len()) || !word.starts_with(['5', 'K', 'L', '9', 'c']) {
        return false;
    }
    let mut key = [0_u8; 38];
    for byte in word.bytes() {
        let Some(digit) = DIGITS.iter().position(|digit| *digit == byte) else { return false };
        let mut carry = digit;
        for place in key.iter_mut().rev() {
            carry += usize::from(*place) * 58;
            *place = u8::try_from(carry & 0xff).unwrap_or_default();
            carry >>= 8;
        }
        if carry > 0 {
            return false;
        }
    }
    // A key without the mark is a byte shorter.
    let whole = if key.first() == Some(&0) { key.get(1..) } else { Some(key.as_slice()) };
    let Some((body, sum)) = whole.and_then(|whole| whole.split_at_checked(whole.len() - 4)) else { return false };
    Sha256::digest(Sha256::digest(body)).starts_with(sum)
}
