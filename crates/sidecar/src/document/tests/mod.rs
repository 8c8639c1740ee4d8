//! Tests of documents by tables and by random texts: reading, edits, merges, replay and names.

mod contested;
mod edits;
mod history;
mod merge_base;
mod merges;
mod names;
mod reading;

use proptest::prelude::*;

use super::{Document, DocumentLimits, Format, ItemState};

/// Parses a text of markdown.
fn markdown(text: &str) -> Document {
    Document::parse(text, Format::Markdown, &DocumentLimits::default()).expect("a document")
}

fn yaml(text: &str) -> Document {
    Document::parse(text, Format::Yaml, &DocumentLimits::default()).expect("a document")
}

/// Every item of a document: section, state, words, depth.
fn items(document: &Document) -> Vec<(String, Option<ItemState>, String, usize)> {
    let sections = document.sections().into_iter();
    sections
        .flat_map(|section| {
            let slug = section.slug;
            section.items.into_iter().map(move |item| (slug.clone(), item.state, item.text, item.depth))
        })
        .collect()
}

/// Lines with a meaning in markdown or YAML, in any order, with any line ends.
fn lines() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        prop::sample::select(vec![
            "# Title",
            "## Plan ##",
            "### Deep",
            "Under",
            "===",
            "---",
            "- [ ] one",
            "- [x] two <!-- id: t2 -->",
            "  - [-] nested",
            "\t* tab",
            "1. first",
            "2) second",
            "```",
            "~~~~ sh",
            "<!-- open",
            "-->",
            "<!-- c -->",
            "",
            "  ",
            "key: value # why",
            "  more",
            "    code",
            "> quote",
            "| a | b |",
            "* * *",
            "- ",
            "-",
            "...",
            "# ",
            "+ [X]",
            "list:",
            "- - -",
            "text: |",
            "\u{feff}x",
            "10. ten",
            "[ ] no",
            "#no",
            "---\u{a0}",
            "a: b",
        ])
        .prop_map(str::to_owned),
        "[ -~\t]{0,12}",
        "\\PC{0,6}",
    ];
    let end = prop::sample::select(vec!["\n", "\n", "\n", "\r\n", "\r", ""]);
    prop::collection::vec((line, end), 0..40)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end.to_owned()]).collect())
}
