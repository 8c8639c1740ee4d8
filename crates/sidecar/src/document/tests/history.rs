//! Etags, patches, replay, and whether a section moved on.

use proptest::prelude::*;

use super::{lines, markdown, yaml};
use crate::document::{
    patch::Patch,
    revision::{DocumentChange, Entry, Etag, Moved, compare_section, replay},
};

#[test]
fn etag_matches_by_strong_comparison() {
    let etag = Etag::of("- [ ] one\n");
    assert_ne!(etag, Etag::of("- [ ] one"));
    assert_eq!(serde_json::from_str::<Etag>(&serde_json::to_string(&etag).unwrap()).unwrap(), etag);
    for (header, matches) in [
        (etag.header(), true),
        (format!("\"x\", {}", etag.header()), true),
        (" * ".into(), true),
        (format!("W/{}", etag.header()), false),
        (etag.to_string(), false),
        (Etag::of("other").header(), false),
        (String::new(), false),
    ] {
        assert_eq!(etag.matches(&header), matches, "{header}");
    }
}

#[test]
fn patch_applies_only_to_a_text_that_it_fits() {
    let before = "a\nb\nc\nd\n";
    let patch = Patch::between(before, "a\nb\nC\nd\nl");
    assert_eq!(patch.apply(before), Some("a\nb\nC\nd\nl".into()));
    assert_eq!(patch.apply("a\nb\nx\nd\n"), None);
    assert_eq!(Patch::between(before, before), Patch::default());
}

#[test]
fn history_with_a_gap_or_forged_patch_is_refused() {
    let texts = ["", "- a\n", "- a\n- b\n", "- b\n"];
    let entry = |pair: &[&str]| Entry::between("writer", None, DocumentChange::Put, pair[0], pair[1]);
    let entries: Vec<Entry> = texts.windows(2).map(entry).collect();
    assert_eq!(replay("", &entries), Some("- b\n".into()));
    assert_eq!(replay("", &entries[1..]), None);
    assert_eq!(replay("", [&entries[0], &entries[2]]), None);
    let mut forged = entries.clone();
    forged[1].patch.0[0].added = vec!["- c\n".into()];
    assert_eq!(replay("", &forged), None);
    forged[1].patch.0[0].at = usize::MAX;
    assert_eq!(replay("", &forged), None);
}

#[test]
fn section_is_updated_only_by_new_content() {
    let before = markdown("# Plan\n- [ ] a\n\n## Findings\n\nNone  yet: Rust 1.\n\n# Other\n");
    let findings = |text: &str| format!("# Plan\n- [ ] a\n\n## Findings\n\n{text}\n");
    for (text, plan, of_findings) in [
        ("# Plan\n\n- [ ] a\n## Findings\nNone yet: Rust 1.\n\n\n# Other\nnew\n", Moved::Unchanged, Moved::Unchanged),
        ("# Plan\n- [ ] a <!-- id: a1 -->\n\n## Findings\n\nNone  yet: Rust 1.\n", Moved::Unchanged, Moved::Unchanged),
        ("# Plan\n- [x] a\n\n## Findings\n\nNone  yet: Rust 1.\n", Moved::Updated, Moved::Unchanged),
        ("# Plan\n- [~] a\n\n## Findings\n\nNone  yet: Rust 1.\n", Moved::Unchanged, Moved::Unchanged),
        (&findings("Two."), Moved::Updated, Moved::Updated),
        (&findings("None yet: Rust 1. None."), Moved::Updated, Moved::Updated),
        (&findings("None yet: Rust 2."), Moved::Updated, Moved::Updated),
        // These add no content.
        (&findings(""), Moved::Unchanged, Moved::Unchanged),
        (&findings("NONE YET; rust 1!"), Moved::Unchanged, Moved::Unchanged),
        (&findings("None.\n\nYet rust 1."), Moved::Unchanged, Moved::Unchanged),
        (&findings("None yet: Rust 1. <!-- more to come -->"), Moved::Unchanged, Moved::Unchanged),
        (&findings("None yet: Rust 1.\n<!--\nmore -->\n\n### More"), Moved::Unchanged, Moved::Unchanged),
        ("# Plan\n- [ ] a\n", Moved::Unchanged, Moved::Removed),
    ] {
        let after = markdown(text);
        assert_eq!(
            (compare_section(&before, &after, "plan"), compare_section(&before, &after, "findings")),
            (plan, of_findings),
            "{text}"
        );
    }
    assert_eq!(compare_section(&markdown(""), &before, "plan"), Moved::Added);
    assert_eq!(compare_section(&markdown(""), &before, "other"), Moved::Unchanged, "it is there, and says nothing");
    assert_eq!(compare_section(&before, &before, "nothing"), Moved::Missing);
    assert_eq!(compare_section(&before, &markdown(" "), ""), Moved::Unchanged);
    let front = |by: u32| markdown(&format!("---\nat: {by}\n---\n- [ ] a\n"));
    assert_eq!(compare_section(&front(1), &front(2), ""), Moved::Unchanged);
    assert_eq!(
        compare_section(&yaml("a: 1 # x\nb:\n  c: 2\n"), &yaml("a: 1 # y\nb:\n  c: 2\n# z\nd:\n"), ""),
        Moved::Unchanged
    );
    assert_eq!(compare_section(&yaml("a: 1\nb:\n  c: 2\n"), &yaml("a: 1\nb:\n  c: 3\n"), "b"), Moved::Updated);
}

proptest! {
    #[test]
    fn patch_turns_any_text_into_any_other(before in lines(), after in lines()) {
        let patch = Patch::between(&before, &after);
        prop_assert_eq!(patch.apply(&before).unwrap(), after);
        let stored: Patch = serde_json::from_str(&serde_json::to_string(&patch).unwrap()).unwrap();
        prop_assert_eq!(stored, patch);
    }
}
