//! The tree: places, kinds, budgets.

use super::{
    super::{
        fault::{Faults, SourcePosition},
        tree::{Node, NodeValue, parse},
    },
    faults, one_fault,
};

fn read(text: &str) -> Result<Node, Vec<super::Fault>> {
    let mut notes = Faults::default();
    let source = notes.add_source("f.yaml", text);
    let node = parse(source, text, &mut notes);
    notes.finish(node).map(|loaded| loaded.value).map_err(|report| report.faults)
}

#[test]
fn every_node_and_key_has_its_line_and_column() {
    let root = read("a: 1\nlist:\n  - x\n  - {k: \"v\", ü: ~}\nref: &n yes\nuse: *n\n").unwrap();
    let NodeValue::Map(entries) = &root.kind else { panic!("no map") };
    let at = |line, column| SourcePosition { source: 0, line, column };
    let keys: Vec<_> = entries.iter().map(|entry| (entry.key.as_str(), entry.at, entry.value.at)).collect();
    assert_eq!(
        keys,
        [
            ("a", at(1, 1), at(1, 4)),
            ("list", at(2, 1), at(3, 3)),
            ("ref", at(5, 1), at(5, 9)),
            // The place of a value from an alias is that of the alias.
            ("use", at(6, 1), at(6, 6)),
        ]
    );
    let NodeValue::List(items) = &entries[1].value.kind else { panic!("no list") };
    assert_eq!(items[0].at, at(3, 5));
    let NodeValue::Map(inner) = &items[1].kind else { panic!("no map") };
    assert_eq!((inner[1].key.as_str(), inner[1].at, inner[1].value.at), ("ü", at(4, 14), at(4, 17)));
}

#[test]
fn scalars_are_typed_by_yaml_1_2() {
    let cases = [
        ("yes", NodeValue::Text("yes".to_owned())),
        ("true", NodeValue::Flag(true)),
        ("\"true\"", NodeValue::Text("true".to_owned())),
        ("~", NodeValue::Null),
        ("-7", NodeValue::Whole(-7)),
        ("18446744073709551615", NodeValue::Whole(u64::MAX.into())),
        ("1e3", NodeValue::Decimal(1_000.0)),
        (".inf", NodeValue::Text(".inf".to_owned())),
        (".nan", NodeValue::Text(".nan".to_owned())),
        ("127.0.0.1:7817", NodeValue::Text("127.0.0.1:7817".to_owned())),
    ];
    for (text, expected) in cases {
        let root = read(&format!("k: {text}\n")).unwrap();
        let NodeValue::Map(entries) = root.kind else { panic!("no map") };
        assert_eq!(entries[0].value.kind, expected, "{text}");
    }
}

#[test]
fn syntax_error_is_one_fault_with_its_line() {
    let cases: [(&str, usize, &[&str]); 9] = [
        ("", 0, &["f.yaml:1:1: the file is empty"]),
        ("# only a comment\n", 0, &["empty"]),
        ("a: 1\nb: [1, 2\nc: 3\n", 3, &["not valid YAML"]),
        ("a: 1\nb:\n\t- x\n", 3, &["YAML"]),
        ("a: 1\nb: 2\na: 3\n", 3, &["`a` occurs twice"]),
        ("watch:\n  - agent: *\n", 2, &["YAML"]),
        ("a: *unknown\n", 1, &["no anchor", "quotes"]),
        ("a: 1\n---\nb: 2\n", 3, &["second YAML document"]),
        ("a: !!python/object x\n", 1, &[]),
    ];
    for (text, line, words) in cases {
        one_fault(text, &read(text).unwrap_err(), line, words);
    }
}

#[test]
fn unreadable_file_is_one_fault() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let pipe = folder.path().join("pipe.yaml");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let cases: [(std::path::PathBuf, usize, &str); 6] = [
        (folder.path().join("missing.yaml"), 0, "cannot be read"),
        (folder.path().to_owned(), 0, "not a regular file"),
        // The pipe has no writer: opening it would wait for ever.
        (pipe, 0, "not a regular file"),
        ("/dev/zero".into(), 0, "not a regular file"),
        (write("latin1.yaml", b"a: 1\nb: caf\xe9\n"), 2, "not UTF-8"),
        (write("long.yaml", &vec![b'x'; 3 * 1024 * 1024]), 0, "bytes"),
    ];
    for (path, line, word) in cases {
        let models = super::models();
        let models = crate::Models { specs: &models, ceiling: umbra_domain::PricePerMtok(0) };
        let found = faults(crate::shadows::read(&path, &models));
        one_fault(&path.display().to_string(), &found, line, &[word, &path.display().to_string()]);
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,200}|[-a-z&*!|>%@:\\[\\]{},#\"' \n\t]{0,200}") {
        let _ = read(&text);
    }
}
