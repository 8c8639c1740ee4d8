//! Tests of replies: the forms that are read, the faults, and the cleaned strings.

use serde_json::{Value, json};

use super::{NONCE, bare_reply as reply, claim};
use crate::reply::{CHECKLIST, parse, parse_batch, schema};
use umbra_domain::{Assessment, Severity};

#[test]
fn verdict_object_is_read_within_prose_fences_and_thoughts() {
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
fn reply_without_exactly_one_valid_object_is_unreadable() {
    let good = reply("APPROVE", 90, &[]);
    let without = |field: &str| {
        let mut object: Value = serde_json::from_str(&good).unwrap();
        object.as_object_mut().unwrap().remove(field);
        object.to_string()
    };
    let check = |text: &str, want: &str| {
        let fault = parse(text).err().unwrap();
        assert!(fault.starts_with(want), "{text}: {fault}");
    };
    check("", "it holds no JSON object");
    check(&format!("<think>I could say {good} or not"), "it holds no JSON object");
    check(&format!("<think>hm</think>{good}<think>or</think>{good}"), "it holds more than one JSON object");
    check(&format!("{good}</think>{good}"), "it holds more than one JSON object");
    check("APPROVE", "it holds no JSON object");
    check("[]", "it holds no JSON object");
    check(&format!("{good}{good}"), "it holds more than one JSON object");
    check(&format!("{good}\n{{\"assessment\": \"FLAG\"}}"), "it holds more than one JSON object");
    check(&format!("I think {{so}}: {good}"), "its JSON is broken");
    check(&good[..good.len() - 1], "its JSON is broken");
    check(&format!("{{\"reason\": {good}"), "its JSON is broken");
    check(&format!("{{\"reason\": {good}}}"), "its `nonce` is missing");
    check("{\"a\":".repeat(5_000).as_str(), "its JSON is broken");
    check(&good.replace("90", "1e400"), "its JSON is broken");
    check(&good.replace("\"score\":90", "\"score\":90,\"assessment\":\"FLAG\""), "it gives a member twice");
    check(&good.replace("\"findings\":[", "\"findings\":[{\"a\":1,\"a\":2}"), "it gives a member twice");
    check(&format!("{good}{}", " ".repeat(300_000)), "it is longer than 262144 bytes");
    for field in ["nonce", "assessment", "score"] {
        check(&without(field), &format!("its `{field}` is missing"));
    }
}

#[test]
fn invalid_member_is_refused_by_its_name() {
    let good: Value = serde_json::from_str(&reply("FLAG", 90, &[claim("warning", "abc")])).unwrap();
    let check = |pointer: &str, value: Value, want: &str| {
        let mut changed = good.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        assert_eq!(parse(&changed.to_string()).err().unwrap(), want, "{pointer}");
    };
    check("/assessment", json!("LGTM"), "its `assessment` is not one of APPROVE, INCONCLUSIVE, SUGGEST, FLAG");
    check("/assessment", json!("CHECKED"), "its `assessment` is not one of APPROVE, INCONCLUSIVE, SUGGEST, FLAG");
    check("/assessment", json!(["FLAG"]), "its `assessment` is not a text");
    check("/assessment", Value::Null, "its `assessment` is missing");
    for score in [json!(101), json!(-1), json!("ninety"), json!("90 %"), json!([90]), json!("NaN")] {
        check("/score", score, "its `score` is not a number from 0 to 100");
    }
    check("/findings", json!("it holds no JSON object"), "its `findings` is not a list");
    check("/findings", json!({}), "its `findings` is not a list");
    check("/findings", json!([claim("info", ""), "text"]), "its `findings[1]` is not an object");
    check("/findings/0/severity", json!("high"), "its `findings[0].severity` is not one of info, warning, critical");
    check("/findings/0/description", Value::Null, "its `findings[0].description` is missing");
    check("/findings/0/evidence_quote", json!(["abc"]), "its `findings[0].evidence_quote` is not a text");
    let item = json!({"events": [good, {"nonce": "n", "assessment": "FLAG", "score": 1, "findings": [{}]}]});
    let fault = parse_batch(&item.to_string()).err().unwrap();
    assert_eq!(fault, "its `events[1].findings[0].severity` is missing");
    assert_eq!(parse_batch(&json!({"items": []}).to_string()).err().unwrap(), "its `events` is missing");
}

#[test]
fn unambiguous_slips_of_form_are_accepted() {
    let text = json!({"nonce": NONCE, "assessment": " flag ", "score": "90", "findings": [
        {"severity": "Critical", "category": "RELEVANCE", "description": "It is about cats."},
        {"severity": "info", "category": "custom", "description": "d", "evidence_quote": null, "checklist_item": null, "step": "2"}]});
    let verdict = parse(&text.to_string()).unwrap();
    assert_eq!((verdict.assessment, verdict.score(), verdict.recommendation.as_str()), (Assessment::Flag, 90, ""));
    let [first, second] = &verdict.findings[..] else { panic!("two findings") };
    assert_eq!((first.severity, first.evidence_quote.as_str()), (Severity::Critical, ""));
    assert_eq!((second.checklist_item.as_str(), second.step), ("other", Some(2)));
    for findings in [Value::Null, json!([])] {
        let text = json!({"nonce": NONCE, "assessment": "APPROVE", "score": 90.4, "recommendation": null, "findings": findings});
        assert!(parse(&text.to_string()).unwrap().findings.is_empty());
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
fn worst_findings_are_kept_of_too_many() {
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
fn closing_think_tag_within_a_string_is_plain_text() {
    let text = reply("SUGGEST", 60, &[]).replace("Do this.", "</think> stands there.");
    assert_eq!(parse(&text).unwrap().recommendation, "</think> stands there.");
}

#[test]
fn replies_that_match_the_schema_are_parsed() {
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
        assert!(!parse(&text).err().unwrap().contains("evil"), "{text}");
    }
}
