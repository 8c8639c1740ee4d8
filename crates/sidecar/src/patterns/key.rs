//! Whether two patterns are the same. In: a pattern, screened. Out: a key that all tellings of one way to do one task have in
//! common.

use crate::words::words;
use umbra_domain::{NewPattern, ToolName};

/// Words that turn what a task says; `t` is what is left of `don't`.
const NEGATIONS: [&str; 9] = ["cannot", "except", "never", "no", "nor", "not", "only", "t", "without"];

/// The key of a pattern: of its agent, of the words of its task whatever their order and inflection, and of its tools in
/// order, whatever the spelling of their names and however often each was called in a row. Prompt, summary and kind of task
/// do not count: of two tellings the first stays, so nobody rewrites what another one recorded by telling it again.
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
        // Nothing to compare by; what differs in signs alone is still not the same.
        stems.push(new.task.trim().to_lowercase());
    }
    part(&stems.join(" "));
    // Likeness does not go by these, and yet what is not to be done is another task.
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
