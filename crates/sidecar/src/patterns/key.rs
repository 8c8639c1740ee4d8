//! Identity of patterns. In: a pattern, screened. Out: a key that all reports of one way to do one task have in common.

use crate::word_stems::words;
use umbra_domain::{NewPattern, ToolName};

/// Words that reverse the meaning of a task; `t` is the rest of `don't`.
const NEGATIONS: [&str; 9] = ["cannot", "except", "never", "no", "nor", "not", "only", "t", "without"];

/// Computes the key of a pattern: of its agent, of the words of its task in any order and inflection, and of its tools
/// in order, in any spelling, with calls in a row counted once. Prompt, summary and kind of task do not count: of two
/// reports the first stays, so reporting a pattern again cannot rewrite it.
pub fn dedup_key(new: &NewPattern) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("umbra 2026 the same pattern");
    let mut part = |text: &str| {
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        hasher.update(&length.to_le_bytes()).update(text.as_bytes());
    };
    part(&new.agent);
    let mut stems: Vec<String> = words(&new.task).map(|word| word.stem).collect();
    stems.sort_unstable();
    stems.dedup();
    if stems.is_empty() {
        // No words to compare; tasks that differ in punctuation alone are still different.
        stems.push(new.task.trim().to_lowercase());
    }
    part(&stems.join(" "));
    // Likeness ignores these words, but a negated task is another task.
    let negations = new.task.to_lowercase();
    let negations = negations.split(|c: char| !c.is_alphanumeric()).filter(|word| NEGATIONS.contains(word));
    part(&negations.collect::<Vec<&str>>().join(" "));
    let mut tools: Vec<String> = new.tools.iter().map(ToolName::joined).collect();
    tools.dedup();
    for tool in &tools {
        part(tool);
    }
    *hasher.finalize().as_bytes()
}
