//! Calls, by the policies of both files.

use serde_json::{Value, json};

use super::*;

#[test]
fn strictest_policy_decides_and_audit_changes_only_would() {
    let tried = |name: &str, verdict| PolicyRule { mode: PolicyMode::Audit, ..policy(name, &[], verdict) };
    let table: [(Vec<PolicyRule>, _, _, Option<&str>, Option<&str>); 9] = [
        (vec![policy("a", &[], GuardVerdict::Allow)], Allow, Allow, Some("a"), None),
        (vec![policy("a", &["send_*"], GuardVerdict::Warn)], Warn, Warn, Some("a"), None),
        (vec![policy("a", &["web.*"], GuardVerdict::Block)], Allow, Allow, None, None),
        (
            vec![policy("a", &[], GuardVerdict::Warn), policy("b", &[], GuardVerdict::Block)],
            Block,
            Block,
            Some("b"),
            None,
        ),
        (
            vec![policy("a", &[], GuardVerdict::Block), policy("b", &[], GuardVerdict::Block)],
            Block,
            Block,
            Some("a"),
            None,
        ),
        (vec![tried("a", GuardVerdict::Block)], Allow, Block, None, Some("a")),
        (
            vec![tried("a", GuardVerdict::Block), policy("b", &[], GuardVerdict::Warn)],
            Warn,
            Block,
            Some("b"),
            Some("a"),
        ),
        (vec![tried("a", GuardVerdict::Block), policy("b", &[], GuardVerdict::Block)], Block, Block, Some("b"), None),
        (vec![tried("a", GuardVerdict::Block), policy("b", &[], GuardVerdict::Ask)], Block, Block, Some("b"), None),
    ];
    for (policies, decision, would, rule, would_rule) in table {
        let ruling = of_policies(policies.clone());
        assert_eq!((ruling.decision, ruling.would), (decision, would), "{policies:?}");
        assert_eq!((ruling.rule.as_deref(), ruling.would_rule.as_deref()), (rule, would_rule), "{policies:?}");
        assert_eq!(ruling.checked_by, rule.map(|_| CheckedBy::Rule));
        assert_eq!(ruling.reason.is_some(), rule.is_some());
    }
}

#[test]
fn call_that_needs_approval_is_blocked_until_then() {
    let ruling = of_policies(vec![policy("large", &[], GuardVerdict::Ask)]);
    assert_eq!((ruling.decision, ruling.needs_approval), (Block, true));
    let reason = ruling.reason.unwrap();
    assert_eq!(reason, "large says so (a person must approve it)");
    assert_eq!(ruling.explain, ["large (enforce): ask"]);
    // No approval lifts the block of another rule, in the same file or not.
    let both = of_policies(vec![policy("large", &[], GuardVerdict::Ask), policy("never", &[], GuardVerdict::Block)]);
    assert_eq!((both.rule.as_deref(), both.needs_approval), (Some("never"), false));
    let plan = document_rule("plan", DocumentNeed::Exists, Block);
    let policies = vec![policy("large", &[], GuardVerdict::Ask)];
    let guard = compiled(&SidecarRules { policies, documents: vec![plan], ..SidecarRules::default() });
    let (tool, args) = (ToolName::bare("t"), json!({}));
    let ruling = guard.judge(&moment(call(&tool, &args)));
    assert_eq!((ruling.rule.as_deref(), ruling.needs_approval), (Some("plan"), false), "{:?}", ruling.explain);
}

#[test]
fn policies_of_the_tools_file_come_first_and_share_no_name() {
    let rules = SidecarRules { policies: vec![policy("ours", &[], GuardVerdict::Block)], ..SidecarRules::default() };
    let theirs = [policy("theirs", &[], GuardVerdict::Block)];
    let guard = Guardrail::compile(&rules, &theirs).unwrap();
    let (tool, args) = (ToolName::bare("t"), json!({}));
    let ruling = guard.judge(&moment(call(&tool, &args)));
    assert_eq!((ruling.rule.as_deref(), ruling.explain.len()), (Some("theirs"), 2));
    let twin = [policy("ours", &["other"], GuardVerdict::Allow)];
    let told = Guardrail::compile(&rules, &twin).unwrap_err().to_string();
    assert!(told.starts_with("two rules have the name \"ours\""), "{told}");
    let mut twice = rules.clone();
    twice.documents.push(document_rule("ours", DocumentNeed::Exists, Warn));
    assert!(Guardrail::compile(&twice, &[]).is_err());
}

#[test]
fn conditions_see_arguments_and_taints_and_errors_block() {
    let mut web = policy("web", &["web.*"], GuardVerdict::Allow);
    web.taints = texts(&["untrusted_web"]);
    let mut after = policy("after", &["send_*"], GuardVerdict::Block);
    after.when = Some("'untrusted_web' in session.taint".to_owned());
    let mut large = policy("large", &["pay"], GuardVerdict::Block);
    large.when = Some("args.amount > 500.0".to_owned());
    let guard = compiled(&SidecarRules { policies: vec![web, after, large], ..SidecarRules::default() });
    let taints = texts(&["untrusted_web"]);
    let args = json!({"amount": 20.0});
    let judged =
        |tool: &ToolName, args: &Value, taints: &[String]| guard.judge(&tainted(moment(call(tool, args)), taints));
    let (fetch, send) = (ToolName::of("web", "fetch"), ToolName::of("mail", "send_email"));
    assert_eq!(judged(&fetch, &args, &[]).taints, ["untrusted_web"]);
    assert_eq!(judged(&send, &args, &[]).decision, Allow);
    assert_eq!(judged(&send, &args, &taints).decision, Block);
    let pay = ToolName::bare("pay");
    assert_eq!(judged(&pay, &args, &[]).decision, Allow);
    assert_eq!(judged(&pay, &json!({"amount": "lots"}), &[]).decision, Block);
    let doubt = judged(&pay, &json!({}), &[]);
    assert!(doubt.decision == Block && doubt.explain[0].contains("cannot be evaluated"), "{doubt:?}");
}

#[test]
fn ambiguous_tool_name_is_blocked_whatever_the_rules_say() {
    let allow = compiled(&SidecarRules {
        policies: vec![policy("all", &["*"], GuardVerdict::Allow)],
        ..SidecarRules::default()
    });
    for tool in [ToolName::bare("send\u{200b}email"), ToolName::of("ma\u{ad}il", "send"), ToolName::bare("a\u{202e}b")]
    {
        let ruling = allow.judge(&moment(call(&tool, &json!({}))));
        assert_eq!((ruling.decision, ruling.rule), (Block, None), "{tool}");
        assert!(ruling.reason.unwrap().contains("letters, digits"), "{tool}");
    }
    // All spellings of a name match.
    let guard = compiled(&SidecarRules {
        policies: vec![policy("send", &["mail.send_email"], GuardVerdict::Block)],
        ..SidecarRules::default()
    });
    for tool in [ToolName::of("Mail", "Send-Email"), ToolName::bare("send_email"), ToolName::bare("mail.SEND EMAIL")] {
        assert_eq!(guard.judge(&moment(call(&tool, &json!({})))).decision, Block, "{tool}");
    }
}
