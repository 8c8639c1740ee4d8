//! Merges: the changes of both editors are kept, or a conflict names the contradiction.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;

use super::{lines, markdown};
use crate::document::{
    Document, DocumentLimits, Format, ItemState,
    edit::{Edit, apply},
    merge::{Conflict, ConflictKind, MergeError, merge},
    revision::{DocumentChange, Entry, Etag, replay},
};

fn merged(base: &str, ours: &str, theirs: &str) -> Result<String, MergeError> {
    merge(base, ours, theirs, Format::Markdown, &DocumentLimits::default())
}

const BASE: &str = "# Todo\n\n- [ ] write the tests\n- [ ] buy milk <!-- id: milk -->\n  - [ ] oat milk\n- [ ] deploy\n\n# Done\n\n- [x] plan\n\nA word.\n";

/// Our edits of [`BASE`], their edits, and the result; each as pairs of a part and its replacement.
type Case<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)]);

fn changed(parts: &[(&str, &str)]) -> String {
    parts.iter().fold(BASE.to_owned(), |text, (part, by)| {
        assert_eq!(text.matches(part).count(), 1, "{part}");
        text.replace(part, by)
    })
}

#[test]
fn changes_of_both_editors_are_merged() {
    let cases: &[Case<'_>] = &[
        // A new state meets new words.
        (
            &[("[ ] write", "[x] write")],
            &[("the tests", "all the tests")],
            &[("[ ] write the tests", "[x] write all the tests")],
        ),
        (&[("buy milk", "something else")], &[("[ ] buy", "[-] buy")], &[("[ ] buy milk", "[-] something else")]),
        // Both add at the same place: ours first.
        (
            &[("deploy\n", "deploy\n- [ ] ours\n")],
            &[("deploy\n", "deploy\n- [ ] theirs\n")],
            &[("deploy\n", "deploy\n- [ ] ours\n- [ ] theirs\n")],
        ),
        // A child and a neighbour.
        (
            &[("deploy\n", "deploy\n  - ours\n")],
            &[("deploy\n", "deploy\n- [ ] theirs\n")],
            &[("deploy\n", "deploy\n  - ours\n- [ ] theirs\n")],
        ),
        // The same thing twice is once.
        (
            &[("deploy\n", "deploy\n- [ ] new\n")],
            &[("deploy\n", "deploy\n- [ ] new\n")],
            &[("deploy\n", "deploy\n- [ ] new\n")],
        ),
        (
            &[("[ ] deploy", "[x] deploy")],
            &[("[ ] deploy", "[x] deploy"), ("A word", "Two words")],
            &[("[ ] deploy", "[x] deploy"), ("A word", "Two words")],
        ),
        (
            &[("- [ ] deploy\n", "")],
            &[("- [ ] deploy\n", ""), ("A word", "No word")],
            &[("- [ ] deploy\n", ""), ("A word", "No word")],
        ),
        // Moved within its list, and another one is new.
        (
            &[("- [ ] deploy\n", ""), ("- [ ] write", "- [ ] deploy\n- [ ] write")],
            &[("A word.", "A word.\n\n- more")],
            &[("- [ ] deploy\n", ""), ("- [ ] write", "- [ ] deploy\n- [ ] write"), ("A word.", "A word.\n\n- more")],
        ),
        // A section is renamed, another one comes, and an item comes into the first.
        (
            &[("# Todo", "# To be done")],
            &[("deploy\n", "deploy\n- [ ] theirs\n")],
            &[("# Todo", "# To be done"), ("deploy\n", "deploy\n- [ ] theirs\n")],
        ),
        (
            &[("A word.", "A word.\n\n# New\n\n- x")],
            &[("A word.", "A word.\n\n# New\n\n- y")],
            &[("A word.", "A word.\n\n# New\n\n- x\n\n- y")],
        ),
        // An item whose parent is removed, but which was moved out of it.
        (
            &[("- [ ] buy milk <!-- id: milk -->\n  - [ ] oat milk", "- [ ] oat milk")],
            &[("[ ] oat", "[x] oat")],
            &[("- [ ] buy milk <!-- id: milk -->\n  - [ ] oat milk", "- [x] oat milk")],
        ),
        // New front matter stands first.
        (
            &[("# Todo", "---\na: 1\n---\n# Todo")],
            &[("# Todo", "Intro.\n\n# Todo")],
            &[("# Todo", "---\na: 1\n---\n\nIntro.\n\n# Todo")],
        ),
    ];
    for (ours, theirs, expected) in cases {
        assert_eq!(merged(BASE, &changed(ours), &changed(theirs)), Ok(changed(expected)), "{ours:?} {theirs:?}");
    }
}

#[test]
fn conflicts_name_section_and_item() {
    use ConflictKind::{Layout, RemovedByOurs, RemovedByTheirs, State, Words};
    type Conflicting<'a> = (&'a [(&'a str, &'a str)], &'a [(&'a str, &'a str)], ConflictKind, &'a str, Option<&'a str>);
    let cases: &[Conflicting<'_>] = &[
        (&[("the tests", "some tests")], &[("the tests", "all tests")], Words, "todo", Some("write the tests")),
        (&[("[ ] deploy", "[x] deploy")], &[("[ ] deploy", "[-] deploy")], State, "todo", Some("deploy")),
        (&[("- [ ] deploy\n", "")], &[("[ ] deploy", "[x] deploy")], RemovedByOurs, "todo", Some("deploy")),
        (&[("[ ] deploy", "[x] deploy")], &[("- [ ] deploy\n", "")], RemovedByTheirs, "todo", Some("deploy")),
        // Moved on one side, checked on the other.
        (
            &[("- [ ] deploy\n", ""), ("plan\n", "plan\n- [ ] deploy\n")],
            &[("[ ] deploy", "[x] deploy")],
            RemovedByOurs,
            "todo",
            Some("deploy"),
        ),
        (&[("- [ ] deploy\n", "")], &[("deploy\n", "deploy\n  - [ ] canary\n")], RemovedByOurs, "todo", Some("canary")),
        (
            &[("# Done\n\n- [x] plan\n\nA word.\n", "")],
            &[("plan\n", "plan\n- [x] more\n")],
            RemovedByOurs,
            "done",
            Some("more"),
        ),
        (&[("A word", "A word of ours")], &[("A word", "A word of theirs")], Words, "done", Some("A word.")),
        (&[("# Done", "# Finished")], &[("# Done", "# Complete")], Words, "done", None),
        (&[("deploy\n", "deploy\n\n```\n")], &[("plan\n", "plan\n- [x] more\n")], Layout, "", None),
    ];
    for (ours, theirs, kind, section, item) in cases {
        match merged(BASE, &changed(ours), &changed(theirs)) {
            Err(MergeError::Conflicts(conflicts)) if *kind == Layout => assert!(!conflicts.is_empty()),
            Err(MergeError::Conflicts(conflicts)) => {
                let [Conflict { kind: its, section: at, item: which, .. }] = &conflicts[..] else {
                    panic!("{conflicts:?}")
                };
                assert_eq!((its, at.as_str(), which.as_deref()), (kind, *section, *item), "{ours:?} {theirs:?}");
            }
            other => panic!("{ours:?} {theirs:?}: {other:?}"),
        }
    }
}

#[test]
fn front_matter_and_yaml_merge_by_key() {
    let base = "# c\na: 1\nb: 2 # why\nlist:\n  - x\n";
    let merge = |ours: &str, theirs: &str| merge(base, ours, theirs, Format::Yaml, &DocumentLimits::default());
    let ours = "# c\na: 9\nb: 2 # why\nlist:\n  - x\n  - y\n";
    assert_eq!(
        merge(ours, "# c\na: 1\nb: 2 # why\nlist:\n  - x\n  - z\nc: 3\n"),
        Ok("# c\na: 9\nb: 2 # why\nlist:\n  - x\n  - y\n  - z\nc: 3\n".into())
    );
    assert!(matches!(merge(ours, "# c\na: 8\nb: 2 # why\nlist:\n  - x\n"), Err(MergeError::Conflicts(_))));
    let front = |text: &str| format!("---\n{}---\n- i\n", text.replace("  - x\n", "").replace("list:\n", ""));
    assert_eq!(
        merged(&front(base), &front("# c\na: 9\nb: 2 # why\n"), &front("# c\na: 1\nb: 2 # why\nd: [4]\n")),
        Ok(front("# c\na: 9\nb: 2 # why\nd: [4]\n"))
    );
}

#[test]
fn line_endings_and_the_final_newline_are_no_conflict() {
    let windows = |text: &str| text.replace('\n', "\r\n");
    let theirs = changed(&[("[ ] deploy", "[x] deploy")]);
    assert_eq!(merged(BASE, &windows(BASE), &theirs), Ok(windows(&theirs)));
    assert_eq!(merged("- a", "- a\n- b", "- a\n- c"), Ok("- a\n- b\n- c".into()));
    assert_eq!(merged("", "- a\n", "- b\n"), Ok("- a\n- b\n".into()));
}

/// Returns the state of each item, by the unique figure that ends its text.
fn marks(document: &Document) -> BTreeMap<String, Option<ItemState>> {
    let items = document.sections().into_iter().flat_map(|section| section.items);
    items.map(|item| (item.text.rsplit(' ').next().unwrap_or_default().to_owned(), item.state)).collect()
}

fn names(document: &Document) -> BTreeSet<String> {
    marks(document).into_keys().collect()
}

/// Edits of an editor, by numbers. Each fits some item or section.
fn script() -> impl Strategy<Value = Vec<(u8, usize)>> {
    prop::collection::vec((0..8_u8, 0..1_000_usize), 1..12)
}

/// Makes one edit, and returns it with the edited document.
fn perform(document: &Document, (op, at): (u8, usize), fresh: &str) -> (Document, Edit) {
    let sections = document.sections();
    let section = &sections[at % sections.len()];
    let slug = &section.slug;
    let index = (!section.items.is_empty()).then(|| at % section.items.len() + 1);
    let words = format!("do something {fresh}");
    let value = match (op, index) {
        (0 | 1, _) | (_, None) => json!({"op": "append_item", "section": slug, "text": words, "state": "open"}),
        (2, Some(index)) => {
            json!({"op": "insert_item", "section": slug, "place": {"before": {"index": index}}, "text": words})
        }
        (3, Some(index)) => {
            json!({"op": "insert_item", "section": slug, "place": {"within": {"index": index}}, "text": words})
        }
        (4, Some(index)) => json!({"op": "remove_item", "section": slug, "item": {"index": index}}),
        (5, Some(index)) => json!({"op": "set_state", "section": slug, "item": {"index": index}, "state": "done"}),
        (6, Some(index)) => {
            let item = &section.items[index - 1];
            let mark = item.text.rsplit(' ').next().unwrap_or_default();
            json!({"op": "replace_item", "section": slug, "item": {"index": index}, "text": format!("do something else {mark}")})
        }
        _ => json!({"op": "append_text", "section": slug, "text": format!("Text {fresh}.")}),
    };
    let edit: Edit = serde_json::from_value(value).expect("an edit");
    let limits = DocumentLimits { depth: 200, ..DocumentLimits::default() };
    (apply(document, std::slice::from_ref(&edit), &limits).expect("it fits"), edit)
}

const START: &str = "# Plan\n\n- [ ] do something b1\n  - [ ] do something b2\n- [ ] do something b3\n\n## Risks\n\n* do something b4\n\n# Log\n\n1. do something b5\n2. do something b6\n";

fn performed(script: &[(u8, usize)], who: &str) -> Document {
    let steps = script.iter().enumerate();
    steps.fold(markdown(START), |document, (at, step)| perform(&document, *step, &format!("{who}{at}")).0)
}

proptest! {
    #[test]
    fn merge_with_an_equal_or_unchanged_side_gives_the_other(base in lines(), ours in lines(), theirs in lines()) {
        prop_assert_eq!(merged(&base, &ours, &ours), Ok(ours.clone()));
        prop_assert_eq!(merged(&base, &base, &theirs), Ok(theirs.clone()));
        prop_assert_eq!(merged(&base, &ours, &base), Ok(ours.clone()));
        prop_assert_eq!(merged(&base, &ours, &theirs), merged(&base, &ours, &theirs));
    }

    #[test]
    fn no_item_of_two_editors_is_lost(ours in script(), theirs in script()) {
        let limits = DocumentLimits { depth: 200, ..DocumentLimits::default() };
        let (base, ours, theirs) = (markdown(START), performed(&ours, "o"), performed(&theirs, "t"));
        match merge(base.text(), ours.text(), theirs.text(), Format::Markdown, &limits) {
            Ok(text) => {
                let (was, mine, other) = (names(&base), names(&ours), names(&theirs));
                let either = mine.union(&other).cloned();
                let expected: BTreeSet<_> = either.filter(|mark| !was.contains(mark) || (mine.contains(mark) && other.contains(mark))).collect();
                let document = Document::parse(text.as_str(), Format::Markdown, &limits).unwrap();
                prop_assert_eq!(names(&document), expected, "{}", text);
                // A state that one side set is kept.
                for (mark, state) in marks(&document) {
                    let given = |document: &Document| marks(document).get(&mark) == Some(&Some(ItemState::Done));
                    prop_assert_eq!(state == Some(ItemState::Done), given(&ours) || given(&theirs), "{}", mark);
                }
            }
            Err(MergeError::Conflicts(conflicts)) => prop_assert!(!conflicts.is_empty()),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}

/// Makes some edits of one of two editors of a list. Each editor has every second pair of items.
fn edits_of(who: usize, ops: &[&str], seed: &mut usize) -> Document {
    const ITEMS: usize = 24;
    let list = (0..ITEMS).map(|n| {
        let title = if n % 8 == 0 { format!("\n# Section {n}\n\n") } else { String::new() };
        format!("{title}{}- [ ] do something b{n}\n", if n % 4 == 3 { "  " } else { "" })
    });
    let mut document = markdown(&list.collect::<String>());
    for round in 0..3 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let Some(op) = ops.get((*seed >> 40) % ops.len().max(1)) else { return document };
        let (op, mark) = (*op, format!("b{}", (*seed >> 20) % (ITEMS / 4) * 4 + 2 * who + (*seed >> 30) % 2));
        let sections = document.sections();
        let found = sections.iter().find_map(|section| {
            let item = section.items.iter().find(|item| item.text.ends_with(&format!(" {mark}")))?;
            Some((section.slug.clone(), item.index))
        });
        let Some((section, index)) = found else { continue };
        let text = if op == "replace_item" { format!("write of {mark}") } else { format!("new {who}x{round}") };
        let mut edit = json!({"op": op, "section": section, "item": {"index": index}});
        match op {
            "set_state" => edit["state"] = json!("done"),
            "replace_item" => edit["text"] = json!(text),
            "insert_item" => {
                edit = json!({"op": op, "section": section, "place": {"before": {"index": index}}, "text": text});
            }
            "append_item" | "append_text" => {
                edit = json!({"op": op, "section": section, "text": text});
            }
            _ => {}
        }
        let edit: Edit = serde_json::from_value(edit).expect("an edit");
        document = apply(&document, &[edit], &DocumentLimits::default()).expect("it fits");
    }
    document
}

#[test]
fn edits_of_different_items_rarely_conflict() {
    let mut seed = 7;
    for (ops, most) in [
        (&["set_state", "replace_item"][..], 0),
        (&["set_state", "replace_item", "insert_item", "append_item", "append_text", "remove_item"][..], 10),
    ] {
        let mut conflicts = 0;
        for _ in 0..1_000 {
            let [base, ours, theirs] =
                [edits_of(0, &[], &mut 0), edits_of(0, ops, &mut seed), edits_of(1, ops, &mut seed)];
            match merged(base.text(), ours.text(), theirs.text()) {
                Ok(text) => {
                    let (was, mine, other) = (names(&base), names(&ours), names(&theirs));
                    let all = mine
                        .union(&other)
                        .filter(|mark| !was.contains(*mark) || (mine.contains(*mark) && other.contains(*mark)));
                    assert_eq!(names(&markdown(&text)), all.cloned().collect(), "{text}");
                }
                Err(_) => conflicts += 1,
            }
        }
        assert!(conflicts <= most, "{conflicts} of 1000");
    }
}

#[test]
fn a_thousand_edits_of_two_editors_are_all_kept() {
    let limits = DocumentLimits { depth: 200, edits: 1, ..DocumentLimits::default() };
    let (mut stored, mut history) = (START.to_owned(), Vec::new());
    let mut copies = [START.to_owned(), START.to_owned()];
    let mut expected = names(&markdown(START));
    let (mut seed, mut conflicts) = (7_usize, 0);
    for round in 0..1_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (who, op, at) = ((seed >> 60) % 2, u8::try_from((seed >> 40) % 8).unwrap(), (seed >> 20) % 1_000);
        // Each edits the state that it read last, which may be older than the stored one.
        let read = Document::parse(copies[who].as_str(), Format::Markdown, &limits).unwrap();
        let mark = format!("{who}x{round}");
        let op = if op == 3 { 0 } else { op };
        let (edited, edit) = perform(&read, (op, at), &mark);
        match merge(read.text(), &stored, edited.text(), Format::Markdown, &limits) {
            Ok(text) => {
                let change = if stored == read.text() {
                    DocumentChange::Edits { edits: vec![edit] }
                } else {
                    DocumentChange::Merge { from: Etag::of(read.text()), said: None }
                };
                history.push(Entry::between(["ann", "bob"][who], None, change, &stored, &text));
                let (before, after) = (names(&read), names(&edited));
                expected.extend(after.difference(&before).cloned());
                for gone in before.difference(&after) {
                    expected.remove(gone);
                }
                stored.clone_from(&text);
                copies[who] = text;
            }
            Err(MergeError::Conflicts(_)) => {
                conflicts += 1;
                copies[who].clone_from(&stored);
            }
            Err(other) => panic!("{other}"),
        }
        if round % 3 == 0 {
            copies[1 - who].clone_from(&stored);
        }
    }
    assert_eq!(names(&Document::parse(stored.as_str(), Format::Markdown, &limits).unwrap()), expected);
    assert!(conflicts < 100 && history.len() > 900, "{conflicts} conflicts");
    assert_eq!(replay(START, &history), Some(stored));
}
