//! Writes the recommendation where a model's own does not stand.
//! In: hits, or the conclusion. Out: one to three plain sentences in fixed words. Never: agents' text.

use std::cmp::Reverse;

use umbra_domain::{Assessment, CheckName, Hit, Severity};

/// Most sentences of the checks' recommendation.
const MAX_SENTENCES: usize = 3;

/// Returns the recommendation for hits of at least a warning, the worst kind first.
pub(super) fn of_hits(hits: &[&Hit]) -> String {
    let mut worst: Vec<&Hit> = hits.iter().copied().filter(|hit| hit.severity >= Severity::Warning).collect();
    worst.sort_by_key(|hit| (Reverse(hit.severity), hit.check));
    let mut kinds: Vec<CheckName> = Vec::new();
    for hit in worst {
        if !kinds.contains(&hit.check) {
            kinds.push(hit.check);
        }
    }
    if kinds.is_empty() {
        let clean = "No concerns found by the built-in checks. No model judged relevance, facts and completeness.";
        let noted = "The built-in checks found only remarks for information. No model judged relevance, facts and \
                     completeness.";
        return if hits.is_empty() { clean } else { noted }.to_owned();
    }
    kinds.into_iter().take(MAX_SENTENCES).map(sentence).collect::<Vec<_>>().join(" ")
}

/// Returns the recommendation where neither the checks nor the model give one.
pub(super) fn of_assessment(assessment: Assessment) -> &'static str {
    match assessment {
        Assessment::Approve => "No concerns found.",
        Assessment::Checked => "No model judged relevance, facts and completeness.",
        Assessment::Inconclusive => {
            "No verdict: have a person look at the result, or review it again, before relying on it."
        }
        Assessment::Suggest => "Look at the findings before relying on the result.",
        Assessment::Flag => "Do not use the result before its findings are resolved.",
    }
}

fn sentence(check: CheckName) -> &'static str {
    match check {
        CheckName::Secrets => "Rotate the credential and keep it out of the output.",
        CheckName::Commands => "Have a person confirm the command before it runs.",
        CheckName::Injection => {
            "Treat the marked text as data, and do not let the text steer the agent or its reviewer."
        }
        CheckName::Truncation => "Ask the agent to produce the missing part.",
        CheckName::Emptiness => "Ask the agent to repeat the work: its output is not usable.",
        CheckName::Loops => "Stop the loop: the agent repeats itself and makes no progress.",
        CheckName::Pii => "Remove the personal data, unless the task is to give it to the person concerned.",
        CheckName::Contradictions => "Compare the claim with the tool's result, and correct it.",
        CheckName::OutsideHosts => "Have a person confirm that the agent may reach the host.",
        CheckName::Hidden => "Find the source of the hidden characters before using the text.",
    }
}
