//! Nonces of prompts that this installation recognises, by which the loop guard finds its own prompts in an event.
//!
//! A model's traffic may come back as an event, if its provider is watched itself. The fence's word alone is no proof:
//! an agent that writes it would never be reviewed. So half of a nonce is a seal.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use rand::Rng;
use umbra_store::installation::Installation;

/// Hex digits of each half: the random number, and its seal.
const HALF: usize = 16;
/// Most words that are checked in one event. A prompt has fewer; an event with more of them reaches a review.
const MOST: usize = 256;

/// Draws a nonce: 64 random bits, and their seal of 64 bits, which only this installation can make; random bits instead
/// of the seal without an installation.
pub(in crate::flows) fn draw(installation: Option<&Installation>) -> String {
    let drawn = || hex::encode(rand::rng().random::<[u8; HALF / 2]>());
    let first = drawn();
    let second = installation.map_or_else(drawn, |installation| seal(installation, first.as_bytes()));
    first + &second
}

/// True if a text contains a prompt of this installation: the fence's word, and a sealed nonce.
pub(super) fn holds_prompt(installation: &Installation, text: &[u8]) -> bool {
    // Made once: preparing the search costs as much as searching an ordinary event.
    static FENCE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(umbra_review::FENCE_MARK));
    if FENCE.find(text).is_none() {
        return false;
    }
    let words = text.split(|byte| !byte.is_ascii_alphanumeric());
    words.filter(|word| word.len() == 2 * HALF).take(MOST).any(|word| {
        let (drawn, sealed) = word.split_at(HALF);
        seal(installation, drawn).as_bytes() == sealed
    })
}

fn seal(installation: &Installation, drawn: &[u8]) -> String {
    let hash = installation.hash("nonce", &[drawn]);
    hex::encode(&hash[..HALF / 2])
}
