//! Tests of fingerprints: the same for the same fault, different for others.

use super::{claim, event, hit, shadow, subject};
use crate::{fingerprint, of_checks};
use umbra_domain::{CheckName, Finding, FindingCategory, FindingSource, FindingSubject, Severity};

fn model(description: &str) -> Finding {
    Finding {
        event_id: umbra_domain::EventId(uuid::Uuid::nil()),
        severity: Severity::Warning,
        category: FindingCategory::Quality,
        description: description.to_owned(),
        evidence: None,
        verified: false,
        about: FindingSubject::Agent,
        source: FindingSource::Model,
        rule: claim("info", "")["checklist_item"].as_str().unwrap().to_owned(),
    }
}

#[test]
fn fingerprint_ignores_numbers_names_case_and_order() {
    let same = |a: &str, b: &str| assert_eq!(fingerprint(&model(a)), fingerprint(&model(b)), "{a} / {b}");
    same("The total of 12 does not match.", "The total of 4,711.5 does not match");
    same("Error handling is missing in `fetchUser`.", "Missing error handling in 'save_order'");
    same("The file src/main.rs lacks a test", "the file lib/a/b.py lacks a test");
    same("The agent's claim \"all done\" is unsupported", "The agent's claim “it works” is unsupported");
    same("See evt_0197a3c1d2e47f00a1b2c3d4e5f60718: cut off", "See evt_0197ffffd2e47f00a1b2c3d4e5f60718: cut off");
    same("fetchUser leaks", "saveOrder leaks");
}

#[test]
fn fingerprints_of_different_faults_differ() {
    let differ = |a: &Finding, b: &Finding| assert_ne!(fingerprint(a), fingerprint(b));
    let one = model("Error handling is missing");
    differ(&one, &model("Input validation is missing"));
    differ(&one, &Finding { category: FindingCategory::Security, ..one.clone() });
    differ(&one, &Finding { rule: "safe".to_owned(), ..one.clone() });
    differ(&one, &Finding { source: FindingSource::Check, ..one.clone() });
    differ(&one, &Finding { about: FindingSubject::Given, ..one.clone() });
    differ(&Finding { rule: "ab".to_owned(), ..model("cd") }, &Finding { rule: "abc".to_owned(), ..model("d") });
}

#[test]
fn fingerprint_of_a_check_finding_depends_on_its_rule_only() {
    let event = event();
    let named = |check, start| {
        let mut one = hit(check, Severity::Critical, "output", start, 5);
        one.description = format!("Something at {start}, in other words each time.");
        fingerprint(&of_checks(&shadow(), &subject(&event, &[one])).findings[0])
    };
    assert_eq!(named(CheckName::Secrets, 0), named(CheckName::Secrets, 3));
    assert_ne!(named(CheckName::Secrets, 0), named(CheckName::Hidden, 0));
}

#[test]
fn fingerprint_is_sixteen_hex_digits_and_stable() {
    let name = fingerprint(&model("Error handling is missing"));
    assert!(name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit()), "{name}");
    assert_eq!(name, "4721e0df1c4500b1", "stored findings are known by this name");
}
