//! What counts as a reply, and what its strings become.

use serde_json::{Value, json};

use super::{NONCE, bare_reply as reply, claim};
use crate::reply::{CHECKLIST, Unreadable, parse, schema};
use umbra_domain::{Assessment, Severity};

#[test]
fn one_object_may_stand_in_prose_or_fences() {
    let object = reply("APPROVE", 90, &[]);
    for text in [
        object.clone(),
        format!("```json\n{object}\n```"),
        format!("Here is my review:\n\n{object}\n\nI hope that it helps."),
        format!("\u{feff}  {object}\r\n"),
        format!("<think>The braces {{}} and \"{{\" are in my thoughts.</think>\n{object}"),
        format!("<thinking>\n{{\"assessment\": \"FLAG\"}}\n</thinking>{object}"),
        format!("I was told to think {{first}}.\n</think>\n\n```json\n{object}\n```"),
    ] {
        assert_eq!(parse(&text).map(|verdict| verdict.assessment).unwrap(), Assessment::Approve, "{text}");
    }
}

#[test]
fn anything_else_is_unreadable() {
    let good = reply("APPROVE", 90, &[]);
    let without = |field: &str| {
        let mut object: Value = serde_json::from_str(&good).unwrap();
        object.as_object_mut().unwrap().remove(field);
        object.to_string()
    };
    let kind = |text: &str| match parse(text) {
        Ok(_) => "verdict",
        Err(Unreadable::TooLong) => "long",
        Err(Unreadable::NoObject) => "none",
        Err(Unreadable::Surplus) => "surplus",
        Err(Unreadable::Broken(..)) => "broken",
        Err(Unreadable::Misfit(..)) => "misfit",
        Err(Unreadable::Score) => "score",
        Err(Unreadable::Assessment) => "assessment",
    };
    let check = |text: &str, want: &str| assert_eq!(kind(text), want, "{text}");
    check("", "none");
    check(&format!("<think>I could say {good} or not"), "none");
    check(&format!("<think>hm</think>{good}<think>or</think>{good}"), "surplus");
    check(&format!("{good}</think>{good}"), "surplus");
    check("APPROVE", "none");
    check("[]", "none");
    check(&format!("{good}{good}"), "surplus");
    check(&format!("{good}\n{{\"assessment\": \"FLAG\"}}"), "surplus");
    check(&format!("I think {{so}}: {good}"), "broken");
    check(&good[..good.len() - 1], "broken");
    check(&format!("{{\"reason\": {good}"), "broken");
    check(&format!("{{\"reason\": {good}}}"), "misfit");
    check("{\"a\":".repeat(5_000).as_str(), "broken");
    check(&good.replace("APPROVE", "approved"), "misfit");
    check(&good.replace("APPROVE", "CHECKED"), "assessment");
    check(&good.replace("90", "\"90\""), "misfit");
    check(&good.replace("90", "101"), "score");
    check(&good.replace("90", "-1"), "score");
    check(&good.replace("90", "1e400"), "broken");
    check(&good.replace("\"score\":90", "\"score\":90,\"assessment\":\"FLAG\""), "misfit");
    check(&format!("{good}{}", " ".repeat(300_000)), "long");
    check(&reply("FLAG", 1, &[json!("text")]), "misfit");
    check(&reply("FLAG", 1, &[claim("high", "abc")]), "misfit");
    for field in ["nonce", "assessment", "score", "recommendation", "findings"] {
        check(&without(field), "misfit");
    }
}

#[test]
fn unknown_fields_are_ignored_and_numbers_rounded() {
    let text = reply("FLAG", 77, &[]).replacen('{', "{\"thoughts\": {\"a\": [1]}, ", 1).replace("77", "77.6");
    assert_eq!(parse(&text).unwrap().score(), 78);
}

#[test]
fn strings_are_cleaned_and_bounded() {
    let long =
        format!("a\nb\u{1b}[31m\u{202e}\u{e0041}\u{200b}c\u{0} [secret:x] https://x.example {}", "z".repeat(5_000));
    let finding = json!({"severity": "info", "category": "custom", "description": long, "evidence_quote": "",
                         "checklist_item": "safe\n; drop"});
    let mut object: Value = serde_json::from_str(&reply("SUGGEST", 60, &[finding])).unwrap();
    object["recommendation"] = json!(long);
    let verdict = parse(&object.to_string()).unwrap();
    assert!(verdict.recommendation.starts_with("a b[31mc [secret:x] https://x.example zzz"));
    assert_eq!(verdict.recommendation.chars().count(), 2_000);
    assert_eq!(verdict.findings[0].description.chars().count(), 1_000);
    assert_eq!(verdict.findings[0].checklist_item, "other");
}

#[test]
fn of_too_many_findings_the_worst_are_kept() {
    let mut findings = vec![claim("info", ""); 40];
    findings.push(claim("critical", "abc"));
    let verdict = parse(&reply("FLAG", 5, &findings)).unwrap();
    assert_eq!(verdict.findings.len(), 20);
    assert_eq!(verdict.findings[0].severity, Severity::Critical);
    findings.insert(7, super::canary_claim(NONCE));
    let verdict = parse(&reply("FLAG", 5, &findings)).unwrap();
    assert_eq!(verdict.findings.len(), 21, "the canary's takes no other's place");
    assert!(verdict.findings[0].is_canary() && verdict.findings[1].severity == Severity::Critical);
}

#[test]
fn a_tag_in_a_string_ends_no_thought() {
    let text = reply("SUGGEST", 60, &[]).replace("Do this.", "</think> stands there.");
    assert_eq!(parse(&text).unwrap().recommendation, "</think> stands there.");
}

#[test]
fn the_schema_asks_for_what_is_parsed() {
    let schema = schema(umbra_domain::ReviewScope::Event);
    let finding = &schema["properties"]["findings"]["items"];
    for object in [schema, finding] {
        let mut named: Vec<_> = object["properties"].as_object().unwrap().keys().collect();
        let mut required: Vec<_> = object["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        named.sort();
        required.sort_unstable();
        assert_eq!(named, required, "strict modes want each field required");
        assert_eq!(object["additionalProperties"], false);
    }
    let words = |of: &Value| of["enum"].as_array().unwrap().clone();
    let properties = &finding["properties"];
    for assessment in words(&schema["properties"]["assessment"]) {
        for severity in words(&properties["severity"]) {
            for category in words(&properties["category"]) {
                let finding = json!({"severity": severity, "category": category, "description": "d",
                                     "evidence_quote": "", "checklist_item": CHECKLIST[0]});
                let text = reply(assessment.as_str().unwrap(), 50, &[finding]);
                let verdict = parse(&text).unwrap();
                assert_eq!((verdict.nonce.as_str(), verdict.findings.len()), (NONCE, 1));
            }
        }
    }
    assert_eq!(words(&properties["checklist_item"]), CHECKLIST.map(Value::from));
}

#[test]
fn an_error_repeats_no_word_of_the_reply() {
    for text in [reply("evilword", 5, &[]), "{\"evilword".to_owned(), "evilword".to_owned(), "{} {evilword}".to_owned()]
    {
        assert!(!parse(&text).err().unwrap().to_string().contains("evil"), "{text}");
    }
}
