//! Files that were made from a state that others have changed since.

use proptest::prelude::*;

use crate::document::{
    DocumentLimits, Format,
    merge::merge,
    merge_base::{MergeBase, merge_base},
    patch::Patch,
    revision::{DocumentChange, Entry, Etag, WORKSPACE},
};

fn made_from(first: &str, history: &[Entry], text: &str) -> Result<String, String> {
    merge_base(first, history, text).map(|base| base.text)
}

/// Formats a list of the items between commas.
fn list(items: &str) -> String {
    items.split(',').flat_map(|item| ["- [ ] ", item, "\n"]).collect()
}

fn step(by: &str, before: &str, after: &str) -> Entry {
    Entry::between(by, None, DocumentChange::Put, &list(before), &list(after))
}

#[test]
fn merge_base_is_the_state_that_the_editor_had_read() {
    let (one, two, three, four, five) =
        ("one", "one,two", "one,two,three", "one,two,three,four", "one,two,three,four,five");
    let history = [step("a", one, two), step(WORKSPACE, two, three), step("a", three, four), step("b", four, five)];
    let made = |said: &str| made_from(&list(one), &history, said).expect("a history");
    for (said, from) in [
        ("one,two,three,four,five,x", five),
        // The text lacks changes that came after it was read.
        ("one,two,three,four,x", four),
        ("one,x,two,three", three),
        ("two,three,x", three),
        // A part of the newest changes shows, as it is or with words added.
        ("one,two,three,five,x", five),
        ("one,two,three,four,and five,x", five),
        // An older state, unchanged, is taken literally; so is a text that undoes a change of the workspace itself.
        (four, five),
        (three, five),
        ("one,two,x", three),
    ] {
        assert_eq!(made(&list(said)), list(from), "{said}");
    }
    let done = list(five).replace("[ ] five", "[x] five");
    assert_eq!(made(&done), list(five), "who checks an item has seen it");
    assert!(made_from("other", &history, &list(one)).is_err());
    assert_eq!(made_from("one\n", &[], "two\n").as_deref(), Ok("one\n"));
}

#[test]
fn similar_item_is_not_taken_for_a_seen_addition() {
    for (added, said, is_seen) in [
        ("write tests for the parser", "write tests for the lexer", false),
        ("A item 0", "S item 0", false),
        ("deploy to staging", "deploy to production", false),
        ("release 1.2", "release 1.3", false),
        ("read all", "call all", false),
        // Corrected, or with words added.
        ("write tets for the parser", "write tests for the parser", true),
        ("write tests for the parser", "write unit tests for the Parser, first", true),
        ("five", "and five", true),
    ] {
        let now = format!("find the bug,{added}");
        let history = [step("a", "find the bug", &now)];
        let text = list(&format!("find the bug,{}", said.replace(',', "")));
        let base = made_from(&list("find the bug"), &history, &text).expect("a history");
        assert_eq!(base == list(&now), is_seen, "{added} {said}");
        let both = merge(&base, &list(&now), &text, Format::Markdown, &DocumentLimits::default());
        let lost = both.as_deref().is_ok_and(|both| !both.contains(&format!("- [ ] {added}\n")));
        assert_eq!(lost, is_seen, "{added} {said}: {both:?}");
    }
}

#[test]
fn unseen_changes_and_removals_survive_a_merge() {
    let (before, text) = (list("write tests,deploy"), list("write tests,deploy,rest"));
    for (now, merged) in [
        (
            list("write tests,deploy").replace("[ ] deploy", "[x] deploy"),
            "- [ ] write tests\n- [x] deploy\n- [ ] rest\n",
        ),
        (list("write tests"), "- [ ] write tests\n- [ ] rest\n"),
        (list("write more tests,deploy"), "- [ ] write more tests\n- [ ] deploy\n- [ ] rest\n"),
    ] {
        let history = [Entry::between("a", None, DocumentChange::Put, &before, &now)];
        let base = made_from(&before, &history, &text).expect("a history");
        let both = merge(&base, &now, &text, Format::Markdown, &DocumentLimits::default());
        assert_eq!(both.as_deref(), Ok(merged));
    }
    // Reworded by both.
    for (now, text) in
        [("write many tests,deploy,ship", "write no tests,deploy"), ("write many tests", "write no tests")]
    {
        let history = [Entry::between("a", None, DocumentChange::Put, &before, &list(now))];
        assert_eq!(made_from(&before, &history, &list(text)).as_deref(), Ok(&*before));
        assert!(merge(&before, &list(now), &list(text), Format::Markdown, &DocumentLimits::default()).is_err());
    }
    let (before, now) = ("a: 1\nb: 1\n", "a: 1\nb: 2\n");
    let history = [Entry::between("a", None, DocumentChange::Put, before, now)];
    assert_eq!(made_from(before, &history, "a: 5\nb: 1\n").as_deref(), Ok(before));
    assert_eq!(made_from(before, &history, "a: 1\nb: 3\n").as_deref(), Ok(now));
}

/// Entry of a saved file that was merged with later changes. Each text is given as items between commas.
fn saved(before: &str, from: &str, said: &str, after: &str) -> Entry {
    let said = Some(Patch::between(&list(after), &list(said)));
    Entry::between(
        WORKSPACE,
        None,
        DocumentChange::Merge { from: Etag::of(&list(from)), said },
        &list(before),
        &list(after),
    )
}

#[test]
fn merge_base_of_a_second_save_is_the_editors_own_text() {
    // The editor had read `one`, and saved `x` beside it when `two` was there already; `three` came since.
    let history = [
        step("a", "one", "one,two"),
        saved("one,two", "one", "one,x", "one,two,x"),
        step("a", "one,two,x", "one,two,x,three"),
    ];
    let made = |said: &str| made_from(&list("one"), &history, &list(said)).expect("a history");
    for (said, from) in [
        ("one,x,y", "one,x"),
        // Saved once more, unchanged.
        ("one,x", "one,x"),
        // The merged text was read since, and then the latest one.
        ("one,two,x,y", "one,two,x"),
        ("one,two,x,three,y", "one,two,x,three"),
        ("one,x,three,y", "one,two,x,three"),
    ] {
        assert_eq!(made(said), list(from), "{said}");
    }
}

#[test]
fn change_of_several_items_is_judged_by_the_untouched_ones() {
    let named = |one: &str, two: &str| format!("- [ ] {one} <!-- id: one -->\n- [ ] {two} <!-- id: two -->\n");
    let (before, now) = (named("alpha", "beta"), named("uno", "dos"));
    let history = [Entry::between("a", None, DocumentChange::Put, &before, &now)];
    let made = |one: &str, two: &str| made_from(&before, &history, &named(one, two));
    assert_eq!(made("mine", "beta").as_deref(), Ok(&*before), "one of them is as it was");
    assert!(merge(&before, &now, &named("mine", "beta"), Format::Markdown, &DocumentLimits::default()).is_err());
    assert_eq!(made("mine", "dos").as_deref(), Ok(&*now), "one of them is as it is");
    assert_eq!(made("mine", "yours").as_deref(), Ok(&*now), "nothing speaks against it");
    // Two editors can write sections of the same title, and fences, independently.
    let (first, fence) = ("- begun\n", "\n```\nrun\n```\n");
    let theirs = format!("{first}\n## Notes\n\n- theirs\n{fence}");
    let history = [Entry::between("a", None, DocumentChange::Put, first, &theirs)];
    let ours = format!("{first}\n## Notes\n\n- ours\n{}", fence.replace("run", "stop"));
    assert_eq!(made_from(first, &history, &ours).as_deref(), Ok(first));
    // An own item that resembles one of the added items says nothing about the other ones.
    let (before, now) = ("one", "one,write the docs,deploy");
    let history = [step("a", before, now)];
    assert_eq!(made_from(&list(before), &history, &list("one,write docs")), Ok(list(before)));
}

#[test]
fn old_merge_base_is_found_or_reported_as_too_old() {
    let at = |count: usize| list(&(0..=count).map(|n| format!("item {n}")).collect::<Vec<_>>().join(","));
    let history = |count: usize| {
        (0..count).map(|n| Entry::between("a", None, DocumentChange::Put, &at(n), &at(n + 1))).collect::<Vec<_>>()
    };
    let text = at(3) + "- [ ] mine\n";
    for steps in [17, 300] {
        assert_eq!(made_from(&at(0), &history(steps), &text), Ok(at(3)), "{steps}");
    }
    assert!(made_from(&at(0), &history(500), &text).unwrap_err().contains("more than 400 times"));
    let recent = at(495) + "- [ ] mine\n";
    assert_eq!(made_from(&at(0), &history(500), &recent), Ok(at(495)));
}

#[test]
fn items_of_others_missing_from_a_save_are_counted() {
    let history = [step(WORKSPACE, "one", "one,two"), step("a", "one,two", "one,two,three,four")];
    let made = |said: &str| merge_base(&list("one"), &history, &list(said)).expect("a history");
    let last = list("one,two,three,four");
    for (said, without) in [("one,two", 2), ("one,two,four,x", 1), ("one,two,and three,four", 0), ("one,four,three", 0)]
    {
        assert_eq!(made(said), MergeBase { text: last.clone(), is_older: false, without }, "{said}");
    }
    assert_eq!(made("one,two,x"), MergeBase { text: list("one,two"), is_older: true, without: 0 });
}

proptest! {
    /// Text that others added after the file was read, and text that was added in the file, are both kept.
    #[test]
    fn unseen_additions_are_never_lost(text in "[a-z \\n-]{0,40}", theirs in 1_usize..6, seen in 0_usize..6) {
        let first = format!("{}\n\n# Theirs\n\n- [ ] begun\n\n# Ours\n\n- [ ] begun\n", text.trim_end());
        let seen = seen.min(theirs);
        let at = |count: usize| {
            let items = (0..count).map(|n| format!("- [ ] theirs {n}\n")).collect::<Vec<_>>().concat();
            first.replacen("# Theirs\n\n- [ ] begun\n", &format!("# Theirs\n\n- [ ] begun\n{items}"), 1)
        };
        let history: Vec<Entry> = (0..theirs).map(|n| Entry::between("a", None, DocumentChange::Put, &at(n), &at(n + 1))).collect();
        let file = format!("{}- [ ] ours\n", at(seen));
        let base = made_from(&first, &history, &file).expect("a history");
        if let Ok(both) = merge(&base, &at(theirs), &file, Format::Markdown, &DocumentLimits::default()) {
            for n in 0..theirs {
                let item = format!("- [ ] theirs {n}\n");
                prop_assert_eq!(both.matches(&item).count(), first.matches(&item).count() + 1, "{}", both);
            }
            prop_assert!(both.contains("- [ ] ours\n"), "{}", both);
        }
    }
}
