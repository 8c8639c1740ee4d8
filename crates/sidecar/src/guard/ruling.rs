//! Joins the verdicts of all matching rules into one ruling.

use super::scope::{GuardrailRule, RuleHeader};
use umbra_checks::redact;
use umbra_domain::{
    PolicyMode,
    sidecar::{CheckedBy, ModelRule, Ruling, SidecarVerdict},
};

/// Longest reason of a model, in characters.
const MOST_WHY: usize = 300;

/// Verdict of one rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct RuleVerdict<'a> {
    /// Name of the rule; `None` for a built-in one.
    pub rule: Option<&'a str>,
    pub mode: PolicyMode,
    pub verdict: SidecarVerdict,
    pub reason: &'a str,
    pub by: CheckedBy,
    /// True if the rule asks for an approval, which blocks the call until then.
    pub needs_approval: bool,
}

impl<'a> RuleVerdict<'a> {
    /// Builds the verdict of a rule that matches.
    pub(super) fn of(head: &RuleHeader<'a>, by: CheckedBy) -> Self {
        let (mode, verdict) = (head.mode, head.verdict);
        Self { rule: Some(head.name), mode, verdict, reason: head.reason, by, needs_approval: false }
    }
}

/// Adds the verdict of one rule to a ruling: the gravest wins, of several the first. No approval lifts another block.
pub(super) fn add_verdict(ruling: &mut Ruling, said: &RuleVerdict<'_>) {
    let first = ruling.checked_by.is_none() && said.verdict == ruling.decision;
    let is_final = ruling.needs_approval && !said.needs_approval && said.verdict == ruling.decision;
    if said.mode == PolicyMode::Enforce && (first || is_final || said.verdict > ruling.decision) {
        ruling.decision = said.verdict;
        ruling.needs_approval = said.needs_approval;
        ruling.rule = said.rule.map(str::to_owned);
        ruling.reason = Some(said.reason.to_owned());
        ruling.checked_by = Some(said.by);
    }
    if said.verdict > ruling.would {
        ruling.would = said.verdict;
        ruling.would_rule = said.rule.map(str::to_owned);
    }
    // If a rule in force is as grave as one in audit mode, only the rule in force is named.
    if ruling.would == ruling.decision {
        ruling.would_rule = None;
    }
}

/// Adds a model's answer about a rule in words to a ruling: its policy is violated, or not, or no answer came. An
/// answer can raise the decision, or `would` in audit mode, and never lowers it; no answer changes nothing. The model's
/// reason appears in `explain` alone, cut and on one line, since the model has read text by agents.
#[must_use]
pub fn with_model(mut ruling: Ruling, rule: &ModelRule, violated: Option<bool>, why: &str) -> Ruling {
    let (name, mode, verdict) = (&rule.name, rule.mode.as_str(), rule.verdict.as_str());
    let why = presentable_reason(why);
    ruling.explain.push(match violated {
        Some(true) => format!("{name} ({mode}): {verdict}, its shadow says: {why}"),
        Some(false) => format!("{name} ({mode}): its shadow sees no violation: {why}"),
        None => format!("{name} ({mode}): its shadow gave no answer, and the ruling stays: {why}"),
    });
    if violated == Some(true) {
        add_verdict(&mut ruling, &RuleVerdict::of(&rule.head(), CheckedBy::Model));
    }
    ruling
}

/// Returns a model's words redacted, cut and on one line, without control characters.
fn presentable_reason(why: &str) -> String {
    let words: String = why.chars().take(4 * MOST_WHY).collect();
    let words: Vec<&str> = words.split_whitespace().collect();
    let mut words = redact(&words.join(" ")).as_str().to_owned();
    words.retain(|c| !c.is_control());
    if let Some((end, _)) = words.char_indices().nth(MOST_WHY) {
        words.truncate(end);
        words.push('…');
    }
    words
}
