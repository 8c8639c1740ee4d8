//! What a scripted model replies when it plays the judge.

use serde_json::{Value, json};

use super::model_server::Seen;

/// The nonce that the prompt asks to be echoed: the first 32 hex digits in a row that stand by themselves.
pub fn nonce(seen: &Seen) -> String {
    let words = seen.user.split(|c: char| !c.is_ascii_alphanumeric());
    let mut hex = words.filter(|word| word.len() == 32 && word.bytes().all(|b| b.is_ascii_hexdigit()));
    // The fence's tag is hex as well, but stands behind `umbra-fence-`.
    let tag = seen.user.split("umbra-fence-").nth(1).and_then(|rest| rest.get(..32)).unwrap_or_default().to_owned();
    hex.find(|word| *word != tag).unwrap_or_default().to_owned()
}

/// A reply by the schema.
pub fn verdict(seen: &Seen, assessment: &str, score: u8, findings: &Value) -> Value {
    json!({"nonce": nonce(seen), "assessment": assessment, "score": score, "recommendation": "Go on.",
        "findings": findings})
}
