//! Checks rules of ARCHITECTURE.md that no compiler checks: layers and circles within the service's package, the form
//! and size of files, the clock in SQL, and migrations that are only added. Cargo refuses wrong dependencies between
//! crates. Each fault is a line with file, line, rule and remedy.

mod scan;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use scan::{is_word, paths, split};

/// Building blocks: plain values in, plain values out. They import crates, and no other module of the package.
const BLOCKS: &[&str] = &[
    "ingest",
    "watch",
    "budget",
    "queue",
    "findings",
    "breaker",
    "reflexion",
    "briefing",
    "webhooks",
    "workspace",
    "spool",
    "telemetry",
];

/// Modules above the blocks, lowest first: each may import those before it, and blocks.
const LAYERS: &[&[&str]] =
    &[&["flows"], &["lifecycle"], &["mcp", "dashboard"], &["api"], &["app"], &["cli"], &["main", "lib"]];

/// File and folder names that do not say what is inside.
const EMPTY_NAMES: &[&str] =
    &["util", "utils", "common", "core", "types", "helper", "helpers", "manager", "managers", "misc"];

/// SQL functions that read a clock which tests cannot set.
const SQL_CLOCKS: &[&str] =
    &["now()", "transaction_timestamp()", "current_timestamp", "current_date", "current_time", "localtimestamp"];

/// Words that no comment opens with, and wordings in their place.
const OPENINGS: &[(&str, &str)] = &[
    ("What", "name the thing: not `What waits.` but `Requests that wait.`"),
    ("Whether", "a predicate is \"True if ...\", a field a noun phrase: `State of the lock.`"),
    ("Who Which", "name it: not `Who calls.` but `Agent that makes the call.`"),
    ("How", "name the quantity or the act: not `How long to wait.` but `Longest wait, in milliseconds.`"),
    ("It Its", "repeat the noun: not `It is stored.` but `The event is stored.`"),
    ("Nobody Somebody", "name the subject: not `Nobody waits.` but `No request waits.`"),
];

const MOST_LINES: usize = 600;
const MEDIAN_LINES: usize = 180;

/// Returns every fault of a tree: file path to text.
fn faults(tree: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in tree {
        let source = Source::new(path, text);
        source.check_form(&mut faults);
        source.check_openings(&mut faults);
        source.check_clock_of_sql(&mut faults);
        source.check_layers(&mut faults);
        for (from, to) in source.folder_imports() {
            imports.entry(from).or_default().insert(to);
        }
    }
    let mut lines: Vec<_> =
        tree.iter().filter(|(path, _)| is_rust(path)).map(|(_, text)| text.lines().count()).collect();
    lines.sort_unstable();
    let median = lines.get(lines.len() / 2).copied().unwrap_or_default();
    if median >= MEDIAN_LINES {
        faults.push(format!(
            "src:1: the median file has {median} lines, at most {MEDIAN_LINES} are wanted; split the large ones"
        ));
    }
    faults.extend(circles(&imports).into_iter().map(|circle| {
        format!("src:1: folders import each other in a circle: {circle}; move what both need below them")
    }));
    faults
}

/// Returns the circles of a graph, each as `a -> b -> a`, found by a depth-first walk.
fn circles(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    fn walk<'a>(
        node: &'a str,
        graph: &'a BTreeMap<String, BTreeSet<String>>,
        way: &mut Vec<&'a str>,
        done: &mut BTreeSet<&'a str>,
        found: &mut Vec<String>,
    ) {
        if let Some(start) = way.iter().position(|on_way| *on_way == node) {
            found.push([&way[start..], &[node]].concat().join(" -> "));
            return;
        }
        if !done.insert(node) {
            return;
        }
        way.push(node);
        for next in graph.get(node).into_iter().flatten() {
            walk(next, graph, way, done, found);
        }
        way.pop();
    }
    let (mut done, mut found) = (BTreeSet::new(), Vec::new());
    for node in graph.keys() {
        walk(node, graph, &mut Vec::new(), &mut done, &mut found);
    }
    found
}

/// File whose comments and string literals are separated from its code.
struct Source<'a> {
    path: &'a str,
    text: &'a str,
    /// Text with comments and literals blanked.
    code: String,
    /// Text with everything but literals blanked; of a file of SQL, everything but comments.
    literals: String,
    /// Paths that the code names, with their lines.
    paths: Vec<(usize, Vec<String>)>,
}

impl<'a> Source<'a> {
    fn new(path: &'a str, text: &'a str) -> Self {
        let (code, literals) = if is_rust(path) { split(text) } else { (String::new(), without_sql_comments(text)) };
        let paths = paths(&code);
        Self { path, text, code, literals, paths }
    }

    /// Returns the module path of the file within the service's package; `None` for files of other crates.
    fn modules(&self) -> Option<Vec<&'a str>> {
        let below = self.path.strip_prefix("src/")?;
        let stem = below.strip_suffix(".rs")?;
        Some(stem.split('/').filter(|part| *part != "mod").collect())
    }

    fn is_test(&self) -> bool {
        self.path.split('/').any(|part| part == "tests" || part == "tests.rs")
    }

    fn fault(&self, line: usize, message: &str) -> String {
        format!("{}:{line}: {message}", self.path)
    }

    fn check_form(&self, faults: &mut Vec<String>) {
        if !is_rust(self.path) {
            return;
        }
        if let Some(name) = self.path.trim_end_matches(".rs").split('/').find(|part| EMPTY_NAMES.contains(part)) {
            faults.push(self.fault(1, &format!("`{name}` says nothing; name the file for what is in it")));
        }
        if !self.text.starts_with("//!") {
            faults.push(self.fault(1, "a file opens with `//!`; say what it does, takes and gives"));
        }
        let lines = self.text.lines().count();
        if lines > MOST_LINES {
            let message = format!("{lines} lines, at most {MOST_LINES}; the file is two things: split it");
            faults.push(self.fault(lines, &message));
        }
        for needle in ["#[allow", "#![allow", "todo!", "unimplemented!"] {
            for line in lines_with(&self.code, |line| line.contains(needle)) {
                let message =
                    format!("`{needle}` does not occur here; use #[expect(.., reason = \"..\")], or finish it");
                faults.push(self.fault(line, &message));
            }
        }
    }

    /// Doc comments whose first line opens with a word that has no noun behind it yet.
    fn check_openings(&self, faults: &mut Vec<String>) {
        let mut before = "";
        for (line, text) in self.text.lines().map(str::trim_start).enumerate() {
            let marker = ["///", "//!"].into_iter().find(|marker| is_rust(self.path) && text.starts_with(marker));
            let marker = marker.unwrap_or_default();
            let opens = marker != std::mem::replace(&mut before, marker) && !marker.is_empty();
            let first = text.split_whitespace().nth(1).filter(|_| opens).unwrap_or_default();
            let word = first.trim_end_matches(|c: char| !c.is_alphanumeric());
            if let Some((_, better)) = OPENINGS.iter().find(|(words, _)| words.split(' ').any(|known| known == word)) {
                faults.push(self.fault(line + 1, &format!("a comment opens with `{word}`; {better}")));
            }
        }
    }

    fn check_clock_of_sql(&self, faults: &mut Vec<String>) {
        if is_rust(self.path) && !self.path.starts_with("crates/store/") {
            return;
        }
        let sql = self.literals.to_lowercase().replace(" (", "(");
        for clock in SQL_CLOCKS {
            for line in lines_with(&sql, |line| has_word(line, clock)) {
                let message = format!("SQL reads `{clock}`; call our function clock(), which tests can set");
                faults.push(self.fault(line, &message));
            }
        }
    }

    /// Returns the imports of the file within the service's package, as module paths from its root, with their lines.
    fn own_imports(&self) -> Vec<(usize, Vec<&str>)> {
        let Some(here) = self.modules() else { return Vec::new() };
        let absolute = |(line, path): &'_ (usize, Vec<String>)| -> Option<(usize, usize, usize)> {
            let supers = path.iter().take_while(|part| *part == "super").count();
            let kept = match path.first()?.as_str() {
                "crate" => 0,
                "super" => here.len().checked_sub(supers)?,
                _ => return None,
            };
            Some((*line, kept, supers.max(1)))
        };
        let paths = self.paths.iter();
        paths
            .filter_map(|path| {
                let (line, kept, skipped) = absolute(path)?;
                let rest = path.1[skipped..].iter().map(String::as_str);
                Some((line, here[..kept].iter().copied().chain(rest).collect()))
            })
            .collect()
    }

    fn check_layers(&self, faults: &mut Vec<String>) {
        let Some(here) = self.modules().filter(|_| !self.is_test()) else { return };
        let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
        let module = here.first().copied().unwrap_or_default();
        if !BLOCKS.contains(&module) && layer(module).is_none() {
            faults.push(self.fault(1, "no such module is planned; name it in ARCHITECTURE.md and in this test"));
        }
        for (line, path) in self.own_imports() {
            let Some(target) = path.first().copied().filter(|target| *target != module) else { continue };
            let is_known = BLOCKS.contains(&target) || layer(target).is_some();
            let below = BLOCKS.contains(&target) && layer(module).is_some() || layer(target) < layer(module);
            if is_known && (!below || BLOCKS.contains(&module)) {
                let rule = "blocks import no other module, layers only what is below them; let the flows join them";
                faults.push(self.fault(line, &format!("{module} imports {target}, but {rule}")));
            }
        }
    }

    /// Returns the imports between two folders of `src/flows`.
    fn folder_imports(&self) -> Vec<(String, String)> {
        let modules = self.modules().filter(|_| !self.is_test()).unwrap_or_default();
        let ["flows", folder, ..] = modules[..] else { return Vec::new() };
        let target = |path: &[&str]| match path {
            ["flows", target, _, ..] if *target != folder => Some(format!("flows/{target}")),
            _ => None,
        };
        let imports = self.own_imports();
        imports.iter().filter_map(|(_, path)| Some((format!("flows/{folder}"), target(path)?))).collect()
    }
}

fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Returns the numbers, from 1, of the lines that pass a test.
fn lines_with(text: &str, holds: impl Fn(&str) -> bool) -> Vec<usize> {
    text.lines().zip(1..).filter(|(line, _)| holds(line)).map(|(_, number)| number).collect()
}

/// True if the word occurs, and not as a part of a longer one.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(start, _)| {
        let (before, after) = (&text[..start], &text[start + word.len()..]);
        !before.ends_with(is_word) && (word.ends_with(')') || !after.starts_with(is_word))
    })
}

fn without_sql_comments(text: &str) -> String {
    text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// Returns the differences between the migrations and the list of their sums, `SUM  NAME` a line.
fn migration_faults(sums: &BTreeMap<String, String>, listed: &str) -> Vec<String> {
    let listed: BTreeMap<_, _> =
        listed.lines().filter_map(|line| line.split_once("  ").map(|(sum, name)| (name, sum))).collect();
    let mut faults = Vec::new();
    for (name, sum) in sums {
        match listed.get(name.as_str()) {
            None => faults.push(format!("migrations/{name}:1: not in checksums.txt; run UMBRA_UPDATE=1 cargo test")),
            Some(known) if known != sum => faults
                .push(format!("migrations/{name}:1: a migration that was released does not change; add another one")),
            Some(_) => {}
        }
    }
    let lost = listed.keys().filter(|name| !sums.contains_key(**name));
    faults.extend(
        lost.map(|name| format!("migrations/{name}:1: listed in checksums.txt but gone; migrations are only added")),
    );
    faults
}

/// Returns the files with these endings below a directory of the repository.
fn load(below: &str, endings: &[&str]) -> io::Result<BTreeMap<String, String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = BTreeMap::new();
    let mut waiting = vec![root.join(below)];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            if path.is_dir() {
                waiting.push(path);
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                files.insert(name, fs::read_to_string(path)?);
            }
        }
    }
    Ok(files)
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults of structure:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn the_repository_has_no_fault_of_structure() {
    let mut tree = load("src", &[".rs"]).expect("src can be read");
    assert!(tree.contains_key("src/lib.rs"), "the test looks at the wrong directory");
    tree.extend(load("crates", &[".rs", ".sql"]).expect("crates can be read"));
    tree.extend(load("migrations", &[".sql"]).expect("migrations can be read"));
    assert_none(&faults(&tree));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whether to rewrite the list is said by the environment")]
fn migrations_are_only_added() {
    let files = load("migrations", &[".sql"]).expect("migrations can be read");
    let name = |path: &str| path.trim_start_matches("migrations/").to_owned();
    let sum = |text: &str| blake3::hash(text.as_bytes()).to_hex().to_string();
    let sums: BTreeMap<_, _> = files.iter().map(|(path, text)| (name(path), sum(text))).collect();
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/checksums.txt");
    if std::env::var_os("UMBRA_UPDATE").is_some() {
        let lines: Vec<_> = sums.iter().map(|(name, sum)| format!("{sum}  {name}\n")).collect();
        fs::write(&list, lines.concat()).expect("the list can be written");
    }
    assert_none(&migration_faults(&sums, &fs::read_to_string(list).unwrap_or_default()));
}

/// Returns a tree of files, each with the opening line that it needs.
fn tree(files: &[(&str, &str)]) -> BTreeMap<String, String> {
    files.iter().map(|(path, text)| ((*path).to_owned(), format!("//! x\n{text}"))).collect()
}

#[test]
fn planted_faults_are_found() {
    let planted = [
        ("src/ingest/mod.rs", "use crate::watch;", 2, "ingest imports watch"),
        ("src/ingest/native.rs", "fn f() -> super::super::budget::Meter {}", 2, "ingest imports budget"),
        ("src/watch/mod.rs", "fn f() {}\nuse crate::{budget, queue::{a, b}};", 3, "watch imports budget"),
        ("src/flows/maintenance/tick.rs", "use crate::{lifecycle::Tasks};", 2, "flows imports lifecycle"),
        ("src/api/events.rs", "use crate::cli::Global;", 2, "api imports cli"),
        ("src/mcp/mod.rs", "use crate::dashboard::Page;", 2, "mcp imports dashboard"),
        ("src/engine/mod.rs", "", 1, "no such module"),
        ("src/api/utils.rs", "", 1, "`utils` says nothing"),
        ("crates/checks/src/page.rs", "#[allow(dead_code)] fn f() {}", 2, "`#[allow` does not occur"),
        ("src/api/page.rs", "\nfn f() { todo!() }", 3, "`todo!` does not occur"),
        ("crates/store/src/key.rs", "const Q: &str = \"\nselect Now ()\";", 3, "SQL reads `now()`"),
        ("crates/store/src/key.rs", "query(r#\"select current_timestamp\"#)", 2, "SQL reads `current_timestamp`"),
        ("migrations/0001.sql", "create table t (at timestamptz default now());", 2, "SQL reads `now()`"),
        ("src/api/large.rs", &"\n".repeat(600), 601, "601 lines, at most 600"),
        (
            "src/api/page.rs",
            "/// Whether it is open.\nfn f() {}",
            2,
            "opens with `Whether`; a predicate is \"True if ...\"",
        ),
        ("crates/store/src/key.rs", "struct K {\n    /// Which.\n    id: u8,\n}", 3, "opens with `Which`"),
        // Not only the first comment of a file.
        ("crates/store/src/key.rs", "/// A key.\nfn f() {}\n\n/// Which.\nfn g() {}", 5, "opens with `Which`"),
    ];
    for (path, text, line, message) in planted {
        let found = faults(&tree(&[(path, text)]));
        let expected = format!("{path}:{line}: ");
        assert!(found.iter().any(|fault| fault.starts_with(&expected) && fault.contains(message)), "{path}: {found:?}");
    }
    let bare = BTreeMap::from([("src/main.rs".to_owned(), "fn main() {}".to_owned())]);
    assert!(faults(&bare)[0].contains("opens with `//!`"));
    let long = "\n".repeat(200);
    let found = faults(&tree(&[("src/app.rs", &long), ("src/api/mod.rs", &long)]));
    assert!(found[0].contains("median file has 201 lines"), "{found:?}");
}

#[test]
fn import_cycles_between_flow_folders_are_found() {
    let graph = |edges: &[(&str, &str)]| {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in edges {
            graph.entry((*from).to_owned()).or_default().insert((*to).to_owned());
        }
        graph
    };
    assert_eq!(circles(&graph(&[("a", "b"), ("b", "c"), ("a", "c")])), [""; 0]);
    assert_eq!(circles(&graph(&[("a", "b"), ("b", "c"), ("c", "b")])), ["b -> c -> b"]);
    let source = Source::new("src/flows/events/accept.rs", "use super::super::reviews::work;\nuse super::plan;");
    assert_eq!(source.folder_imports(), [("flows/events".to_owned(), "flows/reviews".to_owned())]);
}

#[test]
fn ordinary_code_has_no_fault() {
    let clean = tree(&[
        ("src/main.rs", "fn main() { umbra::cli::run(std::env::args()) }"),
        ("src/app.rs", "use crate::{api, dashboard, lifecycle::Tasks, flows::{events, reviews}};"),
        ("src/ingest/native.rs", "use super::Incoming;\nuse umbra_domain::Event;"),
        (
            "src/watch/mod.rs",
            "// use crate::budget;\n/* sqlx::x /* axum::y */ todo!() */\nlet s = \"crate::queue::x \\\" todo!()\";",
        ),
        ("src/api/page.rs", "/// True if open.\n/// What follows is\n// What\nfn f() {} // Which"),
        ("src/budget/mod.rs", "let q = \"select now()\"; b\"sqlx::q\"; env!(\"X\"); let r = r#\"a \" b\"#;"),
        ("migrations/0001.sql", "-- now() is refused here\nselect clock_timestamp();"),
    ]);
    assert_none(&faults(&clean));
}

#[test]
fn changed_new_and_lost_migrations_are_found() {
    let sums =
        |names: &[(&str, &str)]| names.iter().map(|(name, sum)| ((*name).to_owned(), (*sum).to_owned())).collect();
    let listed = "aa  0001.sql\nbb  0002.sql\n";
    assert_none(&migration_faults(&sums(&[("0001.sql", "aa"), ("0002.sql", "bb")]), listed));
    let found = migration_faults(&sums(&[("0001.sql", "ax"), ("0003.sql", "cc")]), listed);
    let expected = ["0001.sql:1: a migration that was released", "0003.sql:1: not in", "0002.sql:1: listed"];
    assert!(found.len() == 3 && found.iter().zip(expected).all(|(fault, part)| fault.contains(part)), "{found:?}");
}
