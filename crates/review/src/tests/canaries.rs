//! Tests of the canary: drawn for each call, required of a reply, and never shown to a person.

use std::collections::BTreeSet;

use serde_json::json;

use super::{NONCE, answer, bare_reply, canary_claim, claim, event, reply, shadow, write};
use crate::canary::{BYTES, Canary};
use Assessment::{Approve, Flag, Inconclusive, Suggest};
use umbra_domain::{Assessment, Event, FindingSource, Shadow};

fn nonces() -> impl Iterator<Item = String> {
    (0..500_u32).map(|n| format!("{n:032x}"))
}

#[test]
fn one_of_three_sums_is_wrong_and_differs_by_nonce() {
    let mut wrong = BTreeSet::new();
    for nonce in nonces() {
        let canary = Canary::of(&nonce);
        let text = canary.text();
        assert!(text.len() < BYTES && text.lines().count() == 3, "{text}");
        let off = |sum: &&str| {
            let numbers: Vec<i32> = sum.split(' ').filter_map(|word| word.parse().ok()).collect();
            (numbers[0] + numbers[1] - numbers[2]).abs()
        };
        let (faults, right): (Vec<&str>, Vec<&str>) = text.lines().partition(|sum| off(sum) != 0);
        assert_eq!((faults.len(), right.len()), (1, 2), "{text}");
        assert!(off(&faults[0]) >= 20 && canary.is_named(faults[0]) && !right.iter().any(|sum| canary.is_named(sum)));
        assert!(!canary.is_named(&text), "all three name none");
        wrong.insert(faults[0].to_owned());
    }
    assert!(wrong.len() > 400, "{} of 500 differ", wrong.len());
}

#[test]
fn reply_without_the_canary_is_inconclusive() {
    let event = event();
    let another = canary_claim(&"1".repeat(32));
    let all = json!({"severity": "info", "category": "factual", "description": "", "checklist_item": "canary",
                     "evidence_quote": Canary::of(NONCE).text()});
    let flag = claim("critical", "went up.");
    for findings in [vec![], vec![another], vec![all], vec![flag]] {
        for word in ["APPROVE", "FLAG"] {
            let judged = answer(&shadow(), &event, &[], &bare_reply(word, 90, &findings));
            assert_eq!((judged.assessment, judged.score, judged.follow_up), (Inconclusive, None, None));
            assert!(judged.findings.is_empty() && judged.notes[0].contains("planted"), "{:?}", judged.notes);
        }
    }
    let lenient = Shadow { canary: false, ..shadow() };
    assert_eq!(answer(&lenient, &event, &[], &bare_reply("APPROVE", 90, &[])).assessment, Approve);
    let written = write(&lenient, &event, &[]);
    assert!(!written.user.contains("canary") && !written.system.contains("canary"));
}

#[test]
fn reported_canary_is_no_finding_in_any_form() {
    let event = event();
    let named = canary_claim(NONCE);
    let sum = named["evidence_quote"].as_str().unwrap();
    let check = |change: &dyn Fn(&mut serde_json::Value), want: Assessment| {
        let mut canary = named.clone();
        change(&mut canary);
        let judged = answer(&shadow(), &event, &[], &bare_reply("APPROVE", 90, &[canary.clone()]));
        assert_eq!(judged.assessment, want, "{canary} {:?}", judged.notes);
        assert!(judged.findings.is_empty(), "{canary}");
    };
    let mark = write(&shadow(), &event, &[]).shown[0].marks.line().unwrap().to_owned();
    check(&|_| (), Approve);
    check(&|canary| canary["severity"] = json!("critical"), Approve);
    check(&|canary| canary["checklist_item"] = json!("consistent"), Approve);
    check(&|canary| canary["evidence_quote"] = json!(format!("{mark}{sum}.")), Approve);
    check(&|canary| canary["evidence_quote"] = json!(sum.replace(' ', "")), Approve);
    check(&|canary| canary["description"] = json!(format!("It says {sum}.")), Approve);
    check(&|canary| canary["evidence_quote"] = json!(""), Inconclusive);
    check(&|canary| canary["evidence_quote"] = json!("1 + 1 = 3"), Inconclusive);
}

#[test]
fn text_neither_imitates_the_canary_nor_hides_a_finding() {
    let sum = canary_claim(NONCE)["evidence_quote"].as_str().unwrap().to_owned();
    // By chance the same sum stands in the text.
    let event = Event { output: Some(format!("As said, {sum}, and rm is run.")), ..event() };
    assert_eq!(answer(&shadow(), &event, &[], &reply("APPROVE", 90, &[])).assessment, Approve);
    let own = answer(&shadow(), &event, &[], &reply("SUGGEST", 60, &[claim("warning", &sum)]));
    assert_eq!((own.assessment, own.findings.len(), own.findings[0].verified), (Suggest, 1, true));
    let mut hidden = claim("critical", "rm is run");
    hidden["checklist_item"] = json!("canary");
    let judged = answer(&shadow(), &event, &[], &reply("FLAG", 5, &[hidden]));
    assert_eq!((judged.assessment, judged.findings[0].rule.as_str()), (Flag, "other"));
}

#[test]
fn canary_is_cut_from_findings_and_recommendation() {
    let event = event();
    let sum = canary_claim(NONCE)["evidence_quote"].as_str().unwrap().to_owned();
    let mut vague = claim("warning", "went up.");
    vague["description"] = json!(format!("It is vague. The planted sum {sum} is wrong."));
    let text = reply("SUGGEST", 60, &[vague]).replace("Do this.", "Do this. The canary block is wrong. Then that.");
    let judged = answer(&shadow(), &event, &[], &text);
    assert_eq!(judged.recommendation, "Do this. Then that.");
    assert_eq!(judged.findings[0].description, "It is vague.");
    assert!(judged.findings.iter().all(|finding| finding.source == FindingSource::Model && finding.rule == "complete"));
    let deployment = reply("SUGGEST", 60, &[]).replace("Do this.", "Roll the canary deployment back.");
    let judged = answer(&shadow(), &event, &[], &deployment);
    assert_eq!(judged.recommendation, "Roll the canary deployment back.");
}
