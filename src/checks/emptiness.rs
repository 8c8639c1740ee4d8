//! Says whether an output says nothing: empty, without content, or a refusal. In: an event; of its texts only the
//! output. Out: at most one hit. A long answer that also declines something is no refusal.

use std::sync::LazyLock;

use regex::Regex;

use crate::domain::{CheckName, Event, FieldName, Hit, Severity};

/// Openings that reward models and model judges are known to score highly though nothing follows
/// (Zhao et al., "One Token to Fool LLM-as-a-Judge", arXiv:2507.08794).
const MASTER_KEYS: [&str; 18] = [
    "thought process",
    "let's solve this problem step by step",
    "let's solve this step by step",
    "let's think step by step",
    "solution",
    "answer",
    "the answer is",
    "final answer",
    "explanation",
    "reasoning",
    "step 1",
    "sure",
    "certainly",
    "here is the answer",
    "here is the solution",
    "okay",
    "we need to solve this",
    "conclusion",
];

/// A refusal is short; what is longer says something else as well.
const LONGEST_REFUSAL: usize = 700;

/// The output's hit, if it says nothing.
pub(super) fn hit(event: &Event) -> Option<Hit> {
    let output = event.output.as_deref()?;
    let (rule, description) = judge(output)?;
    let end = output.floor_char_boundary(output.len().min(200));
    Some(Hit {
        check: CheckName::Emptiness,
        rule: rule.to_owned(),
        severity: Severity::Warning,
        field: FieldName::fixed("output"),
        start: 0,
        end,
        description: description.to_owned(),
    })
}

fn judge(output: &str) -> Option<(&'static str, &'static str)> {
    static REFUSAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)^(?:(?:i'?m|i\s+am)\s+(?:really\s+|very\s+|so\s+)?sorry,?\s*(?:but\s+)?|sorry,?\s*(?:but\s+)?|unfortunately,?\s*|i\s+apologi[sz]e,?\s*(?:but\s+)?|apologies,?\s*(?:but\s+)?|as\s+an?\s+(?:AI|large\s+language\s+model|language\s+model)[^,.]{0,40},?\s*)*(?:i\s+(?:can(?:'|’)?t|can\s?not|won(?:'|’)?t|will\s+not|must\s+decline|decline|am\s+unable|am\s+not\s+able|do\s+not\s+have\s+the\s+ability|have\s+to\s+decline|am\s+not\s+allowed|am\s+not\s+permitted)|i'?m\s+(?:unable|not\s+able|not\s+allowed|not\s+permitted|not\s+comfortable)|it\s+is\s+not\s+possible\s+for\s+me|that(?:'s|\s+is)\s+(?:not\s+)?something\s+i\s+(?:can(?:'|’)?t|cannot|can))\b[^.\n]{0,60}?\b(?:help|assist|comply|provide|fulfil+|do\s+that|do\s+this|continue|answer|complete|create|generate|write|support|engage|discuss|share|with\s+(?:that|this)|to)\b",
        )
        .ok()
    });
    let text = output.trim();
    if text.is_empty() {
        return Some(("empty_output", "The output is empty."));
    }
    if !text.chars().any(char::is_alphanumeric) && !text.chars().any(|c| c as u32 > 0x2190) {
        return Some(("content_free", "The output is punctuation alone."));
    }
    let bare = text.trim_matches(|c: char| !c.is_alphanumeric()).replace('’', "'").to_lowercase();
    if MASTER_KEYS.contains(&bare.as_str()) && !(bare == "sure" || bare == "okay")
        || matches!(text.to_lowercase().as_str(), "sure:" | "okay:")
    {
        return Some(("content_free", "The output is an opening with nothing after it."));
    }
    if text.len() <= LONGEST_REFUSAL
        && REFUSAL.as_ref().is_some_and(|refusal| refusal.is_match(&text.replace('’', "'")))
    {
        return Some(("refused", "The output declines the task."));
    }
    None
}
