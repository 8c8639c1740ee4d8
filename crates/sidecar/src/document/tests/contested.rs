//! Merges of two changes at the same place: both are kept, or the conflict is described correctly.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::document::{
    DocumentLimits, Format,
    merge::{ConflictKind, MergeError, merge},
};

/// Merged text, or the conflict: kind, ours, theirs.
type Outcome<'a> = Result<&'a str, (ConflictKind, Option<&'a str>, Option<&'a str>)>;

fn outcome(format: Format, base: &str, ours: &str, theirs: &str, expected: Outcome<'_>) {
    let place = format!("{base:?} {ours:?} {theirs:?}");
    match (merge(base, ours, theirs, format, &DocumentLimits::default()), expected) {
        (Ok(text), Ok(expected)) => assert_eq!(text, expected, "{place}"),
        (Err(MergeError::Conflicts(found)), Err(expected)) => {
            let [found] = &found[..] else { panic!("{place}: {found:?}") };
            assert_eq!((found.kind, found.ours.as_deref(), found.theirs.as_deref()), expected, "{place}");
        }
        (found, expected) => panic!("{place}: {found:?}, not {expected:?}"),
    }
}

/// Checks each case, and the same case with the sides exchanged.
fn outcomes(format: Format, cases: &[(&str, &str, &str, Outcome<'_>)]) {
    for (base, ours, theirs, expected) in cases {
        outcome(format, base, ours, theirs, *expected);
        let swapped = match *expected {
            Ok(text) => Ok(text),
            Err((kind, ours, theirs)) => {
                let kind = match kind {
                    ConflictKind::RemovedByOurs => ConflictKind::RemovedByTheirs,
                    ConflictKind::RemovedByTheirs => ConflictKind::RemovedByOurs,
                    kind => kind,
                };
                Err((kind, theirs, ours))
            }
        };
        outcome(format, base, theirs, ours, swapped);
    }
}

#[test]
fn equal_items_are_distinguished_by_position() {
    let three = "- [ ] same\n- [ ] same\n- [ ] same\n";
    outcomes(
        Format::Markdown,
        &[
            (
                three,
                "- [x] same\n- [ ] same\n- [ ] same\n",
                "- [ ] same\n- [ ] same\n- [x] same\n",
                Ok("- [x] same\n- [ ] same\n- [x] same\n"),
            ),
            (
                three,
                "- [ ] same\n- [x] same\n- [ ] same\n",
                "- [-] same\n- [ ] same\n- [ ] same\n",
                Ok("- [-] same\n- [x] same\n- [ ] same\n"),
            ),
            (
                "- [ ] a\n- [ ] same\n- [ ] b\n- [ ] same\n- [ ] c\n- [ ] same\n",
                "- [ ] a\n- [ ] same\n- [ ] b\n- [ ] c\n- [ ] same\n",
                "- [ ] a\n- [ ] same\n- [ ] b\n- [ ] same\n- [ ] c\n- [x] same\n",
                Ok("- [ ] a\n- [ ] same\n- [ ] b\n- [ ] c\n- [x] same\n"),
            ),
        ],
    );
}

#[test]
fn block_lines_are_merged_or_conflict() {
    use ConflictKind::Words;
    let table = "| a | b |\n|---|---|\n| 1 | 2 |\n";
    outcome(
        Format::Markdown,
        table,
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n| 5 | 6 |\n",
        Ok("| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n"),
    );
    outcomes(
        Format::Markdown,
        &[
            (
                table,
                "| a | b |\n|---|---|\n| 1 | 9 |\n",
                "| a | b |\n|---|---|\n| 1 | 2 |\n| 5 | 6 |\n",
                Ok("| a | b |\n|---|---|\n| 1 | 9 |\n| 5 | 6 |\n"),
            ),
            (
                table,
                "| a | b |\n|---|---|\n| 1 | 9 |\n",
                "| a | b |\n|---|---|\n| 1 | 8 |\n",
                Err((Words, Some("| 1 | 9 |"), Some("| 1 | 8 |"))),
            ),
            ("just text", "just text 1", "just text 2", Err((Words, Some("just text 1"), Some("just text 2")))),
            ("para a\n", "para x\n", "para y\n", Err((Words, Some("para x"), Some("para y")))),
            (
                "# A\n\nOne thing.\n\nTwo.\n",
                "# A\n\nSomething else.\n\nTwo.\n",
                "# A\n\nNothing of it.\n\nTwo, or three.\n",
                Err((Words, Some("Something else."), Some("Nothing of it."))),
            ),
            ("one\ntwo\nthree\n", "1\ntwo\nthree\n", "one\ntwo\n3\n", Ok("1\ntwo\n3\n")),
            ("one\ntwo\n", "1\ntwo\n", "one\n2\n", Ok("1\n2\n")),
            ("```\na\nb\nc\n```\n", "```\nA\nb\nc\n```\n", "```\na\nb\nC\n```\n", Ok("```\nA\nb\nC\n```\n")),
        ],
    );
}

#[test]
fn changed_item_is_matched_by_its_position() {
    use ConflictKind::{RemovedByOurs, Words};
    let base = "- [ ] one\n- [ ] two\n- [ ] three\n";
    let with = |two: &str| base.replace("- [ ] two\n", two);
    let (other, gone, done) = (with("- [ ] zwei\n"), with(""), with("- [x] two\n"));
    outcomes(
        Format::Markdown,
        &[
            (base, &other, &with("- [ ] deux\n"), Err((Words, Some("- [ ] zwei"), Some("- [ ] deux")))),
            (
                base,
                &gone,
                &with("- [ ] quite another thing\n"),
                Err((RemovedByOurs, None, Some("- [ ] quite another thing"))),
            ),
            (base, &gone, &with("- [ ] two things\n"), Err((RemovedByOurs, None, Some("- [ ] two things")))),
            // A tick applies to its words: it is not carried over to other words.
            (base, &done, &other, Err((Words, Some("- [x] two"), Some("- [ ] zwei")))),
            (
                "- [ ] deploy to staging\n",
                "- [x] deploy to staging\n",
                "- [ ] deploy to production\n",
                Err((Words, Some("- [x] deploy to staging"), Some("- [ ] deploy to production"))),
            ),
            (
                "- [ ] finish all that is in step 7\n",
                "- [x] finish all that is in step 7\n",
                "- [ ] finish all that is in step 8\n",
                Err((Words, Some("- [x] finish all that is in step 7"), Some("- [ ] finish all that is in step 8"))),
            ),
            (
                base,
                &with("- [~] two\n"),
                &with("- [ ] two things and more\n"),
                Ok(&with("- [~] two things and more\n")),
            ),
            (
                base,
                &with("- [~] two\n"),
                &with("- [/] two\n"),
                Err((ConflictKind::State, Some("- [~] two"), Some("- [/] two"))),
            ),
            // A nested item stays with its item when that one is reworded.
            (base, &other, &with("- [ ] two\n  - [ ] half\n"), Ok(&with("- [ ] zwei\n  - [ ] half\n"))),
            (
                "## Risks\n\n- fire\n",
                "## People\n\n- ann\n",
                "## Risks\n\n- fire\n- water\n",
                Ok("## People\n\n- ann\n- water\n"),
            ),
            (
                "# A\n\n## Risks\n",
                "# A\n\n## Dangers\n",
                "# A\n\n## Perils\n",
                Err((Words, Some("## Dangers"), Some("## Perils"))),
            ),
            // Only this item differs: its neighbours are independent.
            (base, &other, &base.replace("[ ] three", "[x] three"), Ok("- [ ] one\n- [ ] zwei\n- [x] three\n")),
            (base, &other, &other.replace("[ ] one", "[x] one"), Ok("- [x] one\n- [ ] zwei\n- [ ] three\n")),
        ],
    );
}

#[test]
fn yaml_merges_key_by_key_at_any_depth() {
    use ConflictKind::{Layout, RemovedByOurs, RemovedByTheirs, Words};
    let base = "a: # why\n  b:\n    c: 1\n    # of d\n    d: 2\n  list:\n    - x: 1\n      y: 2\n    - one\n  e: 3\n";
    let with = |part: &str, by: &str| {
        assert_eq!(base.matches(part).count(), 1, "{part}");
        base.replace(part, by)
    };
    let (c, d) = (with("c: 1", "c: 9"), with("d: 2", "d: 8"));
    outcomes(
        Format::Yaml,
        &[
            (base, &c, &d, Ok(&c.replace("d: 2", "d: 8"))),
            (base, &c, &with("c: 1", "c: 7"), Err((Words, Some("c: 9"), Some("c: 7")))),
            (base, &c, &with("    c: 1\n", ""), Err((RemovedByTheirs, Some("c: 9"), None))),
            (base, &with("    c: 1\n", ""), &d, Ok(&d.replace("    c: 1\n", ""))),
            (base, &with("  b:\n    c: 1\n    # of d\n    d: 2\n", ""), &d, Err((RemovedByOurs, None, Some("d: 8")))),
            (
                base,
                &with("    - one\n", "    - one\n    - two\n"),
                &with("e: 3", "e: 4"),
                Ok(&with("    - one\n  e: 3", "    - one\n    - two\n  e: 4")),
            ),
            (base, &with("x: 1", "x: 5"), &with("y: 2", "y: 6"), Ok(&with("x: 1\n      y: 2", "x: 5\n      y: 6"))),
            (base, &with("x: 1", "x: 5"), &with("x: 1", "x: 6"), Err((Words, Some("- x: 5"), Some("- x: 6")))),
            (
                base,
                &with("  e: 3\n", "  e: 3\n  f: 4\n"),
                &with("  e: 3\n", "  e: 3\n  f: 5\n"),
                Err((Layout, None, None)),
            ),
            ("a:\n", "a: 1\n", "a:\n  b: 2\n", Err((Layout, None, None))),
        ],
    );
    outcome(
        Format::Yaml,
        base,
        &with("    d: 2\n", "    d: 2\n    f: 4\n"),
        &with("  list:", "  g:\n    h: 1\n  list:"),
        Ok(&with("    d: 2\n", "    d: 2\n    f: 4\n  g:\n    h: 1\n")),
    );
}

#[test]
fn merge_leaves_no_surplus_blank_lines() {
    let base = "# A\n\n- a\n- b\n- c\n\n# B\n\n- d\n";
    outcomes(
        Format::Markdown,
        &[
            // The first goes, another one comes before it.
            (
                base,
                "# A\n\n- b\n- c\n\n# B\n\n- d\n",
                "# A\n\n- new\n- a\n- b\n- c\n\n# B\n\n- d\n",
                Ok("# A\n\n- new\n- b\n- c\n\n# B\n\n- d\n"),
            ),
            // The last goes, another one comes behind it.
            (
                base,
                "# A\n\n- a\n- b\n\n# B\n\n- d\n",
                "# A\n\n- a\n- b\n- c\n- new\n\n# B\n\n- d\n",
                Ok("# A\n\n- a\n- b\n- new\n\n# B\n\n- d\n"),
            ),
            // The first becomes the last, the second goes.
            (
                base,
                "# A\n\n- b\n- c\n- a\n\n# B\n\n- d\n",
                "# A\n\n- a\n- c\n\n# B\n\n- d\n",
                Ok("# A\n\n- c\n- a\n\n# B\n\n- d\n"),
            ),
            // Two go.
            (
                base,
                "# A\n\n- b\n- c\n\n# B\n\n- d\n",
                "# A\n\n- a\n- c\n\n# B\n\n- d\n",
                Ok("# A\n\n- c\n\n# B\n\n- d\n"),
            ),
            // One moves to another section.
            (
                base,
                "# A\n\n- b\n- c\n\n# B\n\n- a\n- d\n",
                "# A\n\n- a\n- b\n- c\n- x\n\n# B\n\n- d\n",
                Ok("# A\n\n- b\n- c\n- x\n\n# B\n\n- a\n- d\n"),
            ),
            // A section at the end goes.
            (
                base,
                "# A\n\n- a\n- b\n- c\n",
                "# A\n\n- a\n- b\n- c\n- x\n\n# B\n\n- d\n",
                Ok("# A\n\n- a\n- b\n- c\n- x\n"),
            ),
            // A section moves.
            (
                base,
                "# B\n\n- d\n\n# A\n\n- a\n- b\n- c\n",
                "# A\n\n- a\n- c\n\n# B\n\n- d\n",
                Ok("# B\n\n- d\n\n# A\n\n- a\n- c\n"),
            ),
        ],
    );
}

/// Action of one side on a line: keep it, tick it, change its word, remove it, add one behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    Keeps,
    Marks,
    Changes,
    Removes,
    Adds,
}

fn side(lines: usize) -> impl Strategy<Value = Vec<Does>> {
    use Does::{Adds, Changes, Keeps, Marks, Removes};
    let does = prop_oneof![6 => Just(Keeps), 1 => Just(Marks), 1 => Just(Changes), 1 => Just(Removes), 1 => Just(Adds)];
    prop::collection::vec(does, lines)
}

/// Texts whose lines differ by their place alone: one-word items, namesakes, rows of a table, keys within keys.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Short,
    Namesakes,
    Table,
    Keys,
}

impl Shape {
    const LINES: usize = 7;

    fn format(self) -> Format {
        if matches!(self, Self::Keys) { Format::Yaml } else { Format::Markdown }
    }

    /// Writes the text of a side; lines that it adds or changes bear its name.
    fn written(self, does: &[Does], who: &str) -> String {
        let mut out = match self {
            Self::Table => "# T\n\n| a | b |\n|---|---|\n".to_owned(),
            Self::Keys => "top:\n".to_owned(),
            Self::Short | Self::Namesakes => "# T\n\n".to_owned(),
        };
        for (at, does) in does.iter().enumerate() {
            let line = |word: &str, sign: &str| match self {
                Self::Short | Self::Namesakes => format!("- [{sign}] {word}\n"),
                Self::Table => format!("| {word} | {sign} |\n"),
                Self::Keys if at % 3 == 0 => {
                    format!("  k{at}{}:\n    in: {word}{sign}\n", if word.len() > 3 { word } else { "" })
                }
                Self::Keys => format!("  k{at}{}: v{sign}\n", if word.len() > 3 { word } else { "" }),
            };
            let word = if matches!(self, Self::Namesakes) { "same".to_owned() } else { format!("w{at}") };
            let other = format!("{who}{at}word");
            match does {
                Does::Keeps => out.push_str(&line(&word, " ")),
                Does::Marks => out.push_str(&line(&word, "x")),
                Does::Changes => out.push_str(&line(&other, " ")),
                Does::Removes => {}
                Does::Adds => {
                    out.push_str(&line(&word, " "));
                    out.push_str(&line(&other, " "));
                }
            }
        }
        out
    }
}

/// Counts the occurrences of each line in a text.
fn counted(text: &str) -> BTreeMap<&str, i64> {
    text.lines().filter(|line| !line.is_empty()).fold(BTreeMap::new(), |mut count, line| {
        *count.entry(line).or_default() += 1;
        count
    })
}

proptest! {
    #[test]
    fn merge_by_position_neither_loses_nor_doubles_lines(
        shape in prop::sample::select(vec![Shape::Short, Shape::Namesakes, Shape::Table, Shape::Keys]),
        ours in side(Shape::LINES),
        theirs in side(Shape::LINES),
    ) {
        let base = shape.written(&[Does::Keeps; Shape::LINES], "b");
        let (mine, other) = (shape.written(&ours, "o"), shape.written(&theirs, "t"));
        if let Ok(text) = merge(&base, &mine, &other, shape.format(), &DocumentLimits::default()) {
            // Each line occurs as often as the changes of both sides add up to; an equal change of both counts once.
            let (was, is) = (counted(&base), counted(&text));
            let (mine, other) = (counted(&mine), counted(&other));
            for line in was.keys().chain(mine.keys()).chain(other.keys()).chain(is.keys()) {
                let count = |of: &BTreeMap<&str, i64>| of.get(line).copied().unwrap_or_default();
                let (by_us, by_them) = (count(&mine) - count(&was), count(&other) - count(&was));
                let both = count(&was) + by_us + by_them;
                let alike = if by_us.signum() == by_them.signum() { by_us.abs().min(by_them.abs()) * by_us.signum() } else { 0 };
                let range = (both - alike).min(both)..=(both - alike).max(both);
                prop_assert!(range.contains(&count(&is)), "{line}: {range:?}\n{text}");
            }
        }
        let found = merge(&base, &mine, &other, shape.format(), &DocumentLimits::default());
        // Sides that changed different lines, with one between them, always merge. Sides that changed the same line
        // differently never do. Exceptions: namesakes cannot be told apart, another key is another line, and a change
        // cannot be told from a removal beside it by the same side.
        let touched = |does: &[Does]| (0..Shape::LINES).filter(|at| does[*at] != Does::Keeps).collect::<Vec<_>>();
        let apart = touched(&ours).iter().all(|a| touched(&theirs).iter().all(|b| a.abs_diff(*b) > 1));
        if apart && !matches!(shape, Shape::Namesakes) {
            prop_assert!(found.is_ok(), "{found:?}");
        }
        let contested = |does: (&Does, &Does)| {
            use Does::{Changes, Marks, Removes};
            matches!(does, (Changes, Changes | Marks) | (Marks, Changes | Removes) | (Removes, Marks))
        };
        if matches!(shape, Shape::Short | Shape::Table) && ours.iter().zip(&theirs).any(contested) {
            prop_assert!(found.is_err(), "{found:?}");
        }
    }
}
