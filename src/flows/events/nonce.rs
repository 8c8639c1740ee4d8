//! Nonces of prompts that this installation knows again: the loop guard's eye for content.
//!
//! A model's traffic may come back as an event, by a provider that is watched itself. The fence's word alone would not
//! do as a mark: an agent that writes it would never be reviewed. So half of a nonce is a seal.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use rand::Rng;
use umbra_store::installation::Installation;

/// Hex digits of each half: what was drawn, and its seal.
const HALF: usize = 16;
/// Looked at in one event; a prompt has fewer, and who writes more reaches a review.
const MOST: usize = 256;

/// A fresh nonce: 64 random bits, and 64 that nobody else can add; random ones where nobody is to know it again.
pub(in crate::flows) fn draw(installation: Option<&Installation>) -> String {
    let drawn = || hex::encode(rand::rng().random::<[u8; HALF / 2]>());
    let first = drawn();
    let second = installation.map_or_else(drawn, |installation| seal(installation, first.as_bytes()));
    first + &second
}

/// Whether a text holds a prompt of ours: the fence's word, and a nonce that we have drawn.
pub(super) fn holds_prompt(installation: &Installation, text: &[u8]) -> bool {
    // Made once: to prepare the search costs as much as to search an ordinary event.
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
