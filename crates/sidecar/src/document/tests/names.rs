//! Tests of names that are safe as files, of export paths, and of reading files back.

use std::path::{Component, Path};

use proptest::prelude::*;

use crate::document::{
    Format,
    name::{Name, export_folder},
};

#[test]
fn document_names_are_portable_or_refused() {
    for (text, name, format) in [
        ("todo", "todo", Format::Markdown),
        ("TODO.md", "todo", Format::Markdown),
        ("plan.v2.yaml", "plan.v2", Format::Yaml),
        ("a.yml", "a", Format::Yaml),
        ("notes_1-b", "notes_1-b", Format::Markdown),
        ("console", "console", Format::Markdown),
    ] {
        let (read, its) = Name::of_document(text).expect(text);
        assert_eq!((read.as_str(), its), (name, format), "{text}");
        assert_eq!(Name::of_document(&read.file(its)), Ok((read, its)), "{text}");
    }
    for (text, error) in [
        ("", "empty"),
        (".md", "empty"),
        ("..", "letters (a-z)"),
        ("../todo", "letters (a-z)"),
        ("a/b", "letters (a-z)"),
        ("a\\b", "letters (a-z)"),
        ("c:", "letters (a-z)"),
        (".hidden", "letters (a-z)"),
        ("a..b", "letters (a-z)"),
        ("a.", "letters (a-z)"),
        ("a ", "letters (a-z)"),
        ("a\0", "letters (a-z)"),
        ("a\u{200b}b", "letters (a-z)"),
        ("tоdo", "letters (a-z)"),
        ("%2e%2e", "letters (a-z)"),
        ("-rf", "letters (a-z)"),
        ("NUL", "reserved"),
        ("con.md", "reserved"),
        ("com1.txt", "reserved"),
        (&"a".repeat(65), "at most 64 bytes"),
    ] {
        let refused = Name::of_document(text).unwrap_err().to_string();
        assert!(refused.contains(error), "{text}: {refused}");
    }
}

#[test]
fn only_exported_file_names_belong_to_documents() {
    for (file, is_document) in [
        ("todo.md", true),
        ("plan.v2.yaml", true),
        ("TODO.md", false),
        ("todo", false),
        ("plan.yml", false),
        ("todo.md~", false),
        (".todo.md.exported", false),
        ("todo.md.swp", false),
        ("4913", false),
    ] {
        assert_eq!(Name::of_file(file).is_some(), is_document, "{file}");
    }
    let (name, format) = Name::of_file("todo.md").expect("a document");
    let aside = name.aside(format, "9f64a747e1b97f131fabb6b447296c9b");
    assert_eq!((aside.as_str(), Name::of_file(&aside)), ("todo~conflict-9f64a747.md", None));
}

#[test]
fn export_folder_lies_within_the_workspace_or_is_refused() {
    let session = Name::parse("ses_1").expect("a name");
    let folder = |within: Option<&str>| export_folder(within, &session);
    assert_eq!(folder(None).as_deref(), Ok(".umbra/ses_1"));
    assert_eq!(folder(Some("My apps/site.de")).as_deref(), Ok("My apps/site.de/.umbra/ses_1"));
    for within in
        ["", ".", "..", "/etc", "a/../..", "a//b", "a/", "a/./b", "a\\b", "a\0b", "a\nb", ".umbra", "a/.Umbra/b"]
    {
        assert!(folder(Some(within)).is_err(), "{within:?}");
    }
    assert!(folder(Some(&"a".repeat(256))).is_err() && folder(Some(&["a"; 17].join("/"))).is_err());
}

proptest! {
    #[test]
    fn export_paths_never_leave_the_workspace(within in "\\PC{0,12}", session in "\\PC{0,12}", document in "[a-zA-Z0-9./\\\\:%~ -]{0,12}") {
        let names = Name::parse(&session).and_then(|session| Ok((session, Name::of_document(&document)?)));
        if let Ok((session, (document, format))) = names {
            for within in [None, Some(within.as_str())] {
                let Ok(folder) = export_folder(within, &session) else { continue };
                let path = Path::new(&folder).join(document.file(format));
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert!(path.components().count() >= 3 && Name::of_file(&document.file(format)).is_some());
            }
        }
    }
}
