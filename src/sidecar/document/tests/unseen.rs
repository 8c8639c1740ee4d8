//! Files that were made from a state which others have moved on from.

use proptest::prelude::*;

use crate::sidecar::document::{
    Format, Limits,
    merge::merge,
    revision::{Change, Entry, WORKSPACE},
    unseen::made_from,
};

/// A list of what stands between commas.
fn list(items: &str) -> String {
    items.split(',').flat_map(|item| ["- [ ] ", item, "\n"]).collect()
}

fn step(by: &str, before: &str, after: &str) -> Entry {
    Entry::between(by, None, Change::Put, &list(before), &list(after))
}

#[test]
fn a_text_was_made_from_the_state_that_its_editor_had_read() {
    let (one, two, three, four, five) =
        ("one", "one,two", "one,two,three", "one,two,three,four", "one,two,three,four,five");
    let history = [step("a", one, two), step(WORKSPACE, two, three), step("a", three, four), step("b", four, five)];
    let made = |said: &str| made_from(&list(one), &history, said, Format::Markdown).expect("a history");
    for (said, from) in [
        ("one,two,three,four,five,x", five),
        // It lacks what came after it was read.
        ("one,two,three,four,x", four),
        ("one,x,two,three", three),
        ("two,three,x", three),
        // Something of it shows: in other words, or in its place alone.
        ("one,two,three,five,x", five),
        ("one,two,three,and five,x", five),
        // An older state as it was is meant, and so is what undoes a change of the workspace itself.
        (four, five),
        (three, five),
        ("one,two,x", three),
    ] {
        assert_eq!(made(&list(said)), list(from), "{said}");
    }
    let done = list(five).replace("[ ] five", "[x] five");
    assert_eq!(made(&done), list(five), "who checks an item has seen it");
    assert!(made_from("other", &history, &list(one), Format::Markdown).is_err());
    assert_eq!(made_from("one\n", &[], "two\n", Format::Markdown).as_deref(), Ok("one\n"));
}

#[test]
fn what_was_changed_or_removed_unseen_stays_so() {
    let (before, text) = (list("write tests,deploy"), list("write tests,deploy,rest"));
    for (now, merged) in [
        (
            list("write tests,deploy").replace("[ ] deploy", "[x] deploy"),
            "- [ ] write tests\n- [x] deploy\n- [ ] rest\n",
        ),
        (list("write tests"), "- [ ] write tests\n- [ ] rest\n"),
        (list("write more tests,deploy"), "- [ ] write more tests\n- [ ] deploy\n- [ ] rest\n"),
    ] {
        let history = [Entry::between("a", None, Change::Put, &before, &now)];
        let base = made_from(&before, &history, &text, Format::Markdown).expect("a history");
        let both = merge(&base, &now, &text, Format::Markdown, &Limits::default());
        assert_eq!(both.as_deref(), Ok(merged));
    }
    // Reworded by both, and what was added is missing: a contradiction. Reworded again after it was seen: not.
    let (now, text) = (list("write many tests,deploy,ship"), list("write no tests,deploy"));
    let history = [Entry::between("a", None, Change::Put, &before, &now)];
    assert_eq!(made_from(&before, &history, &text, Format::Markdown).as_deref(), Ok(&*before));
    let now = list("write many tests,deploy");
    let history = [Entry::between("a", None, Change::Put, &before, &now)];
    assert_eq!(made_from(&before, &history, &text, Format::Markdown).as_deref(), Ok(&*now));
    let (before, now) = ("a: 1\nb: 1\n", "a: 1\nb: 2\n");
    let history = [Entry::between("a", None, Change::Put, before, now)];
    assert_eq!(made_from(before, &history, "a: 5\nb: 1\n", Format::Yaml).as_deref(), Ok(before));
    assert_eq!(made_from(before, &history, "a: 1\nb: 3\n", Format::Yaml).as_deref(), Ok(now));
}

proptest! {
    /// Whatever others added after the file was read, and whatever was added to what was read: it is all there.
    #[test]
    fn nothing_that_was_added_unseen_is_lost(text in "[a-z \\n-]{0,40}", theirs in 1_usize..6, seen in 0_usize..6) {
        let first = format!("{}\n\n# Theirs\n\n- [ ] begun\n\n# Ours\n\n- [ ] begun\n", text.trim_end());
        let seen = seen.min(theirs);
        let at = |count: usize| {
            let items = (0..count).map(|n| format!("- [ ] theirs {n}\n")).collect::<Vec<_>>().concat();
            first.replacen("# Theirs\n\n- [ ] begun\n", &format!("# Theirs\n\n- [ ] begun\n{items}"), 1)
        };
        let history: Vec<Entry> = (0..theirs).map(|n| Entry::between("a", None, Change::Put, &at(n), &at(n + 1))).collect();
        let file = format!("{}- [ ] ours\n", at(seen));
        let base = made_from(&first, &history, &file, Format::Markdown).expect("a history");
        if let Ok(both) = merge(&base, &at(theirs), &file, Format::Markdown, &Limits::default()) {
            for n in 0..theirs {
                let item = format!("- [ ] theirs {n}\n");
                prop_assert_eq!(both.matches(&item).count(), first.matches(&item).count() + 1, "{}", both);
            }
            prop_assert!(both.contains("- [ ] ours\n"), "{}", both);
        }
    }
}
