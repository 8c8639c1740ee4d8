//! Budgets, excerpts, and the places of hits within them.

use proptest::prelude::*;
use serde_json::json;

use super::{any_args, any_event, tool_event};
use crate::{
    excerpt::{MAX_WINDOWS, NOTICE_BYTES, excerpt, grouped, share},
    sections::{sections, text_bytes},
};
use umbra_domain::{CheckName, FieldName, Hit, Severity};

#[test]
fn budget_is_shared_evenly_and_small_texts_stay_whole() {
    let check = |lengths: &[usize], budget, want: &[usize]| assert_eq!(share(lengths, budget), want, "{lengths:?}");
    check(&[], 10, &[]);
    check(&[5, 3], 10, &[5, 3]);
    check(&[100, 10, 100], 110, &[50, 10, 50]);
    check(&[100, 100], 0, &[0, 0]);
    check(&[7, 7, 7], 10, &[3, 3, 4]);
}

#[test]
fn a_long_text_keeps_head_tail_and_marks() {
    let text = format!("HEAD{}rm -rf /{}TAIL", "x".repeat(5_000), "y".repeat(5_000));
    let at = text.find("rm -rf").unwrap();
    let cut = excerpt(&text, 1_000, || vec![(Severity::Critical, at..at + 8)]);
    assert!(cut.text.starts_with("HEAD") && cut.text.ends_with("TAIL"));
    assert!(cut.text.contains("xxxrm -rf /yyy"), "with some context");
    assert_eq!(cut.omitted, text.len() - 1_000);
    assert_eq!(cut.text.matches(" characters left out …]").count(), 2);
}

#[test]
fn text_within_budget_is_unchanged_and_marks_are_not_computed() {
    let cut = excerpt("é€😀", 3, || panic!("not needed"));
    assert_eq!((cut.text.as_str(), cut.omitted), ("é€😀", 0));
    assert_eq!(excerpt("abc", 0, Vec::new).text, "[… 3 characters left out …]");
}

#[test]
fn worst_marks_are_shown_if_not_all_fit() {
    let text = "a".repeat(1_000) + "BAD" + &"b".repeat(1_000) + &"meh ".repeat(1_000);
    let mut marks: Vec<_> = (0..1_000).map(|n| (Severity::Warning, 2_003 + 4 * n..2_006 + 4 * n)).collect();
    marks.push((Severity::Critical, 1_000..1_003));
    assert!(excerpt(&text, 200, || marks).text.contains("BAD"));
}

#[test]
fn numbers_are_grouped_by_thousands() {
    for (number, want) in [(0, "0"), (999, "999"), (1_000, "1,000"), (12_345, "12,345"), (1_234_567, "1,234,567")] {
        assert_eq!(grouped(number), want);
    }
}

#[test]
fn a_hit_in_an_argument_is_found_in_the_json() {
    let event = tool_event(json!({"a": ["x", "say \"hi\"\n then rm -rf /"], "b.c": 1}));
    let stored = "say \"hi\"\n then rm -rf /";
    let start = stored.find("rm").unwrap();
    let hit = Hit {
        check: CheckName::Commands,
        rule: "rm_root".to_owned(),
        severity: Severity::Critical,
        field: FieldName("tool.args.a.1".into()),
        start,
        end: stored.len(),
        description: String::new(),
        value: None,
    };
    let all = sections(&event);
    let args = all.iter().find(|section| section.label == "tool.args").unwrap();
    assert_eq!(&args.text[args.place(&hit).unwrap()], "rm -rf /");
    assert_eq!(args.place(&Hit { end: 999, ..hit }), None);
}

proptest! {
    #[test]
    fn an_excerpt_keeps_to_its_budget(
        text in "[ab€😀]{0,400}",
        budget in 0..300_usize,
        marks in proptest::collection::vec((0..900_usize, 0..60_usize), 0..60),
    ) {
        let total = text.chars().count();
        let marks: Vec<_> = marks.into_iter().map(|(at, len)| (Severity::Warning, at..at + len)).collect();
        let cut = excerpt(&text, budget, || marks);
        let notices = cut.text.matches('[').count();
        let shown: usize = cut.text.chars().filter(|c| "ab€😀".contains(*c)).count()
            - notices * " characters left out ".chars().filter(|c| "ab".contains(*c)).count();
        prop_assert_eq!(shown + cut.omitted, total);
        prop_assert!(shown <= budget);
        prop_assert!(notices <= MAX_WINDOWS + 1);
        prop_assert!(cut.text.len() <= budget * 4 + notices * NOTICE_BYTES);
    }

    #[test]
    fn arguments_are_shown_as_plain_compact_json(args in any_args()) {
        let event = tool_event(args.clone());
        let all = sections(&event);
        let shown = all.iter().find(|section| section.label == "tool.args").map(|section| section.text.to_string());
        prop_assert_eq!(shown, (!args.is_null()).then(|| args.to_string()));
    }

    #[test]
    fn text_bytes_equals_the_length_of_all_sections(event in any_event()) {
        prop_assert_eq!(text_bytes(&event), sections(&event).iter().map(|section| section.text.len()).sum::<usize>());
    }
}
