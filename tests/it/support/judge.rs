//! Replies of a scripted model that plays the judge.

use serde_json::{Value, json};

use super::model_server::Seen;

/// Returns the nonce that the prompt asks to be echoed.
pub fn nonce(seen: &Seen) -> String {
    seen.user.lines().rev().find_map(|line| line.strip_prefix("The nonce is ")).unwrap_or_default().to_owned()
}

/// Returns a reply by the schema, with the planted fault reported.
pub fn verdict(seen: &Seen, assessment: &str, score: u8, findings: &Value) -> Value {
    item(&nonce(seen), &seen.user, assessment, score, findings)
}

/// Returns such a reply for one event of a batch: `text` is its part of the prompt.
pub fn item(nonce: &str, text: &str, assessment: &str, score: u8, findings: &Value) -> Value {
    let mut all: Vec<Value> = canary(text).into_iter().collect();
    all.extend(findings.as_array().into_iter().flatten().cloned());
    json!({"nonce": nonce, "assessment": assessment, "score": score, "recommendation": "Go on.", "findings": all})
}

/// Returns the finding that reports the planted fault of this part of a prompt: the one wrong sum.
pub fn canary(text: &str) -> Option<Value> {
    let block = text.split(" field=\"canary\">\n").nth(1)?;
    let sums = block.lines().map(|line| line.split_once('|').map_or(line, |(_, data)| data));
    let wrong = sums.take(3).find(|sum| {
        let numbers: Vec<u32> = sum.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        matches!(numbers[..], [one, two, result] if one + two != result)
    })?;
    Some(json!({"severity": "info", "category": "factual", "description": "The planted sum is wrong.",
        "evidence_quote": wrong, "checklist_item": "canary"}))
}
