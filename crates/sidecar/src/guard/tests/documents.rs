//! Documents that have to be in order.

use serde_json::json;

use super::{
    super::super::document::{Document, DocumentLimits, Format},
    *,
};

fn document(text: &str) -> Document {
    Document::parse(text, Format::Markdown, &DocumentLimits::default()).unwrap()
}

const TODO: &str =
    "# Todo\n\n## Now\n- [x] one\n- [ ] two\n\n## Later\n- [-] three\n\n## Findings\n<!-- what you found -->\n";

/// Judges a turn by one rule, with a document of this text and these changes.
fn judged(rule: DocumentRule, text: Option<&str>, changed: &(dyn Fn(Option<&str>, Since) -> bool + Sync)) -> Ruling {
    let parsed = text.map(document);
    let standing = [MomentDocument { name: "Todo", document: parsed.as_ref(), changed }];
    let rules = SidecarRules { documents: vec![rule], ..SidecarRules::default() };
    compiled(&rules).judge(&Moment { documents: Some(&standing), ..moment(MomentSubject::Turn) })
}

#[test]
fn document_is_due_unless_its_need_is_met() {
    use DocumentNeed::{Complete, Exists, Updated};
    let done = "# Todo\n- [x] one\n- [-] two\n";
    for (needs, section, text, due) in [
        (Exists, None, Some(TODO), false),
        (Exists, None, Some(""), false),
        (Exists, None, None, true),
        (Exists, Some("Now"), Some(TODO), false),
        (Exists, Some("now"), Some(TODO), false),
        (Exists, Some("Findings"), Some(TODO), true),
        (Exists, Some("Nowhere"), Some(TODO), true),
        (Exists, Some("Now"), Some("## Now\nx\n## Now\ny\n"), true),
        (Complete, None, Some(TODO), true),
        (Complete, Some("Now"), Some(TODO), true),
        (Complete, Some("Later"), Some(TODO), false),
        (Complete, Some("Todo"), Some(TODO), true),
        (Complete, None, Some(done), false),
        (Complete, Some("Nowhere"), Some(done), true),
        (Complete, None, None, true),
        // Without a task, nothing is complete.
        (Complete, None, Some(""), true),
        (Complete, None, Some("# Todo\n- one\n"), true),
        (Complete, None, Some("# Todo\n<!--\n- [x] one\n- [ ] two\n-->\n"), true),
        (Complete, Some("Findings"), Some(TODO), true),
        (Complete, None, Some("# Todo\n- [x] one\n\n> - [ ] two\n"), true),
        (Complete, None, Some("# Todo\n- [x] one\n- [~] two\n"), true),
        (Updated, None, None, true),
        (Updated, Some("Nowhere"), Some(TODO), true),
        (Updated, Some("Now"), Some(TODO), false),
        (Updated, None, Some(TODO), false),
    ] {
        let rule = DocumentRule { section: section.map(str::to_owned), ..document_rule("d", needs, Block) };
        let ruling = judged(rule, text, &|_, _| true);
        assert_eq!(ruling.decision == Block, due, "{needs:?} {section:?} {text:?}");
        assert_eq!(ruling.due.len(), usize::from(due));
        for one in ruling.due {
            assert_eq!((one.document.as_str(), one.section.as_deref(), one.rule.as_str()), ("todo", section, "d"));
            assert_eq!((one.needs, one.verdict, one.reason.as_str()), (needs, Block, "d says so"));
        }
    }
}

#[test]
fn history_is_queried_by_slug_and_since() {
    for (section, since, slug) in [
        (None, Since::Turn, None),
        (Some("Now"), Since::Session, Some("now")),
        (Some("findings"), Since::Turn, Some("findings")),
    ] {
        let rule = DocumentRule {
            section: section.map(str::to_owned),
            since,
            ..document_rule("d", DocumentNeed::Updated, Warn)
        };
        let ruling = judged(rule.clone(), Some(TODO), &|asked, of| !(asked == slug && of == since));
        assert_eq!(ruling.decision, Warn, "{section:?}");
        let ruling = judged(rule, Some(TODO), &|asked, of| asked == slug && of == since);
        assert_eq!((ruling.decision, ruling.explain.len(), ruling.due.len()), (Allow, 0, 0), "{section:?}");
    }
}

#[test]
fn unknown_document_is_not_in_order() {
    let rules =
        SidecarRules { documents: vec![document_rule("d", DocumentNeed::Exists, Block)], ..SidecarRules::default() };
    assert_eq!(compiled(&rules).judge(&moment(MomentSubject::Turn)).decision, Block);
}

#[test]
fn rule_with_tools_applies_only_to_calls_of_those_tools() {
    let (send, read) = (ToolName::of("mail", "send_email"), ToolName::of("mail", "read_email"));
    let args = json!({});
    let subjects = [
        MomentSubject::Turn,
        MomentSubject::Message { role: "assistant", text: "x", with_calls: false },
        call(&send, &args),
        call(&read, &args),
        MomentSubject::Result { tool: &send, text: "x" },
    ];
    for (tools, blocked) in [
        (&[][..], [true, true, true, true, false]),
        (&["send_*"], [false, false, true, false, false]),
        (&["mail.*"], [false, false, true, true, false]),
        (&["*"], [false, false, true, true, false]),
    ] {
        let rule = DocumentRule { tools: texts(tools), ..document_rule("d", DocumentNeed::Exists, Block) };
        let guard = compiled(&SidecarRules { documents: vec![rule], ..SidecarRules::default() });
        let found = subjects.map(|subject| guard.judge(&moment(subject)).decision == Block);
        assert_eq!(found, blocked, "{tools:?}");
    }
}

#[test]
fn audited_rule_makes_no_document_due() {
    let rule = DocumentRule { mode: PolicyMode::Audit, ..document_rule("d", DocumentNeed::Exists, Block) };
    let ruling = judged(rule, None, &|_, _| false);
    assert_eq!((ruling.decision, ruling.would, ruling.would_rule.as_deref()), (Allow, Block, Some("d")));
    assert!(ruling.due.is_empty());
    assert_eq!(ruling.explain, ["d (audit): block, because this does not hold: todo exists"]);
}
