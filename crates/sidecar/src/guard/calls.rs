//! Applies the rules about calls to a moment.

use super::{
    moment::{Moment, MomentSubject},
    ruling::{RuleVerdict, add_verdict},
};
use umbra_domain::{
    Guard, GuardVerdict, PolicyMode,
    sidecar::{CheckedBy, Ruling, SidecarVerdict},
    tool::plain_tool_name,
};
use umbra_policy::{CallFacts, Policy};

/// Applies the rules, if the moment is a call.
pub(super) fn apply_call_rules(policy: &Policy, moment: &Moment<'_>, ruling: &mut Ruling) {
    let MomentSubject::Call { tool, effect, args } = moment.subject else { return };
    let names = std::iter::once(&tool.name).chain(&tool.server);
    if let Some(reason) = names.map(|name| plain_tool_name(name)).find_map(Result::err) {
        // Rules would be matched against another name than that of the tool that runs.
        ruling.explain.push(format!("block: {reason}"));
        add_verdict(ruling, &said(None, PolicyMode::Enforce, SidecarVerdict::Block, reason));
    }
    let Guard { verdict, would, mode, rule, reason, would_rule, taints, explain, .. } =
        policy.judge(&CallFacts { context: moment.context, tool, readings: &tool.readings(), effect, args });
    ruling.explain.extend(explain);
    ruling.taints = taints;
    let Some(rule) = rule else { return };
    let held = mode == Some(PolicyMode::Enforce);
    if held {
        let mut reason = reason.unwrap_or_default();
        if verdict == GuardVerdict::Ask {
            reason.push_str(" (a person must approve it)");
        }
        let needs_approval = verdict == GuardVerdict::Ask;
        let said = said(Some(&rule), PolicyMode::Enforce, of_guard(verdict), &reason);
        add_verdict(ruling, &RuleVerdict { needs_approval, ..said });
    }
    if let Some(tried) = would_rule.as_ref().or(Some(&rule).filter(|_| !held)) {
        add_verdict(ruling, &said(Some(tried), PolicyMode::Audit, of_guard(would), ""));
    }
}

fn said<'a>(rule: Option<&'a str>, mode: PolicyMode, verdict: SidecarVerdict, reason: &'a str) -> RuleVerdict<'a> {
    RuleVerdict { rule, mode, verdict, reason, by: CheckedBy::Rule, needs_approval: false }
}

/// Converts a verdict on a call. There are no approvals here, so a call that needs one is blocked.
fn of_guard(verdict: GuardVerdict) -> SidecarVerdict {
    match verdict {
        GuardVerdict::Allow => SidecarVerdict::Allow,
        GuardVerdict::Warn => SidecarVerdict::Warn,
        GuardVerdict::Ask | GuardVerdict::Block => SidecarVerdict::Block,
    }
}
