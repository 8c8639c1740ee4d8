//! Edits: what they change, what they leave alone, and what they refuse.

use proptest::prelude::*;
use serde_json::json;

use super::{lines, markdown, yaml};
use crate::document::{
    Document, DocumentLimits, Format,
    edit::{Edit, EditError, apply},
    merge::merge,
    patch::Patch,
};

const TODO: &str = "---\n# who\nowner: ann  # for now\nlevel: 2\n---\n\n# Plan\n\n- [ ] first\n  - [x] nested <!-- id: n -->\n- [ ] second\n\n## Risks ##\n\n1) none\n\n# Log\nText.\n";

fn edit(value: serde_json::Value) -> Edit {
    serde_json::from_value(value).expect("an edit")
}

fn edited(document: &Document, value: serde_json::Value) -> Result<String, EditError> {
    let edited = apply(document, &[edit(value)], &DocumentLimits::default());
    edited.map(|document| document.text().to_owned()).map_err(|fault| fault.cause)
}

/// Replaces a part of a text that occurs exactly once.
fn with(text: &str, part: &str, by: &str) -> String {
    assert_eq!(text.matches(part).count(), 1, "{part}");
    text.replace(part, by)
}

#[test]
fn edit_changes_only_the_named_part() {
    for (value, part, by) in [
        (
            json!({"op": "set_state", "section": "plan", "item": {"text": "first"}, "state": "done"}),
            "[ ] first",
            "[x] first",
        ),
        (json!({"op": "set_state", "section": "plan", "item": {"id": "n"}, "state": "dropped"}), "[x]", "[-]"),
        (
            json!({"op": "set_state", "section": "Risks", "item": {"index": 1}, "state": "open"}),
            "1) none",
            "1) [ ] none",
        ),
        (json!({"op": "append_item", "section": "plan", "text": "third"}), "second\n", "second\n- [ ] third\n"),
        (json!({"op": "append_item", "section": "risks", "text": "a\nb"}), "none\n", "none\n2) a\n   b\n"),
        (json!({"op": "append_item", "section": "log", "text": "new"}), "Text.\n", "Text.\n\n- [ ] new\n"),
        (
            json!({"op": "append_item", "section": "log", "text": "new", "state": "done"}),
            "Text.\n",
            "Text.\n\n- [x] new\n",
        ),
        (
            json!({"op": "insert_item", "section": "plan", "place": {"after": {"text": "FIRST"}}, "text": "x"}),
            "id: n -->\n",
            "id: n -->\n- [ ] x\n",
        ),
        (
            json!({"op": "insert_item", "section": "plan", "place": {"before": {"index": 1}}, "text": "x"}),
            "- [ ] first",
            "- [ ] x\n- [ ] first",
        ),
        (
            json!({"op": "insert_item", "section": "plan", "place": {"within": {"text": "first"}}, "text": "x"}),
            "id: n -->\n",
            "id: n -->\n  - [ ] x\n",
        ),
        (
            json!({"op": "insert_item", "section": "plan", "place": {"within": {"text": "second"}}, "text": "x"}),
            "second\n",
            "second\n  - [ ] x\n",
        ),
        (json!({"op": "replace_item", "section": "plan", "item": {"id": "n"}, "text": "other"}), "nested", "other"),
        (
            json!({"op": "remove_item", "section": "plan", "item": {"index": 1}}),
            "- [ ] first\n  - [x] nested <!-- id: n -->\n",
            "",
        ),
        (json!({"op": "rename_section", "section": "risks", "title": "Dangers"}), "## Risks ##", "## Dangers ##"),
        (
            json!({"op": "remove_section", "section": "plan"}),
            "# Plan\n\n- [ ] first\n  - [x] nested <!-- id: n -->\n- [ ] second\n\n## Risks ##\n\n1) none\n\n",
            "",
        ),
        (
            json!({"op": "replace_section", "section": "risks", "body": "None.\n### More\n"}),
            "1) none\n",
            "None.\n### More\n",
        ),
        (
            json!({"op": "add_section", "title": "Specs", "after": "risks", "body": "Body"}),
            "1) none\n\n",
            "1) none\n\n## Specs\n\nBody\n\n",
        ),
        (json!({"op": "add_section", "title": "End"}), "Text.\n", "Text.\n\n# End\n"),
        (
            json!({"op": "append_text", "section": "plan", "text": "More.\nStill."}),
            "second\n",
            "second\n\nMore.\nStill.\n",
        ),
        (json!({"op": "append_text", "text": "End."}), "Text.\n", "Text.\n\nEnd.\n"),
        (json!({"op": "set_key", "key": "owner", "value": "bob: b"}), "owner: ann  #", "owner: \"bob: b\"  #"),
        (
            json!({"op": "set_key", "key": "tags", "value": ["a", {"b": 1.5}]}),
            "level: 2\n",
            "level: 2\ntags: [\"a\",{\"b\":1.5}]\n",
        ),
        (json!({"op": "remove_key", "key": "level"}), "level: 2\n", ""),
    ] {
        assert_eq!(edited(&markdown(TODO), value.clone()), Ok(with(TODO, part, by)), "{value}");
        let windows = |text: &str| text.replace('\n', "\r\n");
        let found = edited(&markdown(&windows(TODO)), value.clone());
        assert_eq!(found, Ok(windows(&with(TODO, part, by))), "with other line ends: {value}");
    }
}

#[test]
fn empty_and_unterminated_texts_accept_edits() {
    for (text, value, expected) in [
        ("", json!({"op": "add_section", "title": "Plan"}), "## Plan\n"),
        ("", json!({"op": "append_item", "section": "", "text": "a", "state": "open"}), "- [ ] a\n"),
        ("", json!({"op": "set_key", "key": "a", "value": null}), "---\na: null\n---\n"),
        ("", json!({"op": "append_text", "text": "a"}), "a\n"),
        ("# P", json!({"op": "append_item", "section": "p", "text": "a"}), "# P\n\n- a\n"),
        ("- a", json!({"op": "append_item", "section": "", "text": "b"}), "- a\n- b\n"),
        ("- a\n- b", json!({"op": "remove_item", "section": "", "item": {"text": "b"}}), "- a\n"),
        ("- [ ] a", json!({"op": "replace_item", "section": "", "item": {"text": "a"}, "text": "b"}), "- [ ] b"),
        ("-\n", json!({"op": "replace_item", "section": "", "item": {"index": 1}, "text": "b"}), "- b\n"),
        ("# P\n- a\n# Q\n", json!({"op": "append_item", "section": "q", "text": "b"}), "# P\n- a\n# Q\n\n- b\n"),
        ("# P\n## Plan\n", json!({"op": "add_section", "title": "Next"}), "# P\n## Plan\n\n## Next\n"),
        ("# P", json!({"op": "replace_section", "section": "p", "body": "x"}), "# P\n\nx\n"),
        ("# P\nText", json!({"op": "set_key", "key": "a", "value": true}), "---\na: true\n---\n\n# P\nText"),
        ("---\n---\n", json!({"op": "set_key", "key": "a", "value": "no"}), "---\na: \"no\"\n---\n"),
        ("9. a", json!({"op": "append_item", "section": "", "text": "b"}), "9. a\n10. b\n"),
    ] {
        assert_eq!(edited(&markdown(text), value.clone()).as_deref(), Ok(expected), "{text:?} {value}");
    }
}

#[test]
fn yaml_edit_keeps_comments_and_order() {
    let text =
        "# plan of ann\ntitle: Ship  # soon\n\ntodo: # now\n  - one\n  # then\n  - two\n# end\nlast: |\n  - text\n";
    for (value, part, by) in [
        (json!({"op": "append_item", "section": "todo", "text": "three: 3"}), "- two\n", "- two\n  - \"three: 3\"\n"),
        (json!({"op": "replace_item", "section": "todo", "item": {"text": "one"}, "text": "1"}), "- one", "- \"1\""),
        (json!({"op": "remove_item", "section": "todo", "item": {"index": 2}}), "  - two\n", ""),
        (json!({"op": "set_key", "key": "title", "value": "Stop"}), "Ship", "Stop"),
        (json!({"op": "set_key", "key": "last", "value": 3}), "last: |\n  - text\n", "last: 3\n"),
        (json!({"op": "rename_section", "section": "todo", "title": "done"}), "todo:", "done:"),
        (json!({"op": "add_section", "title": "more", "body": "  - x"}), "  - text\n", "  - text\n\nmore:\n  - x\n"),
    ] {
        assert_eq!(edited(&yaml(text), value.clone()), Ok(with(text, part, by)), "{value}");
    }
    let refused = edited(&yaml(text), json!({"op": "add_section", "title": "title"}));
    assert!(matches!(refused, Err(EditError::Yaml(_))), "two keys of one name: {refused:?}");
    let refused = edited(&yaml(text), json!({"op": "append_text", "text": "x"}));
    assert_eq!(refused, Err(EditError::NotInYaml));
}

#[test]
fn ambiguous_and_invalid_edits_are_refused() {
    let text = "# A\n- [ ] same <!-- id: taken -->\n- [ ] same\n- other\n# A\n# B\n```\nx\n```\n";
    let item = |item: serde_json::Value| json!({"op": "remove_item", "section": "a", "item": item});
    let replaced =
        |words: &str| json!({"op": "replace_item", "section": "a", "item": {"text": "other"}, "text": words});
    for (value, error) in [
        (
            json!({"op": "remove_section", "section": "c"}),
            EditError::UnknownSection { exist: vec!["a".into(), "a-2".into(), "b".into()] },
        ),
        (
            json!({"op": "remove_section", "section": "A"}),
            EditError::AmbiguousSection { slugs: vec!["a".into(), "a-2".into()] },
        ),
        (item(json!({"text": "same"})), EditError::AmbiguousItem(2)),
        (item(json!({"text": "none"})), EditError::UnknownItem(3)),
        (item(json!({"index": 4})), EditError::UnknownItem(3)),
        (item(json!({"index": 0})), EditError::UnknownItem(3)),
        (item(json!({"index": 1, "text": "other"})), EditError::UnknownItem(3)),
        (item(json!({"text": " "})), EditError::UnknownItem(3)),
        (item(json!({})), EditError::NoItemNamed),
        (replaced(" \n"), EditError::Empty("text")),
        (replaced("a\n- b"), EditError::BeyondItsPlace),
        (replaced("a\n```"), EditError::BeyondItsPlace),
        (json!({"op": "add_section", "title": "a\n# b"}), EditError::Title),
        (json!({"op": "add_section", "title": "a", "level": 7}), EditError::Level),
        (json!({"op": "add_section", "title": "a", "after": "a", "body": "# b"}), EditError::BeyondItsPlace),
        (json!({"op": "add_section", "title": "a", "after": "a", "body": "```"}), EditError::BeyondItsPlace),
        (json!({"op": "replace_section", "section": "a", "body": "<!-- "}), EditError::BeyondItsPlace),
        // Also if nothing follows it yet.
        (json!({"op": "add_section", "title": "c", "body": "```\nx"}), EditError::BeyondItsPlace),
        (json!({"op": "replace_section", "section": "b", "body": "<!-- x"}), EditError::BeyondItsPlace),
        (json!({"op": "append_text", "text": "~~~"}), EditError::BeyondItsPlace),
        (json!({"op": "append_text", "section": "b", "text": "<!--"}), EditError::BeyondItsPlace),
        (replaced("x <!-- id: taken -->"), EditError::TakenId),
        (json!({"op": "append_item", "section": "b", "text": "x <!-- id: taken -->"}), EditError::TakenId),
        (json!({"op": "append_text", "text": "- x <!-- id: new -->\n- y <!-- id: new -->"}), EditError::TakenId),
        (json!({"op": "remove_key", "key": "x"}), EditError::UnknownKey),
        (json!({"op": "set_key", "key": "a\nb", "value": 1}), EditError::Empty("key")),
    ] {
        assert_eq!(edited(&markdown(text), value.clone()), Err(error), "{value}");
    }
    let limits = DocumentLimits { edits: 2, bytes: text.len() + 10, ..DocumentLimits::default() };
    let append = edit(json!({"op": "append_text", "text": "1234567890"}));
    let fault = |edits: &[Edit]| apply(&markdown(text), edits, &limits).map(drop).unwrap_err();
    assert!(matches!(fault(std::slice::from_ref(&append)).cause, EditError::Limit(_)));
    assert_eq!(fault(&[append.clone(), append.clone(), append]).cause, EditError::TooMany { given: 3, most: 2 });
}

#[test]
fn hostile_texts_are_parsed_and_patched_without_loss() {
    let limits = DocumentLimits { bytes: 1 << 20, sections: 1 << 20, items: 1 << 20, ..DocumentLimits::default() };
    for part in
        ["<!--", "- [ ] a <!--", "# a\n", "- a\n", "```\n", "[", "a:", "{#", "\"a", "> ", "\t", "- a\n\n  b\n", "a\n\n"]
    {
        for format in [Format::Markdown, Format::Yaml] {
            let text = part.repeat((1 << 16) / part.len());
            let Ok(document) = Document::parse(text.as_str(), format, &limits) else { continue };
            assert_eq!(document.text(), text, "{part:?}");
            let theirs = format!("y\n{text}");
            drop(merge(&text, &format!("{text}\nx"), &theirs, format, &limits));
            let patch = Patch::between(&text, &theirs);
            assert_eq!(patch.apply(&text).as_deref(), Some(theirs.as_str()), "{part:?}");
        }
    }
}

/// One edit on any of the sections and items of a document.
fn any_edit() -> impl Strategy<Value = serde_json::Value> {
    let section = prop::sample::select(vec!["", "title", "plan", "under", "section"]);
    let words = prop_oneof![
        prop::sample::select(vec!["one", "two words", "# x", "- y", "a\nb", "```"]).prop_map(str::to_owned),
        "\\PC{1,8}"
    ];
    (0..9, section, words, 1..4_usize).prop_map(|(op, section, text, index)| match op {
        0 => json!({"op": "append_item", "section": section, "text": text}),
        1 => json!({"op": "insert_item", "section": section, "place": {"after": {"index": index}}, "text": text, "state": "open"}),
        2 => json!({"op": "insert_item", "section": section, "place": {"within": {"index": index}}, "text": text}),
        3 => json!({"op": "replace_item", "section": section, "item": {"index": index}, "text": text}),
        4 => json!({"op": "remove_item", "section": section, "item": {"index": index}}),
        5 => json!({"op": "set_state", "section": section, "item": {"index": index}, "state": "done"}),
        6 => json!({"op": "add_section", "title": text, "body": section}),
        7 => json!({"op": "append_text", "section": section, "text": text}),
        _ => json!({"op": "set_key", "key": text, "value": [section, index]}),
    })
}

proptest! {
    #[test]
    fn an_edit_of_any_text_leaves_the_other_lines(text in lines(), value in any_edit()) {
        let document = markdown(&text);
        let Ok(after) = edited(&document, value.clone()) else { return Ok(()) };
        let (op, was, is) = (value["op"].as_str().unwrap(), items_of(&document), items_of(&markdown(&after)));
        match op {
            "append_item" | "insert_item" => prop_assert_eq!(is, was + 1),
            "replace_item" | "set_state" | "set_key" => prop_assert_eq!(is, was),
            "remove_item" => prop_assert!(is < was),
            _ => prop_assert!(is >= was),
        }
        if op.starts_with("append") || op.starts_with("insert") || op.starts_with("add") {
            let mut rest = after.lines();
            prop_assert!(text.lines().all(|line| rest.any(|other| other.trim_end_matches('\r') == line.trim_end_matches('\r'))), "{:?}", after);
        }
    }
}

fn items_of(document: &Document) -> usize {
    document.sections().iter().map(|section| section.items.len()).sum()
}
