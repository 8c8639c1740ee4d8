//! Tests of reading: the elements of a text, and that it is written back unchanged.

use proptest::prelude::*;

use super::{items, lines, markdown, yaml};
use crate::document::{Document, DocumentLimits, Format, ItemState, YamlError};

const TODO: &str = "---\ntitle: Ship it # not yet\ntags: [a, b]\n---\nIntro line.\n\n# Plan\n\n- [ ] first <!-- id: f1 -->\n  goes on\n  - [x] nested\n    1. deeper\n- [-] given up\n* plain\n\n    of plain\n\n## Findings\nNone\n\n```md\n# no heading\n- [ ] no item\n```\n<!--\n## hidden\n- hidden\n-->\n## Findings\n1. one\n2. two\nUnderlined\n----------\n- last";

#[test]
fn sections_items_and_states_are_read() {
    use ItemState::{Done, Dropped, Open};
    let document = markdown(TODO);
    let sections: Vec<_> =
        document.sections().into_iter().map(|section| (section.slug, section.title, section.level)).collect();
    let section = |slug: &str, title: &str, level| (slug.to_owned(), title.to_owned(), level);
    assert_eq!(
        sections,
        [section("plan", "Plan", 1), section("findings", "Findings", 2), section("findings-2", "Findings", 2)],
        "a line of an item is no title"
    );
    let item = |section: &str, state, words: &str, depth| (section.to_owned(), state, words.to_owned(), depth);
    assert_eq!(
        items(&document),
        [
            item("plan", Some(Open), "first goes on", 0),
            item("plan", Some(Done), "nested", 1),
            item("plan", None, "deeper", 2),
            item("plan", Some(Dropped), "given up", 0),
            item("plan", None, "plain", 0),
            item("findings-2", None, "one", 0),
            item("findings-2", None, "two Underlined", 0),
            item("findings-2", None, "last", 0),
        ]
    );
    assert_eq!(document.sections()[0].items[0].id.as_deref(), Some("f1"));
    assert_eq!(document.front_matter().unwrap().unwrap()["tags"], serde_json::json!(["a", "b"]));
}

#[test]
fn headings_and_items_follow_markdown_rules() {
    let sections = |text: &str| markdown(text).sections().into_iter().map(|section| section.slug).collect::<Vec<_>>();
    for (text, expected) in [
        ("Title\n===\n\nText\n---\n", vec!["title", "text"]),
        ("two\nlines\n===\n", vec![]),
        ("####### seven\n#no\n    # code\n", vec![]),
        ("# A #\n# a-2\n# a\n# A\n", vec!["a", "a-2", "a-3", "a-4"]),
        ("# Überblick & mehr {#over}\n# 計画\n# !?\n", vec!["over", "計画", "section"]),
        ("---\nno: end\n# here\n", vec!["here"]),
        ("- item\n  # in the item\n", vec![""]),
        ("``` a`b\n# heading\n", vec!["heading"]),
        ("~~~\n# code\n```\n~~~~\n# heading\n", vec!["heading"]),
    ] {
        assert_eq!(sections(text), expected, "{text}");
    }
    for (text, count) in [
        ("* * *\n- - -\n---\n", 0),
        ("in the year\n1986. A great vintage\n", 0),
        ("so:\n1. one\n", 1),
        ("    - code\n", 0),
        ("-no\n1.no\n1234567890. no\n", 0),
        ("-\n- \n", 2),
    ] {
        assert_eq!(items(&markdown(text)).len(), count, "{text}");
    }
}

#[test]
fn yaml_keys_are_sections_and_elements_are_items() {
    let document = yaml(
        "# head\ntitle: x\ntodo:\n  - one\n  # why\n  - two: 2\n    done: no\n\n# of notes\n\"notes\": |\n  - not an item\n  key: none\nlist:\n- a\n- - b\n",
    );
    let slugs: Vec<_> = document.sections().into_iter().map(|section| section.slug).collect();
    assert_eq!(slugs, ["title", "todo", "notes", "list"]);
    let words: Vec<_> =
        items(&document).into_iter().map(|(section, _, words, _)| format!("{section}: {words}")).collect();
    assert_eq!(words, ["todo: one", "todo: two: 2 done: no", "list: a", "list: - b"]);
    let document = yaml("a:\n  list:\n  - one\n  # of more\n  more:\n    - two\n    - k: v\n      l: w\n  last: 1\n");
    let words: Vec<_> = items(&document).into_iter().map(|(.., words, depth)| (words, depth)).collect();
    assert_eq!(words, [("one".to_owned(), 0), ("two".into(), 0), ("k: v l: w".into(), 0)]);
    let titles: Vec<_> =
        (0..document.nodes.len()).map(|at| document.title(at)).filter(|title| !title.is_empty()).collect();
    assert_eq!(titles, ["a", "list", "more", "last"]);
}

#[test]
fn limits_are_enforced_and_named() {
    let limits = DocumentLimits { bytes: 40, sections: 2, items: 3, depth: 2, edits: 1 };
    let fault = |text: &str| Document::parse(text, Format::Markdown, &limits).err().map(|error| error.to_string());
    assert_eq!(fault("# a\n# b\n- 1\n- 2\n- 3\n"), None);
    for (text, named) in [
        (&*"x".repeat(41), "41 bytes, and 40 are allowed"),
        ("# a\n# b\n# c", "more than 2 sections"),
        ("- 1\n- 2\n- 3\n- 4", "more than 3 items"),
        ("x\n\n- 1\n  - 2\n    - 3", "line 5 is nested more than 2 items deep"),
    ] {
        assert!(fault(text).is_some_and(|fault| fault.contains(named)), "{text}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_is_parsed_and_written_back_unchanged(text in lines()) {
        for document in [markdown(&text), yaml(&text)] {
            prop_assert_eq!(document.text(), &text);
            let mut at = 0;
            for (place, node) in document.nodes.iter().enumerate() {
                prop_assert_eq!(node.start, at);
                prop_assert!(node.own.start >= at && node.own.end > node.own.start && node.until > place);
                prop_assert!(document.text[at..node.own.start].trim().is_empty(), "blank lines alone stand between");
                prop_assert!(node.parent.is_none_or(|parent| parent < place && document.nodes[parent].until >= node.until));
                at = node.own.end;
            }
            prop_assert!(document.text[at..].trim().is_empty());
            let slugs: std::collections::HashSet<_> = document.slugs.iter().map(|(_, slug)| slug).collect();
            prop_assert_eq!(slugs.len(), document.slugs.len());
        }
    }
}

#[test]
fn section_progress_tells_emptiness_and_open_items() {
    let text = "---\ntitle: x\n---\n# Plan\n\n## Open\n- [ ] one\n  - [x] two\n\n## Words\nSome.\n\n## Comment\n<!-- write here -->\n\n\
                ## Boxes\n- [ ]\n- [-] dropped\n\n## Only\n### Deeper\n---\n\n## Twice\n\n## Twice\n";
    let document = markdown(text);
    for (section, expected) in [
        (None, Some((false, 2))),
        (Some("plan"), Some((false, 2))),
        (Some("Plan"), Some((false, 2))),
        (Some("open"), Some((false, 1))),
        (Some("words"), Some((false, 0))),
        (Some("comment"), Some((true, 0))),
        (Some("boxes"), Some((false, 1))),
        (Some("only"), Some((true, 0))),
        // A slug names one section; a title of two sections names none.
        (Some("twice"), Some((true, 0))),
        (Some("Twice"), None),
        (Some("nowhere"), None),
        (Some(""), None),
    ] {
        let progress = document.progress(section).map(|progress| (progress.is_empty, progress.open));
        assert_eq!(progress, expected, "{section:?}");
    }
    let document = yaml("a: 1\nb:   # to be written\nc: null\nd:\n  - x\ne: |\n  text\nf: []\n# g\n");
    for (section, is_empty) in [("a", false), ("b", true), ("c", true), ("d", false), ("e", false), ("f", true)] {
        assert_eq!(document.progress(Some(section)).map(|progress| progress.is_empty), Some(is_empty), "{section}");
    }
    assert!(markdown("").progress(None).is_some_and(|progress| progress.is_empty && progress.open == 0));
}

#[test]
fn document_is_complete_only_with_tasks_and_none_open() {
    for (text, tasks, open) in [
        ("", 0, 0),
        ("# Todo\n\nAll done.\n", 0, 0),
        ("- no box\n- [a link](x)\n- [label] x\n- [1] note\n", 0, 0),
        ("- [x] a\n- [X] b\n- [-] c\n- none\n", 3, 0),
        ("- [ ] a\n- [ x] b\n- [x ] c\n- [~] d\n- [/] e\n- [] f\n- [?] g\n- [\u{2713}] h\n", 8, 8),
        ("> - [ ] a\n> > - [x] b\n> ```\n> - [ ] no item\n> ```\n", 2, 1),
        ("- [x] a\n  > said:\n  > 1. [ ] b\n", 2, 1),
        ("```\n- [ ] a\n```\n<!--\n- [x] b\n- [ ] c\n-->\n", 0, 0),
    ] {
        let progress = markdown(text).progress(None).unwrap();
        assert_eq!((progress.tasks, progress.open), (tasks, open), "{text}");
        assert_eq!(progress.is_complete(), tasks > 0 && open == 0, "{text}");
    }
    assert!(!yaml("todo:\n  - a\n").progress(None).unwrap().is_complete(), "YAML has no boxes");
}

#[test]
fn invalid_yaml_is_reported_with_its_line() {
    for (text, line) in
        [("a:\n\tb: 1\n", 2), ("a: 1\nb: 2\na: 3\n", 3), ("a:\n  b: 1\n  b: 2\n", 3), ("a: [1\nb: 2\n", 2)]
    {
        match yaml(text).check() {
            Err(YamlError::Syntax { line: its, .. }) => assert_eq!(its, line, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
    let deep: String = (0..40).map(|depth| " ".repeat(depth) + "a:\n").collect();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let aliases = names
        .windows(2)
        .map(|pair| [pair[1], ": &", pair[1], " [*", pair[0], &format!(",*{}", pair[0]).repeat(7), "]\n"].concat());
    let bomb = "a: &a [1,1,1,1,1,1,1,1]\n".to_owned() + &aliases.collect::<String>();
    for text in [deep, bomb] {
        assert_eq!(yaml(&text).check(), Err(YamlError::Involved), "{text}");
    }
    for text in ["", "# c\n", "a: 1\n", "- a\n- b\n", "a\n", "a: &x 1\nb: *x\n"] {
        assert_eq!(yaml(text).check(), Ok(()), "{text}");
    }
    assert_eq!(markdown("---\na\tb: : c\n---\n").check(), Ok(()));
}
