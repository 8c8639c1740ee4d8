//! Rules in words: the rules that are asked, and the changes that a model's answer makes.

use serde_json::json;

use super::{super::with_model, *};

fn names(guard: &Guardrail, subject: MomentSubject<'_>, ruling: &Ruling) -> Vec<String> {
    guard.model_rules(&moment(subject), ruling).into_iter().map(|rule| rule.name.clone()).collect()
}

#[test]
fn only_rules_that_can_change_the_ruling_are_asked() {
    let tried = |name: &str, verdict| ModelRule { mode: PolicyMode::Audit, ..model_rule(name, &[], verdict) };
    let models = vec![
        model_rule("block", &[], Block),
        model_rule("warn", &[], Warn),
        tried("audit-block", Block),
        tried("audit-warn", Warn),
    ];
    let guard = compiled(&SidecarRules { models, ..SidecarRules::default() });
    let message = MomentSubject::Message { role: "assistant", text: "hello", with_calls: false };
    for (decision, would, asked) in [
        (Allow, Allow, &["block", "warn", "audit-block", "audit-warn"][..]),
        (Allow, Warn, &["block", "warn", "audit-block"]),
        (Allow, Block, &["block", "warn"]),
        (Warn, Warn, &["block", "audit-block"]),
        (Warn, Block, &["block"]),
        (Block, Block, &[]),
    ] {
        let ruling = Ruling { decision, would, ..Ruling::default() };
        assert_eq!(names(&guard, message, &ruling), asked, "{decision:?} {would:?}");
    }
}

#[test]
fn model_rules_are_asked_about_messages_and_calls_only() {
    let (send, read, args) = (ToolName::of("mail", "send_email"), ToolName::bare("read"), json!({}));
    let models = vec![model_rule("all", &[], Block), model_rule("sends", &["send_*"], Block)];
    let guard = compiled(&SidecarRules { models, ..SidecarRules::default() });
    for (subject, asked) in [
        (MomentSubject::Turn, &[][..]),
        (MomentSubject::Message { role: "assistant", text: "hello", with_calls: false }, &["all"]),
        (call(&send, &args), &["all", "sends"]),
        (call(&read, &args), &["all"]),
        (MomentSubject::Result { tool: &send, text: "ok" }, &[]),
    ] {
        assert_eq!(names(&guard, subject, &Ruling::default()), asked);
    }
}

#[test]
fn model_answer_raises_a_ruling_and_never_lowers_one() {
    for decision in SidecarVerdict::ALL {
        for would in SidecarVerdict::ALL.into_iter().filter(|would| *would >= decision) {
            let held = decision > Allow;
            let rule = held.then(|| "held".to_owned());
            let checked_by = held.then_some(CheckedBy::Rule);
            let before = Ruling { decision, would, rule, checked_by, ..Ruling::default() };
            for verdict in SidecarVerdict::OF_RULES {
                for mode in PolicyMode::ALL {
                    let rule = ModelRule { mode, ..model_rule("m", &[], verdict) };
                    let after = with_model(before.clone(), &rule, Some(true), "it does");
                    let holds = if mode == PolicyMode::Enforce { decision.max(verdict) } else { decision };
                    assert_eq!((after.decision, after.would), (holds, would.max(verdict)));
                    let named = (after.rule.as_deref(), after.checked_by);
                    let raised = (Some("m"), Some(CheckedBy::Model));
                    assert_eq!(named, if holds > decision { raised } else { (before.rule.as_deref(), checked_by) });
                    for answer in [Some(false), None] {
                        let same = with_model(before.clone(), &rule, answer, "no");
                        assert_eq!(Ruling { explain: Vec::new(), ..same.clone() }, before);
                        assert_eq!(same.explain.len(), 1);
                    }
                }
            }
        }
    }
}

#[test]
fn model_reason_is_cut_cleaned_and_put_on_one_line() {
    let rule = model_rule("kind", &[], Block);
    let said = |violated, why: &str| with_model(Ruling::default(), &rule, violated, why).explain.remove(0);
    assert_eq!(said(Some(true), "It\nis\trude."), "kind (enforce): block, its shadow says: It is rude.");
    assert_eq!(said(Some(false), "fine"), "kind (enforce): its shadow sees no violation: fine");
    assert_eq!(said(None, "1s went by"), "kind (enforce): its shadow gave no answer, and the ruling stays: 1s went by");
    let long = said(Some(true), &"very long \u{202e}".repeat(1_000));
    assert!(long.chars().count() < 360 && !long.contains('\u{202e}') && long.ends_with('…'), "{long}");
    let secret = said(Some(true), concat!("it has ghp_", "q8Zr1LmX0pTn5vKc2JhWq8Zr1LmX0pTn5vKc in it"));
    assert!(!secret.contains("q8Zr1"), "{secret}");
    let ruling = with_model(Ruling::default(), &rule, Some(true), "why");
    assert_eq!((ruling.reason.as_deref(), ruling.rule.as_deref()), (Some("kind says so"), Some("kind")));
}
